package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/launch"
)

type osuCmd struct {
	Latency latencyCmd   `cmd:"" help:"One-way time of a ping-pong."`
	Bw      bandwidthCmd `cmd:"" help:"Throughput of windows of messages."`
}

// osuOptions are common to both. The letters are those of OSU.
type osuOptions struct {
	N          int           `short:"n" default:"2" help:"Number of ranks that are started; these benchmarks need 2."`
	Sizes      string        `short:"m" placeholder:"[MIN:]MAX" help:"Sizes in bytes; MIN: and :MAX are possible. Default 1:4194304."`
	Iterations *int          `short:"i" placeholder:"N" help:"Iterations per size. Default: as OSU, fewer above 8 KiB."`
	Warmup     *int          `short:"x" placeholder:"N" help:"Iterations before the clock starts. Default: as OSU."`
	MinTime    time.Duration `help:"Raise the iterations until a size takes so long. Default: do not."`
	Validate   bool          `short:"c" help:"Check every byte, in a pass of its own."`
	Tail       bool          `short:"z" help:"Add columns with the 50th, 90th and 99th percentile, from a pass of their own."`
	Precision  int           `default:"2" help:"Digits after the point; OSU prints 2."`
	Fabric     string        `enum:"shm,sim" default:"shm" help:"${enum}. sim: simulated network, virtual time, both ranks in this process."`
	Aware      bool          `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline that hangs when a peer dies."`
	JSON       string        `placeholder:"FILE" help:"Store the results and the environment."`
}

type latencyCmd struct {
	osuOptions
}

type bandwidthCmd struct {
	osuOptions
	Window int `short:"W" default:"64" help:"Messages in flight."`
}

const osuExamples = `The table is in the format of the OSU micro-benchmarks. Started alone, the command
starts two ranks, each bound to a core; under ftbench run, mpiexec (MPICH) or
srun --mpi=pmi2, and where RANK and WORLD_SIZE are set, it joins the job.

Examples:
  ftbench osu %[1]s
  ftbench osu %[1]s -m 8:8 -i 1000000 -z --precision 3
  ftbench osu %[1]s --aware=false --json results/unaware.json
  ftbench osu %[1]s --fabric sim -m 1024
  mpiexec.mpich -n 2 bin/ftbench osu %[1]s`

// Help has the examples.
func (latencyCmd) Help() string { return fmt.Sprintf(osuExamples, "latency") }

// Help has the examples.
func (bandwidthCmd) Help() string { return fmt.Sprintf(osuExamples, "bw") }

// Run measures latency.
func (c *latencyCmd) Run(to *call) error {
	b := osuBench{
		name: "latency", sweep: osu.Latency, table: report.OSULatency,
		value: osu.Point.Micros, tail: func(p osu.Point, i int) float64 { return 1e6 * p.Percentiles[i] },
	}
	return c.run(b, osu.LatencyDefaults(), to)
}

// Run measures bandwidth.
func (c *bandwidthCmd) Run(to *call) error {
	o := osu.BandwidthDefaults()
	o.Window = c.Window
	b := osuBench{
		name: "bw", sweep: osu.Bandwidth, table: report.OSUBandwidth,
		value: osu.Point.MBps, tail: osu.Point.MBpsAt,
	}
	return c.run(b, o, to)
}

// osuBench is what differs between the two.
type osuBench struct {
	name  string
	sweep func(*banyan.World, osu.Options, func(osu.Point) error) error
	table report.OSUKind
	value func(osu.Point) float64
	tail  func(osu.Point, int) float64
}

// osuResults are the results in the JSON file.
type osuResults struct {
	Benchmark string      `json:"benchmark"`
	Fabric    string      `json:"fabric"`
	Aware     bool        `json:"aware"`
	Options   osu.Options `json:"options"`
	Points    []osu.Point `json:"points"`
}

