package progress

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
)

// Timer is a function that the engine calls once, with its lock held, unless it is stopped. Use it
// with the engine's lock held.
type Timer struct {
	at fabric.Time
	fn func()
}

// timers are few, and sorted by time.
type timers []*Timer

func (t timers) next() fabric.Time {
	if len(t) == 0 {
		return fabric.Forever
	}
	return t[0].at
}

// After calls fn with the lock held, in the progress loop, after d nanoseconds. Precondition: the
// lock is held.
func (e *Engine) After(d fabric.Time, fn func()) *Timer {
	t := &Timer{at: e.host.Now() + d, fn: fn}
	i := len(e.timers)
	for i > 0 && e.timers[i-1].at > t.at {
		i--
	}
	e.timers = slices.Insert(e.timers, i, t)
	if e.asleep {
		e.host.Ring() // the sleeper's deadline may be later
	}
	return t
}

// Stop prevents the call if it has not been made. Precondition: the lock is held.
func (e *Engine) Stop(t *Timer) {
	if i := slices.Index(e.timers, t); i >= 0 {
		e.timers = slices.Delete(e.timers, i, i+1)
	}
}

// runTimers calls the timers that are due and returns their number.
func (e *Engine) runTimers() int {
	n := 0
	for len(e.timers) > 0 && e.timers.next() <= e.host.Now() {
		t := e.timers[0]
		e.timers = slices.Delete(e.timers, 0, 1)
		t.fn()
		n++
	}
	return n
}
