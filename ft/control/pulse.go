package control

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// The defaults of detect.Config. On two cores with a dozen busy processes beside them,
// ranks have been seen that did not run for one and a half seconds.
const (
	DefaultPeriod  fabric.Time = 500_000_000
	DefaultTimeout fabric.Time = 3_000_000_000
)

const (
	// soon is when a process that computes looks again after something has come,
	// mostAgain how often it does before it lets a period pass.
	soon      = fabric.Time(1_000_000)
	mostAgain = 12
)

// Config assembles a Pulse.
type Config struct {
	Engine *progress.Engine
	Detect detect.Config
	// Die ends this process, for a reason that says so itself. It is called with the
	// engine's lock held and does not return.
	Die func(why error)
	// Condemned, if set, is told of a process that counts as dead for its silence: that this one has found
	// to be silent, for how long (0: somebody else knows), or that it has killed. It is called with the
	// engine's lock held.
	Condemned func(peer proc.ID, silent fabric.Time, killed bool)
	// Logf receives remarks; nil discards them.
	Logf func(format string, args ...any)
}

// Pulse is the failure detector of one process at work. Its state belongs to who
// holds the engine's lock.
type Pulse struct {
	e    *progress.Engine
	m    *detect.Machine
	die  func(error)
	told func(proc.ID, fabric.Time, bool) // of whom it has condemned; nil: nobody is
	logf func(format string, args ...any)

	wake fabric.Parker // of the goroutine that watches the time
	due  fabric.Time   // when it wakes, while it is parked
	busy bool          // it is not parked
	gone fabric.Parker // unparked when one of the goroutines has ended
	left int           // goroutines that have not ended
	over bool          // Stop has been called, or this process ends
	last bool          // Finalizing has been called

	draining   bool
	unsent     []detect.Action // wait for a connection
	connecting bool
	strange    []proc.ID         // to be connected to
	met        map[proc.ID]bool  // those among them
	asking     bool              // that is being done
	node       func(proc.ID) int // as in detect.Config; nil: each process has a machine of its own
	self       proc.ID
	grace      fabric.Time      // how long that waits
	later      []detect.Action  // what can wait, for ranks of this machine to which there is no connection
	laterDue   fabric.Time      // when their turn comes, while there is some
	failed     map[proc.ID]bool // of whom a remark has been made
	excuses    map[proc.ID]*excused
	timeout    fabric.Time

	// What the detector has seen: written by watch, read by any goroutine.
	late, silence atomic.Int64
	suspicions    atomic.Uint64
}

// Start begins to observe and to be observed. It is called once, before the first
// frame can arrive and after the other listeners to ends have been registered, which
// are told of a death before it is passed on.
//
// Preconditions: cfg.Detect.Check() == nil.
func Start(cfg Config) *Pulse {
	h := cfg.Engine.Host()
	p := &Pulse{
		e: cfg.Engine, m: detect.New(cfg.Detect, h.Now()), die: cfg.Die, told: cfg.Condemned, logf: cfg.Logf,
		wake: h.NewParker(), gone: h.NewParker(), failed: make(map[proc.ID]bool), met: make(map[proc.ID]bool),
		node: cfg.Detect.Node, self: cfg.Detect.Self, grace: cfg.Detect.Period / gracePart,
		excuses: make(map[proc.ID]*excused), timeout: cfg.Detect.Timeout,
	}
	p.e.Handle(fabric.ClassDetect, p.heard)
	p.e.OnEnd(p.ended)
	p.e.Lock()
	defer p.e.Unlock()
	p.due = p.m.Due()
	p.spawn(p.watch)
	return p
}

// Finalizing says that this process waits for the others to finalize, after which each
// departs in its own time. Who cannot be connected to for the first time from now on has departed as
// likely as it has died, so others are told neither.
func (p *Pulse) Finalizing() {
	p.e.Lock()
	defer p.e.Unlock()
	p.last = true
}

// Stop ends the detector, for a process that is about to depart: nothing is
// reported, sent or concluded any more. It returns when its goroutines have ended.
func (p *Pulse) Stop() {
	p.e.Lock()
	defer p.e.Unlock()
	p.over = true
	p.wake.Unpark()
	for p.left > 0 {
		p.e.Unlock()
		p.gone.Park()
		p.e.Lock()
	}
}

