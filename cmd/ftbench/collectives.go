package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan"
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
func (c *contest) ourJob(command string) collectiveRun {
	return collectiveRun{ours, func(n int, args []string) peers.Command {
		argv := []string{c.self, "run", "-n", strconv.Itoa(n), "--on-failure", "abort", "--", c.self, command}
		return peers.Command{Argv: append(argv, args...), CPU: -1}
	}}
}

// addCollectives finds the programs.
func (c *contest) addCollectives(ctx context.Context) error {
	c.collectives = append(c.collectives, c.ourJob("meet"))
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
func (c *contest) pairCollectives() *compare.Sweep {
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
func (c *contest) crowdCollectives() []*compare.Sweep {
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
func (c *contest) jobSweep(name, title string, runs []collectiveRun, n int, ops []peers.Collective, bounds map[string]compare.Bound) *compare.Sweep {
	var part compare.Part
	for i, op := range ops {
		part.Points = append(part.Points, compare.Point{X: float64(i + 1), Label: op.String()})
	}
	each := c.target
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

// meetCmd is one rank of a job that times collectives as bench/peers/mpi/coll.c does.
type meetCmd struct {
	File  string   `arg:"" help:"To which rank 0 appends the times."`
	Each  float64  `arg:"" help:"Milliseconds for each operation."`
	Calls []string `arg:"" help:"OPERATION:BYTES."`
}

// Run times them.
func (c *meetCmd) Run() error { return c.each(c.time) }

// each has an operation after the other timed.
func (c *meetCmd) each(time func(*banyan.Comm, peers.Collective) error) error {
	return inJob(true, func(w *banyan.World) error {
		for _, text := range c.Calls {
			op, err := peers.ParseCollective(text)
			if err != nil {
				return err
			}
			if err := time(w.Comm(), op); err != nil {
				return fmt.Errorf("%v: %w", op, err)
			}
		}
		return nil
	})
}

// time calls one operation again and again.
func (c *meetCmd) time(comm *banyan.Comm, op peers.Collective) error {
	do, err := collectiveCall(comm, op)
	if err != nil {
		return err
	}
	var mine time.Duration
	block := func(calls int64) error {
		mine, err = spend(comm, do, calls)
		return err
	}
	calls, err := c.fill(comm, math.MaxInt64, block)
	if err != nil {
		return err
	}
	sum := []float64{float64(mine)}
	if err := banyan.Allreduce(comm, sum, banyan.Sum); err != nil || comm.Rank() != 0 {
		return err
	}
	return noteTime(c.File, op, sum[0]/float64(calls)/float64(comm.Size()))
}

// fill calls a block that takes about as long as is asked for, and says of how many calls that is. What it takes is found by blocks that grow, of
// which the first does not count: connections are made there.
func (c *meetCmd) fill(comm *banyan.Comm, most int64, block func(calls int64) error) (int64, error) {
	const first = 20
	if err := block(first); err != nil {
		return 0, err
	}
	for calls := int64(first); ; calls *= 4 {
		begin := time.Now()
		if err := block(min(calls, most)); err != nil {
			return 0, err
		}
		share := []float64{float64(time.Since(begin)) / (1e6 * c.Each)}
		if err := banyan.Bcast(comm, share, 0); err != nil {
			return 0, err
		}
		if share[0] > 1./8 || calls >= most {
			calls = min(most, int64(float64(calls)/share[0])+1)
			return calls, block(calls)
		}
	}
}

// noteTime appends the nanoseconds of an operation to a file.
func noteTime(file string, op peers.Collective, ns float64) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %d %.1f\n", op.Op, op.Bytes, ns)
	return err
}

// spend gives the time that this rank spends in so many calls; the barriers between them do not count.
func spend(comm *banyan.Comm, do func() error, calls int64) (sum time.Duration, err error) {
	for range calls {
		begin := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		sum += time.Since(begin)
		if err := comm.Barrier(); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// collectiveCall is one call of an operation, in place.
func collectiveCall(comm *banyan.Comm, op peers.Collective) (func() error, error) {
	buf := make([]byte, op.Bytes)
	switch op.Op {
	case "barrier":
		return comm.Barrier, nil
	case "bcast":
		return func() error { return comm.Bcast(buf, 0) }, nil
	case "allreduce":
		data := make([]float64, op.Bytes/8) // zeros, and so they remain
		return func() error { return banyan.Allreduce(comm, data, banyan.Sum) }, nil
	}
	return nil, fmt.Errorf("there is no operation %q", op.Op)
}
