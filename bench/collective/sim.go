package collective

import (
	"context"
	"io"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/proc"
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
