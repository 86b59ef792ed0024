package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/netpipe"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// netpipeRun is a NetPIPE that is run for each sample.
type netpipeRun struct {
	name    string
	command func(args ...string) peers.Command
}

// startupRun is a launcher that starts a job for each sample.
type startupRun struct {
	name    string
	command func(n int, file string) peers.Command
}

// theMPIs are those that are compared with by runs of programs.
var theMPIs = []peers.MPI{peers.OpenMPI, peers.MPICH}

// addNetpipes finds the NetPIPEs. Banyan's ranks are bound to the same CPUs by
// its launcher.
func (c *contest) addNetpipes(ctx context.Context) error {
	c.netpipes = append(c.netpipes, netpipeRun{ours, func(args ...string) peers.Command {
		argv := []string{c.self, "run", "-n", "2", "--bind", "core", "--on-failure", "abort", "--", c.self, "netpipe", "--trials", strconv.Itoa(netpipeTrials)}
		return peers.Command{Argv: append(argv, args...), CPU: -1}
	}})
	for _, m := range theMPIs {
		command, err := m.NetPIPE(c.cpus)
		if err := c.present(ctx, m.NetPIPEName, err); err != nil {
			return err
		}
		if command != nil {
			c.netpipes = append(c.netpipes, netpipeRun{m.Name, command})
		}
	}
	for _, run := range c.netpipes {
		c.commands["netpipe "+run.name] = commandLine(run.command("-l", "LOWER", "-u", "UPPER", "-p", "0", "-n", "REPEATS", "-o", "FILE"))
	}
	return nil
}

// addStartups finds the launchers.
func (c *contest) addStartups(ctx context.Context) error {
	c.startups = append(c.startups, startupRun{ours, func(n int, file string) peers.Command {
		return peers.Command{Argv: []string{c.self, "run", "-n", strconv.Itoa(n), "--on-failure", "abort", "--", c.self, "join", file}, CPU: -1}
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

// netpipeTrials is NetPIPE's number for MPI, of which the best counts.
const netpipeTrials = 3

// netpipeMax bounds one run; most take less than a second.
const netpipeMax = time.Minute

// chunk is the sizes that one run measures, with the same number of repeats: the
// runs are short, so that those of a pair follow each other closely.
type chunk struct{ lower, upper, repeats int }

// netpipeLargest is where the curve ends: 8 MiB.
const netpipeLargest = 8 << 20

// netpipeChunks splits the curve: in a chunk small messages differ little in
// time, large ones by a factor of four. A trial takes about the target.
func netpipeChunks(target time.Duration) []chunk {
	var out []chunk
	for _, lower := range []int{1, 16, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20} {
		upper := min(4*lower-1, netpipeLargest)
		if lower < 256 {
			upper = 16*lower - 1
		}
		// What a message may take: some hundred nanoseconds and 8 GB/s.
		each := 300e-9 + 2*float64(lower)/8e9
		out = append(out, chunk{lower, upper, max(5, int(math.Ceil(target.Seconds()/(2*each))))})
	}
	return out
}

func (k chunk) sizes() []int { return netpipe.Sizes(k.lower, k.upper, 0) }

// netpipeSweep is B3-2 to B3-4: "not below the better of them" is "not below any
// of them".
func (c *contest) netpipeSweep(chunks []chunk) *compare.Sweep {
	s := &compare.Sweep{
		Name: "netpipe", Title: "NetPIPE, ping-pong, time of a message one way", Label: "bytes", Precision: precisionRuns,
	}
	if slices.Equal(chunks, netpipeChunks(c.target)) { // the median is of the whole curve
		s.Middle, s.MiddleOf = compare.Bound{ID: "B3-4", Over: "the better", Ratio: compare.OfRates, Limit: 1}, "B3-3"
	}
	for _, k := range chunks {
		part := compare.Part{}
		for _, size := range k.sizes() {
			p := compare.Point{X: float64(size), Label: strconv.Itoa(size)}
			for _, run := range c.netpipes[1:] {
				if size <= 64 {
					p.Bounds = append(p.Bounds, compare.Bound{ID: "B3-2", Over: run.name, Ratio: compare.OfTimes, Limit: 1})
				}
				if size >= 64 {
					p.Bounds = append(p.Bounds, compare.Bound{ID: "B3-3", Over: run.name, Ratio: compare.OfRates, Limit: 0.95})
				}
			}
			part.Points = append(part.Points, p)
		}
		for _, run := range c.netpipes {
			part.Sources = append(part.Sources, compare.SweepSource{Name: run.name, Sample: func(ctx context.Context) ([]float64, error) {
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
	args := []string{"-l", strconv.Itoa(k.lower), "-u", strconv.Itoa(k.upper), "-p", "0", "-n", strconv.Itoa(k.repeats), "-o", out}
	if err := peers.RunProgram(ctx, r.command(args...), netpipeMax); err != nil {
		return nil, err
	}
	rows, err := readRows(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return secondsOf(rows, k.sizes())
}

// secondsOf returns the times of the sizes that were to come. They are computed
// from the throughput: NetPIPE rounds seconds to 10 ns.
func secondsOf(rows []netpipe.Row, sizes []int) ([]float64, error) {
	var out []float64
	for i, row := range rows {
		if i >= len(sizes) || row.Bytes != sizes[i] || !(row.Mbps > 0) {
			return nil, fmt.Errorf("NetPIPE has measured %d bytes at %v Mbps; the sizes were to be %v", row.Bytes, row.Mbps, sizes)
		}
		out = append(out, 8*float64(row.Bytes)/(row.Mbps*(1<<20)))
	}
	if len(out) < len(sizes) {
		return nil, fmt.Errorf("NetPIPE has measured %d sizes; they were to be %v", len(out), sizes)
	}
	return out, nil
}

// startupRanks is the number of ranks that the bound speaks of.
const startupRanks = 64

// startupSweep is B3-7. The time begins before the launcher is started, and ends
// when the last rank has passed a first barrier; for information, when the
// launcher has ended.
func (c *contest) startupSweep(n int) *compare.Sweep {
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
