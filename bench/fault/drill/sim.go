package drill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// simHost is the host of a simulated rank.
type simHost struct {
	w *banyan.World
	m *sim.Sim
}

// die implements host.
func (h simHost) die(after time.Duration) {
	killAt(h.m, h.w.Comm().Rank(), after/timeScale)
	if after == 0 {
		h.w.Sleep(time.Second) // the rank ends when it yields to others
	}
}

// killAt kills a rank at a time from now on.
func killAt(m *sim.Sim, rank int, after time.Duration) {
	if err := m.Kill(proc.ID(rank), m.Now()+fabric.Time(after)); err != nil {
		panic(err) // the rank is of this job
	}
}

// deadline implements host.
func (h simHost) deadline(parent context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	return virtualDeadline{parent, h.w, h.w.Now() + after}, func() {}
}

// virtualDeadline is a context that ends at a virtual time. Waits in a simulation look at Err.
type virtualDeadline struct {
	context.Context
	w  *banyan.World
	at time.Duration
}

func (d virtualDeadline) Err() error {
	if d.w.Now() >= d.at {
		return context.DeadlineExceeded
	}
	return d.Context.Err()
}

// The simulated failure detector, and how long a run may take in virtual time, apart from sleep.
const (
	simPeriod  = 200 * time.Millisecond
	simTimeout = time.Second
	simMost    = 60 * time.Second
)

// Simulate carries out the run of a seed in the simulator, with the same rules as for processes. The
// same seed gives the same run. k is the operation of the first death, as of [Driver.Aim]; noKind draws
// it. The Config's fabrics decide nothing. A finding has the smallest plan that still fails.
func (d *Driver) Simulate(seed uint64, k Kind) error {
	if err := d.Check(); err != nil {
		return err
	}
	return d.simulateSmallest(newPlan(script{Config: d.Config, Seed: seed, Aim: k}))
}

// simulateSmallest carries out a plan, and finds the smallest part of it that fails if it does.
func (d *Driver) simulateSmallest(p *plan) error {
	err := d.simulate(p)
	if err != nil {
		var attempts Driver // which are no runs of the report
		p = p.smaller(func(q *plan) bool { return attempts.simulate(q) != nil })
		err = errors.Join(err, fmt.Errorf("the smallest plan that fails: %w", attempts.simulate(p)))
	}
	return err
}

// simulate carries out a plan.
func (d *Driver) simulate(p *plan) error {
	tr := memoryTrace(p.n)
	var machine *sim.Sim
	words := newReader(p)
	words.kill = func(rank, _ int, after time.Duration) error { killAt(machine, rank, after); return nil }
	live, stop := context.WithCancel(context.Background())
	defer stop()
	err := banyan.Simulate(p.n, p.simulation(&machine), func(w *banyan.World) error {
		r := newRank(p, w, simHost{w, machine}, tr, live, words)
		// Simulate finalizes when this function has returned.
		if err := r.life(func() error { return nil }); err != nil {
			return err
		}
		return r.farewellReport()
	})
	ends := make([]rankEnd, p.n)
	var missing *join.MissingError
	if errors.As(err, &missing) {
		if err = p.missing(err); errors.Is(err, ErrMissing) {
			err = nil
		}
	}
	for rank := range ends {
		cause, ended := machine.Ended(proc.ID(rank))
		killed := ended && cause.Kind == proc.Signaled
		ends[rank] = rankEnd{text: fmt.Sprint(cause), killed: killed, missing: missing != nil}
	}
	return d.finish(p, tr, ends, words, err, func() error { return nil })
}

// timeScale is how much shorter operations are in virtual time than in processes.
const timeScale = 16

// simulation is the simulated machine of a run: its nodes, the time until a death is known, the loss of
// frames at a death, the launcher, and the detector, without which few ranks learn of a death.
func (p *plan) simulation(machine **sim.Sim) banyan.Simulation {
	r := rand.New(rand.NewPCG(p.Seed, 3))
	perNode, slow, loss := 1+r.IntN(4), sim.Picos(1+r.IntN(1000))*sim.Microsecond, 0.0
	if p.lossy = r.IntN(2) == 0; p.lossy {
		loss = r.Float64()
	}
	launcher := &banyan.SimulatedLauncher{
		Latency: time.Duration(r.IntN(1 << r.IntN(25))), Strict: r.IntN(4) == 0 && !p.diesAtStart(),
		Late: func(rank, fence int) time.Duration {
			if fence == 0 {
				return p.nap(rank, -1)
			}
			return 0
		},
	}
	for rank, d := range p.doomed {
		// Each has its own source, so that a smaller plan has the same deaths.
		s := rand.New(rand.NewPCG(p.Seed, 4+uint64(rank)))
		if d.byTimer() && !launcher.Strict && s.IntN(2) == 0 {
			d.step = 1 + s.Uint64N(1<<(4+s.IntN(10)))
			p.doomed[rank] = d
		}
	}
	options := []banyan.Option{banyan.WithProfile(p.profile), banyan.WithErrorsFatal(false)}
	if r.IntN(2) == 0 || launcher.Strict || len(p.naps) > 0 {
		options = append(options, banyan.WithDetection(simPeriod, simTimeout))
	}
	return banyan.Simulation{
		Seed: p.Seed, Options: options, Launcher: launcher,
		Configure: func(c *sim.Config) {
			c.Topology.ProcsPerNode, c.LossAtDeath = perNode, loss
			c.Detection.Max, c.Detection.Min = slow, min(c.Detection.Min, slow)
			c.MaxTime = fabric.Time(simMost + 1000*launcher.Latency + p.sleep())
		},
		Faults: func(m *sim.Sim) error {
			*machine = m
			for _, rank := range slices.Sorted(maps.Keys(p.doomed)) {
				switch d := p.doomed[rank]; {
				case d.first:
					killAt(m, rank, d.delay/timeScale)
				case d.step > 0:
					if err := m.KillAtStep(proc.ID(rank), d.step); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}
