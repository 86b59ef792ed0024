package progress

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/release"
)

// lock is a mutex whose uncontended cost is one compare-and-swap and one release store. It is held
// for a round of polls at most, so a contender yields until it is free: parking would cost more
// than the wait, and a sync.Mutex would stop a simulation, where another simulated activity holds
// the lock.
type lock struct {
	held uint64
	// contenders: the progressing goroutine reads it in every round and releases the lock if it is
	// not zero.
	contenders atomic.Int32
}

func (l *lock) tryAcquire() bool { return atomic.CompareAndSwapUint64(&l.held, 0, 1) }

func (l *lock) acquireSlow(h fabric.Host) {
	l.contenders.Add(1)
	for !l.tryAcquire() {
		h.Yield()
	}
	l.contenders.Add(-1)
}

func (l *lock) free() { release.Store64(&l.held, 0) }
