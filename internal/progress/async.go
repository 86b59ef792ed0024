package progress

import "github.com/banyan-hpc/banyan/fabric"

// attendPause is how long the attendant stays away while others progress: it
// bounds what it costs them, one wake-up in a millisecond.
const attendPause fabric.Time = 1_000_000

// attendant is a goroutine of the engine that progresses while nobody waits, so
// that what peers ask for is answered without a call from the application. It
// sleeps at the bell; a goroutine that waits and polls takes no notice of it,
// and one that would sleep leaves the bell to it and parks.
type attendant struct {
	place   Completion    // it parks on this while a waiting goroutine sleeps at the bell
	gone    fabric.Parker // unparked at its end
	leaving bool
}

// Attend has progress made while no goroutine waits, by one of the engine's own
// that ends with Close. It is called once at most, after Handle, OnEnd and
// OnStall.
func (e *Engine) Attend() {
	e.Lock()
	defer e.Unlock()
	e.attendant = &attendant{gone: e.host.NewParker()}
	e.host.Go(func() {
		e.Lock()
		for !e.attendant.leaving {
			e.serve()
		}
		e.Unlock()
		e.attendant.gone.Unpark()
	})
}

// serve is one turn of the attendant. Precondition: the lock is held, as on
// return.
func (e *Engine) serve() {
	switch {
	case e.progressing && e.asleep:
		e.parkLast(&e.attendant.place)
		return
	case e.progressing:
		e.pause()
		return
	}
	e.sleep()
	if e.progressing || e.attendant.leaving {
		return
	}
	e.progressing = true
	found := 0
	for n := 1; n > 0; found += n {
		if e.want.Load() != 0 {
			e.yield()
		}
		n = e.round()
	}
	e.progressing = false
	dozing := e.relieve()
	if found == 0 && !dozing {
		e.pause() // somebody else polls, in short calls
	}
}

// relieve wakes a goroutine that parked because the attendant progressed, to
// take over. It reports whether one relies on the attendant at the bell.
func (e *Engine) relieve() (dozing bool) {
	for c := e.parked; c != nil; c = c.next {
		if !c.dozing {
			c.parker.Unpark()
			return false
		}
		dozing = true
	}
	return dozing
}

// thorough is how many rounds without result show that nothing is there: a provider
// may leave connections aside for some of them.
const thorough = 40

// tendMost bounds how many rounds one call of Tend makes: what comes without end is for
// whoever waits for it.
const tendMost = 1000

// Tend makes progress until nothing is there, unless a goroutine progresses already:
// for one that comes by now and then, while the application computes. It says how much
// there was. Precondition: the lock is held.
func (e *Engine) Tend() (found int) {
	if e.progressing || e.closed {
		return 0
	}
	e.progressing = true
	for rounds, idle := 0, 0; idle < thorough && rounds < tendMost; rounds++ {
		e.skip = 0
		idle++
		if n := e.round(); n > 0 {
			idle = 0
			found += n
		}
		if e.want.Load() != 0 {
			e.yield()
		}
	}
	found += e.expire()
	e.progressing = false
	e.handOver()
	return found
}

func (e *Engine) pause() {
	e.Unlock()
	e.host.Pause(attendPause)
	e.Lock()
}

// dismiss ends the attendant and waits until it has gone. Precondition: the lock
// is held, and is held again on return.
func (e *Engine) dismiss() {
	a := e.attendant
	if a == nil {
		return
	}
	a.leaving = true
	if a.place.in != nil {
		a.place.parker.Unpark()
	}
	e.Kick()
	e.Unlock()
	a.gone.Park()
	e.Lock()
}
