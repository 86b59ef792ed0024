package fault

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// Planning measures how long a rank takes to find its place in the tree of a collective: Hursey &
// Graham §4.2, figures 3 and 4. The number of ranks is only an argument: plans are computed for one
// rank after the other in one process, and no message is sent.
type Planning struct {
	Ranks    []int         `json:"ranks"`
	Failures []Failures    `json:"failures"` // left out where they leave no survivor
	Kill     kill.Order    `json:"kill"`
	Designs  []tree.Design `json:"-"`
	Shapes   []tree.Shape  `json:"-"`
	PerNode  int           `json:"per_node"` // ranks of a node, for the shape that considers nodes
	Rounds   int           `json:"rounds"`
	Budget   budget.Budget `json:"-"` // bounds the measurement
}

// MaxPlanRanks bounds a job: a rank takes some ten bytes in trees of two levels.
const MaxPlanRanks = 1 << 26

// Check returns an error for options that make no sense.
func (o *Planning) Check() error {
	for _, n := range o.Ranks {
		if n < 2 || n > MaxPlanRanks {
			return fmt.Errorf("rebalance: %d ranks: 2 to %d are possible", n, MaxPlanRanks)
		}
	}
	switch {
	case len(o.Ranks) == 0 || len(o.Failures) == 0 || len(o.Designs) == 0 || len(o.Shapes) == 0:
		return fmt.Errorf("rebalance: nothing to measure: " +
			"a number of ranks, one of failures, a design and a tree are needed")
	case o.PerNode < 1:
		return fmt.Errorf("rebalance: %d ranks a node, at least 1 are needed", o.PerNode)
	case o.Rounds < 1:
		return fmt.Errorf("rebalance: %d rounds, at least 1 is needed", o.Rounds)
	case o.Cells() == 0:
		return fmt.Errorf("rebalance: %v failures leave no survivor of %v ranks", o.Failures, o.Ranks)
	}
	return nil
}

// Cells is the number of results.
func (o *Planning) Cells() int {
	n := 0
	for _, ranks := range o.Ranks {
		n += len(o.failures(ranks)) * len(o.Designs) * len(o.Shapes)
	}
	return n
}

// failures are the different numbers of failures that leave a survivor of so many ranks.
func (o *Planning) failures(ranks int) []int {
	var out []int
	for _, f := range o.Failures {
		if n := f.Of(ranks); n < ranks && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Plan is the result of one tree.
type Plan struct {
	Design   string `json:"design"`
	Shape    string `json:"tree"`
	Ranks    int    `json:"ranks"`
	Failures int    `json:"failures"`
	Degree   int    `json:"root_children"`
	// Measured is the number of survivors that were measured: all, or a sample with the root.
	Measured int `json:"measured"`
	// First is the time from a bit for each rank to the root's first plan, once after each agreement
	// on failures.
	First time.Duration `json:"first_ns"`
	// MinNs, MeanNs and MaxNs are over the ranks, of a plan that is built again in the same memory
	// with warm caches, in nanoseconds.
	MinNs  float64 `json:"min_ns"`
	MeanNs float64 `json:"mean_ns"`
	MaxNs  float64 `json:"max_ns"`
}

// Measure measures all trees and calls emit after each; an error of emit ends it. When the budget
// has ended it returns a [*budget.Cut]; the incomplete tree is dropped.
func (o Planning) Measure(ctx context.Context, emit func(Plan) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	ctx, stop := o.Budget.Context(ctx)
	defer stop()
	done := 0
	for _, shape := range o.Shapes {
		for _, design := range o.Designs {
			for _, ranks := range o.Ranks {
				for _, failures := range o.failures(ranks) {
					p := planner{o: &o, design: design, shape: shape, ranks: ranks}
					p.dead = o.Kill.Victims(ranks, failures)
					plan, err := p.measure(ctx)
					if err != nil && budget.Ended(ctx) {
						return o.Budget.Cut(done, o.Cells(), "trees")
					}
					if err == nil {
						err = emit(plan)
					}
					if err != nil {
						return err
					}
					done++
				}
			}
		}
	}
	return nil
}

// planner measures one tree.
type planner struct {
	o      *Planning
	design tree.Design
	shape  tree.Shape
	ranks  int
	dead   []int
	alive  *tree.Alive
	plan   tree.Plan
}

// sampledRanks is how many ranks of a large tree are measured, at equal distances.
const sampledRanks = 1024

func (p *planner) node(rank int) int { return rank / p.o.PerNode }

func (p *planner) build(plan *tree.Plan, me int) {
	tree.Build(plan, p.design, p.shape, p.alive, p.node, 0, me)
}

func (p *planner) measure(ctx context.Context) (Plan, error) {
	r := Plan{Design: p.design.String(), Shape: p.shape.String(), Ranks: p.ranks, Failures: len(p.dead)}
	words := tree.Except(p.ranks, p.dead...).Words()
	firsts := make([]time.Duration, p.o.Rounds)
	for i := range firsts {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		given := slices.Clone(words)
		start := time.Now()
		p.alive = tree.FromWords(given, p.ranks)
		p.build(new(tree.Plan), 0)
		firsts[i] = time.Since(start)
	}
	r.First = stats.Percentile(firsts, 50)
	p.build(&p.plan, 0)
	r.Degree = len(p.plan.Children)
	root := p.time(0)
	r.MinNs, r.MaxNs, r.Measured = root, root, 1
	others, sum := p.alive.Count()-1, 0.0
	for i := range min(others, sampledRanks) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		ns := p.time(p.alive.Rank(1 + i*others/min(others, sampledRanks)))
		r.MinNs, r.MaxNs = min(r.MinNs, ns), max(r.MaxNs, ns)
		sum += ns
		r.Measured++
	}
	r.MeanNs = root
	if others > 0 {
		r.MeanNs = (root + sum/float64(r.Measured-1)*float64(others)) / float64(others+1)
	}
	return r, nil
}

// planTime is the least time of a sample, a hundred times that of reading the clock.
const planTime = 2 * time.Microsecond

// time returns the median time of a rank's plan, in nanoseconds.
func (p *planner) time(me int) float64 {
	p.build(&p.plan, me)
	times := make([]float64, p.o.Rounds)
	calls := 1
	for i := 0; i < len(times); {
		start := time.Now()
		for range calls {
			p.build(&p.plan, me)
		}
		took := time.Since(start)
		if took < planTime && calls < 1<<20 {
			calls *= 2
			continue
		}
		times[i] = float64(took) / float64(calls)
		i++
	}
	return stats.Median(times)
}
