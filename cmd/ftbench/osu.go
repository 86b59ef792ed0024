package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// osuCmd has a command for each of osu.All; newOsuCmd pairs them.
type osuCmd struct {
	Latency   osuPairCmd     `cmd:"" help:"One-way time of a ping-pong."`
	Bw        osuWindowCmd   `cmd:"" help:"Throughput of windows of messages."`
	Bibw      osuWindowCmd   `cmd:"" help:"Throughput of windows in both directions at once."`
	MbwMr     osuMultiBwCmd  `cmd:"" name:"mbw_mr" help:"Throughput and message rate of several pairs together."`
	MultiLat  osuMultiLatCmd `cmd:"" name:"multi_lat" help:"Ping-pong of several pairs at once, the mean."`
	LatencyMt osuThreadCmd   `cmd:"" name:"latency_mt" help:"Ping-pong with several goroutines on each side."`
	Hello     osuHelloCmd    `cmd:"" help:"Start a job and print the number of its ranks."`
	osuMoreCmds
	Barrier   osuBarrierCmd `cmd:"" help:"Time of a barrier, any number of ranks."`
	Bcast     osuBcastCmd   `cmd:"" help:"Time of a broadcast, any number of ranks."`
	Allreduce osuPlaceCmd   `cmd:"" help:"Time of an allreduce, any number of ranks."`
	osuExchangeCmds
	osuOverlapCmds
	osuPersistentCmds
	osuNeighborCmds
	osuRemoteCmds
	Init osuInitCmd `cmd:"" help:"Time of start-up, from Init to the end of a first barrier."`
}

func newOsuCmd() osuCmd {
	common := func(name string) osuOptions { return osuOptions{osuCommon: osuCommon{Bench: osu.Find(name)}} }
	return osuCmd{
		Latency:   osuPairCmd{osuOptions: common("latency")},
		Bw:        osuWindowCmd{osuOptions: common("bw")},
		Bibw:      osuWindowCmd{osuOptions: common("bibw")},
		MbwMr:     osuMultiBwCmd{osuOptions: common("mbw_mr")},
		MultiLat:  osuMultiLatCmd{osuOptions: common("multi_lat")},
		LatencyMt: osuThreadCmd{osuOptions: common("latency_mt")},
		Barrier:   osuBarrierCmd{osuCommon: osuCommon{Bench: osu.Find("barrier")}},
		Bcast:     osuBcastCmd{osuCollCmd: osuCollCmd{osuOptions: common("bcast")}},
		Allreduce: osuPlaceCmd{osuCollCmd: osuCollCmd{osuOptions: common("allreduce")}},

		osuMoreCmds:       newOsuMoreCmds(common),
		osuExchangeCmds:   newOsuExchangeCmds(common),
		osuOverlapCmds:    newOsuOverlapCmds(common),
		osuPersistentCmds: newOsuPersistentCmds(common),
		osuNeighborCmds:   newOsuNeighborCmds(common),
		osuRemoteCmds:     newOsuRemoteCmds(common),
	}
}

// osuCommon are the options of all but init. The letters are those of OSU, and its long names are
// accepted beside Banyan's.
type osuCommon struct {
	Bench *osu.Benchmark `kong:"-"`

	N          int            `short:"n" type:"ranks" placeholder:"RANKS" help:"Number of ranks that are started. Default: 2, or two for each of --pairs."`
	Iterations *int           `short:"i" placeholder:"N" help:"Iterations per size. Default: as OSU, fewer above 8 KiB."`
	Warmup     *int           `short:"x" placeholder:"N" help:"Iterations before the clock starts. Default: as OSU."`
	MinTime    time.Duration  `help:"Raise the iterations until a size takes so long. Default: do not."`
	MaxTime    *time.Duration `placeholder:"DURATION" help:"Lower the iterations where a size would take longer, as on a slow network, and end before sizes of which not one fits. Default: 10s; without bound with -i, with --fabric sim, or as 0."`
	quickFlag
	Tail      bool `short:"z" aliases:"tail-lat" help:"Add columns with the 50th, 90th and 99th percentile; from a pass of their own, but of collectives."`
	Precision int  `default:"2" help:"Digits after the point; OSU prints 2."`
	fabricFlags
	Aware bool   `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline that hangs when a peer dies."`
	JSON  string `placeholder:"FILE" help:"Store the results and the environment; -: print them, and the table on standard error."`
}

