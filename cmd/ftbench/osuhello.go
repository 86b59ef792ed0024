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
	JSON string `placeholder:"FILE" help:"Store the number of ranks and the environment; -: print them, and the lines on standard error."`
}

// osuHelloResults are the results in the JSON file.
type osuHelloResults struct {
	Benchmark string `json:"benchmark"`
	Aware     bool   `json:"aware"`
	Ranks     int    `json:"ranks"`
}

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
	file := report.Begin("osu")
	hello := func(w *banyan.World) error {
		ranks := w.Comm().Size()
		if w.Comm().Rank() > 0 {
			return nil
		}
		if err := report.OSUHello(to.words(c.JSON).out, ranks); err != nil {
			return err
		}
		return to.store(file, c.JSON, osuHelloResults{"hello", c.Aware, ranks})
	}
	switch {
	case c.simulated():
		return usagef("osu hello: a simulated job has no start-up: use a real fabric")
	case join.Started(): // the job has its number of ranks
		return inJob(c.Aware, hello, c.options()...)
	case c.N < 1:
		return usagef("osu hello: at least 1 rank is needed: start it with -n 2")
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	return startSelf(c.N, to)
}
