package banyan

import (
	"context"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Simulation describes a simulated job. The zero value is a fault-aware job on
// one node with seed 0.
type Simulation struct {
	// Seed decides all that is random: the same seed gives the same run.
	Seed uint64
	// Configure changes the simulated machine; nil leaves sim.DefaultConfig.
	Configure func(*sim.Config)
	// Faults arranges deaths and partitions before the run; may be nil.
	Faults func(*sim.Sim) error
	// Options are as for Init; the fabric is always the simulator.
	Options []Option
	// Launcher has the ranks start and end as under a launcher. nil: they know each other from the
	// start, and Finalize does not wait for the other ranks.
	Launcher *SimulatedLauncher
}

// Simulate runs body as each of n ranks of a job in virtual time, all in this
// process and one at a time, on the same engine as a real job. As under [Run] a rank finalizes
// when its body returns nil, and has failed when it returns an error. Finalize waits for the other ranks only with Simulation.Launcher.
//
// The error joins those of the bodies, each with its rank, and the simulator's
// own: a deadlock, a panic in a body, a wrong configuration. A rank that was
// killed has no error; one that aborted the job, or that the failure detector ended
// ([WithDetection]), has its reason.
func Simulate(n int, s Simulation, body func(*World) error) error {
	o, err := gather(s.Options)
	if err != nil {
		return fmt.Errorf("banyan: %w", err)
	}
	if body == nil {
		return fmt.Errorf("banyan: %w: nil for the body", ErrArgument)
	}
	if n < 1 || n > proc.MaxIDs {
		return fmt.Errorf("banyan: %w: %d ranks, want 1 … %d", ErrArgument, n, proc.MaxIDs)
	}
	if err := o.applyDetection(); err != nil {
		return fmt.Errorf("banyan: %w", err)
	}
	o.fatal = o.errors == deadly
	cfg := sim.DefaultConfig(n)
	cfg.Seed = s.Seed
	if s.Configure != nil {
		s.Configure(&cfg)
	}
	machine, err := sim.New(cfg)
	if err != nil {
		return fmt.Errorf("banyan: %w", err)
	}
	errs := make([]error, n)
	var server *simServer
	if s.Launcher != nil {
		server = newSimServer(*s.Launcher, machine, n)
	}
	for rank := range n {
		err := machine.Spawn(proc.ID(rank), func(p *sim.Proc) {
			job := bench{rank: rank, proc: p, size: n, perNode: cfg.Topology.ProcsPerNode, aborted: &errs[rank]}
			if err := simulated(job, server, &o, body); err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
		if err != nil {
			return fmt.Errorf("banyan: %w", err)
		}
	}
	if s.Faults != nil {
		if err := s.Faults(machine); err != nil {
			return fmt.Errorf("banyan: %w", err)
		}
	}
	return errors.Join(append(errs, machine.Run())...)
}

// simulated is the life of a rank; without a server it has no launcher.
func simulated(b bench, server *simServer, o *options, body func(*World) error) error {
	provider := b.proc.Provider()
	var job bootstrap = b
	var lost []join.Lost
	if server != nil {
		joined, err := b.join(server, provider.Name())
		if err != nil {
			return err
		}
		job, lost = joined, joined.l.lost
	}
	cfg := progress.Config{Host: b.proc.Host(), Others: []fabric.Provider{provider}}
	w, err := newWorld(job, cfg, o)
	if err != nil {
		return err
	}
	mourn(w.progress, lost)
	if err := body(w); err != nil {
		if !w.ended.Load() {
			*b.aborted = fmt.Errorf("rank %d: %w", b.rank, err)
			b.proc.Die(proc.Cause{Kind: proc.Exited, Code: 1})
		}
		return err
	}
	return w.Finalize()
}

// bench is the bootstrap of a simulated rank.
type bench struct {
	rank, size int
	perNode    int // ranks on a node
	proc       *sim.Proc
	aborted    *error // what the rank that has aborted the job says
}

func (b bench) Rank() int { return b.rank }
func (b bench) Size() int { return b.size }

// Node implements bootstrap: the simulated machine's.
func (b bench) Node(rank int) int { return rank / b.perNode }

// Crowded implements bootstrap: each simulated rank has a core.
func (b bench) Crowded() bool { return false }

// Verdicts implements bootstrap: there is nothing to choose.
func (b bench) Verdicts(proc.ID) ([]route.Verdict, error) { return nil, nil }

// Address implements bootstrap.
func (b bench) Address(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil }

// Fence implements bootstrap: a simulated rank does not wait for the others.
func (b bench) Fence(context.Context) error { return nil }

// SparesDead implements bootstrap.
func (b bench) SparesDead() bool { return true }

// Finalize implements bootstrap.
func (b bench) Finalize(context.Context) error { return nil }

// Warn implements bootstrap. Nothing that a simulation does is to be warned of.
func (b bench) Warn(string) {}

// Expire implements bootstrap.
func (b bench) Expire(why error) {
	*b.aborted = fmt.Errorf("rank %d ends itself: %w", b.rank, why)
	b.proc.Die(proc.Cause{Kind: proc.Exited, Code: ExitExpelled})
}

// Abort implements bootstrap: the other ranks are killed, this one exits.
func (b bench) Abort(code int, why string) {
	*b.aborted = errors.New(why)
	machine := b.proc.Sim()
	for rank := range b.size {
		if rank != b.rank {
			_ = machine.Kill(proc.ID(rank), 0) // fails for no id of the job
		}
	}
	b.proc.Die(proc.Cause{Kind: proc.Exited, Code: int32(code)})
}
