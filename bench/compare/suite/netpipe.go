package suite

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/netpipe"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// netpipeRun is a NetPIPE that is run for each sample.
type netpipeRun struct {
	name string
	run  func(ctx context.Context, args ...string) error
	// line is how it is started, for the record.
	line string
	// overTCP: each message must be a segment at least, which is checked.
	overTCP bool
}

// netpipeGroup is a comparison of NetPIPEs over one medium.
type netpipeGroup struct {
	name, medium string
	// fabric is the value of BANYAN_FABRIC for Banyan's ranks; empty: none.
	fabric string
	// registered: Banyan's messages lie in registered memory; the peers' in their own.
	registered bool
	// least is about the shortest time of a small message: it sets the number of repeats.
	least time.Duration
	// usual are the sizes that are measured unless others are asked for; nil: all.
	usual func(size int) bool
	// bound is that on the ratio to a peer at a size.
	bound func(size int, peer string) []compare.Bound
	// middle, if it has a limit, is the bound of the median over the whole curve, of the points
	// with bounds named middleOf.
	middle   compare.Bound
	middleOf string
}

// netpipeGroups are all of them by name.
var netpipeGroups = map[string]*netpipeGroup{
	groupNetpipe: {
		name: groupNetpipe, medium: "shared memory", least: 300 * time.Nanosecond, bound: sharedMemoryBounds,
		middle: compare.Bound{ID: "B3-4", Over: "the better", Ratio: compare.OfRates, Limit: 1}, middleOf: "B3-3",
	},
	groupTCP: {
		name: groupTCP, medium: "TCP loopback", fabric: "tcp", least: leastOverTCP, usual: usualOverTCP,
		bound: tcpBounds,
	},
	groupMemory: {
		name: groupMemory, medium: "shared memory, Banyan's messages in registered memory", registered: true,
		least: 300 * time.Nanosecond, usual: func(size int) bool { return size >= leastPlaced }, bound: memoryBounds,
	},
	groupUnix: {
		name: groupUnix, medium: "Unix sockets, the others TCP loopback", fabric: "unix", least: leastOverTCP,
		usual: usualOverTCP, bound: noBounds,
	},
}

// fabricVariable lists the fabrics that Banyan's ranks may use.
const fabricVariable = "BANYAN_FABRIC"

// leastOverTCP lies between 4 µs, of spinning peers, and 25 µs, of sleeping ones.
const leastOverTCP = 10 * time.Microsecond

// largeOverTCP is from where on the throughput over TCP has a bound.
const largeOverTCP = 64 << 10

func usualOverTCP(size int) bool { return size == 1 || size >= largeOverTCP }

// sharedMemoryBounds are B3-2 and B3-3: "not below the better of them" is "not below any of them".
func sharedMemoryBounds(size int, peer string) (out []compare.Bound) {
	if size <= 64 {
		out = append(out, compare.Bound{ID: "B3-2", Over: peer, Ratio: compare.OfTimes, Limit: 1})
	}
	if size >= 64 {
		out = append(out, compare.Bound{ID: "B3-3", Over: peer, Ratio: compare.OfRates, Limit: 0.95})
	}
	return out
}

// tcpBounds are B4-1 to B4-3.
func tcpBounds(size int, peer string) []compare.Bound {
	switch {
	case size == 1 && peer == nptcp:
		return []compare.Bound{{ID: "B4-1", Over: peer, Ratio: compare.OfTimes, Limit: 1}}
	case size == 1:
		return []compare.Bound{{ID: "B4-2", Over: peer, Ratio: compare.OfTimes, Limit: 0.75}}
	case size >= largeOverTCP:
		return []compare.Bound{{ID: "B4-3", Over: peer, Ratio: compare.OfRates, Limit: 0.95}}
	}
	return noBounds(size, peer)
}

// leastPlaced is from where on registered memory has bounds; beyond mostPlaced another one.
const leastPlaced, mostPlaced = 16 << 10, 256 << 10

