package suite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// jobRun is a program that is started as a job for each sample.
type jobRun struct {
	name    string
	command peers.Program
}

// The kinds of such jobs.
const (
	startups    = "startup"
	collectives = "collectives"
	recoveries  = "recovery"
	messages    = "messages"
)

// peerJob is the program of a peer.
type peerJob struct {
	name    string // of the peer
	program string // under which a program that is missing is named
	find    func(context.Context) (peers.Program, error)
}

// peerJobs are the peers' programs of a kind.
func (c *Comparison) peerJobs(kind string) (out []peerJob) {
	switch kind {
	case startups:
		for _, m := range theMPIs {
			out = append(out, peerJob{m.Name, starterName(m), m.Startup})
		}
	case collectives:
		for _, m := range theMPIs {
			find := m.Collectives
			if c.OSU != "" {
				find = func(context.Context) (peers.Program, error) { return m.OSU(c.OSU) }
			}
			out = append(out, peerJob{m.Name, collectiveName(m), find})
		}
	case messages:
		for _, m := range theMPIs {
			out = append(out, peerJob{m.Name, messagesName(m), m.Many})
		}
	case recoveries:
		out = []peerJob{{ulfm, ulfm, peers.ULFM(c.ULFM).Recovery}, {turns, turns, peers.Turns}}
	}
	return out
}

// jobRanks are the hidden commands of Banyan's ranks, with arguments for the record.
var jobRanks = map[string]struct{ rank, example []string }{
	startups:    {startupRank, []string{"FILE"}},
	collectives: {collectiveRank, []string{"FILE", "MILLISECONDS", "barrier:0"}},
	messages:    {messagesRank, []string{"FILE", "REPEATS", "8"}},
	recoveries:  {recoveryRank, []string{"FILE", "MILLISECONDS", "agree:0"}},
}

// addJobs finds the programs of a kind.
func (c *Comparison) addJobs(ctx context.Context, kind string) error {
	how := jobRanks[kind]
	if kind == collectives && c.OSU != "" {
		how.rank, how.example = []string{"osu"}, osuArgs("bcast")
	}
	runs := []jobRun{{ours, func(n int, args []string) peers.Command {
		argv := []string{c.self, "run", "-n", strconv.Itoa(n), "--on-failure", "abort", "--", c.self}
		return peers.Command{Argv: slices.Concat(argv, how.rank, args), CPU: -1}
	}}}
	for _, p := range c.peerJobs(kind) {
		command, err := p.find(ctx)
		if err := c.present(ctx, p.program, err); err != nil {
			return err
		}
		if command != nil {
			runs = append(runs, jobRun{p.name, command})
		}
	}
	for _, run := range runs {
		c.commands[kind+" "+run.name] = commandLine(run.command(4, how.example))
	}
	c.jobs[kind] = runs
	return nil
}

// collectiveName is the name of a program among the absent.
func collectiveName(m peers.MPI) string { return m.Name + " collectives" }

// messagesName is the name of a program among the absent.
func messagesName(m peers.MPI) string { return m.Name + " messages" }

// crowdBound is the bound of a job of more ranks than cores.
func crowdBound(ranks int) compare.Bound {
	b := compare.Bound{ID: "B7-11", Over: openmpi, Ratio: compare.OfTimes, Limit: 0.5}
	switch {
	case ranks > 64:
		b.ID, b.Limit = "B22-4", 0.4
	case ranks > 16:
		b.ID = "B7-12"
	}
	return b
}

// Collectives are the operations of groups coll and crowd, by the names of OSU's programs.
var Collectives = []string{"barrier", "bcast", "allreduce", "reduce", "gather", "gatherv", "scatter", "scatterv",
	"allgather", "allgatherv", "alltoall", "alltoallv", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
	"neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv"}

// bounded are those of B7-10, which are measured where none is named.
var bounded = Collectives[:3]

