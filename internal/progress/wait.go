package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
)

// Completion is what a goroutine waits for. Whoever completes it calls Finish
// with the lock held. The zero Completion is not done; Reset makes it so again.
type Completion struct {
	done      bool
	observed  bool          // Finish has somebody to tell: a goroutine, or then
	delegated bool          // a goroutine parks on it instead of sleeping at the bell, where the attendant sleeps
	asleep    fabric.Host   // a goroutine that progresses for it sleeps here; else nil
	in        *Engine       // a goroutine parks on it there, and has not been told
	parker    fabric.Parker // made when one first does
	then      func()        // is called when it finishes
	next      *Completion   // in the engine's list of parked ones
}

// Done reports whether it is complete. Precondition: the lock is held.
func (c *Completion) Done() bool { return c.done }

// Reset prepares it for another use. Precondition: nobody waits for it.
func (c *Completion) Reset() {
	c.done = false
	if c.observed {
		c.observed, c.then = false, nil
	}
}

// Reopen takes Finish back: a goroutine that waits and has not seen it waits on.
// Precondition: the lock is held.
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

// Then has fn called whenever c finishes, and at once if it has, so that a goroutine can wait for one of many, and
// operations of several steps go on; nil ends that. There is one such function at most. It is called with the lock held in the middle
// of what has finished c, so it only notes that, finishes another Completion, or submits a job.
// Precondition: the lock is held.
func (c *Completion) Then(fn func()) {
	c.then = fn
	c.observed = c.in != nil || c.asleep != nil || fn != nil
	if c.done && fn != nil {
		fn()
	}
}

// Job is work with system calls, such as a kernel copy, that the progressing
// goroutine does without the lock. Done is called with the lock held.
type Job struct {
	Run  func(*Job)
	Done func(*Job)
	// Arg is the owner's.
	Arg any
}

// Submit hands a job to whoever progresses. Precondition: the lock is held.
func (e *Engine) Submit(j *Job) {
	e.jobs = append(e.jobs, j)
	e.Kick()
}

// Wait returns when c is done. The calling goroutine progresses for all, or
// parks while another does.
//
// Precondition: the lock is held; it is held again on return.
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

// ensureSleeper has the one who sleeps at the bell, if one does, doze for all watchers, before a goroutine leaves everything to it.
func (e *Engine) ensureSleeper() {
	if e.newWatcher {
		e.Kick()
	}
}

// handOver wakes a goroutine that parked because the caller progressed.
func (e *Engine) handOver() {
	switch {
	case e.parked == nil:
	case e.asleep: // the attendant is at the bell, which is enough for some
		e.wakeParked()
	default:
		e.parked.parker.Unpark()
	}
}

// Progress polls once, without waiting, and says whether anything happened. If
// another goroutine progresses, or after Close, it does nothing.
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
	e.sometimesPollDeaths()
	e.progressing = false
	e.handOver()
	return n > 0
}

// drive polls until c is done: spin, then yield, then sleep. False: it is not
// done, but the attendant sleeps at the bell and progresses from here on.
//
// Goroutines that it has woken go first: where they have no processor but this
// one's they would otherwise run when this one has lost its patience, thousands
// of polls later, and the peer may wait for what they do next.
func (e *Engine) drive(c *Completion) bool {
	idle := 0
	var since fabric.Time // of the first yield in a row
	for !c.done {
		if e.rounds++; e.rounds%e.stride == 0 {
			e.runTimers()
		}
		n := e.round()
		if n > 0 {
			idle = 0
		}
		switch {
		case e.contenders.Load() != 0:
			e.yield()
		case n > 0:
		case idle < e.spins:
			idle++
			e.sometimesPollDeaths()
		case idle < e.spins+e.yields && e.mayYield(idle, &since):
			idle++
			e.yieldProcess()
			e.pollDeaths() // which costs nothing beside that
		case c.done:
		case e.asleep:
			return false
		default:
			c.asleep, c.observed = e.host, true
			e.sleep()
			c.asleep, c.observed = nil, c.then != nil
			idle = e.spins // woken for a reason, or spuriously: no long spin
		}
		if e.woken > 0 {
			e.yield()
		}
	}
	return true
}

