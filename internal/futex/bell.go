package futex

import (
	"sync/atomic"
	"time"
)

// Bell is the doorbell of one process: one cache line, possibly in memory that peers map. The zero
// Bell is ready for use. Its owner calls Arm, Sleep and Disarm, one goroutine at a time; any
// goroutine or process may ring.
type Bell struct {
	// count: raised by every Ring that found a sleeper; the futex word.
	count atomic.Uint32
	// asleep: 1 from Arm until a Ring, Disarm or the end of Sleep.
	asleep atomic.Uint32
	// armed is the count seen by Arm. Only the owner uses it.
	armed atomic.Uint32
	_     [52]byte
}

// Arm announces that the owner is about to sleep. After its return every publisher of work sees the
// announcement; the owner must check once more for work that was published before.
func (b *Bell) Arm() {
	b.announce()
	if Registered() {
		Barrier()
	}
}

// announce is Arm for ringers that all use Ring without checking Asleep.
func (b *Bell) announce() {
	b.armed.Store(b.count.Load())
	b.asleep.Store(1)
}

// Nap waits like Sleep, but stays armed: the caller disarms or sleeps on. The goroutine keeps its
// processor of Go's scheduler, as in a computation. A signal ends it, such as those by which the
// runtime stops goroutines.
func (b *Bell) Nap(d time.Duration) {
	if b.asleep.Load() != 0 {
		nap(&b.count, b.armed.Load(), d)
	}
}

// lostRing, which tests change, is the time after which Sleep finds that the bell was rung by a process that was stopped
// or killed before it woke the owner. Pull.Ring does not depend on others, and the death of a peer is a reason to ring.
var lostRing = time.Second

// Sleep waits until a Ring since Arm or until d has passed; d < 0 waits
// without limit. It may return early. It disarms.
func (b *Bell) Sleep(d time.Duration) {
	for armed := b.armed.Load(); b.asleep.Load() != 0 && b.count.Load() == armed; {
		if d >= 0 {
			wait(&b.count, armed, min(d, lostRing))
			break
		}
		wait(&b.count, armed, lostRing)
	}
	b.asleep.Store(0)
}

// Disarm undoes Arm.
func (b *Bell) Disarm() { b.asleep.Store(0) }

// Asleep reports whether the owner has armed. A ringer that published with
// less than sequential consistency may use it only if it is Registered or has
// fenced.
func (b *Bell) Asleep() bool { return b.asleep.Load() != 0 }

// Ring wakes the owner if it has armed and nobody has rung since.
func (b *Bell) Ring() {
	if b.asleep.CompareAndSwap(1, 0) {
		b.count.Add(1)
		wake(&b.count)
	}
}

// Summon is Ring for a process that rings rarely: it leaves the bell armed, so that others ring too if this process is
// killed before it has woken the owner.
func (b *Bell) Summon() {
	if b.asleep.Load() != 0 {
		b.count.Add(1)
		wake(&b.count)
	}
}

// rouse wakes the owner even if another process is ringing.
func (b *Bell) rouse(wake func(*atomic.Uint32)) {
	b.asleep.Store(0)
	b.count.Add(1)
	wake(&b.count)
}
