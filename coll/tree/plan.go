package tree

import "fmt"

// Plan is one rank's part of a tree. [Build] fills it, and may fill it again in the same memory. It is not
// copied.
type Plan struct {
	// Root is the tree's root: the requested one, or its replacement.
	Root int
	// Parent is the rank that sends down to this rank; -1 at the root.
	Parent int
	// Children are the ranks that this rank sends down to, in the order in which it serves them.
	Children []int

	form    form
	numbers *Alive // converts the numbers of the form, if they are not ranks
	leave   *Alive // of the form's ranks only these are in the tree; nil: all
	nodes   nodes  // of the last TwoLevel tree
	of      *Alive // the set that Build had then
	closed  bool   // whether the nodes are those of its numbers, or of all ranks
}

// Build fills p with the part of a tree for the living rank me, in ranks of 0 … a.Size()-1, dead ones included. A
// dead root is replaced: with Rebalance or Corrected by the next living rank, so that root 0 means the lowest one;
// with Reroute and LookupAvoiding by the lowest living rank of the next level. So root 0 gives the tree of an
// operation without root.
//
// A plan takes no memory once p.Children has room. The steps of Rebalance are logarithmic in the number of ranks for
// each child; those of Reroute and LookupAvoiding also grow with the dead ranks between a rank and the next living
// ones.
//
// TwoLevel needs node, the number of each rank's node, from 0 on; for the other shapes it is nil. It reads those of
// all ranks, and keeps 12 bytes for each of them in p, if a is another set than last time; otherwise it assumes the
// same nodes.
func Build(p *Plan, d Design, s Shape, a *Alive, node func(rank int) int, root, me int) {
	switch d {
	case Unaware:
		p.unaware(s, a, node, root, me)
	case Rebalance, Corrected:
		p.rebalance(s, a, node, root, me)
	default:
		w := p.Walk(s, a, node, root, me)
		for child, ok := w.Next(); ok; child, ok = w.Next() {
			p.Children = append(p.Children, child)
		}
	}
}

func (p *Plan) unaware(s Shape, a *Alive, node func(int) int, root, me int) {
	p.sparse(s, a, node, root)
	p.leave = nil
	p.Root, p.Parent, p.Children = root, p.form.parent(me), p.Children[:0]
	for child := p.form.first(me); child != none; child = p.form.next(child) {
		p.Children = append(p.Children, child)
	}
}

func (p *Plan) rebalance(s Shape, a *Alive, node func(int) int, root, me int) {
	number := a.Number(me)
	if number < 0 {
		panic(fmt.Sprintf("tree: plan for rank %d, which does not live", me))
	}
	p.dense(s, a, node, root)
	f := &p.form
	p.Root, p.Parent, p.Children = a.Rank(f.root), none, p.Children[:0]
	if up := f.parent(number); up != none {
		p.Parent = a.Rank(up)
	}
	for child := f.first(number); child != none; child = f.next(child) {
		p.Children = append(p.Children, a.Rank(child))
	}
}

// sparse makes the form that is over all ranks, of which the living are in the tree.
func (p *Plan) sparse(s Shape, a *Alive, node func(int) int, root int) {
	p.numbers, p.leave = nil, a
	p.form = form{kind: s.kind, radix: int(s.radix), n: a.n, root: root}
	if s.kind == twoLevel {
		p.form.nodes = p.place(a, false, node)
	}
}

// dense makes the form that is over the numbers of the living.
func (p *Plan) dense(s Shape, a *Alive, node func(int) int, root int) {
	at := a.from(root)
	if at == a.count { // no rank from root on lives
		at = 0
	}
	p.numbers, p.leave = a, nil
	p.form = form{kind: s.kind, radix: int(s.radix), n: a.count, root: at}
	if s.kind == twoLevel {
		p.form.nodes = p.place(a, true, node)
	}
}

// place gives the nodes of the numbers of a, or of all its ranks.
func (p *Plan) place(a *Alive, dense bool, node func(rank int) int) *nodes {
	switch {
	case p.of == a && p.closed == dense:
	case dense:
		p.nodes.place(a.count, func(number int) int { return node(a.Rank(number)) })
	default:
		p.nodes.place(a.n, node)
	}
	p.of, p.closed = a, dense
	return &p.nodes
}

// Subtree appends the ranks of the subtree of top in the tree that p was built for, top first and each rank's
// children with all ranks below them in the order in which they are served. Its steps are proportional to their
// number, and to that of the dead ranks among them if the design keeps those in the tree.
func (p *Plan) Subtree(out []int, top int) []int {
	out = append(out, top)
	at, f := top, &p.form
	switch {
	case p.numbers != nil:
		at = p.numbers.Number(top)
	case top == p.Root:
		at = f.root // which it may replace
	}
	for v := f.below(at, at); v != none; v = f.below(v, at) {
		switch {
		case p.numbers != nil:
			out = append(out, p.numbers.Rank(v))
		case v != top && (p.leave == nil || p.leave.Has(v)):
			out = append(out, v)
		}
	}
	return out
}
