package progress

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/release"
)

// lock is a mutex whose uncontended cost is one compare-and-swap and one release store. It is held
// for a round of polls at most, so a contender yields: parking would cost more than the wait, and a
// sync.Mutex would stop a simulation, where another simulated activity holds the lock.
//
// On shared cores the holder may have been preempted, and each yield then takes time from it and
// from the processes that it waits for. So a contender pauses after some yields. A holder whose
// rounds last longer than these pauses would rarely look while the contender tries. So a contender
// that has paused for long is starved, and the holder waits until it has had the lock.
type lock struct {
	held uint64
	// contenders: the progressing goroutine reads it in every round and releases the lock if it is
	// not zero.
	contenders atomic.Int32
	// starved are the contenders that have paused for long.
	starved atomic.Int32
}

func (l *lock) tryAcquire() bool { return atomic.CompareAndSwapUint64(&l.held, 0, 1) }

const (
	// patientYields is the number of yields of a contender before its first pause, briefYields before
	// each further one.
	patientYields = 64
	briefYields   = 16
	// firstPause and longestPause are the pauses of a contender, each twice as long as the last. From
	// the longest on it is starved.
	firstPause   fabric.Time = 50_000
	longestPause fabric.Time = 1_000_000
)

func (l *lock) acquireSlow(h fabric.Host) {
	l.contenders.Add(1)
	yields, pause, starved := patientYields, firstPause, int32(0)
	for !l.tryAcquire() {
		switch {
		case yields > 0:
			yields--
			h.Yield()
			continue
		case starved > 0:
			h.Pause(pause)
		default:
			l.contenders.Add(-1) // the holder need not yield meanwhile
			h.Pause(pause)
			l.contenders.Add(1)
		}
		yields, pause = briefYields, min(2*pause, longestPause)
		if pause == longestPause && starved == 0 {
			starved = 1
			l.starved.Add(starved)
		}
	}
	l.contenders.Add(-1)
	l.starved.Add(-starved)
}

// cede lets contenders have the lock once. Precondition: it is held, as on return.
func (l *lock) cede(h fabric.Host) {
	l.free()
	h.Yield()
	for l.starved.Load() > 0 {
		h.Pause(firstPause)
	}
	if !l.tryAcquire() {
		l.acquireSlow(h)
	}
}

func (l *lock) free() { release.Store64(&l.held, 0) }
