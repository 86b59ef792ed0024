package main

import (
	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// osuHelloCmd starts a job that does nothing else.
type osuHelloCmd struct {
	N     int  `short:"n" type:"ranks" default:"2" placeholder:"RANKS" help:"Number of ranks that are started. Default: ${default}."`
	Aware bool `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline that hangs when a peer dies."`
	fabricFlags
}

// Help has the examples.
func (osuHelloCmd) Help() string {
	return `All ranks join the job, rank 0 says how many there are, and all leave, as osu_hello does: time the
whole command to compare start-up and end. osu init measures the start-up itself.

Examples:
  ftbench osu hello -n 16
  ftbench osu hello --fabric tcp
  mpiexec.mpich -n 8 bin/ftbench osu hello`
}

// Run starts the ranks, or is one of them.
func (c *osuHelloCmd) Run(to *call) error {
	hello := func(w *banyan.World) error {
		if w.Comm().Rank() > 0 {
			return nil
		}
		return report.OSUHello(to.out, w.Comm().Size())
	}
	switch {
	case c.simulated():
		return usagef("osu hello: a simulated job has no start-up: use a real fabric")
	case join.Started(): // the job has its number of ranks
		return inJob(c.Aware, hello, c.options()...)
	case c.N < 1:
		return usagef("osu hello: at least 1 rank is needed: start it with -n 2")
	}
	return startSelf(c.N, to)
}
