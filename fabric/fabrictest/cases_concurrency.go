package fabrictest

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/proc"
)

func concurrencyCases() []Case {
	return []Case{
		{Name: "goroutines", N: 3, Body: goroutines, Args: rounds,
			About: "Several goroutines use one provider under one lock, as the engine's do."},
	}
}

// spinLock is a lock that works on every host: contenders yield.
type spinLock struct{ taken atomic.Bool }

func (l *spinLock) with(e *Env, fn func()) {
	for !l.taken.CompareAndSwap(false, true) {
		e.Host.Yield()
	}
	defer l.taken.Store(false)
	fn()
}

// goroutines makes several activities of each process send to all peers, each of which makes
// progress for all while it waits.
func goroutines(e *Env) {
	const activities = 4
	var lock spinLock
	var left atomic.Int64
	left.Store(activities)
	for range activities {
		e.Host.Go(func() {
			defer left.Add(-1)
			e.Guard(func() {
				for range e.Arg("rounds") {
					e.Others(func(id proc.ID) { sendInTurn(e, &lock, id) })
				}
			})
		})
	}
	for left.Load() > 0 {
		lock.with(e, func() { e.poll() })
		e.Host.Yield()
	}
	e.Others(func(id proc.ID) {
		e.Check(e.Sent(id) == activities*e.Arg("rounds"), "%d frames were sent to %v", e.Sent(id), id)
	})
	e.Others(e.Finish)
	e.Others(e.AwaitFinish)
}

func sendInTurn(e *Env, lock *spinLock, id proc.ID) {
	for sent := false; !sent; {
		lock.with(e, func() {
			sent = e.TrySend(id, anySize(e, e.Conn(id).Caps().MaxFrame))
			if !sent {
				e.poll()
			}
		})
		e.Host.Yield()
	}
}
