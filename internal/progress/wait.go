package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
)

// Completion is the event that a goroutine waits for. Finish completes it, with the lock held. The
// zero Completion is not done; Reset makes it so again.
type Completion struct {
	done      bool
	observed  bool          // Finish has to notify a goroutine, or call then
	delegated bool          // a goroutine parks on it while the progress goroutine sleeps at the bell
	asleep    fabric.Host   // the host where the goroutine that progresses for it sleeps; else nil
	in        *Engine       // the engine in which a goroutine parks on it and has not been notified
	parker    fabric.Parker // allocated at the first park
	then      func()        // called when it finishes
	next      *Completion   // in the engine's list of parked completions
	partner   *Endpoint     // the peer that it depends on, if the processes share cores and it is known
	since     fabric.Time   // start of the first sleep or park of its waiter; 0: there was none
}

// Done reports whether c is complete. Precondition: the lock is held.
func (c *Completion) Done() bool { return c.done }

// Reset prepares it for another use. Precondition: no goroutine waits for it.
func (c *Completion) Reset() {
	c.done = false
	if c.observed {
		c.observed, c.then, c.since = false, nil, 0
	}
}

// Reopen undoes Finish: a waiting goroutine that has not seen it keeps waiting. Precondition: the
// lock is held.
func (c *Completion) Reopen() { c.done = false }

// Finish completes it and wakes its waiter. Precondition: the lock is held.
func (c *Completion) Finish() {
	c.done = true
	if c.observed {
		c.notify()
	}
}

func (c *Completion) notify() {
	if c.asleep != nil {
		c.asleep.Ring()
	}
	if e := c.in; e != nil {
		c.in = nil
		e.woken++
		c.parker.Unpark()
	}
	if c.then != nil {
		c.then()
	}
}

// Then calls fn whenever c finishes, and at once if it has; nil removes it. There is one such
// function at most. With it a goroutine waits for one of many completions, and operations of
// several steps continue. It is called with the lock held, inside Finish, so it only notes that,
// finishes another Completion, or submits a job. Precondition: the lock is held.
func (c *Completion) Then(fn func()) {
	c.then = fn
	c.observed = c.in != nil || c.asleep != nil || c.since != 0 || fn != nil
	if c.done && fn != nil {
		fn()
	}
}

// Job is work with system calls, such as a kernel copy, that the progressing goroutine does without
// the lock: Run. Begin, which may be nil, is called before and Done after it, with the lock held.
type Job struct {
	Begin, Run, Done func(*Job)
	// Arg belongs to the owner.
	Arg any
}

// Submit gives a job to the progressing goroutine. Precondition: the lock is held.
func (e *Engine) Submit(j *Job) {
	e.jobs = append(e.jobs, j)
	e.Kick()
}

// JobUnderWay gives the number of the job that runs, or 0. Nothing is received meanwhile. Precondition: the lock is
// held.
func (e *Engine) JobUnderWay() uint64 {
	if e.running == 0 {
		return 0
	}
	return e.started
}

// Wait returns when c is done. The calling goroutine progresses for all, or parks while another
// does.
//
// Precondition: the lock is held, as on return.
func (e *Engine) Wait(c *Completion) {
	e.waiting++
	for !c.done {
		if e.progressing {
			e.ensureSleeper()
			e.park(c)
			continue
		}
		e.progressing = true
		c.delegated = !e.drive(c)
		e.progressing = false
		if c.delegated {
			e.ensureSleeper()
			e.park(c)
			c.delegated = false
		}
	}
	e.waiting--
	e.handOver()
}

// ensureSleeper makes a goroutine that sleeps at the bell call Doze of all watchers, before another
// goroutine relies on it.
func (e *Engine) ensureSleeper() {
	if e.newWatcher {
		e.Kick()
	}
}

// handOver wakes a goroutine that parked because the caller progressed.
func (e *Engine) handOver() {
	switch {
	case e.parked == nil:
	case e.asleep: // the progress goroutine is at the bell, which is enough for some
		e.wakeParked()
	default:
		e.parked.parker.Unpark()
	}
}

// Progress polls once, without waiting, and reports whether anything happened. It does nothing if
// another goroutine progresses, or after Close.
//
// Precondition: the lock is held.
func (e *Engine) Progress() bool {
	if e.progressing || e.closed {
		return false
	}
	e.progressing = true
	e.gapLeft = min(e.gapLeft, maxProgressGap)
	n := e.round() + e.runTimers()
	e.rounds++
	if n > 0 {
		e.vain = 0
	}
	e.sometimesPollDeaths()
	e.progressing = false
	e.handOver()
	return n > 0
}

// drive polls until c is done: spin, then yield, then sleep. False: c is not done, but the progress
// goroutine sleeps at the bell and progresses from here on.
//
// Goroutines that it has woken run first: without a processor of their own they would otherwise run
// only when this one's spinning ends, thousands of polls later, while the peer may wait for their
// next message.
func (e *Engine) drive(c *Completion) bool {
	e.vain = 0
	idle := 0
	slept := false        // and only background events have come since
	var since fabric.Time // time of the first yield in a row
	for !c.done {
		if e.rounds++; e.rounds%e.stride == 0 {
			e.runTimers()
		}
		e.background = 0
		n := e.round()
		switch {
		case n > e.background:
			idle, slept = 0, false
		case n > 0 && slept:
			idle = e.spins + e.yields
		}
		switch {
		case e.contenders.Load() != 0:
			e.yield()
		case n > 0:
		case idle < e.spins:
			idle++
			e.sometimesPollDeaths()
		case e.lull.left > 0 && idle < e.spins+e.yields:
			e.lull.left--
			e.sometimesPollDeaths()
		case c.partner != nil && c.partner.runs(roundPolls):
			e.sometimesPollDeaths()
		case idle < e.spins+e.yields && e.mayYield(idle, &since):
			idle++
			e.yieldProcess()
			e.pollDeaths() // free in comparison with the yield
		case c.done:
		case e.asleep:
			return false
		default:
			e.stamp(c)
			c.asleep, c.observed = e.host, true
			e.sleep()
			c.asleep = nil              // it stays observed, so that Reset clears since
			idle, slept = e.spins, true // woken for a reason, or spuriously: no long spin
		}
		if e.woken > 0 {
			e.yield()
		}
	}
	c.partner.answered()
	return true
}

