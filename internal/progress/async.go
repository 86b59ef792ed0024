package progress

import "github.com/banyan-hpc/banyan/fabric"

// asyncPause bounds the cost of the progress goroutine for the others: one wake-up in a
// millisecond.
const asyncPause fabric.Time = 1_000_000

// asyncProgress is a goroutine of the engine that makes progress while no goroutine waits, so that
// requests of peers are answered without a call from the application. It sleeps at the bell. A
// waiting goroutine polls as if it did not exist, and parks where it would sleep.
type asyncProgress struct {
	parked   Completion    // the goroutine parks on it while a waiting goroutine sleeps at the bell
	done     fabric.Parker // unparked at the end
	stopping bool
}

// StartAsync starts a goroutine that makes progress while no other goroutine does, unless there is
// one. It ends with Close. Call it after Handle, OnEnd and OnStall.
func (e *Engine) StartAsync() {
	e.Lock()
	defer e.Unlock()
	if e.async != nil || e.closed {
		return
	}
	e.async = &asyncProgress{done: e.host.NewParker()}
	e.host.Go(func() {
		e.Lock()
		for !e.async.stopping {
			e.asyncStep()
		}
		e.Unlock()
		e.async.done.Unpark()
	})
}

// asyncStep is one turn of the progress goroutine. Precondition: the lock is held, as on return.
func (e *Engine) asyncStep() {
	switch {
	case e.progressing && e.asleep:
		e.parkLast(&e.async.parked)
		return
	case e.progressing:
		e.asyncWait()
		return
	}
	e.Unlock()
	wanted := e.host.Wanted()
	e.Lock()
	if e.progressing || e.async.stopping {
		return
	}
	rounds := idleRounds
	if !wanted {
		if e.sleep(); e.progressing || e.async.stopping {
			return
		}
		rounds = 1 // the first one finds what has woken it
	}
	found := e.pollUntilIdle(rounds, maxIdleTime)
	dozing := e.wakeParked()
	if found == 0 && !dozing {
		e.asyncWait() // another goroutine polls, in short calls
	}
}

// wakeParked wakes a goroutine that parked because the progress goroutine polled. It reports
// whether one depends on the progress goroutine at the bell.
func (e *Engine) wakeParked() (dozing bool) {
	for c := e.parked; c != nil; c = c.next {
		if !c.delegated {
			c.parker.Unpark()
			return false
		}
		dozing = true
	}
	return dozing
}

// idleRounds is the number of rounds without result after which nothing is there: a provider may
// skip connections in some of them.
const idleRounds = 40

// maxIdleTime bounds one call of pollUntilIdle, after which its caller does its other work.
const maxIdleTime fabric.Time = 10_000_000

// ProgressUntilIdle makes progress until nothing is there, for that time and maxIdleTime at most, unless
// another goroutine does already. It is for a goroutine that runs now and then while the application
// computes. It returns the number of events handled. Precondition: the lock is held.
func (e *Engine) ProgressUntilIdle(most fabric.Time) (found int) {
	if e.progressing || e.closed {
		return 0
	}
	e.stopPollingIfIdle()
	found = e.pollUntilIdle(idleRounds, min(most, maxIdleTime))
	e.handOver()
	return found
}

// pollUntilIdle polls until so many rounds in a row have no result, for that time at most, and runs the
// timers that are due.
// Precondition: no goroutine progresses.
func (e *Engine) pollUntilIdle(rounds int, most fabric.Time) (found int) {
	e.progressing = true
	until := e.host.Now() + most
	for idle := 0; idle < rounds && e.host.Now() < until; {
		if e.contenders.Load() != 0 {
			e.yield()
		}
		e.gapLeft = 0
		idle++
		if n := e.round(); n > 0 {
			idle = 0
			found += n
		}
	}
	found += e.runTimers()
	e.progressing = false
	return found
}

func (e *Engine) asyncWait() {
	e.Unlock()
	e.host.Pause(asyncPause)
	e.Lock()
}

// stopAsync ends the progress goroutine and waits for it. Precondition: the lock is held, as on
// return.
func (e *Engine) stopAsync() {
	a := e.async
	if a == nil {
		return
	}
	a.stopping = true
	if a.parked.in != nil {
		a.parked.parker.Unpark()
	}
	e.Kick()
	e.Unlock()
	a.done.Park()
	e.Lock()
}
