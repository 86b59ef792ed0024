package collective

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// Simulated starts a job in the simulator, all of whose times are virtual. Configure changes the simulated machine; nil
// leaves sim.DefaultConfig. A context that ends does not end it.
func Simulated(o Options, seed uint64, configure func(*sim.Config)) ranks.Start {
	return func(_ context.Context, n int, _ func(int) bool, out io.Writer) error {
		var machine *sim.Sim
		return banyan.Simulate(n, banyan.Simulation{
			Seed: seed, Configure: configure,
			Faults: func(m *sim.Sim) error { machine = m; return nil },
		}, func(w *banyan.World) error {
			return rank(w, o, out, func() error {
				err := machine.Kill(proc.ID(w.Comm().Rank()), 0)
				w.Sleep(time.Second) // it ends when it lets others run
				return err
			})
		})
	}
}

// SimulatedUnknown starts a job of MeasureUnknown with that first line in the simulator, all of whose times are virtual. The detector runs as it does
// among processes, with its usual period and timeout, since else only who talks to the dead would learn of it. Configure is as of Simulated.
func SimulatedUnknown(o Options, first int, seed uint64, configure func(*sim.Config)) ranks.Start {
	return func(_ context.Context, n int, _ func(int) bool, out io.Writer) error {
		var machine *sim.Sim
		r := rand.New(rand.NewPCG(seed, 0)) // one rank runs at a time
		period, timeout := settings.Of(settings.DetectPeriod).Default, settings.Of(settings.DetectTimeout).Default
		return banyan.Simulate(n, banyan.Simulation{
			Seed: seed, Configure: configure,
			Faults:  func(m *sim.Sim) error { machine = m; return nil },
			Options: []banyan.Option{banyan.WithDetection(time.Duration(period)*time.Millisecond, time.Duration(timeout)*time.Millisecond)},
		}, func(w *banyan.World) error {
			return rankUnknown(w, o, first, out, fate{
				clock: func() (int64, error) { return int64(w.Now()), nil },
				die: func(note func(int64) error) {
					at := w.Now() + time.Duration(r.Int64N(int64(soon)))
					if err := errors.Join(note(int64(at)), machine.Kill(proc.ID(w.Comm().Rank()), fabric.Time(at))); err != nil {
						w.Abort(1, err)
					}
				},
			})
		})
	}
}
