package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/launch"
)

// osuCmd has a command for each of osu.All; newOsuCmd says which is which.
type osuCmd struct {
	Latency   osuPairCmd     `cmd:"" help:"One-way time of a ping-pong."`
	Bw        osuWindowCmd   `cmd:"" help:"Throughput of windows of messages."`
	Bibw      osuWindowCmd   `cmd:"" help:"Throughput of windows in both directions at once."`
	MbwMr     osuMultiBwCmd  `cmd:"" name:"mbw_mr" help:"Throughput and message rate of several pairs together."`
	MultiLat  osuMultiLatCmd `cmd:"" name:"multi_lat" help:"Ping-pong of several pairs at once, the mean."`
	LatencyMt osuThreadCmd   `cmd:"" name:"latency_mt" help:"Ping-pong with several goroutines on each side."`
}

func newOsuCmd() osuCmd {
	common := func(name string) osuOptions { return osuOptions{Bench: osu.Find(name)} }
	return osuCmd{
		Latency:   osuPairCmd{common("latency")},
		Bw:        osuWindowCmd{osuOptions: common("bw")},
		Bibw:      osuWindowCmd{osuOptions: common("bibw")},
		MbwMr:     osuMultiBwCmd{osuOptions: common("mbw_mr")},
		MultiLat:  osuMultiLatCmd{osuOptions: common("multi_lat")},
		LatencyMt: osuThreadCmd{osuOptions: common("latency_mt")},
	}
}

// osuOptions are common to all. The letters are those of OSU.
type osuOptions struct {
	Bench *osu.Benchmark `kong:"-"`

	N          int           `short:"n" placeholder:"RANKS" help:"Number of ranks that are started. Default: 2, or two for each of --pairs."`
	Sizes      string        `short:"m" placeholder:"[MIN:]MAX" help:"Sizes in bytes; MIN: and :MAX are possible. Default 1:4194304."`
	Iterations *int          `short:"i" placeholder:"N" help:"Iterations per size. Default: as OSU, fewer above 8 KiB."`
	Warmup     *int          `short:"x" placeholder:"N" help:"Iterations before the clock starts. Default: as OSU."`
	MinTime    time.Duration `help:"Raise the iterations until a size takes so long. Default: do not."`
	Validate   bool          `short:"c" help:"Check every byte, in a pass of its own."`
	Tail       bool          `short:"z" help:"Add columns with the 50th, 90th and 99th percentile, from a pass of their own."`
	Precision  int           `default:"2" help:"Digits after the point; OSU prints 2."`
	Fabric     string        `enum:"shm,sim" default:"shm" help:"${enum}. sim: simulated network, virtual time, all ranks in this process."`
	Aware      bool          `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline that hangs when a peer dies."`
	JSON       string        `placeholder:"FILE" help:"Store the results and the environment."`
}

// The options that only some have.
type (
	windowOption struct {
		Window int `short:"W" default:"64" help:"Messages in flight, in each direction. Default: ${default}."`
	}
	pairsOption struct {
		Pairs int `short:"p" placeholder:"N" help:"Pairs of ranks: rank i with rank N+i. Default: all ranks."`
	}
	threadsOption struct {
		Threads string `short:"t" default:"2" placeholder:"RECV[:SEND]" help:"Goroutines that receive and answer, on rank 1, and that send and wait, on rank 0. Default 2:1."`
	}
)

type (
	osuPairCmd   struct{ osuOptions }
	osuWindowCmd struct {
		osuOptions
		windowOption
	}
	osuMultiBwCmd struct {
		osuOptions
		windowOption
		pairsOption
	}
	osuMultiLatCmd struct {
		osuOptions
		pairsOption
	}
	osuThreadCmd struct {
		osuOptions
		threadsOption
	}
)

// Run measures.
func (c *osuPairCmd) Run(to *call) error { return c.run(c.Bench.Defaults, to) }

// Run measures.
func (c *osuWindowCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Window = c.Window
	return c.run(o, to)
}

// Run measures.
func (c *osuMultiBwCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Window, o.Pairs = c.Window, c.Pairs
	return c.run(o, to)
}

// Run measures.
func (c *osuMultiLatCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Pairs = c.Pairs
	return c.run(o, to)
}

// Run measures.
func (c *osuThreadCmd) Run(to *call) error {
	if c.Fabric == "sim" {
		return fmt.Errorf("osu %s: a simulated rank is one goroutine, this one needs several: use --fabric shm", c.Bench.Name)
	}
	o := c.Bench.Defaults
	if err := parseThreads(c.Threads, &o); err != nil {
		return err
	}
	return c.run(o, to)
}

// parseThreads reads OSU's -t: RECEIVERS[:SENDERS].
func parseThreads(text string, o *osu.Options) error {
	receivers, senders, several := strings.Cut(text, ":")
	n, err := strconv.Atoi(receivers)
	if err == nil {
		o.Receivers = n
		if several {
			o.Senders, err = strconv.Atoi(senders)
		}
	}
	if err != nil {
		return fmt.Errorf("-t %s: RECEIVERS or RECEIVERS:SENDERS is needed, such as 4:4", text)
	}
	return nil
}

