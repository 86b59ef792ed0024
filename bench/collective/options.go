package collective

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// Op is what is measured.
type Op string

// The operations.
const (
	Barrier   Op = "barrier"
	Bcast     Op = "bcast"
	Reduce    Op = "reduce"
	Allreduce Op = "allreduce"
	Gather    Op = "gather"
	Scatter   Op = "scatter"
)

// Ops are all operations.
var Ops = []Op{Barrier, Bcast, Reduce, Allreduce, Gather, Scatter}

// Rooted reports whether the operation has a root.
func (op Op) Rooted() bool { return op != Barrier && op != Allreduce }

// Options of a measurement. All processes of it have the same.
type Options struct {
	Op Op `json:"op"`
	// Ranks that are started, at least 2 of which live.
	Ranks int `json:"ranks"`
	// Failures is how many of them are killed before anything is measured, in the order Kill.
	Failures int        `json:"failures"`
	Kill     kill.Order `json:"kill"`
	// Sets are the rounds of a set of each line, Calls the operations of a set.
	Sets  int `json:"sets"`
	Calls int `json:"ops"`
	// Size is in bytes: of a rank's block. A barrier has none.
	Size int `json:"size"`
	// Rotate has each operation another root: the living in turn. Else it is rank 0.
	Rotate bool `json:"rotate"`
	// Designs and Trees are as package coll/tree writes them; each design is measured on each tree.
	Designs []string `json:"designs"`
	Trees   []string `json:"trees"`
}

// Limits of Options.
const (
	MaxRanks = 1 << 20
	MaxSets  = 1 << 20
	MaxCalls = 1 << 30
	MaxSize  = 1 << 30
)

// word is the size of what is folded, in bytes.
const word = 8

// Check finds what makes no sense.
func (o *Options) Check() error {
	if !slices.Contains(Ops, o.Op) {
		return fmt.Errorf("fault %s: no such operation: %v are", o.Op, Ops)
	}
	for _, v := range []struct {
		name            string
		value, min, max int
	}{
		{"-n", o.Ranks, 2, MaxRanks},
		{"--failures", o.Failures, 0, MaxRanks},
		{"--sets", o.Sets, 1, MaxSets},
		{"--ops", o.Calls, 1, MaxCalls},
		{"--size", o.Size, 0, MaxSize},
	} {
		if v.value < v.min || v.value > v.max {
			return fmt.Errorf("fault %s: %s %d is not within %d…%d", o.Op, v.name, v.value, v.min, v.max)
		}
	}
	if o.Failures > o.Ranks-2 {
		return fmt.Errorf("fault %s: --failures %d of -n %d: at least two ranks must live, so at most %d may fail", o.Op, o.Failures, o.Ranks, max(0, o.Ranks-2))
	}
	if (o.Op == Reduce || o.Op == Allreduce) && o.Size%word != 0 {
		return fmt.Errorf("fault %s: --size %d: it folds integers of %d bytes, so want a multiple", o.Op, o.Size, word)
	}
	return o.checkWords()
}

// checkWords looks at what is chosen by name.
func (o *Options) checkWords() error {
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

// Line is what is measured in turn with others: a line of a figure.
type Line struct {
	Design string `json:"design"`
	Tree   string `json:"tree"`
}

// unaware is the design of baselines.
var unaware = tree.Unaware.String()

// Baseline reports whether others are compared with it.
func (l Line) Baseline() bool { return l.Design == unaware }

// Lines are all that are measured: of each tree the baseline first.
func (o *Options) Lines() []Line {
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

// Result is what one job has measured.
type Result struct {
	Options Options `json:"options"`
	Lines   []Times `json:"lines"`
}

// Against is the baseline of a line: what has the same tree.
func (r *Result) Against(l Line) *Times {
	i := slices.IndexFunc(r.Lines, func(t Times) bool { return t.Line == Line{unaware, l.Tree} })
	return &r.Lines[i]
}
