package progress

import (
	"sync"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/release"
)

// lock is a mutex whose uncontended cost is one compare-and-swap and one
// release store. It is held for well under a microsecond, so a contender
// yields; turn keeps all contenders but one parked.
type lock struct {
	held uint64
	// want: how many contend. The progressing goroutine reads it on every
	// round and lets go if it is not zero.
	want atomic.Int32
	turn sync.Mutex
}

func (l *lock) tryAcquire() bool { return atomic.CompareAndSwapUint64(&l.held, 0, 1) }

func (l *lock) acquireSlow(h fabric.Host) {
	l.want.Add(1)
	l.turn.Lock()
	for !l.tryAcquire() {
		h.Yield()
	}
	l.turn.Unlock()
	l.want.Add(-1)
}

func (l *lock) free() { release.Store64(&l.held, 0) }