// memoryBounds are B20-3.
func memoryBounds(size int, peer string) []compare.Bound {
	switch {
	case size < leastPlaced:
		return noBounds(size, peer)
	case size <= mostPlaced:
		return []compare.Bound{{ID: "B20-3", Over: peer, Ratio: compare.OfRates, Limit: 1.5}}
	}
	return []compare.Bound{{ID: "B20-3", Over: peer, Ratio: compare.OfRates, Limit: 1.2}}
}

// noBounds are ratios for information.
func noBounds(size int, peer string) []compare.Bound {
	ratio := compare.OfTimes
	if size >= largeOverTCP {
		ratio = compare.OfRates
	}
	return []compare.Bound{{Over: peer, Ratio: ratio}}
}

// addNetpipes finds the NetPIPEs of a group. Banyan's ranks are bound to the same CPUs by its
// launcher.
func (c *Comparison) addNetpipes(ctx context.Context, g *netpipeGroup) error {
	own := peers.Command{CPU: -1}
	if g.fabric != "" {
		own.Env = []string{fabricVariable + "=" + g.fabric}
	}
	own.Argv = []string{c.self, "run", "-n", "2", "--bind", "core", "--on-failure", "abort", "--", c.self, "netpipe",
		"--trials", strconv.Itoa(netpipeTrials)}
	if g.registered {
		own.Argv = append(own.Argv, "--memory", "registered")
	}
	c.enter(g, netpipeProgram(ours, func(args ...string) peers.Command {
		with := own
		with.Argv = append(slices.Clip(own.Argv), args...)
		return with
	}))
	if g.fabric == "" {
		for _, m := range theMPIs {
			if err := c.addNetpipeOf(ctx, g, m); err != nil {
				return err
			}
		}
		return nil
	}
	bare, err := peers.NewNPtcp(c.cpus)
	if err := c.present(ctx, nptcpName, err); err != nil {
		return err
	}
	if bare != nil {
		receiver, transmitter := bare.Commands("PORT", netpipeWords...)
		c.enter(g, netpipeRun{name: nptcp, line: commandLine(receiver) + "\n" + commandLine(transmitter),
			run: func(ctx context.Context, args ...string) error {
				return bare.Run(ctx, netpipeMax, args...)
			}})
	}
	return c.addNetpipeOf(ctx, g, peers.OpenMPIOverTCP)
}

// addNetpipeOf adds that of an MPI, if it is here.
func (c *Comparison) addNetpipeOf(ctx context.Context, g *netpipeGroup, m peers.MPI) error {
	command, err := m.NetPIPE(c.cpus)
	if err := c.present(ctx, m.NetPIPEName, err); err != nil {
		return err
	}
	if command != nil {
		c.enter(g, netpipeProgram(m.Name, command))
	}
	return nil
}

// netpipeProgram is a NetPIPE that one command starts.
func netpipeProgram(name string, command func(args ...string) peers.Command) netpipeRun {
	return netpipeRun{name: name, line: commandLine(command(netpipeWords...)),
		run: func(ctx context.Context, args ...string) error {
			return peers.RunProgram(ctx, command(args...), netpipeMax)
		}}
}

// enter puts a NetPIPE among those of a group.
func (c *Comparison) enter(g *netpipeGroup, run netpipeRun) {
	run.overTCP = g.fabric == "tcp" || g.fabric != "" && run.name != ours
	c.netpipes[g.name] = append(c.netpipes[g.name], run)
	c.commands[g.name+" "+run.name] = run.line
}

// netpipeWords are the arguments as they are recorded.
var netpipeWords = []string{"-l", "LOWER", "-u", "UPPER", "-p", "0", "-n", "REPEATS", "-o", "FILE"}

// netpipeTrials is NetPIPE's number, of which the best counts.
const netpipeTrials = 3

// netpipeMax bounds one run; most take less than a second.
const netpipeMax = time.Minute

// chunk is the sizes that one run measures, with the same number of repeats: the runs are short, so
// that those of a pair follow each other closely.
type chunk struct{ lower, upper, repeats int }

// LargestSize is where the curve ends: 8 MiB.
const LargestSize = 8 << 20

