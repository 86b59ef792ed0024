package progress

import "github.com/banyan-hpc/banyan/fabric"

// asyncPause is how long the attendant stays away while others progress: it
// bounds what it costs them, one wake-up in a millisecond.
const asyncPause fabric.Time = 1_000_000

// asyncProgress is a goroutine of the engine that progresses while nobody waits, so
// that what peers ask for is answered without a call from the application. It
// sleeps at the bell; a goroutine that waits and polls takes no notice of it,
// and one that would sleep leaves the bell to it and parks.
type asyncProgress struct {
	parked   Completion    // it parks on this while a waiting goroutine sleeps at the bell
	done     fabric.Parker // unparked at its end
	stopping bool
}

// StartAsync has progress made while no goroutine waits, by one of the engine's own
// that ends with Close. It is called once at most, after Handle, OnEnd and
// OnStall.
func (e *Engine) StartAsync() {
	e.Lock()
	defer e.Unlock()
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

// asyncStep is one turn of the attendant. Precondition: the lock is held, as on
// return.
func (e *Engine) asyncStep() {
	switch {
	case e.progressing && e.asleep:
		e.parkLast(&e.async.parked)
		return
	case e.progressing:
		e.asyncWait()
		return
	}
	e.sleep()
	if e.progressing || e.async.stopping {
		return
	}
	e.progressing = true
	found := 0
	for n := 1; n > 0; found += n {
		if e.contenders.Load() != 0 {
			e.yield()
		}
		n = e.round()
	}
	e.progressing = false
	dozing := e.wakeParked()
	if found == 0 && !dozing {
		e.asyncWait() // somebody else polls, in short calls
	}
}

// wakeParked wakes a goroutine that parked because the attendant progressed, to
// take over. It reports whether one relies on the attendant at the bell.
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

// idleRounds is how many rounds without result show that nothing is there: a provider
// may leave connections aside for some of them.
const idleRounds = 40

// maxIdleRounds bounds how many rounds one call of Tend makes: what comes without end is for
// whoever waits for it.
const maxIdleRounds = 1000

// ProgressUntilIdle makes progress until nothing is there, unless a goroutine progresses already:
// for one that comes by now and then, while the application computes. It says how much
// there was. Precondition: the lock is held.
func (e *Engine) ProgressUntilIdle() (found int) {
	if e.progressing || e.closed {
		return 0
	}
	e.progressing = true
	for rounds, idle := 0, 0; idle < idleRounds && rounds < maxIdleRounds; rounds++ {
		e.gapLeft = 0
		idle++
		if n := e.round(); n > 0 {
			idle = 0
			found += n
		}
		if e.contenders.Load() != 0 {
			e.yield()
		}
	}
	found += e.runTimers()
	e.progressing = false
	e.handOver()
	return found
}

func (e *Engine) asyncWait() {
	e.Unlock()
	e.host.Pause(asyncPause)
	e.Lock()
}

// stopAsync ends the attendant and waits until it has gone. Precondition: the lock
// is held, and is held again on return.
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
