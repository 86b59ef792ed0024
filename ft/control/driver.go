package control

import (
	"log/slog"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Defaults of detect.Config. On two cores with a dozen busy processes, ranks have been seen that
// did not run for one and a half seconds.
const (
	DefaultPeriod  fabric.Time = 500_000_000
	DefaultTimeout fabric.Time = 3_000_000_000
)

const (
	// After progress that found something the driver looks again in retryInterval, up to maxRetries
	// times; then it waits until the detector is due.
	retryInterval = fabric.Time(1_000_000)
	maxRetries    = 12
	// lookPart is the part of a period for which one call makes progress: less than what the detector takes for
	// a time in which the process did not run.
	lookPart = 16
)

// Config configures a Driver.
type Config struct {
	Engine *progress.Engine
	Detect detect.Config
	// Die ends this process for a reason that explains itself. It is called with the engine's lock
	// held and does not return.
	Die func(why error)
	// Condemned, if set, is called for a process that counts as failed because of its silence. silent is the
	// silence's duration if this process observed it, else 0; killed: this process has killed the other. It is called
	// with the engine's lock held.
	Condemned func(peer proc.ID, silent fabric.Time, killed bool)
	// Departed, if set, is called for a process of which another one has reported that it departed. It is called with
	// the engine's lock held.
	Departed func(peer proc.ID)
	Log      *slog.Logger // nil: no log
}

// Driver runs the failure detector of one process. The engine's lock guards its state.
type Driver struct {
	e           *progress.Engine
	m           *detect.Machine
	die         func(error)
	onCondemned func(proc.ID, fabric.Time, bool) // Config.Condemned
	onDeparted  func(proc.ID)                    // Config.Departed
	log         *slog.Logger

	wake       fabric.Parker // wakes the watch goroutine
	due        fabric.Time   // when watch wakes, while it is parked
	busy       bool          // watch is not parked
	exited     fabric.Parker // unparked when a goroutine has ended
	running    int           // number of goroutines
	job        uint64        // the engine's job under way when watch looked last
	stopped    bool          // Stop was called, or this process ends
	finalizing bool          // Finalizing was called

	draining      bool
	unsent        []detect.Action // frames that wait for a connection or credit
	connecting    bool
	dialQueue     []proc.ID         // processes to connect to
	queued        map[proc.ID]bool  // the members of dialQueue and the one being dialled
	dialing       bool              // dial runs
	node          func(proc.ID) int // as in detect.Config; nil: each process has a machine of its own
	self          proc.ID
	grace         fabric.Time      // delay of postponed frames
	postponed     []detect.Action  // patient frames to ranks of this machine without a connection
	postponedDue  fabric.Time      // when postponed frames are sent
	logged        map[proc.ID]bool // peers that logOnce has logged
	silentRunning map[proc.ID]*silentRun
	timeout       fabric.Time
	look          fabric.Time // longest time of progress before the detector's clock advances

	// Published statistics: written by watch, read by any goroutine.
	late, silence atomic.Int64
	suspicions    atomic.Uint64
}

// Start starts the detector. It is called once, before the first frame can arrive. The other
// listeners to ends are registered before, so that they learn of a failure before it is forwarded.
//
// Preconditions: cfg.Detect.Check() == nil.
func Start(cfg Config) *Driver {
	h := cfg.Engine.Host()
	p := &Driver{
		e: cfg.Engine, m: detect.New(cfg.Detect, h.Now()), die: cfg.Die, onCondemned: cfg.Condemned, log: cfg.Log,
		onDeparted: cfg.Departed, wake: h.NewParker(), exited: h.NewParker(), logged: make(map[proc.ID]bool), queued: make(map[proc.ID]bool),
		node: cfg.Detect.Node, self: cfg.Detect.Self, grace: min(cfg.Detect.Period, DefaultPeriod) / gracePart,
		silentRunning: make(map[proc.ID]*silentRun), timeout: cfg.Detect.Timeout,
		look: cfg.Detect.Period / lookPart,
	}
	p.e.HandleBackground(fabric.ClassDetect, p.onFrame)
	p.e.OnEndLater(p.onEnd)
	p.e.OnEnd(p.endFound)
	p.e.OnBacklog(p.sendUnsent)
	p.e.Lock()
	defer p.e.Unlock()
	p.due = p.m.Due()
	p.spawn(p.watch)
	return p
}

// Finalizing declares that this process waits for the others to finalize, after which each departs
// in its own time. A process that cannot be connected to for the first time from now on may have
// departed or failed, so neither is reported. One that has sent something would have reported its departure.
func (p *Driver) Finalizing() {
	p.e.Lock()
	defer p.e.Unlock()
	p.e.FinishEnds() // they came before
	p.finalizing = true
}

// Stop stops the detector, for a process that is about to depart: nothing is reported, sent or
// decided any more. It returns when the goroutines have ended.
func (p *Driver) Stop() {
	p.e.Lock()
	defer p.e.Unlock()
	p.e.FinishEnds() // others learn of them
	p.stopped = true
	p.wake.Unpark()
	for p.running > 0 {
		p.e.Unlock()
		p.exited.Park()
		p.e.Lock()
	}
}

// Ended reports whether the detector knows that a process has failed or departed, even if it is
// unreachable from here.
//
// Precondition: the engine's lock is held.
func (p *Driver) Ended(id proc.ID) bool {
	p.e.FinishEnds()
	return p.m.Ended(id)
}

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

// watch advances the detector's clock when it is due, after progress has handled the frames
// that arrived before.
//
// If progress found something, more may follow at once: the next step of a handshake, or a query
// over the new connection. A process that computes then looks again soon, since its peers cannot
// wait a period for each step.
func (p *Driver) watch() {
	for again := 0; !p.stopped; {
		due := p.due
		p.e.Unlock()
		p.wake.ParkUntil(due)
		p.e.Lock()
		now := p.e.Host().Now()
		if p.stopped || now < p.due { // due was moved forward
			continue
		}
		p.busy = true
		found := p.e.ProgressUntilIdle(p.look)
		if p.stopped {
			return
		}
		now = p.e.Host().Now()
		job := p.e.JobUnderWay()
		if job != 0 && job == p.job {
			p.m.Deaf(now)
		}
		p.job = job
		p.checkRunning(p.m.Doubtful(), now)
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

// silentRun is a silent process that runs according to the kernel.
type silentRun struct{ since, last fabric.Time }

// maxSilentTimeouts is the time, in timeouts, for which such a process counts as alive. A process
// without a core runs before; one that hangs, or has become another program, never sends again.
const maxSilentTimeouts = 10

// checkRunning asks the kernel whether silent processes run, since a process without a core is
// silent too. A process that a debugger has stopped counts as alive for as long as it is stopped.
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

// publish publishes the statistics.
func (p *Driver) publish() {
	s := p.m.Stats()
	p.late.Store(int64(s.Late))
	p.silence.Store(int64(s.Silence))
	p.suspicions.Store(s.Suspicions)
}

// Stats returns the statistics up to a period ago. Any goroutine may call it at any time.
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
		p.logOnce(from, "cut off for its heartbeat frames", err)
		p.e.Report(from, proc.Cause{Kind: proc.Corrupt})
	}
	p.drain()
}

// endFound makes watch go on soon, so that onEnd runs if the application computes and makes no progress: not
// at once, for this process has an error to return. Where processes share cores the others return theirs first.
func (p *Driver) endFound(_ *progress.Endpoint, cause proc.Cause) {
	pause := retryInterval
	if p.e.Crowded() {
		pause = p.grace
	}
	due := p.e.Host().Now() + pause
	if p.stopped || p.busy || due >= p.due || !cause.Failed() {
		return
	}
	p.due = due
	p.wake.Unpark()
}

// DryRun does what a failure asks of the detector before an operation returns its error, and wakes nothing: the code is
// in the cache then. Precondition: the engine's lock is held.
func (p *Driver) DryRun() { p.endFound(nil, proc.Cause{Kind: proc.Departed}) }

// onEnd forwards an end that the engine reports.
func (p *Driver) onEnd(ep *progress.Endpoint, cause proc.Cause) {
	if p.stopped {
		return
	}
	switch now := p.e.Host().Now(); cause.Kind {
	case proc.Departed:
		p.m.Departed(ep.Proc)
	case proc.Refused:
		p.m.Fenced(ep.Proc, now)
	case proc.Unknown:
		if p.finalizing && (ep.Reported || ep.Received() == 0) {
			p.m.Missing(ep.Proc)
		} else {
			p.m.Died(ep.Proc, cause, now)
		}
	default:
		p.m.Died(ep.Proc, cause, now)
	}
	p.drain()
}

// drain performs the detector's actions. Inputs that result from them leave further actions to the
// outermost call.
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
			if killed := p.e.Fencer(a.Peer); p.onCondemned != nil &&
				(killed || a.Silent > 0 || a.Cause.Kind == proc.Heartbeat) {
				p.onCondemned(a.Peer, a.Silent, killed)
			}
		case detect.Departed:
			if p.onDeparted != nil {
				p.onDeparted(a.Peer)
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
	// maxUnsent bounds the frames that wait for connections and credit, connectTries the attempts
	// to send them. Other frames are lost; the detector repeats the important ones.
	maxUnsent    = 4096
	connectTries = 400
)

// send sends a frame, now or over a new connection.
func (p *Driver) send(a detect.Action) {
	switch {
	case p.trySend(a):
	case a.Patient && p.sameNode(a.To):
		p.postpone(a)
	default:
		p.queueUnsent(a)
	}
}

// trySend sends a frame over an existing connection; false: there is none, or no credit. Frames to
// ended processes are dropped.
func (p *Driver) trySend(a detect.Action) bool {
	ep := p.e.Lookup(a.To)
	return ep != nil && (ep.State != progress.Alive || ep.TrySend(fabric.ClassDetect, 0, a.Payload))
}

// logOnce logs one line about a peer, the first time.
func (p *Driver) logOnce(peer proc.ID, text string, why error) {
	if p.log != nil && !p.logged[peer] {
		p.logged[peer] = true
		p.log.Info(text, "peer", int(peer), "reason", why)
	}
}