// deathStride is how many polls pass between two looks for deaths while the engine spins: a look costs some loads, less than
// a hundredth of so many polls.
const deathStride = 16

// sometimesPollDeaths is pollDeaths in one of deathStride rounds.
func (e *Engine) sometimesPollDeaths() {
	if e.rounds%deathStride == 0 {
		e.pollDeaths()
	}
}

// pollDeaths looks whether processes of this machine have died, for the next round to report: the watcher may wait for the core
// on which this process polls.
func (e *Engine) pollDeaths() {
	if e.shm != nil {
		e.shm.PollDeaths()
	}
}

// mayYield reports whether a goroutine that has found nothing idle times may yield
// once more before it sleeps. since is its own.
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

// timerStride is how many polls pass between two looks at the clock while the
// engine spins.
const timerStride = 256

// round polls every provider once and says how much there was.
func (e *Engine) round() int {
	if len(e.deferred) > 0 {
		e.runDeferred()
	}
	for i := 0; i < len(e.watchers); i++ { // a look may end a watch
		if n := e.watchers[i].Look(); n > 0 {
			return n // somebody waits for it
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
	n += e.stalled()
	if e.backlog != nil {
		n += e.backlog()
	}
	if len(e.jobs) > 0 {
		n += e.runJob()
	}
	return n
}

// runDeferred does what has been left for later, which leaves nothing for the round after it.
func (e *Engine) runDeferred() {
	for _, fn := range e.deferred {
		fn()
	}
	e.deferred = e.deferred[:0]
}

// runJob does the jobs that may block, without the lock.
func (e *Engine) runJob() int {
	j := e.jobs[0]
	e.jobs = append(e.jobs[:0], e.jobs[1:]...)
	e.Unlock()
	j.Run(j)
	e.Lock()
	j.Done(j)
	return 1
}

func (e *Engine) yield() {
	e.gapLeft = 0
	e.Unlock()
	e.host.Yield()
	e.Lock()
}

// YieldProcess lets other processes run once, unless this host would rather sleep, and reports whether it has. Precondition: the lock is held; it is
// held again on return.
func (e *Engine) YieldProcess() bool {
	if e.yields == 0 || e.contenders.Load() != 0 {
		return false
	}
	e.yieldProcess()
	return true
}

// yieldProcess is yield for who has found nothing and is not asked for anything.
func (e *Engine) yieldProcess() {
	e.gapLeft = 0
	e.Unlock()
	e.host.Relax()
	e.Lock()
}

// sleep is the one place where the process sleeps. Timers that are due keep it
// from that: what the caller waits for may be done.
func (e *Engine) sleep() {
	if e.runTimers() > 0 {
		return
	}
	e.gapLeft = 0 // what is ready is to be found by the next round
	e.host.Arm()
	if e.ready() {
		e.host.Disarm()
		return
	}
	e.asleep = true
	until := e.timers.next()
	e.Unlock()
	e.host.Sleep(until)
	e.Lock()
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
	return e.contenders.Load() != 0 || len(e.jobs) > 0
}

// Kick makes the progressing goroutine look again: for whoever queued work
// while it may sleep. Precondition: the lock is held.
func (e *Engine) Kick() {
	if e.asleep {
		e.host.Ring()
	}
}

// park waits until c is done or nobody progresses any more.
func (e *Engine) park(c *Completion) { e.parkAt(&e.parked, c) }

// parkLast is park for who is to be woken after all others.
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
	c.in, c.observed = e, true
	c.next = *place
	*place = c
	e.Unlock()
	c.parker.Park()
	e.Lock()
	if c.in == nil {
		e.woken--
	}
	c.in, c.observed = nil, c.then != nil
	for at := &e.parked; *at != nil; at = &(*at).next {
		if *at == c {
			*at = c.next
			return
		}
	}
}