// deathStride is the number of polls between two checks for deaths while the engine spins: a check
// costs some loads, less than a hundredth of that many polls.
const deathStride = 16

// sometimesPollDeaths is pollDeaths in one of deathStride rounds.
func (e *Engine) sometimesPollDeaths() {
	if e.rounds%deathStride == 0 {
		e.pollDeaths()
	}
}

// pollDeaths checks whether processes of this machine have died, for the next round to report: the
// watcher may have to wait for the core on which this process polls.
func (e *Engine) pollDeaths() {
	if e.shm != nil {
		e.shm.PollDeaths()
		e.polledInVain()
	}
}

// mayYield reports whether a goroutine that has found nothing idle times may yield once more before
// it sleeps. since is the caller's state.
func (e *Engine) mayYield(idle int, since *fabric.Time) bool {
	if e.yieldMost == fabric.Forever {
		return true
	}
	now := e.host.Now()
	if idle == e.spins {
		*since = now
	}
	return now-*since < e.yieldMost
}

// timerStride is the number of polls between two reads of the clock while the engine spins.
const timerStride = 256

// round polls every provider once and returns the number of events.
func (e *Engine) round() int {
	if len(e.ends) > 0 {
		e.FinishEnds()
	}
	if len(e.deferred) > 0 {
		e.runDeferred()
	}
	for i := 0; i < len(e.watchers); i++ { // a look may end a watch
		if n := e.watchers[i].Look(); n > 0 {
			return n // a goroutine waits for it
		}
	}
	n := 0
	if e.shm != nil {
		n = e.shm.Poll(&e.sink)
	}
	if len(e.others) > 0 {
		n += e.pollOthers()
	}
	if e.loopback.used > 0 {
		n += e.loopback.Poll(&e.sink)
	}
	if e.backlogged {
		n += e.sendBacklog()
	}
	if e.stalled != nil {
		n += e.stalled()
	}
	if len(e.jobs) > 0 {
		n += e.runJob()
	}
	return n
}

// runDeferred runs the functions of Defer; they may not defer again.
func (e *Engine) runDeferred() {
	for _, fn := range e.deferred {
		fn()
	}
	e.deferred = e.deferred[:0]
}

// runJob does one job that may block, without the lock.
func (e *Engine) runJob() int {
	j := e.jobs[0]
	e.jobs = append(e.jobs[:0], e.jobs[1:]...)
	if j.Begin != nil {
		j.Begin(j)
	}
	e.running++
	e.started++
	e.Unlock()
	j.Run(j)
	e.Lock()
	e.running--
	j.Done(j)
	return 1
}

func (e *Engine) yield() {
	e.gapLeft = 0
	e.cede(e.host)
}

// sleep is the one place where the process sleeps. It returns at once if timers are due: the
// caller's completion may be done.
func (e *Engine) sleep() {
	if e.runTimers() > 0 {
		return
	}
	e.gapLeft = 0 // the next round must poll all
	e.stopPolling()
	e.host.Arm()
	if e.ready() {
		e.host.Disarm()
		return
	}
	e.asleep = true
	until := e.timers.next()
	e.setRuns(false)
	e.Unlock()
	e.host.Sleep(until)
	e.Lock()
	e.setRuns(true)
	e.asleep = false
	e.runTimers()
}

func (e *Engine) ready() bool {
	for p := range e.providers {
		if p.Ready() {
			return true
		}
	}
	e.newWatcher = false
	for _, w := range e.watchers {
		if !w.Doze() {
			return true
		}
	}
	return e.contenders.Load() != 0 || len(e.jobs) > 0 || len(e.ends) > 0
}

// Kick wakes the progressing goroutine if it sleeps, after other goroutines have queued work.
// Precondition: the lock is held.
func (e *Engine) Kick() {
	if e.asleep {
		e.host.Ring()
	}
}

// park waits until c is done or no goroutine progresses any more.
func (e *Engine) park(c *Completion) { e.parkAt(&e.parked, c) }

// parkLast is park for a goroutine that must wake after all others.
func (e *Engine) parkLast(c *Completion) {
	at := &e.parked
	for *at != nil {
		at = &(*at).next
	}
	e.parkAt(at, c)
}

func (e *Engine) parkAt(place **Completion, c *Completion) {
	if c.parker == nil {
		c.parker = e.host.NewParker()
	}
	e.stamp(c)
	c.in, c.observed = e, true
	c.next = *place
	*place = c
	e.Unlock()
	c.parker.Park()
	e.Lock()
	if c.in == nil {
		e.woken--
	}
	c.in = nil
	for at := &e.parked; *at != nil; at = &(*at).next {
		if *at == c {
			*at = c.next
			return
		}
	}
}
