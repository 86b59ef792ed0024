package banyan

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Undefined is the rank of a process that is not in a group, and the color of a rank that takes
// part in [Comm.Split] without becoming a member of a new communicator.
const Undefined = -3

// Group is an ordered set of processes; the position of a process is its rank. A Group is an
// immutable value; the zero Group is empty. All methods are local: they send nothing, and any
// goroutine may call them.
type Group struct {
	g    p2p.Group
	self proc.ID
}

// Size is the number of members.
func (g Group) Size() int { return g.g.Size() }

// Rank is this process's rank in the group, or [Undefined].
func (g Group) Rank() int { return g.rank(g.self) }

// Ranks gives the members in the group's order, as ranks of the world's communicator ([World.Comm]).
// [Group.Translate] gives their ranks in any other group; [Comm.FailedRanks] gives the failed ranks
// of a communicator.
func (g Group) Ranks() []int {
	out := make([]int, 0, g.Size())
	for _, p := range g.g.Procs() {
		out = append(out, int(p))
	}
	return out
}

func (g Group) rank(p proc.ID) int {
	if r := g.g.Rank(p); r >= 0 {
		return r
	}
	return Undefined
}

// Translate gives the ranks in another group of the processes with the given ranks in this one;
// Undefined for those that are not in it, [ProcNull] for ProcNull. Error: ErrArgument, for a rank
// that this group does not have.
func (g Group) Translate(ranks []int, to Group) ([]int, error) {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		if r == ProcNull {
			out[i] = ProcNull
			continue
		}
		if r < 0 || r >= g.Size() {
			return nil, g.noRank("Group.Translate", r)
		}
		out[i] = to.rank(g.g.Proc(r))
	}
	return out, nil
}

// Include gives the group of the members with the given ranks, in that order. Error: ErrArgument,
// for a rank that this group does not have or that is named twice.
func (g Group) Include(ranks ...int) (Group, error) {
	named, err := g.named("Group.Include", ranks)
	if err != nil {
		return Group{}, err
	}
	return g.of(named), nil
}

// Exclude gives the group without the members with the given ranks, in the order
// of this one. Errors as of Include.
func (g Group) Exclude(ranks ...int) (Group, error) {
	named, err := g.named("Group.Exclude", ranks)
	if err != nil {
		return Group{}, err
	}
	return g.Difference(g.of(named)), nil
}

// named gives the processes with the ranks, which must exist and differ.
func (g Group) named(op string, ranks []int) ([]proc.ID, error) {
	seen := make(map[int]bool, len(ranks))
	out := make([]proc.ID, 0, len(ranks))
	for _, r := range ranks {
		if r < 0 || r >= g.Size() {
			return nil, g.noRank(op, r)
		}
		if seen[r] {
			return nil, misuse(op, fmt.Errorf("%w: rank %d is named twice", ErrArgument, r))
		}
		seen[r] = true
		out = append(out, g.g.Proc(r))
	}
	return out, nil
}

// Union gives the members of this group, then those of the other that are not in
// this one.
func (g Group) Union(o Group) Group {
	if g.Size() == 0 {
		return o // the zero Group does not know whose it is
	}
	return g.of(append(g.g.Procs(), o.Difference(g).g.Procs()...))
}

// Intersection gives the members of this group that are in the other, in the
// order of this one.
func (g Group) Intersection(o Group) Group {
	return g.of(slices.DeleteFunc(g.g.Procs(), func(p proc.ID) bool { return o.g.Rank(p) < 0 }))
}

// Difference gives the members of this group that are not in the other, in the
// order of this one.
func (g Group) Difference(o Group) Group {
	return g.of(slices.DeleteFunc(g.g.Procs(), func(p proc.ID) bool { return o.g.Rank(p) >= 0 }))
}

// Comparison is the result of comparing groups or communicators.
type Comparison int

// The outcomes. Congruent is for communicators: the groups are identical, the
// contexts are not.
const (
	Identical Comparison = iota
	Congruent
	Similar // the same members in another order
	Unequal
)

// String gives the outcome's name.
func (c Comparison) String() string {
	if c < Identical || c > Unequal {
		return fmt.Sprintf("Comparison(%d)", int(c))
	}
	return [...]string{"identical", "congruent", "similar", "unequal"}[c]
}

// Compare reports whether two groups have the same members (Similar), and in the same order
// (Identical).
func (g Group) Compare(o Group) Comparison {
	switch {
	case g.g.Equal(o.g):
		return Identical
	case g.Size() == o.Size() && g.Difference(o).Size() == 0:
		return Similar
	}
	return Unequal
}

// of makes a group of processes, which differ.
func (g Group) of(procs []proc.ID) Group { return Group{p2p.NewGroup(procs), g.self} }

func (g Group) noRank(op string, r int) error {
	return misuse(op, fmt.Errorf("%w: rank %d, want 0 … %d", ErrArgument, r, g.Size()-1))
}
