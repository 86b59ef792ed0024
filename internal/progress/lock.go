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
// from the processes that it waits for. So a contender pauses after some yields.
type lock struct {
	held uint64
	// contenders: the progressing goroutine reads it in every round and releases the lock if it is
	// not zero.
	contenders atomic.Int32
}

func (l *lock) tryAcquire() bool { return atomic.CompareAndSwapUint64(&l.held, 0, 1) }

const (
	// patientYields is the number of yields of a contender before its first pause, briefYields before
	// each further one.
	patientYields = 64
	briefYields   = 16
	// firstPause and longestPause are the pauses of a contender, each twice as long as the last.
	firstPause   fabric.Time = 50_000
	longestPause fabric.Time = 1_000_000
)

func (l *lock) acquireSlow(h fabric.Host) {
	l.contenders.Add(1)
	yields, pause := patientYields, firstPause
	for !l.tryAcquire() {
		if yields > 0 {
			yields--
			h.Yield()
			continue
		}
		l.contenders.Add(-1) // the holder need not yield meanwhile
		h.Pause(pause)
		l.contenders.Add(1)
		yields, pause = briefYields, min(2*pause, longestPause)
	}
	l.contenders.Add(-1)
}

func (l *lock) free() { release.Store64(&l.held, 0) }