func (c *osuOptions) run(b osuBench, o osu.Options, to *call) error {
	if err := c.apply(&o); err != nil {
		return err
	}
	if c.N != 2 {
		return fmt.Errorf("osu %s: %d ranks, exactly 2 are needed: leave out -n", b.name, c.N)
	}
	measure := func(w *banyan.World) error { return c.measure(w, b, o, to) }
	switch {
	case c.Fabric == "sim":
		return banyan.Simulate(c.N, banyan.Simulation{Options: []banyan.Option{banyan.WithAware(c.Aware)}}, measure)
	case !launch.Started():
		return startSelf(c.N, to)
	}
	return inJob(c.Aware, measure)
}

// apply sets the options that were given.
func (c *osuOptions) apply(o *osu.Options) error {
	if err := parseSizes(c.Sizes, &o.Min, &o.Max); err != nil {
		return err
	}
	if c.Iterations != nil {
		o.Iterations, o.IterationsLarge = *c.Iterations, *c.Iterations
	}
	if c.Warmup != nil {
		o.Warmup, o.WarmupLarge = *c.Warmup, *c.Warmup
	}
	o.Validate, o.MinTime = c.Validate, c.MinTime
	if c.Tail {
		o.Percentiles = []int{50, 90, 99}
	}
	return o.Check()
}

// parseSizes reads OSU's -m: MAX, MIN:MAX, MIN: or :MAX.
func parseSizes(text string, smallest, largest *int) error {
	low, high, ok := strings.Cut(text, ":")
	if !ok {
		low, high = "", text
	}
	for _, part := range []struct {
		text string
		to   *int
	}{{low, smallest}, {high, largest}} {
		if part.text == "" {
			continue
		}
		n, err := strconv.Atoi(part.text)
		if err != nil || n < 0 {
			return fmt.Errorf("-m %s: %q is no number of bytes: [MIN:]MAX is needed", text, part.text)
		}
		*part.to = n
	}
	return nil
}

// measure prints the table on rank 0 and writes the file.
func (c *osuOptions) measure(w *banyan.World, b osuBench, o osu.Options, to *call) error {
	first := w.Comm().Rank() == 0
	t := report.OSUTable{W: to.out, Kind: b.table, Decimals: c.Precision, Validated: o.Validate, Percentiles: o.Percentiles}
	if first {
		if err := t.Header(); err != nil {
			return err
		}
	}
	file := report.Begin("osu")
	results := osuResults{Benchmark: b.name, Fabric: c.Fabric, Aware: c.Aware, Options: o}
	err := b.sweep(w, o, func(p osu.Point) error {
		results.Points = append(results.Points, p)
		row := report.OSURow{Size: p.Size, Value: b.value(p), Errors: p.Errors}
		for i := range p.Percentiles {
			row.Tail = append(row.Tail, b.tail(p, i))
		}
		return t.Row(row)
	})
	if err != nil || !first || c.JSON == "" {
		return err
	}
	return file.Write(c.JSON, results)
}

// inJob joins the job, measures and leaves.
func inJob(aware bool, measure func(*banyan.World) error) error {
	w, err := banyan.Init(banyan.WithAware(aware))
	if err != nil {
		return err
	}
	if err := measure(w); err != nil {
		return err // without finalizing: the other rank learns that this one failed
	}
	return w.Finalize()
}

// startSelf starts this binary as n ranks with the arguments of the call, bound
// to cores where there are enough.
func startSelf(n int, to *call) error {
	self, err := selfPath()
	if err != nil {
		return err
	}
	spec := launch.Spec{N: n, Argv: append([]string{self}, to.args...), Bind: launch.BindCore, OnFailure: launch.Abort, Stdout: to.out, Stderr: to.err}
	cpus, err := affinity.Allowed()
	if err != nil {
		return err
	}
	if len(cpus) < n {
		spec.Bind = launch.BindNone
		fmt.Fprintf(to.err, "ftbench: %d ranks on %d CPU: they take turns, and the numbers say little\n", n, len(cpus))
	}
	return start(spec)
}
