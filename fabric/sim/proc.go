package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Proc is one simulated process. Its own activities alone call its methods, its host and its
// provider; the exceptions are Host.Ring and Parker.Unpark, which any activity may call, and
// Counters.
type Proc struct {
	sim   *Sim
	id    proc.ID
	clock Picos // time of its core; ahead of sim.now while it runs
	tasks []*task
	over  bool       // it has ended, or the run has
	cause proc.Cause // how it ended; Kind is Unknown until then
	core  core
	host  host
	end   endpoint

	deathStep uint64 // the step in place of which it dies; 0 for none
	count     Counters
}

// Counters counts the actions of a process. Sizes are bytes.
type Counters struct {
	Steps     uint64 // calls to the host and the provider that can wait, send or observe
	Sent      uint64 // frames taken by TrySend
	SentBytes uint64 // their payloads
	Refused   uint64 // frames refused by TrySend
	Delivered uint64 // frames delivered to a sink's function
	Dropped   uint64 // frames that arrived without a listener
}

func newProc(s *Sim, id proc.ID) *Proc {
	p := &Proc{sim: s, id: id}
	p.core.p = p
	p.host.p = p
	p.end.p = p
	return p
}

// ID is the process's identity.
func (p *Proc) ID() proc.ID { return p.id }

// Host is the process's clock and scheduler.
func (p *Proc) Host() fabric.Host { return &p.host }

// Provider is the process's endpoint on the simulated network.
func (p *Proc) Provider() fabric.Provider { return &p.end }

// Sim is the simulation of the process, by which its body can inject faults.
func (p *Proc) Sim() *Sim { return p.sim }

// Counters returns the counts so far.
func (p *Proc) Counters() Counters { return p.count }

// Rand makes a source of random numbers that depends on the seed and the process alone: the same at
// each call.
func (p *Proc) Rand() *rand.Rand { return newRand(p.sim.cfg.Seed, uint64(p.id)) }

// Compute keeps the core busy for d, as application code would; at most for 10^6 seconds.
func (p *Proc) Compute(d Picos) {
	p.step()
	p.clock += min(max(d, 0), maxLength)
	p.settle()
}

// Die ends the process at once, as exit(2) or a signal would, with that cause for its peers. It
// does not return.
//
// Preconditions: cause.Failed().
func (p *Proc) Die(cause proc.Cause) {
	p.step()
	p.settle()
	p.die(cause)
	panic(unwound{})
}

// step opens every call that can wait, send or observe. It counts, and applies limits and deaths at
// a step.
func (p *Proc) step() {
	if p.over {
		panic(unwound{})
	}
	s := p.sim
	if s.running == nil || s.running.p != p {
		panic(fmt.Sprintf("sim: host or provider of %v called by another process", p.id))
	}
	p.count.Steps++
	s.steps++
	if p.count.Steps == p.deathStep {
		p.settle()
		p.die(killed)
		panic(unwound{})
	}
	if s.steps > s.cfg.MaxSteps {
		s.fail(ErrStepLimit)
		s.running.block(forTurn)
	}
}

// settle lets every event happen that is earlier than the process's own clock, or at the same
// instant and was queued earlier.
func (p *Proc) settle() {
	s := p.sim
	if p.clock < s.queue.soonest() && p.clock <= s.limit {
		s.now = p.clock
		return
	}
	t := s.running
	p.core.queue(t)
	t.block(forTurn)
}

// forget removes a finished activity from the list.
func (p *Proc) forget(t *task) {
	if i := slices.Index(p.tasks, t); i >= 0 {
		p.tasks = slices.Delete(p.tasks, i, i+1)
	}
}

// unwind ends the activities of a process that is over. One that has never run does not start.
func (p *Proc) unwind() {
	for len(p.tasks) > 0 {
		t := p.tasks[len(p.tasks)-1]
		p.tasks = p.tasks[:len(p.tasks)-1]
		t.stop()
	}
}