// pairCollectives are B7-10 and B22-3: two ranks, each operation at each size.
func (c *Comparison) pairCollectives() []*compare.Sweep {
	names := c.Collectives
	if len(names) == 0 {
		names = bounded
	}
	return c.collectiveSweeps("coll", 2, names, func(op peers.Collective) []compare.Bound {
		b := compare.Bound{ID: "B22-3", Over: openmpi, Ratio: compare.OfTimes, Limit: 1}
		if slices.Contains(bounded, op.Op) {
			b.ID, b.Limit = "B7-10", 1.05
		}
		other := b // not above the better of the two is not above either
		other.Over = mpich
		return []compare.Bound{b, other}
	})
}

// crowdCollectives has more ranks than cores. Open MPI yields then by itself.
func (c *Comparison) crowdCollectives() (out []*compare.Sweep) {
	ops := []peers.Collective{{Op: "barrier"}, {Op: "bcast", Bytes: 1024}, {Op: "allreduce", Bytes: 8}}
	names := c.Collectives
	if len(names) == 0 {
		names = bounded
	}
	for _, n := range c.CrowdRanks {
		if len(c.Collectives) > 0 || c.OSU != "" {
			out = append(out, c.collectiveSweeps("crowd", n, names, func(op peers.Collective) []compare.Bound {
				b := compare.Bound{ID: "B22-3", Over: openmpi, Ratio: compare.OfTimes, Limit: 0.5}
				if op.Bytes > 16<<10 {
					b.Limit = 0.8
				}
				return []compare.Bound{b}
			})...)
			continue
		}
		title := fmt.Sprintf("collectives of %d ranks, mean over calls and ranks", n)
		out = append(out, jobSweep(fmt.Sprintf("crowd/%d", n), title, c.jobs[collectives], ops,
			func(peers.Collective) []compare.Bound { return []compare.Bound{crowdBound(n)} }, c.timed(n, ops)))
	}
	return out
}

// collectiveSweeps are a sweep for each operation.
func (c *Comparison) collectiveSweeps(group string, n int, names []string,
	bounds func(peers.Collective) []compare.Bound) (out []*compare.Sweep) {
	for _, name := range names {
		ops, take := c.collectiveOf(name, n)
		title := fmt.Sprintf("%s of %d ranks, mean over calls and ranks", name, n)
		out = append(out, jobSweep(fmt.Sprintf("%s/%d/%s", group, n, name), title, c.jobs[collectives], ops, bounds, take))
	}
	return out
}

// collectiveOf is an operation at its sizes, with buffers that are written once, and that are written between calls; or
// of OSU's programs, which write them once.
func (c *Comparison) collectiveOf(name string, n int) (ops []peers.Collective, _ taking) {
	add := func(size int, rewritten ...bool) {
		for _, again := range rewritten {
			ops = append(ops, peers.Collective{Op: name, Bytes: size, Rewritten: again})
		}
	}
	switch {
	case name == bounded[0]: // a barrier has no size
		add(0, false)
	case c.OSU != "":
		for size := osuLow; size <= osuHigh; size *= 2 {
			add(size, false)
		}
	default:
		for _, size := range []int{8, 512, 4 << 10, 16 << 10, 32 << 10, 128 << 10, 1 << 20} {
			add(size, false, true)
		}
	}
	if c.OSU == "" {
		return ops, c.timed(n, ops)
	}
	return ops, func(ctx context.Context, run jobRun) (mean, longest []float64, err error) {
		mean, err = peers.TimeOSU(ctx, len(ops), run.command(n, osuArgs(name)))
		return mean, nil, err
	}
}

// The options of OSU's programs.
const (
	osuLow, osuHigh = 8, 1 << 20
	osuIterations   = 400
)

func osuArgs(name string) []string { return peers.OSUArgs(name, osuLow, osuHigh, osuIterations) }

// taking takes a sample of a job: the mean times of operations, and those of their longest calls, or nil.
type taking func(ctx context.Context, run jobRun) (mean, longest []float64, err error)

// timed takes a sample of a job of n ranks, by the programs that time operations.
func (c *Comparison) timed(n int, ops []peers.Collective) taking {
	each := c.Sample
	if n > len(c.cpus) {
		each *= crowdSamples
	}
	return func(ctx context.Context, run jobRun) (mean, longest []float64, err error) {
		return peers.TimeCollectives(ctx, each, ops, func(args []string) peers.Command { return run.command(n, args) })
	}
}

