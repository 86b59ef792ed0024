package suite

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// collectiveRun starts a job that times collectives for each sample.
type collectiveRun struct {
	name    string
	command func(n int, args []string) peers.Command
}

// collectives are all that start such jobs.
const collectives = "collectives"

// ourJob is what has ranks of this binary carry out a command.
func (c *Comparison) ourJob(command []string) collectiveRun {
	return collectiveRun{ours, func(n int, args []string) peers.Command {
		argv := []string{c.self, "run", "-n", strconv.Itoa(n), "--on-failure", "abort", "--", c.self}
		return peers.Command{Argv: slices.Concat(argv, command, args), CPU: -1}
	}}
}

// addCollectives finds the programs.
func (c *Comparison) addCollectives(ctx context.Context) error {
	c.collectives = append(c.collectives, c.ourJob(collectiveRank))
	for _, m := range theMPIs {
		command, err := m.Collectives(ctx)
		if err := c.present(ctx, collectiveName(m), err); err != nil {
			return err
		}
		if command != nil {
			c.collectives = append(c.collectives, collectiveRun{m.Name, command})
		}
	}
	for _, run := range c.collectives {
		c.commands["collectives "+run.name] = commandLine(run.command(2, []string{"FILE", "MILLISECONDS", "barrier:0"}))
	}
	return nil
}

// collectiveName is under which a program that lacks is told.
func collectiveName(m peers.MPI) string { return m.Name + " collectives" }

// crowds are the numbers of ranks, more than there are cores, that the bounds speak of.
var crowds = []int{16, 64}

// pairCollectives is B7-10: two ranks, each operation at each size.
func (c *Comparison) pairCollectives() *compare.Sweep {
	ops := []peers.Collective{{Op: "barrier"}}
	for _, size := range []int{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20} {
		ops = append(ops, peers.Collective{Op: "bcast", Bytes: size}, peers.Collective{Op: "allreduce", Bytes: size})
	}
	// not above the better of the two is not above either
	return c.jobSweep("coll/2", "collectives of 2 ranks, mean over calls and ranks", c.collectives, 2, ops, map[string]compare.Bound{
		openmpi: {ID: "B7-10", Over: openmpi, Ratio: compare.OfTimes, Limit: 1.05},
		mpich:   {ID: "B7-10", Over: mpich, Ratio: compare.OfTimes, Limit: 1.05},
	})
}

// crowdCollectives are B7-11 and B7-12: more ranks than cores. Open MPI yields then by itself.
func (c *Comparison) crowdCollectives() []*compare.Sweep {
	var out []*compare.Sweep
	ops := []peers.Collective{{Op: "barrier"}, {Op: "bcast", Bytes: 1024}, {Op: "allreduce", Bytes: 8}}
	for i, n := range crowds {
		title := fmt.Sprintf("collectives of %d ranks, mean over calls and ranks", n)
		out = append(out, c.jobSweep(fmt.Sprintf("crowd/%d", n), title, c.collectives, n, ops, map[string]compare.Bound{
			openmpi: {ID: fmt.Sprintf("B7-%d", 11+i), Over: openmpi, Ratio: compare.OfTimes, Limit: 0.5},
		}))
	}
	return out
}

// crowdSamples is how many samples' time an operation has in a job of more ranks than cores: for some tens of milliseconds the kernel finds out
// where to have so many run.
const crowdSamples = 4

// jobSweep has each of runs start jobs of n ranks that time operations; those without a bound, but for Banyan, do not take part.
func (c *Comparison) jobSweep(name, title string, runs []collectiveRun, n int, ops []peers.Collective, bounds map[string]compare.Bound) *compare.Sweep {
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
		part.Sources = append(part.Sources, compare.SweepSource{Name: run.name, Sample: func(ctx context.Context) ([]float64, error) {
			return peers.TimeCollectives(ctx, each, ops, func(args []string) peers.Command { return run.command(n, args) })
		}})
		for i := range part.Points {
			if bounded {
				part.Points[i].Bounds = append(part.Points[i].Bounds, bound)
			}
		}
	}
	return &compare.Sweep{Name: name, Title: title, Label: "operation:bytes", Precision: precisionRuns, Parts: []compare.Part{part}}
}

// recoveries are all that start jobs that time recovery.
const recoveries = "recoveries"

// addRecoveries finds the programs.
func (c *Comparison) addRecoveries(ctx context.Context) error {
	c.recoveries = append(c.recoveries, c.ourJob(recoveryRank))
	command, err := peers.ULFM(c.ULFM).Recovery(ctx)
	if err := c.present(ctx, ulfm, err); err != nil {
		return err
	}
	if command != nil {
		c.recoveries = append(c.recoveries, collectiveRun{ulfm, command})
	}
	command, err = peers.Turns(ctx)
	if err := c.present(ctx, turns, err); err != nil {
		return err
	}
	if command != nil {
		c.recoveries = append(c.recoveries, collectiveRun{turns, command})
	}
	for _, run := range c.recoveries {
		c.commands["recovery "+run.name] = commandLine(run.command(4, []string{"FILE", "MILLISECONDS", "agree:0"}))
	}
	return nil
}

// recoverySweeps are B6-2 and B6-4. Barrier and shrink are for information, and so is what the same takes without a library.
func (c *Comparison) recoverySweeps() []*compare.Sweep {
	ids := []string{"", "B6-2", "", "B6-4"}
	var ops []peers.Collective
	for _, op := range []string{"barrier", "agree", "shrink", "revoke"} {
		ops = append(ops, peers.Collective{Op: op})
	}
	var out []*compare.Sweep
	for _, n := range []int{4, 8, 16, 32} {
		title := fmt.Sprintf("recovery of %d ranks without a failure", n)
		s := c.jobSweep(fmt.Sprintf("ulfm/%d", n), title, c.recoveries, n, ops, map[string]compare.Bound{
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
