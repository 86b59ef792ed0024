package futex

import (
	"sync"
	"sync/atomic"
	"time"
)

// Pull is a process's own hold on its bell. The bell may lie in memory that is
// unmapped one day, while other goroutines still ring: after Cut the Pull works
// on a private bell instead.
type Pull struct {
	// mu keeps Cut from taking the bell away under a Ring. It is no part of a
	// message's path: peers ring the bell itself.
	mu      sync.RWMutex
	bell    *Bell
	private Bell
	// armed: from Arm until this process rings, Disarm or the end of Sleep. A peer that has disarmed the bell may have died
	// before it woke the owner.
	armed atomic.Bool
}

// NewPull takes hold of a bell; nil stands for a private one.
func NewPull(b *Bell) *Pull {
	p := &Pull{bell: b}
	if b == nil {
		p.bell = &p.private
	}
	return p
}

// Cut releases the bell. When it returns, its memory may be unmapped. No goroutine may be in Sleep.
func (p *Pull) Cut() {
	p.mu.Lock()
	p.bell = &p.private
	p.mu.Unlock()
}

// Ring wakes the owner if it has armed. Any goroutine may call it.
func (p *Pull) Ring() { p.ring(wake) }

// Call is Ring for a goroutine that has little more to do: the thread that it wakes may
// take over its processor, and need not wait for one where the process has no other.
func (p *Pull) Call() { p.ring(wakeAndYield) }

func (p *Pull) ring(wake func(*atomic.Uint32)) {
	if !p.armed.CompareAndSwap(true, false) {
		return
	}
	p.mu.RLock()
	p.bell.rouse(wake)
	p.mu.RUnlock()
}

// Arm is Bell.Arm; like Sleep and Disarm it is for the owner. A private bell is rung only by this process,
// whose compare-and-swap is the ringer's barrier: the owner needs none. Nor does it register for
// one then: that waits for a grace period of the kernel, which may take seconds with the engine's
// lock held.
func (p *Pull) Arm() {
	if p.bell == &p.private {
		p.private.announce()
	} else {
		p.bell.Arm()
	}
	p.armed.Store(true) // last: a ring that comes before sees no sleeper, and the owner checks for work next
}

// Sleep is Bell.Sleep.
func (p *Pull) Sleep(d time.Duration) {
	p.bell.Sleep(d)
	p.armed.Store(false)
}

// Nap is Bell.Nap.
func (p *Pull) Nap(d time.Duration) { p.bell.Nap(d) }

// Disarm is Bell.Disarm.
func (p *Pull) Disarm() {
	p.bell.Disarm()
	p.armed.Store(false)
}