// crowdSamples is how many samples' time an operation has in a job of more ranks than cores: for
// some tens of milliseconds the kernel finds out where to have so many run.
const crowdSamples = 4

// jobSweep lets each of runs start jobs that time operations; runs without a bound, except Banyan, do not take part.
func jobSweep(name, title string, runs []jobRun, ops []peers.Collective, bounds func(peers.Collective) []compare.Bound,
	take taking) *compare.Sweep {
	var part compare.Part
	for i, op := range ops {
		p := compare.Point{X: float64(i + 1), Label: op.String()}
		for _, b := range bounds(op) {
			if slices.ContainsFunc(runs, func(run jobRun) bool { return run.name == b.Over }) {
				p.Bounds = append(p.Bounds, b)
			}
		}
		part.Points = append(part.Points, p)
	}
	for _, run := range runs {
		over := func(b compare.Bound) bool { return b.Over == run.name }
		if run.name != ours && !slices.ContainsFunc(part.Points[0].Bounds, over) {
			continue // MPICH's ranks do not yield: a run of 64 takes a minute
		}
		var longest []float64
		part.Sources = append(part.Sources, compare.SweepSource{Name: run.name,
			Sample: func(ctx context.Context) (mean []float64, err error) {
				mean, longest, err = take(ctx, run)
				return mean, err
			},
			Longest: func() []float64 { return longest }})
	}
	return &compare.Sweep{Name: name, Title: title, Label: "operation:bytes", Precision: precisionRuns,
		Parts: []compare.Part{part}}
}

// recoverySweeps are B6-2 and B6-4. Barrier and shrink are for information, and so are the times
// without a library.
func (c *Comparison) recoverySweeps() []*compare.Sweep {
	ids := []string{"", "B6-2", "", "B6-4"}
	var ops []peers.Collective
	for _, op := range []string{"barrier", "agree", "shrink", "revoke"} {
		ops = append(ops, peers.Collective{Op: op})
	}
	var out []*compare.Sweep
	for _, n := range []int{4, 8, 16, 32} {
		title := fmt.Sprintf("recovery of %d ranks without a failure", n)
		s := jobSweep(fmt.Sprintf("ulfm/%d", n), title, c.jobs[recoveries], ops,
			func(peers.Collective) []compare.Bound {
				return []compare.Bound{{Over: ulfm, Ratio: compare.OfTimes}, {Over: turns, Ratio: compare.OfTimes}}
			}, c.timed(n, ops))
		for i, p := range s.Parts[0].Points {
			for k := range p.Bounds {
				if ids[i] != "" && p.Bounds[k].Over == ulfm {
					p.Bounds[k].ID, p.Bounds[k].Limit = ids[i], 0.5
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// theMPIs are the MPIs that are compared by runs of programs.
var theMPIs = []peers.MPI{peers.OpenMPI, peers.MPICH}

// starterName is the name of a launcher among the absent.
func starterName(m peers.MPI) string { return m.Name + " start" }

func commandLine(c peers.Command) string { return strings.Join(append(c.Env, c.Argv...), " ") }

// startupRanks is the number of ranks in the bound.
const startupRanks = 64

// startupSweep is B3-7. The time begins before the launcher is started, and ends when the last rank
// has passed a first barrier; for information, when the launcher has ended.
func (c *Comparison) startupSweep(n int) *compare.Sweep {
	part := compare.Part{Points: []compare.Point{{X: 1, Label: "barrier passed"}, {X: 2, Label: "launcher ended"}}}
	for _, run := range c.jobs[startups] {
		part.Sources = append(part.Sources, compare.SweepSource{Name: run.name,
			Sample: func(ctx context.Context) ([]float64, error) {
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
		Name: "startup", Title: fmt.Sprintf("start of %d ranks, from the launcher's start", n), Label: "until",
		Precision: precisionStart,
		Parts:     []compare.Part{part},
	}
}
