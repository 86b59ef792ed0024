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
	Launcher  *SimulatedLauncher   // nil: ranks have each other's addresses from the start
}

// DenseRanks is the number of simulated ranks up to which their engines have the tables of real ranks, of
// n/8 bytes each. It is a variable so that a test can show that more ranks do the same.
var DenseRanks = 4096

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
	job := &simulatedJob{c: c, body: body, size: n, perNode: cfg.Topology.ProcsPerNode,
		sparse: n > DenseRanks, errs: make([]error, n)}
	if s.Launcher != nil {
		job.server = newSimServer(*s.Launcher, machine, n)
	}
	for rank := range n {
		if err := machine.Spawn(proc.ID(rank), job.run); err != nil {
			return fmt.Errorf("banyan: %w", err)
		}
	}
	if s.Faults != nil {
		if err := s.Faults(machine); err != nil {
			return fmt.Errorf("banyan: %w", err)
		}
	}
	return errors.Join(append(job.errs, machine.Run())...)
}

// simulatedJob is shared by the ranks of a simulated job.
type simulatedJob struct {
	c       *config
	body    func(*Job) error
	size    int
	perNode int        // ranks on a node
	sparse  bool       // as in progress.Config
	server  *simServer // nil: there is no launcher
	errs    []error    // by rank; also the reason of a rank that has aborted the job
}

// run is the life of a rank. It has little on its stack while body runs.
func (s *simulatedJob) run(p *sim.Proc) {
	j, err := s.start(p)
	if err == nil {
		err = s.body(j)
	}
	if err != nil {
		s.failed(p, j, err)
	}
}

// start builds the stack of a rank.
func (s *simulatedJob) start(p *sim.Proc) (*Job, error) {
	provider := p.Provider()
	r := simulated{s, int(p.ID()), p}
	var boot bootstrap = r
	var lost []int
	if s.server != nil {
		joined, err := r.join(s.server, provider.Name())
		if err != nil {
			return nil, err
		}
		boot, lost = joined, joined.l.lost
	}
	j, err := newJob(boot, progress.Config{Host: p.Host(), Others: []fabric.Provider{provider}, Sparse: s.sparse}, s.c)
	if err != nil {
		return nil, err
	}
	j.reportLost(lost)
	return j, nil
}

// failed notes the error of a rank, which dies unless it has finalized. J is nil if it has not started.
func (s *simulatedJob) failed(p *sim.Proc, j *Job, err error) {
	at := &s.errs[p.ID()]
	*at = fmt.Errorf("rank %d: %w", p.ID(), err)
	if j != nil && !j.Finalizing() {
		p.Die(proc.Cause{Kind: proc.Exited, Code: 1})
	}
}

// simulated is the bootstrap of a simulated rank.
type simulated struct {
	*simulatedJob
	rank int
	proc *sim.Proc
}

func (s simulated) Rank() int { return s.rank }
func (s simulated) Size() int { return s.size }

// Node implements bootstrap: the simulated machine's.
func (s simulated) Node(rank int) int { return rank / s.perNode }

// Crowded implements bootstrap: each simulated rank has a core.
func (s simulated) Crowded() bool { return false }

// ByNode implements bootstrap: thousands of ranks in one process have no memory for the places of all others.
func (s simulated) ByNode() bool { return false }

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

// Lose implements bootstrap. A simulated rank that counts as failed ends itself after its sleep.
func (s simulated) Lose(int) {}

// Closing implements bootstrap.
func (s simulated) Closing() {}

// Expire implements bootstrap.
func (s simulated) Expire(why error) {
	s.errs[s.rank] = fmt.Errorf("rank %d ends itself: %w", s.rank, why)
	s.proc.Die(proc.Cause{Kind: proc.Exited, Code: ExitFenced})
}

// Abort implements bootstrap: the other ranks are killed, this one exits.
func (s simulated) Abort(code int, why string) {
	s.errs[s.rank] = errors.New(why)
	machine := s.proc.Sim()
	for rank := range s.size {
		if rank != s.rank {
			_ = machine.Kill(proc.ID(rank), 0) // fails for no id of the job
		}
	}
	s.proc.Die(proc.Cause{Kind: proc.Exited, Code: int32(code)})
}
