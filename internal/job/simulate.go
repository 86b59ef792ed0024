package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Simulation describes a simulated job.
type Simulation struct {
	Seed      uint64
	Configure func(*sim.Config)    // may be nil
	Faults    func(*sim.Sim) error // may be nil
	Launcher  *SimulatedLauncher   // nil: ranks know each other from the start
	Sparse    bool                 // engines are as in a job of more than denseRanks ranks
}

// denseRanks is the number of simulated ranks up to which their engines have the tables of real ranks, of
// n/8 bytes each.
const denseRanks = 4096

// Simulate runs body as each of n ranks. Body finalizes its rank; if it returns an error without
// having done so the rank has failed. The error joins those of the ranks and the simulator's.
func Simulate(n int, s Simulation, o *Options, body func(*Job) error) error {
	if n < 1 || n > proc.MaxIDs {
		return fmt.Errorf("banyan: %w: %d ranks, want 1 … %d", ft.ErrArgument, n, proc.MaxIDs)
	}
	c, err := o.configureSimulated()
	if err != nil {
		return fmt.Errorf("banyan: %w", err)
	}
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
			boot := simulated{rank: rank, proc: p, size: n, perNode: cfg.Topology.ProcsPerNode, aborted: &errs[rank],
				sparse: s.Sparse || n > denseRanks}
			if err := boot.run(server, c, body); err != nil {
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

// run is the life of a rank; without a server it has no launcher.
func (s simulated) run(server *simServer, c *config, body func(*Job) error) error {
	provider := s.proc.Provider()
	var boot bootstrap = s
	var lost []int
	if server != nil {
		joined, err := s.join(server, provider.Name())
		if err != nil {
			return err
		}
		boot, lost = joined, joined.l.lost
	}
	j, err := newJob(boot, progress.Config{
		Host: s.proc.Host(), Others: []fabric.Provider{provider}, Sparse: s.sparse,
	}, c)
	if err != nil {
		return err
	}
	j.reportLost(lost)
	err = body(j)
	if err != nil && !j.Finalizing() {
		*s.aborted = fmt.Errorf("rank %d: %w", s.rank, err)
		s.proc.Die(proc.Cause{Kind: proc.Exited, Code: 1})
	}
	return err
}

// simulated is the bootstrap of a simulated rank.
type simulated struct {
	rank, size int
	perNode    int // ranks on a node
	sparse     bool
	proc       *sim.Proc
	aborted    *error // the reason of a rank that has aborted the job
}

func (s simulated) Rank() int { return s.rank }
func (s simulated) Size() int { return s.size }

// Node implements bootstrap: the simulated machine's.
func (s simulated) Node(rank int) int { return rank / s.perNode }

// Crowded implements bootstrap: each simulated rank has a core.
func (s simulated) Crowded() bool { return false }

// Verdicts implements bootstrap: there is nothing to choose.
func (s simulated) Verdicts(proc.ID) ([]route.Verdict, error) { return nil, nil }

// Address implements bootstrap.
func (s simulated) Address(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil }

// Fence implements bootstrap: a simulated rank does not wait for the others.
func (s simulated) Fence(context.Context) error { return nil }

// SparesDead implements bootstrap.
func (s simulated) SparesDead() bool { return true }

// Finalize implements bootstrap.
func (s simulated) Finalize(context.Context) error { return nil }

// Warn implements bootstrap. A simulation has no user to warn.
func (s simulated) Warn(string) {}

// Closing implements bootstrap.
func (s simulated) Closing() {}

// Expire implements bootstrap.
func (s simulated) Expire(why error) {
	*s.aborted = fmt.Errorf("rank %d ends itself: %w", s.rank, why)
	s.proc.Die(proc.Cause{Kind: proc.Exited, Code: ExitFenced})
}

// Abort implements bootstrap: the other ranks are killed, this one exits.
func (s simulated) Abort(code int, why string) {
	*s.aborted = errors.New(why)
	machine := s.proc.Sim()
	for rank := range s.size {
		if rank != s.rank {
			_ = machine.Kill(proc.ID(rank), 0) // fails for no id of the job
		}
	}
	s.proc.Die(proc.Cause{Kind: proc.Exited, Code: int32(code)})
}