// chunks splits the curve: in a chunk small messages differ little in time, large ones by a factor
// of four. A trial takes about the target.
func (g *netpipeGroup) chunks(target time.Duration) []chunk {
	var out []chunk
	for _, lower := range []int{1, 16, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20} {
		upper := min(4*lower-1, LargestSize)
		if lower < 256 {
			upper = 16*lower - 1
		}
		// The time of a message: the least, and 4 GB/s.
		each := g.least.Seconds() + 2*float64(lower)/8e9
		out = append(out, chunk{lower, upper, max(5, int(math.Ceil(target.Seconds()/(2*each))))})
	}
	return out
}

func (k chunk) sizes() []int { return netpipe.Sizes(k.lower, k.upper, 0) }

// SizeRange is the sizes that are asked for; the zero range is the usual ones.
type SizeRange struct{ Low, High int }

// wanted are the chunks that measure a range.
func (g *netpipeGroup) wanted(target time.Duration, sizes SizeRange) []chunk {
	return slices.DeleteFunc(g.chunks(target), func(k chunk) bool {
		if sizes == (SizeRange{}) {
			return g.usual != nil && !slices.ContainsFunc(k.sizes(), g.usual)
		}
		return k.upper < sizes.Low || k.lower > sizes.High
	})
}

// netpipeSweep compares the first of the group's NetPIPEs, Banyan's, with the others.
func (c *Comparison) netpipeSweep(g *netpipeGroup) *compare.Sweep {
	s := &compare.Sweep{
		Name: g.name, Title: "NetPIPE, ping-pong, " + g.medium + ", time of a message one way", Label: "bytes",
		Precision: precisionRuns,
	}
	chunks, runs := g.wanted(c.Sample, c.Sizes), c.netpipes[g.name]
	if slices.Equal(chunks, g.chunks(c.Sample)) { // the median is of the whole curve
		s.Middle, s.MiddleOf = g.middle, g.middleOf
	}
	for _, k := range chunks {
		part := compare.Part{}
		for _, size := range k.sizes() {
			p := compare.Point{X: float64(size), Label: strconv.Itoa(size)}
			for _, run := range runs[1:] {
				p.Bounds = append(p.Bounds, g.bound(size, run.name)...)
			}
			part.Points = append(part.Points, p)
		}
		for _, run := range runs {
			part.Sources = append(part.Sources,
				compare.SweepSource{Name: run.name, Sample: func(ctx context.Context) ([]float64, error) {
					return run.sample(ctx, k)
				}})
		}
		s.Parts = append(s.Parts, part)
	}
	return s
}

// sample runs NetPIPE over a chunk and returns seconds for each size.
func (r netpipeRun) sample(ctx context.Context, k chunk) ([]float64, error) {
	dir, err := peers.Scratch("netpipe")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "np.out")
	args := []string{"-l", strconv.Itoa(k.lower), "-u", strconv.Itoa(k.upper), "-p", "0", "-n",
		strconv.Itoa(k.repeats), "-o", out}
	before, err := peers.SegmentsSent()
	if err != nil {
		return nil, err
	}
	if err := r.run(ctx, args...); err != nil {
		return nil, err
	}
	after, err := peers.SegmentsSent()
	if err != nil {
		return nil, err
	}
	if n := int64(2 * netpipeTrials * k.repeats * len(k.sizes())); r.overTCP && after-before < n {
		return nil, fmt.Errorf("it does not use TCP: this machine has sent %d segments during its %d messages",
			after-before, n)
	}
	rows, err := netpipe.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return secondsOf(rows, k.sizes())
}

// secondsOf returns the times of the sizes that were to come. They are computed from the
// throughput: NetPIPE rounds seconds to 10 ns.
func secondsOf(rows []netpipe.Row, sizes []int) ([]float64, error) {
	var out []float64
	for i, row := range rows {
		if i >= len(sizes) || row.Bytes != sizes[i] || !(row.Mbps > 0) {
			return nil, fmt.Errorf("NetPIPE has measured %d bytes at %v Mbps; the sizes were to be %v", row.Bytes,
				row.Mbps, sizes)
		}
		out = append(out, 8*float64(row.Bytes)/(row.Mbps*(1<<20)))
	}
	if len(out) < len(sizes) {
		return nil, fmt.Errorf("NetPIPE has measured %d sizes; they were to be %v", len(out), sizes)
	}
	return out, nil
}
