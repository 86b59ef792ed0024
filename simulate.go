package banyan

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/job"
)

// Simulation describes a simulated job. The zero value is a fault-aware job on
// one node with seed 0.
type Simulation struct {
	// Seed decides everything random: the same seed gives the same run.
	Seed uint64
	// Configure changes the simulated machine; nil leaves sim.DefaultConfig.
	Configure func(*sim.Config)
	// Faults arranges failures and partitions before the run; may be nil.
	Faults func(*sim.Sim) error
	// Options are as for Init; the fabric is always the simulator.
	Options []Option
	// Launcher makes the ranks start and end as under a launcher. nil: they know each other from
	// the start, and Finalize does not wait for the other ranks.
	Launcher *SimulatedLauncher
}

// Simulate runs body as each of n ranks of a job in virtual time, all in this process and one at a
// time, on the same engine as a real job. As under [Run] a rank finalizes when its body returns
// nil, and has failed when it returns an error. Finalize waits for the other ranks only with
// Simulation.Launcher.
//
// The error joins those of the bodies, each with its rank, and the simulator's own: a deadlock, a
// panic in a body, a wrong configuration. A rank that was killed has no error; one that aborted the
// job, or that the failure detector ended ([WithDetection]), has its reason.
func Simulate(n int, s Simulation, body func(*World) error) error {
	o, err := gather(s.Options)
	if err != nil {
		return fmt.Errorf("banyan: %w", err)
	}
	if body == nil {
		return fmt.Errorf("banyan: %w: nil for the body", ErrArgument)
	}
	simulation := job.Simulation{Seed: s.Seed, Configure: s.Configure, Faults: s.Faults}
	if l := s.Launcher; l != nil {
		simulation.Launcher = &job.SimulatedLauncher{Latency: l.Latency, Strict: l.Strict, Late: l.Late}
	}
	return job.Simulate(n, simulation, &o.Options, func(j *job.Job) error {
		w := newWorld(j)
		if err := body(w); err != nil {
			return err
		}
		return w.Finalize()
	})
}

// SimulatedLauncher makes the ranks of a simulation start and end as under a launcher: with the
// fences of Init and of Finalize, and with a request to the launcher before the first contact with
// a rank. The zero value is like ftbench run, with requests that take no time.
type SimulatedLauncher struct {
	// Latency is the time from a request to its reply.
	Latency time.Duration
	// Strict is like Hydra and Slurm: a rank in a fence gets no answers, and a fence waits for
	// failed ranks too.
	Strict bool
	// Late, if set, is the extra delay before a rank enters the fence of that number: 0 … 2 in
	// Init, 3 in Finalize.
	Late func(rank, fence int) time.Duration
}
