package rebalance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// Options of a run.
type Options struct {
	Ranks    []int         `json:"ranks"`
	Failures []Failures    `json:"failures"` // of those, left out where all ranks would have failed
	Kill     kill.Order    `json:"kill"`
	Designs  []tree.Design `json:"-"`
	Shapes   []tree.Shape  `json:"-"`
	PerNode  int           `json:"per_node"` // ranks of a node, for the shape that looks at nodes
	Rounds   int           `json:"rounds"`
}

// MaxRanks bounds a job: a rank takes some ten bytes in trees of two levels.
const MaxRanks = 1 << 26

// Check reports the first option that makes no sense, and what would.
func (o *Options) Check() error {
	for _, n := range o.Ranks {
		if n < 2 || n > MaxRanks {
			return fmt.Errorf("rebalance: %d ranks: 2 to %d are possible", n, MaxRanks)
		}
	}
	switch {
	case len(o.Ranks) == 0 || len(o.Failures) == 0 || len(o.Designs) == 0 || len(o.Shapes) == 0:
		return fmt.Errorf("rebalance: nothing to measure: a number of ranks, one of failures, a design and a tree are needed")
	case o.PerNode < 1:
		return fmt.Errorf("rebalance: %d ranks a node, at least 1 are needed", o.PerNode)
	case o.Rounds < 1:
		return fmt.Errorf("rebalance: %d rounds, at least 1 is needed", o.Rounds)
	case o.Cells() == 0:
		return fmt.Errorf("rebalance: %v failures leave nobody of %v ranks", o.Failures, o.Ranks)
	}
	return nil
}

// Cells is how many results a run has.
func (o *Options) Cells() int {
	n := 0
	for _, ranks := range o.Ranks {
		n += len(o.failures(ranks)) * len(o.Designs) * len(o.Shapes)
	}
	return n
}

// failures are the different numbers of failures that leave somebody of so many ranks.
func (o *Options) failures(ranks int) []int {
	var out []int
	for _, f := range o.Failures {
		if n := f.Of(ranks); n < ranks && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Result is one tree.
type Result struct {
	Design   string `json:"design"`
	Shape    string `json:"tree"`
	Ranks    int    `json:"ranks"`
	Failures int    `json:"failures"`
	Degree   int    `json:"root_children"`
	// Measured is how many of the living ranks were.
	Measured int           `json:"measured"`
	First    time.Duration `json:"first_ns"` // from a bit for each rank to the root's first plan
	// MinNs, MeanNs and MaxNs are over the ranks, of a plan built again, in nanoseconds.
	MinNs  float64 `json:"min_ns"`
	MeanNs float64 `json:"mean_ns"`
	MaxNs  float64 `json:"max_ns"`
}

// Run measures all trees; emit is called after each, and its error ends the run. The error is else the context's.
func Run(ctx context.Context, o Options, emit func(Result) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	for _, s := range o.Shapes {
		for _, d := range o.Designs {
			for _, ranks := range o.Ranks {
				for _, failures := range o.failures(ranks) {
					c := cell{o: &o, design: d, shape: s, dead: o.Kill.Victims(ranks, failures), ranks: ranks}
					if err := c.measure(ctx, emit); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// cell is one tree that is measured.
type cell struct {
	o      *Options
	design tree.Design
	shape  tree.Shape
	ranks  int
	dead   []int
	alive  *tree.Alive
	plan   tree.Plan
}

// sample is how many ranks of a tree are measured.
const sample = 1024

func (c *cell) node(rank int) int { return rank / c.o.PerNode }

func (c *cell) build(p *tree.Plan, me int) {
	tree.Build(p, c.design, c.shape, c.alive, c.node, 0, me)
}

func (c *cell) measure(ctx context.Context, emit func(Result) error) error {
	r := Result{Design: c.design.String(), Shape: c.shape.String(), Ranks: c.ranks, Failures: len(c.dead)}
	words := tree.Except(c.ranks, c.dead...).Words()
	firsts := make([]time.Duration, c.o.Rounds)
	for i := range firsts {
		given := slices.Clone(words)
		start := time.Now()
		c.alive = tree.FromWords(given, c.ranks)
		c.build(new(tree.Plan), 0)
		firsts[i] = time.Since(start)
	}
	r.First = median(firsts)
	c.build(&c.plan, 0)
	r.Degree = len(c.plan.Children)
	root, err := c.time(ctx, 0)
	if err != nil {
		return err
	}
	r.MinNs, r.MaxNs, r.Measured = root, root, 1
	others, sum := c.alive.Count()-1, 0.0
	for i := range min(others, sample) {
		ns, err := c.time(ctx, c.alive.Rank(1+i*others/min(others, sample)))
		if err != nil {
			return err
		}
		r.MinNs, r.MaxNs = min(r.MinNs, ns), max(r.MaxNs, ns)
		sum += ns
		r.Measured++
	}
	r.MeanNs = root
	if others > 0 {
		r.MeanNs = (root + sum/float64(r.Measured-1)*float64(others)) / float64(others+1)
	}
	return emit(r)
}

// atLeast is how long a rank's plan is built again and again for one time: a hundred times what reading the clock takes.
const atLeast = 2 * time.Microsecond

// time gives the nanoseconds of a rank's plan.
func (c *cell) time(ctx context.Context, me int) (float64, error) {
	c.build(&c.plan, me)
	times := make([]float64, c.o.Rounds)
	calls := 1
	for i := 0; i < len(times); {
		start := time.Now()
		for range calls {
			c.build(&c.plan, me)
		}
		took := time.Since(start)
		if took < atLeast && calls < 1<<20 {
			calls *= 2
			continue
		}
		times[i] = float64(took) / float64(calls)
		i++
	}
	return median(times), ctx.Err()
}

func median[T int64 | float64 | time.Duration](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}
