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
			out = append(out, peerJob{m.Name, collectiveName(m), m.Collectives})
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
	runs := []jobRun{{ours, func(n int, args []string) peers.Command {
		argv := []string{c.self, "run", "-n", strconv.Itoa(n), "--on-failure", "abort", "--", c.self}
		return peers.Command{Argv: slices.Concat(argv, jobRanks[kind].rank, args), CPU: -1}
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
		c.commands[kind+" "+run.name] = commandLine(run.command(4, jobRanks[kind].example))
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

// pairCollectives is B7-10: two ranks, each operation at each size.
func (c *Comparison) pairCollectives() *compare.Sweep {
	ops := []peers.Collective{{Op: "barrier"}}
	for _, size := range []int{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20} {
		ops = append(ops, peers.Collective{Op: "bcast", Bytes: size}, peers.Collective{Op: "allreduce", Bytes: size})
	}
	// not above the better of the two is not above either
	return c.jobSweep("coll/2", "collectives of 2 ranks, mean over calls and ranks", c.jobs[collectives], 2, ops,
		map[string]compare.Bound{
			openmpi: {ID: "B7-10", Over: openmpi, Ratio: compare.OfTimes, Limit: 1.05},
			mpich:   {ID: "B7-10", Over: mpich, Ratio: compare.OfTimes, Limit: 1.05},
		})
}

// crowdCollectives has more ranks than cores. Open MPI yields then by itself.
func (c *Comparison) crowdCollectives() []*compare.Sweep {
	var out []*compare.Sweep
	ops := []peers.Collective{{Op: "barrier"}, {Op: "bcast", Bytes: 1024}, {Op: "allreduce", Bytes: 8}}
	for _, n := range c.CrowdRanks {
		title := fmt.Sprintf("collectives of %d ranks, mean over calls and ranks", n)
		out = append(out, c.jobSweep(fmt.Sprintf("crowd/%d", n), title, c.jobs[collectives], n, ops,
			map[string]compare.Bound{openmpi: crowdBound(n)}))
	}
	return out
}

// crowdSamples is how many samples' time an operation has in a job of more ranks than cores: for
// some tens of milliseconds the kernel finds out where to have so many run.
const crowdSamples = 4

// jobSweep has each of runs start jobs of n ranks that time operations; those without a bound, but
// for Banyan, do not take part.
func (c *Comparison) jobSweep(name, title string, runs []jobRun, n int, ops []peers.Collective,
	bounds map[string]compare.Bound) *compare.Sweep {
	var part compare.Part
	for i, op := range ops {
		part.Points = append(part.Points, compare.Point{X: float64(i + 1), Label: op.String()})
	}
	each := c.Sample
	if n > len(c.cpus) {
		each *= crowdSamples
	}
	for _, run := range runs {
		bound, bounded := bounds[run.name]
		if !bounded && run.name != ours {
			continue // MPICH's ranks do not yield: a run of 64 takes a minute
		}
		part.Sources = append(part.Sources, compare.SweepSource{Name: run.name,
			Sample: func(ctx context.Context) ([]float64, error) {
				return peers.TimeCollectives(ctx, each, ops,
					func(args []string) peers.Command { return run.command(n, args) })
			}})
		for i := range part.Points {
			if bounded {
				part.Points[i].Bounds = append(part.Points[i].Bounds, bound)
			}
		}
	}
	return &compare.Sweep{Name: name, Title: title, Label: "operation:bytes", Precision: precisionRuns,
		Parts: []compare.Part{part}}
}

// recoverySweeps are B6-2 and B6-4. Barrier and shrink are for information, and so is what the same
// takes without a library.
func (c *Comparison) recoverySweeps() []*compare.Sweep {
	ids := []string{"", "B6-2", "", "B6-4"}
	var ops []peers.Collective
	for _, op := range []string{"barrier", "agree", "shrink", "revoke"} {
		ops = append(ops, peers.Collective{Op: op})
	}
	var out []*compare.Sweep
	for _, n := range []int{4, 8, 16, 32} {
		title := fmt.Sprintf("recovery of %d ranks without a failure", n)
		s := c.jobSweep(fmt.Sprintf("ulfm/%d", n), title, c.jobs[recoveries], n, ops, map[string]compare.Bound{
			ulfm:  {Over: ulfm, Ratio: compare.OfTimes},
			turns: {Over: turns, Ratio: compare.OfTimes},
		})
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

// theMPIs are those that are compared with by runs of programs.
var theMPIs = []peers.MPI{peers.OpenMPI, peers.MPICH}

// starterName is the name of a launcher among the absent.
func starterName(m peers.MPI) string { return m.Name + " start" }

func commandLine(c peers.Command) string { return strings.Join(append(c.Env, c.Argv...), " ") }

// startupRanks is the number of ranks that the bound speaks of.
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
