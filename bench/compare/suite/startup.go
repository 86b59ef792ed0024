package suite

import (
	"context"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// startupRun is a launcher that starts a job for each sample.
type startupRun struct {
	name    string
	command func(n int, file string) peers.Command
}

// theMPIs are those that are compared with by runs of programs.
var theMPIs = []peers.MPI{peers.OpenMPI, peers.MPICH}

// addStartups finds the launchers.
func (c *Comparison) addStartups(ctx context.Context) error {
	c.startups = append(c.startups, startupRun{ours, func(n int, file string) peers.Command {
		return c.ourJob(startupRank).command(n, []string{file})
	}})
	for _, m := range theMPIs {
		command, err := m.Startup(ctx)
		if err := c.present(ctx, starterName(m), err); err != nil {
			return err
		}
		if command != nil {
			c.startups = append(c.startups, startupRun{m.Name, command})
		}
	}
	for _, run := range c.startups {
		c.commands["startup "+run.name] = commandLine(run.command(startupRanks, "FILE"))
	}
	return nil
}

// starterName is under which a launcher that lacks is told.
func starterName(m peers.MPI) string { return m.Name + " start" }

func commandLine(c peers.Command) string { return strings.Join(append(c.Env, c.Argv...), " ") }

// startupRanks is the number of ranks that the bound speaks of.
const startupRanks = 64

// startupSweep is B3-7. The time begins before the launcher is started, and ends
// when the last rank has passed a first barrier; for information, when the
// launcher has ended.
func (c *Comparison) startupSweep(n int) *compare.Sweep {
	part := compare.Part{Points: []compare.Point{{X: 1, Label: "barrier passed"}, {X: 2, Label: "launcher ended"}}}
	for _, run := range c.startups {
		part.Sources = append(part.Sources, compare.SweepSource{Name: run.name, Sample: func(ctx context.Context) ([]float64, error) {
			passed, ended, err := peers.TimeStartup(ctx, n, run.command)
			return []float64{passed.Seconds(), ended.Seconds()}, err
		}})
		if run.name == ours {
			continue
		}
		first := compare.Bound{Over: run.name, Ratio: compare.OfTimes}
		if n == startupRanks {
			first.ID = "B3-7"
		}
		if run.name == openmpi {
			first.Limit = 1
		}
		part.Points[0].Bounds = append(part.Points[0].Bounds, first)
		part.Points[1].Bounds = append(part.Points[1].Bounds, compare.Bound{Over: run.name, Ratio: compare.OfTimes})
	}
	return &compare.Sweep{
		Name: "startup", Title: fmt.Sprintf("start of %d ranks, from the launcher's start", n), Label: "until", Precision: precisionStart,
		Parts: []compare.Part{part},
	}
}
