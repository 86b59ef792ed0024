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
	// retryInterval is when a process that computes looks again after something has come,
	// mostAgain how often it does before it lets a period pass.
	retryInterval = fabric.Time(1_000_000)
	maxRetries    = 12
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

// Driver is the failure detector of one process at work. Its state belongs to who
// holds the engine's lock.
type Driver struct {
	e           *progress.Engine
	m           *detect.Machine
	die         func(error)
	onCondemned func(proc.ID, fabric.Time, bool) // of whom it has condemned; nil: nobody is
	logf        func(format string, args ...any)

	wake       fabric.Parker // of the goroutine that watches the time
	due        fabric.Time   // when it wakes, while it is parked
	busy       bool          // it is not parked
	exited     fabric.Parker // unparked when one of the goroutines has ended
	running    int           // goroutines that have not ended
	stopped    bool          // Stop has been called, or this process ends
	finalizing bool          // Finalizing has been called

	draining      bool
	unsent        []detect.Action // wait for a connection
	connecting    bool
	dialQueue     []proc.ID         // to be connected to
	queued        map[proc.ID]bool  // those among them
	dialing       bool              // that is being done
	node          func(proc.ID) int // as in detect.Config; nil: each process has a machine of its own
	self          proc.ID
	grace         fabric.Time      // how long that waits
	postponed     []detect.Action  // what can wait, for ranks of this machine to which there is no connection
	postponedDue  fabric.Time      // when their turn comes, while there is some
	logged        map[proc.ID]bool // of whom a remark has been made
	silentRunning map[proc.ID]*silentRun
	timeout       fabric.Time

	// What the detector has seen: written by watch, read by any goroutine.
	late, silence atomic.Int64
	suspicions    atomic.Uint64
}

// Start begins to observe and to be observed. It is called once, before the first
// frame can arrive and after the other listeners to ends have been registered, which
// are told of a death before it is passed on.
//
// Preconditions: cfg.Detect.Check() == nil.
func Start(cfg Config) *Driver {
	h := cfg.Engine.Host()
	p := &Driver{
		e: cfg.Engine, m: detect.New(cfg.Detect, h.Now()), die: cfg.Die, onCondemned: cfg.Condemned, logf: cfg.Logf,
		wake: h.NewParker(), exited: h.NewParker(), logged: make(map[proc.ID]bool), queued: make(map[proc.ID]bool),
		node: cfg.Detect.Node, self: cfg.Detect.Self, grace: cfg.Detect.Period / gracePart,
		silentRunning: make(map[proc.ID]*silentRun), timeout: cfg.Detect.Timeout,
	}
	p.e.Handle(fabric.ClassDetect, p.onFrame)
	p.e.OnEnd(p.onEnd)
	p.e.Lock()
	defer p.e.Unlock()
	p.due = p.m.Due()
	p.spawn(p.watch)
	return p
}

// Finalizing says that this process waits for the others to finalize, after which each
// departs in its own time. Who cannot be connected to for the first time from now on has departed as
// likely as it has died, so others are told neither.
func (p *Driver) Finalizing() {
	p.e.Lock()
	defer p.e.Unlock()
	p.finalizing = true
}

// Stop ends the detector, for a process that is about to depart: nothing is
// reported, sent or concluded any more. It returns when its goroutines have ended.
func (p *Driver) Stop() {
	p.e.Lock()
	defer p.e.Unlock()
	p.stopped = true
	p.wake.Unpark()
	for p.running > 0 {
		p.e.Unlock()
		p.exited.Park()
		p.e.Lock()
	}
}

// Ended reports whether the detector knows that a process has died or departed, also where that is unreachable from here.
// Precondition: the engine's lock is held.
func (p *Driver) Ended(id proc.ID) bool { return p.m.Ended(id) }

// spawn starts a goroutine that runs with the lock held.
func (p *Driver) spawn(body func()) {
	p.running++
	p.e.Host().Go(func() {
		p.e.Lock()
		body()
		p.running--
		p.exited.Unpark()
		p.e.Unlock()
	})
}

// watch tells the detector the time when it wants to know, after having brought in
// what came by then.
//
// Where something came, more may follow at once: the next step of a handshake, a question
// over the new connection. Whoever asks a process that computes has no patience for one
// period after the other.
func (p *Driver) watch() {
	for again := 0; !p.stopped; {
		due := p.due
		p.e.Unlock()
		p.wake.ParkUntil(due)
		p.e.Lock()
		now := p.e.Host().Now()
		if p.stopped || now < p.due { // it has become due earlier
			continue
		}
		p.busy = true
		found := p.e.Tend()
		if p.stopped {
			return
		}
		now = p.e.Host().Now()
		p.checkRunning(p.m.Doubted(), now)
		p.m.Tick(now)
		p.publish()
		p.drain()
		p.sendPostponed(now)
		p.due, p.busy = p.nextDue(), false
		if again++; found == 0 || again > maxRetries {
			again = 0
		} else {
			p.due = min(p.due, now+retryInterval)
		}
	}
}