// osuOptions are those of all that have data.
type osuOptions struct {
	osuCommon
	Sizes          string   `short:"m" aliases:"message-size" placeholder:"[MIN:]MAX" help:"Sizes in bytes; MIN: and :MAX are possible. Default: as OSU, up to 4 MiB, of collectives 1 MiB."`
	Validate       bool     `short:"c" aliases:"validation" help:"Check every byte, in a pass of its own."`
	Types          []string `short:"T" name:"type" placeholder:"TYPE" help:"mpi_char, mpi_int or mpi_float, one or several, or all: the unit of sizes and the type of sums. Default: bytes, and sums of mpi_int."`
	ValidateWarmup int      `short:"u" name:"validation-warmup" placeholder:"N" help:"Iterations before each that -c checks, 0 to 10. Default: 0, as those are not timed; OSU's 5."`
}

// The options that only some have.
type (
	windowOption struct {
		Window *int `short:"W" aliases:"window-size" placeholder:"N" xor:"window" help:"Messages in flight, in each direction. Default: 64."`
	}
	varyOption struct {
		VaryWindow bool   `short:"V" xor:"window" help:"Measure each size with windows of 1, 2, 4 … 128 messages; one column for each."`
		PrintRate  string `short:"R" enum:"0,1" default:"1" help:"1: print messages per second too, 0: do not. Default: ${default}."`
	}
	bufferOption struct {
		Buffers string `short:"b" name:"buffer-num" enum:"single,multiple" default:"single" help:"multiple: each message of a window has a buffer of its own, and each size has new ones. Default: ${default}."`
	}
	pairsOption struct {
		Pairs int `short:"p" aliases:"num-pairs" placeholder:"N" help:"Pairs of ranks: rank i with rank N+i. Default: all ranks."`
	}
	threadsOption struct {
		Threads string `short:"t" aliases:"num-test-calls" default:"2" placeholder:"[SEND:]RECV" help:"Goroutines that send and wait, on rank 0, and that receive and answer, on rank 1. Default 1:2."`
	}
	memoryOption struct {
		MemLimit int `short:"M" default:"536870912" placeholder:"BYTES" help:"Memory of a rank for the longest buffer; larger sizes are left out. At least 1 MiB. Default: 512 MiB."`
	}
	fullOption struct {
		Full bool `short:"f" help:"Add columns with the least and the most of the ranks' means, and the iterations."`
	}
)

type (
	osuPairCmd struct {
		osuOptions
		bufferOption
		memoryFlag
	}
	osuWindowCmd struct {
		osuOptions
		bufferOption
		memoryFlag
		windowOption
	}
	osuMultiBwCmd struct {
		osuOptions
		bufferOption
		memoryFlag
		windowOption
		varyOption
		pairsOption
	}
	osuMultiLatCmd struct {
		osuOptions
		bufferOption
		memoryFlag
		pairsOption
	}
	osuThreadCmd struct {
		osuOptions
		threadsOption
	}
	osuCollCmd struct {
		osuOptions
		memoryOption
		fullOption
	}
	osuBcastCmd struct {
		osuCollCmd
		memoryFlag
	}
	osuBarrierCmd struct {
		osuCommon
		fullOption
		Sizes string `short:"m" aliases:"message-size" placeholder:"[MIN:]MAX" help:"Taken, as by OSU, and without effect: a barrier has no size."`
	}
)

// multiple reports whether messages have buffers of their own.
func (b bufferOption) multiple() bool { return b.Buffers == "multiple" }

// window sets the window that was given.
func (w windowOption) window(o *osu.Options) {
	if w.Window != nil {
		o.Window = *w.Window
	}
}

// Run measures.
func (c *osuPairCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Registered, o.Lent, o.Multiple = c.registered(), c.lent(), c.multiple()
	return c.run(o, osuTable{}, to)
}

// Run measures.
func (c *osuWindowCmd) Run(to *call) error {
	o := c.Bench.Defaults
	c.window(&o)
	o.Registered, o.Lent, o.Multiple = c.registered(), c.lent(), c.multiple()
	return c.run(o, osuTable{}, to)
}

// Run measures.
func (c *osuMultiBwCmd) Run(to *call) error {
	o := c.Bench.Defaults
	c.window(&o)
	o.Registered, o.Lent, o.Multiple = c.registered(), c.lent(), c.multiple()
	o.Pairs = c.Pairs
	if c.VaryWindow {
		if c.Validate || c.Tail || len(c.Types) > 0 {
			return usagef("osu %s: -V has a column for each window and none for -c, -z or -T: leave them out",
				c.Bench.Name)
		}
		o.Windows = []int{1, 2, 4, 8, 16, 32, 64, 128} // OSU's
	}
	return c.run(o, osuTable{withoutRate: c.PrintRate == "0"}, to)
}