// osuWords are what a benchmark's help says of it, and examples of its own.
var osuWords = map[string]struct {
	text     string
	examples []string
}{
	"latency": {"Half of the mean round trip between two ranks, with blocking calls.",
		[]string{"-m 8:8 -i 1000000 -z --precision 3", "--aware=false --json results/unaware.json"}},
	"bw": {"Rank 0 sends windows of non-blocking messages, rank 1 answers each with a short one.",
		[]string{"-W 128 -m 1024:65536", "--min-time 500ms -c"}},
	"bibw": {"Two ranks send each other windows of non-blocking messages at the same time; the\nbandwidth is that of both directions together.",
		[]string{"-m 65536: --min-time 500ms", "-c"}},
	"mbw_mr": {"As bw, by several pairs at once, rank i with rank pairs+i: the bandwidth and the\nmessages per second of all pairs together, until the last of them is done.",
		[]string{"-n 4", "-p 2 -m 8:8 --min-time 1s"}},
	"multi_lat": {"As latency, by several pairs at once, rank i with rank pairs+i: the mean of the\npairs.",
		[]string{"-n 4", "-p 2 -z"}},
	"latency_mt": {"As latency, but the messages are dealt out to goroutines that all call at the same\ntime: half of the mean round trip as one of the senders sees it.",
		[]string{"-t 4", "-t 4:4 -c"}},
}

// Help has the examples.
func (c osuOptions) Help() string {
	words := osuWords[c.Bench.Name]
	var b strings.Builder
	fmt.Fprintf(&b, `%s

The table is in the format of the OSU micro-benchmarks. Started alone, the command
starts its ranks itself, each bound to a core where there are enough; under ftbench
run, mpiexec (MPICH) or srun --mpi=pmi2, and where RANK and WORLD_SIZE are set, it
joins the job.

Examples:
  ftbench osu %[2]s
`, words.text, c.Bench.Name)
	for _, args := range words.examples {
		fmt.Fprintf(&b, "  ftbench osu %s %s\n", c.Bench.Name, args)
	}
	if !c.Bench.Threaded {
		fmt.Fprintf(&b, "  ftbench osu %s --fabric sim -m 1024\n", c.Bench.Name)
	}
	fmt.Fprintf(&b, "  mpiexec.mpich -n 2 bin/ftbench osu %s", c.Bench.Name)
	return b.String()
}

// osuResults are the results in the JSON file.
type osuResults struct {
	Benchmark string      `json:"benchmark"`
	Fabric    string      `json:"fabric"`
	Aware     bool        `json:"aware"`
	Ranks     int         `json:"ranks"`
	Options   osu.Options `json:"options"`
	Points    []osu.Point `json:"points"`
}

func (c *osuOptions) run(o osu.Options, to *call) error {
	if err := c.apply(&o); err != nil {
		return err
	}
	if c.N == 0 {
		c.N = max(2, 2*o.Pairs)
	}
	if launch.Started() { // the job says how many ranks there are
		return inJob(c.Aware, func(w *banyan.World) error { return c.measure(w, o, to) })
	}
	if err := c.Bench.Check(c.N, o); err != nil {
		return err
	}
	bar := progressbar.Start(to.err, "osu "+c.Bench.Name, o.Sizes())
	defer bar.Stop()
	to = watched(to, bar)
	if c.Fabric == "sim" {
		return banyan.Simulate(c.N, banyan.Simulation{Options: []banyan.Option{banyan.WithAware(c.Aware)}},
			func(w *banyan.World) error { return c.measure(w, o, to) })
	}
	return startSelf(c.N, to)
}

// watched is the call with its output beside a bar; each row of a table is a
// step.
func watched(to *call, bar *progressbar.Bar) *call {
	isRow := func(line []byte) bool { return line[0] != '#' }
	return &call{to.args, bar.Lines(to.out, isRow), bar.Over(to.err)}
}

// apply sets the common options that were given.
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
	return nil
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
			return fmt.Errorf("sizes %s: %q is no number of bytes: [MIN:]MAX is needed", text, part.text)
		}
		*part.to = n
	}
	return nil
}

// measure prints the table on rank 0 and writes the file.
func (c *osuOptions) measure(w *banyan.World, o osu.Options, to *call) error {
	first, ranks := w.Comm().Rank() == 0, w.Comm().Size()
	if err := c.Bench.Check(ranks, o); err != nil {
		return err // before a header is printed
	}
	t := report.OSUTable{
		W: to.out, Name: c.Bench.Name, Decimals: c.Precision, Validated: o.Validate, Percentiles: o.Percentiles,
		Senders: o.Senders, Receivers: o.Receivers,
	}
	if c.Bench.Multi && c.Bench.Windowed {
		t.Pairs, t.Window = c.Bench.Pairs(ranks, o), o.Window
	}
	if first {
		if err := t.Header(); err != nil {
			return err
		}
	}
	file := report.Begin("osu")
	results := osuResults{Benchmark: c.Bench.Name, Fabric: c.Fabric, Aware: c.Aware, Ranks: ranks, Options: o}
	err := c.Bench.Run(w, o, func(p osu.Point) error {
		results.Points = append(results.Points, p)
		return t.Row(report.OSURow{Size: p.Size, Seconds: p.Seconds, Errors: p.Errors, Tail: p.Percentiles})
	})
	if err != nil || !first || c.JSON == "" {
		return err
	}
	return file.Write(c.JSON, results)
}
