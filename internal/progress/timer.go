package progress

import "github.com/banyan-hpc/banyan/fabric"

// Timer is a function that the engine calls once, with its lock held, unless it is stopped. Use it
// with the engine's lock held.
type Timer struct {
	at    fabric.Time
	fn    func()
	index int // in the heap; -1 when it is not there
}

// timers is a binary heap by time.
type timers []*Timer

func (t timers) next() fabric.Time {
	if len(t) == 0 {
		return fabric.Forever
	}
	return t[0].at
}

func (t timers) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

func (t timers) up(i int) {
	for i > 0 && t[i].at < t[(i-1)/2].at {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t timers) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(t); c++ {
			if t[c].at < t[least].at {
				least = c
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

func (t *timers) add(tm *Timer) {
	tm.index = len(*t)
	*t = append(*t, tm)
	t.up(tm.index)
}

func (t *timers) remove(tm *Timer) {
	i, last := tm.index, len(*t)-1
	if i < 0 {
		return
	}
	t.swap(i, last)
	(*t)[last] = nil
	*t = (*t)[:last]
	if i < last {
		t.down(i)
		t.up(i)
	}
	tm.index = -1
}

// After calls fn with the lock held, in the progress loop, after d nanoseconds. Precondition: the
// lock is held.
func (e *Engine) After(d fabric.Time, fn func()) *Timer {
	t := &Timer{at: e.host.Now() + d, fn: fn}
	e.timers.add(t)
	if e.asleep {
		e.host.Ring() // the sleeper's deadline may be later
	}
	return t
}

// Stop prevents the call if it has not been made. Precondition: the lock is held.
func (e *Engine) Stop(t *Timer) { e.timers.remove(t) }

// runTimers calls the timers that are due and returns their number.
func (e *Engine) runTimers() int {
	n := 0
	for len(e.timers) > 0 && e.timers.next() <= e.host.Now() {
		t := e.timers[0]
		e.timers.remove(t)
		t.fn()
		n++
	}
	return n
}