// Run measures.
func (c *osuMultiLatCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Pairs, o.Registered, o.Lent, o.Multiple = c.Pairs, c.registered(), c.lent(), c.multiple()
	return c.run(o, osuTable{}, to)
}

// Run measures.
func (c *osuThreadCmd) Run(to *call) error {
	if c.simulated() {
		return usagef("osu %s: a simulated rank is one goroutine, this one needs several: use --fabric shm",
			c.Bench.Name)
	}
	o := c.Bench.Defaults
	if err := parseThreads(c.Threads, &o); err != nil {
		return err
	}
	return c.run(o, osuTable{}, to)
}

// Run measures.
func (c *osuCollCmd) Run(to *call) error { return c.collective(to) }

// collective measures with more options set.
func (c *osuCollCmd) collective(to *call, more ...func(*osu.Options) error) error {
	o := c.Bench.Defaults
	o.MemoryLimit = c.MemLimit
	for _, set := range more {
		if err := set(&o); err != nil {
			return err
		}
	}
	return c.run(o, osuTable{full: c.Full}, to)
}

// Run measures.
func (c *osuBcastCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Registered, o.Lent, o.MemoryLimit = c.registered(), c.lent(), c.MemLimit
	return c.run(o, osuTable{full: c.Full}, to)
}

// Run measures.
func (c *osuBarrierCmd) Run(to *call) error {
	with := osuOptions{osuCommon: c.osuCommon}
	return with.run(c.Bench.Defaults, osuTable{full: c.Full}, to)
}

// parseThreads reads OSU's -t: [SENDERS:]RECEIVERS.
func parseThreads(text string, o *osu.Options) error {
	receivers := text
	var err error
	if senders, rest, several := strings.Cut(text, ":"); several {
		receivers = rest
		o.Senders, err = strconv.Atoi(senders)
	}
	n, failed := strconv.Atoi(receivers)
	if err != nil || failed != nil {
		return usagef("-t %s: RECEIVERS or SENDERS:RECEIVERS is needed, such as 4:4", text)
	}
	o.Receivers = n
	return nil
}

// osuResults are the results in the JSON file.
type osuResults struct {
	Benchmark string      `json:"benchmark"`
	Fabric    string      `json:"fabric"`
	Aware     bool        `json:"aware"`
	Ranks     int         `json:"ranks"`
	Options   osu.Options `json:"options"`
	Points    []osu.Point `json:"points"`
	// Cut is set where sizes were left out, see --max-time.
	Cut *osu.CutError `json:"cut,omitempty"`
}

// osuTable are the options that concern the table alone.
type osuTable struct {
	full, withoutRate bool
	kinds             []osu.Datatype // that are measured, one after the other
}

func (c *osuOptions) run(o osu.Options, table osuTable, to *call) error {
	if err := c.apply(&o); err != nil {
		return err
	}
	kinds, err := datatypes(c.Types)
	if err != nil {
		return err
	}
	table.kinds, o.Type = kinds, kinds[0]
	if c.N == 0 {
		c.N = max(2, 2*o.Pairs)
	}
	simulated := c.simulated()
	if simulated {
		if err := alone("osu " + c.Bench.Name); err != nil {
			return err
		}
	} else if join.Started() { // the job has its number of ranks
		return inJob(c.Aware, func(w *banyan.World) error { return c.measure(w, o, table, to) }, c.options()...)
	}
	if err := c.check(c.N, o, kinds); err != nil {
		return err
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	o, _ = c.Bench.Bounded(c.N, o)
	announce(to.err, "osu "+c.Bench.Name, c.time(o), 0)
	bar := progressbar.Start(to.err, "osu "+c.Bench.Name, len(kinds)*c.Bench.Rows(o)/max(1, len(o.Windows)))
	defer bar.Stop()
	to = watched(to, bar, c.JSON)
	if simulated {
		return banyan.Simulate(c.N, banyan.Simulation{Options: []banyan.Option{banyan.WithAware(c.Aware)}},
			func(w *banyan.World) error { return c.measure(w, o, table, to) })
	}
	return startSelf(c.N, to)
}

// watched is the call with its output beside a bar; each row of a table is a step. The table is not
// where the file of results is.
func watched(to *call, bar *progressbar.Bar, file string) *call {
	isRow := func(line []byte) bool { return line[0] != '#' && line[0] != '\n' }
	if file == dash {
		return &call{to.args, bar.Over(to.out), bar.Lines(to.err, isRow)}
	}
	return &call{to.args, bar.Lines(to.out, isRow), bar.Over(to.err)}
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
			return usagef("sizes %s: %q is no number of bytes: [MIN:]MAX is needed", text, part.text)
		}
		*part.to = n
	}
	return nil
}
