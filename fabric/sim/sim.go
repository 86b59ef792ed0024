package sim

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Sim is one simulated job. Its methods are called by the goroutine that calls Run, or by the
// bodies while Run runs them: one at a time.
type Sim struct {
	cfg   Config
	queue queue
	// now is the instant of the last event, or the clock of a process that continued because no
	// event came before it.
	now          Picos
	limit        Picos
	procs        []*Proc // by id; nil if not spawned
	live         int     // processes that have not ended
	running      *task   // the running activity; nil in the scheduler
	pending      *task   // the next activity, found by the one that just suspended
	ended        []*Proc // ended, their activities not yet unwound
	steps        uint64
	started      bool
	err          error
	reportPlaces bool          // unwound activities store their place
	onEnd        func(proc.ID) // nil: none
	partitions   []*partitionEntry
	disconnected map[pair]bool // by Disconnect
	trace        tracer
	frames       framePool
	engines      []engine // of the nodes, if ports are shared
	blocks       []block
}

// New makes a simulation without processes. The error names the field of cfg that is out of its
// range.
func New(cfg Config) (*Sim, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sim{cfg: cfg, limit: Picos(cfg.MaxTime) * Nanosecond, procs: make([]*Proc, cfg.Procs),
		engines: make([]engine, cfg.numEngines())}
	s.trace.w = cfg.Trace
	return s, nil
}

// Spawn adds a process that runs body. Before Run it starts at time 0; called by a body, now. The
// process departs if body has called Provider.Depart when it returns; else peers see a failure. An
// id is used once.
func (s *Sim) Spawn(id proc.ID, body func(*Proc)) error {
	if err := s.checkID(id); err != nil {
		return err
	}
	if s.procs[id] != nil {
		return fmt.Errorf("sim: %v has been spawned before", id)
	}
	p := newProc(s, id)
	p.clock = s.present()
	s.procs[id] = p
	s.live++
	s.record(traceStart, id, proc.None, 0, 0)
	p.start(func() {
		body(p)
		p.settle() // it ends at its own time
	}, true)
	return nil
}

func (s *Sim) checkID(id proc.ID) error {
	if int(id) >= s.cfg.Procs {
		return fmt.Errorf("sim: %v is outside of Config.Procs = %d", id, s.cfg.Procs)
	}
	return nil
}

// Run runs all processes until each has ended, once. The error is the first of: a *PanicError,
// ErrDeadlock, ErrTimeLimit, ErrStepLimit, or the error of the trace's writer. When Run returns, no
// activity of a process is left.
func (s *Sim) Run() error {
	if s.started {
		return fmt.Errorf("sim: Run has been called before")
	}
	s.started = true
	defer s.shutdown() // also when a body calls runtime.Goexit
	s.schedule()
	if s.err == nil && s.live > 0 {
		s.err = ErrDeadlock
	}
	s.describeStuck()
	if err := s.trace.flush(); s.err == nil {
		s.err = err
	}
	return s.err
}

// schedule runs activities until none can run.
func (s *Sim) schedule() {
	for {
		t := s.pending
		s.pending = nil
		if t == nil {
			s.unwindEnded()
			if s.err != nil || s.live == 0 {
				return
			}
			if t = s.advance(); t == nil && len(s.ended) == 0 {
				return
			}
		}
		if t != nil {
			s.running = t
			t.resume() // sets running again when t continues from where it was
			s.running = nil
		}
	}
}

// advance lets events happen until an activity can run, and returns it. It returns nil when no
// event is left or the scheduler has to act: after an error, or to unwind a process.
func (s *Sim) advance() *task {
	for s.err == nil && len(s.ended) == 0 && len(s.queue.heap) > 0 {
		e := s.queue.pop()
		if e.at > s.limit {
			s.fail(ErrTimeLimit)
			return nil
		}
		s.now = e.at
		if t := e.act.happen(s); t != nil {
			return t
		}
	}
	return nil
}

// unwindEnded unwinds the activities of processes that have ended.
func (s *Sim) unwindEnded() {
	for len(s.ended) > 0 {
		p := s.ended[0]
		s.ended = s.ended[1:]
		p.unwind()
	}
}

// shutdown ends the remaining activities without evidence. After an orderly run there are none.
func (s *Sim) shutdown() {
	for _, p := range s.procs {
		if p != nil {
			p.over = true
			p.unwind()
		}
	}
}

// fail stops the run. The first error counts.
func (s *Sim) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// push queues an action, never for the past.
func (s *Sim) push(at Picos, act action) {
	if at < never {
		s.queue.push(max(at, s.now), act)
	}
}

// present is the clock of the running process, or the instant of the last event.
func (s *Sim) present() Picos {
	if s.running != nil {
		return max(s.now, s.running.p.clock)
	}
	return s.now
}

// Now is the virtual time, in nanoseconds since the start of the run.
func (s *Sim) Now() fabric.Time { return s.present().time() }

// Events is the number of events queued so far.
func (s *Sim) Events() uint64 { return s.queue.seq }

// TraceHash is a digest of all events so far, kept also without a trace: equal for equal runs.
func (s *Sim) TraceHash() uint64 { return s.trace.hash }

// time rounds down to the contract's nanoseconds.
func (d Picos) time() fabric.Time { return fabric.Time(d / Nanosecond) }

// instant converts a time of the contract, saturating at never.
func instant(t fabric.Time) Picos {
	if t >= fabric.Time(never/Nanosecond) {
		return never
	}
	return Picos(t) * Nanosecond
}