// Ended reports whether the detector knows that a process has died or departed, also where that is unreachable from here.
// Precondition: the engine's lock is held.
func (p *Pulse) Ended(id proc.ID) bool { return p.m.Ended(id) }

// spawn starts a goroutine that runs with the lock held.
func (p *Pulse) spawn(body func()) {
	p.left++
	p.e.Host().Go(func() {
		p.e.Lock()
		body()
		p.left--
		p.gone.Unpark()
		p.e.Unlock()
	})
}

// watch tells the detector the time when it wants to know, after having brought in
// what came by then.
//
// Where something came, more may follow at once: the next step of a handshake, a question
// over the new connection. Whoever asks a process that computes has no patience for one
// period after the other.
func (p *Pulse) watch() {
	for again := 0; !p.over; {
		due := p.due
		p.e.Unlock()
		p.wake.ParkUntil(due)
		p.e.Lock()
		now := p.e.Host().Now()
		if p.over || now < p.due { // it has become due earlier
			continue
		}
		p.busy = true
		found := p.e.ProgressUntilIdle()
		if p.over {
			return
		}
		now = p.e.Host().Now()
		p.look(p.m.Doubted(), now)
		p.m.Tick(now)
		p.publish()
		p.drain()
		p.tellLater(now)
		p.due, p.busy = p.wanted(), false
		if again++; found == 0 || again > mostAgain {
			again = 0
		} else {
			p.due = min(p.due, now+soon)
		}
	}
}

// excused is a silent process that the kernel has as running.
type excused struct{ since, last fabric.Time }

// mostExcuses is how many timeouts long that goes for a sign of life. A process that gets no core runs before; one that
// hangs, or has become another program, never speaks again.
const mostExcuses = 10

// look asks the kernel of some that are silent whether they run: a process that gets no core
// says nothing either. One that a debugger holds is excused for as long as it is held.
func (p *Pulse) look(ids []proc.ID, now fabric.Time) {
	for _, id := range ids {
		runs, traced := p.e.Runs(id)
		if !runs {
			continue
		}
		x := p.excuses[id]
		if x == nil || traced || now-x.last > 2*p.timeout {
			x = &excused{since: now}
			p.excuses[id] = x
		}
		if x.last = now; now-x.since <= mostExcuses*p.timeout {
			p.m.Seen(id, now)
		}
	}
}

// publish lets others read what the detector has seen.
func (p *Pulse) publish() {
	s := p.m.Stats()
	p.late.Store(int64(s.Late))
	p.silence.Store(int64(s.Silence))
	p.suspicions.Store(s.Suspicions)
}

// Stats is what the detector has seen up to a period ago. Any goroutine may call it
// at any time.
func (p *Pulse) Stats() detect.Stats {
	return detect.Stats{
		Late: fabric.Time(p.late.Load()), Silence: fabric.Time(p.silence.Load()), Suspicions: p.suspicions.Load(),
	}
}

func (p *Pulse) heard(from proc.ID, _ uint64, payload []byte) {
	if p.over {
		return
	}
	delete(p.excuses, from)
	now := p.e.Host().Now()
	err := p.m.Heard(from, payload, now)
	p.look(p.m.Asked(), now)
	if err != nil {
		p.remark(from, "detect: cutting %v off, which sends what no detector does: %v", from, err)
		p.e.Report(from, proc.Cause{Kind: proc.Corrupt})
	}
	p.drain()
}

// ended passes on what the engine has come to know.
func (p *Pulse) ended(ep *progress.Endpoint, cause proc.Cause) {
	if p.over {
		return
	}
	switch now := p.e.Host().Now(); cause.Kind {
	case proc.Departed:
		p.m.Departed(ep.Proc)
	case proc.Refused:
		p.m.Expelled(ep.Proc, now)
	case proc.Unknown:
		if p.last {
			p.m.Missing(ep.Proc)
		} else {
			p.m.Died(ep.Proc, cause, now)
		}
	default:
		p.m.Died(ep.Proc, cause, now)
	}
	p.drain()
}

