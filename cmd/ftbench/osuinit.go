package main

import (
	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// osuInitCmd measures a job's start-up.
type osuInitCmd struct {
	N         int  `short:"n" type:"ranks" default:"2" placeholder:"RANKS" help:"Number of ranks that are started. Default: ${default}."`
	Precision int  `default:"0" help:"Digits after the point; OSU prints whole milliseconds."`
	Aware     bool `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline that hangs when a peer dies."`
	fabricFlags
	JSON string `placeholder:"FILE" help:"Store the results and the environment; -: print them, and the line on standard error."`
}

func (osuInitCmd) Help() string {
	return `The time from the call of Init to the end of a first barrier: the least, the most and
the mean of the ranks, in the line that osu_init prints. OSU's own ends with Init; the
lines before have Init and the barrier apart. The start of the processes is not in it.
Started alone, the command starts its ranks itself; under ftbench run, mpiexec (MPICH)
or srun --mpi=pmi2 it joins the job.

Examples:
  ftbench osu init -n 64
  ftbench osu init -n 2 --precision 2 --json results/init.json
  mpiexec.mpich -n 8 bin/ftbench osu init`
}

// osuInitResults are the results in the JSON file.
type osuInitResults struct {
	Benchmark string `json:"benchmark"`
	Aware     bool   `json:"aware"`
	osu.StartUp
}

func (c *osuInitCmd) Run(to *call) error {
	switch {
	case c.simulated():
		return usagef("osu init: a simulated job has no start-up: use a real fabric")
	case join.Started(): // the job has its number of ranks
		return c.measure(to)
	case c.N < 1:
		return usagef("osu init: at least 1 rank is needed: start it with -n 2")
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	return startSelf(c.N, to)
}

// measure prints the times on rank 0 and writes the file.
func (c *osuInitCmd) measure(to *call) error {
	file := report.Begin("osu")
	w, s, err := osu.Start(append(c.options(), banyan.WithAware(c.Aware))...)
	if err != nil {
		return err
	}
	if w.Comm().Rank() == 0 {
		of := func(s osu.Spread) [3]float64 { return [3]float64{s.Min, s.Max, s.Mean} }
		if err := report.OSUInit(to.words(c.JSON).out, s.Ranks, c.Precision, of(s.Total), of(s.Init),
			of(s.Barrier)); err != nil {
			return err
		}
		if err := to.store(file, c.JSON, osuInitResults{"init", c.Aware, s}); err != nil {
			return err
		}
	}
	return w.Finalize()
}
