package fault

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// simulated returns a function that runs a job in the simulator; all its times are virtual. The
// context does not end such a job.
func simulated(seed uint64, configure func(*sim.Config), rank func(*banyan.World, *sim.Sim, io.Writer) error,
	opts ...banyan.Option) Start {
	return func(_ context.Context, n int, _ func(int) bool, out io.Writer) error {
		var machine *sim.Sim
		return banyan.Simulate(n, banyan.Simulation{
			Seed: seed, Configure: configure, Options: opts,
			Faults: func(m *sim.Sim) error { machine = m; return nil },
		}, func(w *banyan.World) error { return rank(w, machine, out) })
	}
}

// Simulated starts a job of [Collective.Measure] in the simulator. configure changes the simulated
// machine; nil leaves sim.DefaultConfig.
func (o Collective) Simulated(seed uint64, configure func(*sim.Config)) Start {
	var once sync.Once
	var shared *survivors
	who := func(checked Collective) *survivors {
		once.Do(func() { shared = checked.survivors() })
		return shared
	}
	return simulated(seed, configure, func(w *banyan.World, m *sim.Sim, out io.Writer) error {
		return o.rank(w, out, who, func() error {
			err := m.Kill(proc.ID(w.Comm().Rank()), 0)
			w.Sleep(time.Second) // the rank ends when it yields to others
			return err
		})
	})
}

// SimulatedUnknown starts a job of [Collective.MeasureUnknown] with that first line in the simulator.
// The detector runs with its default period and timeout: otherwise only the ranks that communicate
// with a failed rank would notice.
func (o Collective) SimulatedUnknown(first int, seed uint64, configure func(*sim.Config)) Start {
	r := rand.New(rand.NewPCG(seed, 0)) // one rank runs at a time
	ms := func(id settings.ID) time.Duration { return time.Duration(settings.Of(id).Default) * time.Millisecond }
	detection := banyan.WithDetection(ms(settings.DetectPeriod), ms(settings.DetectTimeout))
	return simulated(seed, configure, func(w *banyan.World, m *sim.Sim, out io.Writer) error {
		return o.rankUnknown(w, first, out, dying{
			clock: func() (int64, error) { return int64(w.Now()), nil },
			die: func(within time.Duration, note func(int64) error) {
				at := w.Now() + time.Duration(r.Int64N(int64(within)))
				if err := errors.Join(note(int64(at)), m.Kill(proc.ID(w.Comm().Rank()), fabric.Time(at))); err != nil {
					w.Abort(1, err)
				}
			},
		})
	}, detection)
}
