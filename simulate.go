package banyan

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Simulation describes a simulated job. The zero value is a fault-aware job on
// one node with seed 0.
type Simulation struct {
	// Seed decides everything random: the same seed gives the same run.
	Seed uint64
	// Configure changes the simulated machine; nil leaves sim.DefaultConfig.
	Configure func(*sim.Config)
	// Faults arranges failures before the run: [Kill], [KillAtStep], [Disconnect], several with
	// [Faults]. nil: none.
	Faults Fault
	// Options are as for Init; the fabric is always the simulator.
	Options []Option
	// Launcher makes the ranks start and end as under a launcher. nil: they know each other from
	// the start, and Finalize does not wait for the other ranks.
	Launcher *SimulatedLauncher
}

// Fault arranges a failure in the simulated machine, before the run. A function of the application
// may use all of package sim, partitions of the network among them. Its error is that of [Simulate].
type Fault func(machine *sim.Sim) error

// Kill makes a rank die, as by SIGKILL, at a time after the start of the simulation. It has no
// effect on a rank that has ended by then.
func Kill(rank int, at time.Duration) Fault {
	return func(machine *sim.Sim) error {
		return faulty("kill", machine.Kill(proc.ID(rank), fabric.Time(at)))
	}
}

// KillAtStep makes a rank die in place of its n-th step, counted from 1; it has no effect on a rank
// that makes fewer. A step is a call of the rank to the simulated machine that can wait, send or
// observe, so a test that tries each n meets all states in which a rank can die.
func KillAtStep(rank int, n uint64) Fault {
	return func(machine *sim.Sim) error {
		return faulty("kill", machine.KillAtStep(proc.ID(rank), n))
	}
}

// Disconnect makes two ranks unable to reach each other from a time on. Both live, and reach the
// others.
func Disconnect(a, b int, at time.Duration) Fault {
	return func(machine *sim.Sim) error {
		return faulty("disconnect", machine.Disconnect(proc.ID(a), proc.ID(b), fabric.Time(at)))
	}
}

// Faults joins several faults.
func Faults(list ...Fault) Fault {
	return func(machine *sim.Sim) error {
		for _, f := range list {
			if err := f(machine); err != nil {
				return err
			}
		}
		return nil
	}
}

// faulty is the error of a fault that the machine refuses.
func faulty(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrArgument, what, err)
	}
	return err
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