// drain does what the detector asks for. Reports come back as inputs while it does:
// those leave the rest to the first.
func (p *Pulse) drain() {
	if p.draining {
		return
	}
	p.draining = true
	for !p.over {
		a, ok := p.m.Next()
		if !ok {
			break
		}
		switch a.Kind {
		case detect.Send:
			p.send(a)
		case detect.Report:
			p.e.Report(a.Peer, a.Cause)
			if killed := p.e.Fencer(a.Peer); p.told != nil && (killed || a.Silent > 0) {
				p.told(a.Peer, a.Silent, killed)
			}
		case detect.Die:
			p.over = true
			p.die(a.Err)
		}
	}
	p.draining = false
	if due := p.wanted(); due < p.due && !p.busy {
		p.due = due
		p.wake.Unpark()
	}
}

const (
	// mostUnsent bounds what waits for connections and credit, connectTries how often
	// that is tried, soon after each other. What does not fit, or go, is lost: the detector says again
	// what matters.
	mostUnsent   = 4096
	connectTries = 400
)

// send hands a frame over, or has the connection made that it takes.
func (p *Pulse) send(a detect.Action) {
	switch {
	case p.handOver(a):
	case a.Patient && p.beside(a.To):
		p.wait(a)
	default:
		p.introduce(a)
	}
}

// introduce has a connection made for a frame.
func (p *Pulse) introduce(a detect.Action) {
	if len(p.unsent) == mostUnsent {
		return
	}
	p.unsent = append(p.unsent, a)
	if !p.connecting {
		p.connecting = true
		p.spawn(p.connect)
	}
}

// handOver sends a frame if there is a connection to take it; false: it is not up
// yet, or has no credit. To who has ended nothing is sent.
func (p *Pulse) handOver(a detect.Action) bool {
	ep := p.e.Lookup(a.To)
	return ep != nil && (ep.State != progress.Alive || ep.TrySend(fabric.ClassDetect, 0, a.Payload))
}

// connect sends what waits when its connection is up, for which it makes progress for a while: the
// application may compute.
func (p *Pulse) connect() {
	for tries := 0; len(p.unsent) > 0 && tries < connectTries && !p.over; tries++ {
		p.resend(func(a detect.Action) bool {
			if p.e.Lookup(a.To) != nil {
				return p.handOver(a)
			}
			p.meet(a.To)
			return false
		})
		if len(p.unsent) > 0 {
			p.e.Unlock()
			p.e.Host().Pause(soon)
			p.e.Lock()
			p.e.ProgressUntilIdle()
		}
	}
	p.connecting, p.unsent = false, nil
}

// resend goes through what waits, and keeps that which is not done with.
func (p *Pulse) resend(done func(detect.Action) bool) {
	waiting := p.unsent
	p.unsent = nil
	for _, a := range waiting {
		if !done(a) {
			p.unsent = append(p.unsent, a)
		}
	}
}

// meet has a process be connected to. That waits for its address, so it has a goroutine of its own:
// frames to others do not wait for a launcher that is slow, or has stopped.
func (p *Pulse) meet(id proc.ID) {
	if p.met[id] {
		return
	}
	p.met[id], p.strange = true, append(p.strange, id)
	if !p.asking {
		p.asking = true
		p.spawn(p.ask)
	}
}

// ask connects to those who are to be met, and sends what waits for that. What is to be sent to one
// that cannot be connected to is dropped.
func (p *Pulse) ask() {
	for len(p.strange) > 0 && !p.over {
		id := p.strange[0]
		p.strange = p.strange[1:]
		p.e.Unlock()
		_, err := p.e.Endpoint(id)
		p.e.Lock()
		delete(p.met, id)
		if err != nil {
			p.remark(id, "detect: no heartbeats to %v: %v", id, err)
		}
		p.resend(func(a detect.Action) bool { return a.To == id && (err != nil || !p.over && p.handOver(a)) })
	}
	p.asking = false
}

// remark says something about a peer once.
func (p *Pulse) remark(peer proc.ID, format string, args ...any) {
	if p.logf != nil && !p.failed[peer] {
		p.failed[peer] = true
		p.logf(format, args...)
	}
}
