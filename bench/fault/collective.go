package fault

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// Op is a measured operation.
type Op string

// The operations: collectives, and those of recovery.
const (
	Barrier   Op = "barrier"
	Bcast     Op = "bcast"
	Reduce    Op = "reduce"
	Allreduce Op = "allreduce"
	Gather    Op = "gather"
	Scatter   Op = "scatter"

	Agree  Op = "agree"
	Shrink Op = "shrink"
	Revoke Op = "revoke"
)

// CollectiveOps are the operations that [Collective] measures.
var CollectiveOps = []Op{Barrier, Bcast, Reduce, Allreduce, Gather, Scatter}

// Rooted reports whether a collective has a root.
func (op Op) Rooted() bool { return op != Barrier && op != Allreduce }

// Collective measures a collective operation among the survivors of failures, in each design of
// package coll/tree, against the unaware design among as many ranks. All processes of a measurement
// have the same options.
type Collective struct {
	Op Op `json:"op"`
	// Ranks that are started, at least 2 of which survive.
	Ranks int `json:"ranks"`
	// Failures is the number of ranks that are killed before the measurement, in the order Kill.
	Failures int        `json:"failures"`
	Kill     kill.Order `json:"kill"`
	// Sets is the number of rounds, Calls the number of operations of a set.
	Sets  int `json:"sets"`
	Calls int `json:"ops"`
	// Size of a rank's block in bytes. A barrier has none.
	Size int `json:"size"`
	// Rotate makes each survivor the root in turn. Otherwise it is rank 0.
	Rotate bool `json:"rotate"`
	// Designs and Trees are as package coll/tree writes them. Each design is measured on each tree.
	Designs []string `json:"designs"`
	Trees   []string `json:"trees"`
	// Budget bounds the measurement.
	Budget budget.Budget `json:"-"`
}

// word is the size of the reduced integers, in bytes.
const word = 8

// Check returns an error for options that make no sense.
func (o *Collective) Check() error {
	if !slices.Contains(CollectiveOps, o.Op) {
		return fmt.Errorf("fault %s: no such operation: %v are", o.Op, CollectiveOps)
	}
	if err := checkLimits(string(o.Op), limit{"-n", o.Ranks, 2, MaxSimulatedRanks},
		limit{"--failures", o.Failures, 0, MaxSimulatedRanks}, limit{"--sets", o.Sets, 1, MaxSets},
		limit{"--ops", o.Calls, 1, 1 << 30}, limit{"--size", o.Size, 0, MaxSize}); err != nil {
		return err
	}
	if o.Failures > o.Ranks-2 {
		return fmt.Errorf("fault %s: --failures %d of -n %d: at least two ranks must live, so at most %d may fail",
			o.Op, o.Failures, o.Ranks, max(0, o.Ranks-2))
	}
	if (o.Op == Reduce || o.Op == Allreduce) && o.Size%word != 0 {
		return fmt.Errorf("fault %s: --size %d: the operation reduces integers of %d bytes, so want a multiple",
			o.Op, o.Size, word)
	}
	for _, name := range o.Designs {
		if _, err := tree.ParseDesign(name); err != nil {
			return fmt.Errorf("fault %s: --design: %w", o.Op, err)
		}
	}
	for _, name := range o.Trees {
		if _, err := tree.ParseShape(name); err != nil {
			return fmt.Errorf("fault %s: --tree: %w", o.Op, err)
		}
	}
	if len(o.Designs) == 0 || len(o.Trees) == 0 {
		return fmt.Errorf("fault %s: --design and --tree name at least one each", o.Op)
	}
	return nil
}

// victims are the ranks to kill.
func (o *Collective) victims() []int { return o.Kill.Victims(o.Ranks, o.Failures) }

// Line is a design on a tree: a line of a figure.
type Line struct {
	Design string `json:"design"`
	Tree   string `json:"tree"`
}

// unaware is the design of baselines.
var unaware = tree.Unaware.String()

// Baseline reports whether other lines are compared with this one.
func (l Line) Baseline() bool { return l.Design == unaware }

// Lines are all measured lines: of each tree the baseline first.
func (o *Collective) Lines() []Line {
	var out []Line
	for _, shape := range o.Trees {
		out = append(out, Line{unaware, shape})
		for _, design := range o.Designs {
			if l := (Line{design, shape}); !slices.Contains(out, l) {
				out = append(out, l)
			}
		}
	}
	return out
}

// Times are the sets of a line: the time of one operation, in ns.
type Times struct {
	Line
	Sets []float64 `json:"sets_ns"`
}

// CollectiveResult is the result of one job.
type CollectiveResult struct {
	Options Collective `json:"options"`
	Lines   []Times    `json:"lines"`
	// Cut is set when the time was over: a round of sets that was not complete is dropped.
	Cut *budget.Cut `json:"cut,omitempty"`
}

// Against is the baseline of a line: the one on the same tree.
func (r *CollectiveResult) Against(l Line) *Times {
	i := slices.IndexFunc(r.Lines, func(t Times) bool { return t.Line == Line{unaware, l.Tree} })
	return &r.Lines[i]
}

// Measure runs one job of ranks that call [Collective.Rank]. It calls step, which may be nil, after
// each round. The ranks' other output goes to rest.
func (o Collective) Measure(ctx context.Context, start Start, rest io.Writer, step func()) (*CollectiveResult, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	j := job{ranks: o.Ranks, victims: o.victims(), start: start, rest: rest, step: step}
	result, err := resultOf[CollectiveResult](ctx, j)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", o.Op, err)
	}
	return result, nil
}