// silentRun is a silent process that the kernel has as running.
type silentRun struct{ since, last fabric.Time }

// maxSilentTimeouts is how many timeouts long that goes for a sign of life. A process that gets no core runs before; one that
// hangs, or has become another program, never speaks again.
const maxSilentTimeouts = 10

// checkRunning asks the kernel of some that are silent whether they run: a process that gets no core
// says nothing either. One that a debugger holds is excused for as long as it is held.
func (p *Driver) checkRunning(ids []proc.ID, now fabric.Time) {
	for _, id := range ids {
		runs, traced := p.e.Runs(id)
		if !runs {
			continue
		}
		x := p.silentRunning[id]
		if x == nil || traced || now-x.last > 2*p.timeout {
			x = &silentRun{since: now}
			p.silentRunning[id] = x
		}
		if x.last = now; now-x.since <= maxSilentTimeouts*p.timeout {
			p.m.Running(id, now)
		}
	}
}

// publish lets others read what the detector has seen.
func (p *Driver) publish() {
	s := p.m.Stats()
	p.late.Store(int64(s.Late))
	p.silence.Store(int64(s.Silence))
	p.suspicions.Store(s.Suspicions)
}

// Stats is what the detector has seen up to a period ago. Any goroutine may call it
// at any time.
func (p *Driver) Stats() detect.Stats {
	return detect.Stats{
		Late: fabric.Time(p.late.Load()), Silence: fabric.Time(p.silence.Load()), Suspicions: p.suspicions.Load(),
	}
}

func (p *Driver) onFrame(from proc.ID, _ uint64, payload []byte) {
	if p.stopped {
		return
	}
	delete(p.silentRunning, from)
	now := p.e.Host().Now()
	err := p.m.Receive(from, payload, now)
	p.checkRunning(p.m.Queried(), now)
	if err != nil {
		p.logOnce(from, "detect: cutting %v off, which sends what no detector does: %v", from, err)
		p.e.Report(from, proc.Cause{Kind: proc.Corrupt})
	}
	p.drain()
}

// onEnd passes on what the engine has come to know.
func (p *Driver) onEnd(ep *progress.Endpoint, cause proc.Cause) {
	if p.stopped {
		return
	}
	switch now := p.e.Host().Now(); cause.Kind {
	case proc.Departed:
		p.m.Departed(ep.Proc)
	case proc.Expelled:
		p.m.Fenced(ep.Proc, now)
	case proc.Unknown:
		if p.finalizing {
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
func (p *Driver) drain() {
	if p.draining {
		return
	}
	p.draining = true
	for !p.stopped {
		a, ok := p.m.Next()
		if !ok {
			break
		}
		switch a.Kind {
		case detect.Send:
			p.send(a)
		case detect.Report:
			p.e.Report(a.Peer, a.Cause)
			if killed := p.e.Fencer(a.Peer); p.onCondemned != nil && (killed || a.Silent > 0) {
				p.onCondemned(a.Peer, a.Silent, killed)
			}
		case detect.Die:
			p.stopped = true
			p.die(a.Err)
		}
	}
	p.draining = false
	if due := p.nextDue(); due < p.due && !p.busy {
		p.due = due
		p.wake.Unpark()
	}
}

const (
	// maxUnsent bounds what waits for connections and credit, connectTries how often
	// that is tried, soon after each other. What does not fit, or go, is lost: the detector says again
	// what matters.
	maxUnsent    = 4096
	connectTries = 400
)

// send hands a frame over, or has the connection made that it takes.
func (p *Driver) send(a detect.Action) {
	switch {
	case p.trySend(a):
	case a.Patient && p.sameNode(a.To):
		p.postpone(a)
	default:
		p.queueUnsent(a)
	}
}

// trySend sends a frame if there is a connection to take it; false: it is not up
// yet, or has no credit. To who has ended nothing is sent.
func (p *Driver) trySend(a detect.Action) bool {
	ep := p.e.Known(a.To)
	return ep != nil && (ep.State != progress.Alive || ep.TrySend(fabric.ClassDetect, 0, a.Payload))
}

// logOnce says something about a peer once.
func (p *Driver) logOnce(peer proc.ID, format string, args ...any) {
	if p.logf != nil && !p.logged[peer] {
		p.logged[peer] = true
		p.logf(format, args...)
	}
}
