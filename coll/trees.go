package coll

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
	"github.com/banyan-hpc/banyan/proc"
)

// Choice is over which trees the operations of a communicator go. It is the same at all members.
type Choice struct {
	// Design says what becomes of a tree when ranks are gone.
	Design tree.Design
	// Shape is that of the trees.
	Shape tree.Shape
	// Auto leaves the way to the operation, by length and number of ranks: it need not be a tree. Where the design
	// keeps the places of the gone it is the tree all the same.
	Auto bool
}

// Trees are the trees of one communicator. An operation walks them in the ranks of p2p.Comm.Coll, which have no gaps, and asks
// nothing on the way. One operation uses them at a time.
type Trees struct {
	Choice
	// Node numbers the nodes of processes, from 0 on; trees that look at nodes ask it.
	Node func(proc.ID) int

	// on is the communicator of collectives for which all below holds; a validate replaces it.
	on *p2p.Comm
	// dense: trees are of the ranks of on. Else they are of those of the communicator itself, of whom alive are left.
	dense bool
	alive *tree.Alive
	node  func(rank int) int // by rank of the tree
	// home is rooted at rank 0 and computed by Renew, away at the last other root that has been asked for.
	home, away route

	mark, theirs mark // memory for the operation under way
}

// route is this rank's place in one tree. All but plan is in ranks without gaps.
type route struct {
	plan     tree.Plan
	root     int // gone: there is nothing here yet
	parent   int // -1 at the root
	children []int

	// The blocks of a subtree travel together: a rank's own, then those of each child's subtree. order has the
	// ranks whose they are, and those of the i-th child are order[first[i]:first[i+1]]. Empty: nobody has asked.
	order []int
	first []int
	where []int // at the root: by rank, where in order it is
}

// Set chooses other trees.
func (t *Trees) Set(choice Choice) { t.Choice, t.on = choice, nil }

// Renew computes what does not depend on the root of an operation, for the members of c that are left. It is called when a validate has changed
// them; for a new communicator the first operation does it, so that those without operations cost nothing.
func (t *Trees) Renew(c *p2p.Comm) {
	w := c.Coll()
	whole := w.Size() == c.Size()
	t.on, t.dense, t.node = w, whole || t.Design == tree.Rebalance, nil
	switch {
	case t.dense:
		t.alive = tree.All(w.Size())
	default:
		words := make([]uint64, (c.Size()+63)/64)
		for rank := range w.Size() {
			said := w.Said(rank)
			words[said/64] |= 1 << (said % 64)
		}
		t.alive = tree.FromWords(words, c.Size())
	}
	if t.Shape == tree.TwoLevel {
		g := c.Group()
		if t.dense {
			g = w.Group()
		}
		t.node = func(rank int) int { return t.Node(g.Proc(rank)) }
	}
	t.away.root = gone
	if t.fits() {
		t.find(&t.home, 0)
	}
}

// fits reports whether the design has a tree: the unaware one knows of nobody who is gone.
func (t *Trees) fits() bool { return t.dense || t.Design != tree.Unaware }

// ready has t hold for c. Error: ft.ErrArgument where the design has no tree.
func (t *Trees) ready(c, w *p2p.Comm, op string) error {
	if t.on != w {
		t.Renew(c)
	}
	if t.fits() {
		return nil
	}
	return fmt.Errorf("%s on %s: %w: the unaware design has no tree without the %d ranks that are gone: choose another design, or shrink",
		op, c.Name(), ft.ErrArgument, c.Size()-w.Size())
}

// free reports whether an operation may go the way that is fastest, rather than over the tree that was chosen.
func (t *Trees) free() bool { return t.Auto && t.dense }

// to gives this rank's place in the tree with that root. Rerouting finds it in each call, the other designs
// where the root is neither rank 0 nor that of the last such call.
func (t *Trees) to(root int) *route {
	r := &t.home
	if root != 0 {
		r = &t.away
	}
	if r.root != root || t.Design == tree.Reroute && !t.dense {
		t.find(r, root)
	}
	return r
}

// find computes this rank's place. It takes no memory but for more children than ever before.
func (t *Trees) find(r *route, root int) {
	me := t.on.Rank()
	r.root, r.order = root, r.order[:0]
	if t.dense {
		tree.Build(&r.plan, tree.Rebalance, t.Shape, t.alive, t.node, root, me)
		r.parent, r.children = r.plan.Parent, r.plan.Children
		return
	}
	tree.Build(&r.plan, t.Design, t.Shape, t.alive, t.node, t.alive.Rank(root), t.alive.Rank(me))
	r.parent, r.children = r.plan.Parent, r.children[:0]
	if r.parent >= 0 {
		r.parent = t.alive.Number(r.parent)
	}
	for _, child := range r.plan.Children {
		r.children = append(r.children, t.alive.Number(child))
	}
}

// arrange fills in the order of blocks.
func (t *Trees) arrange(r *route) {
	if len(r.order) > 0 {
		return
	}
	me := t.on.Rank()
	if t.dense {
		r.order = r.plan.Subtree(r.order, me)
	} else {
		r.order = r.plan.Subtree(r.order, t.alive.Rank(me))
		for i, rank := range r.order {
			r.order[i] = t.alive.Number(rank)
		}
	}
	r.first = r.first[:0]
	for i, rank := range r.order {
		if len(r.first) < len(r.children) && rank == r.children[len(r.first)] {
			r.first = append(r.first, i)
		}
	}
	r.first = append(r.first, len(r.order))
	if r.parent < 0 {
		r.where = append(r.where[:0], r.order...)
		for at, rank := range r.order {
			r.where[rank] = at
		}
	}
}

// run reports whether the blocks of the i-th child's subtree are those of consecutive ranks.
func (r *route) run(i int) bool {
	for at := r.first[i] + 1; at < r.first[i+1]; at++ {
		if r.order[at] != r.order[at-1]+1 {
			return false
		}
	}
	return true
}
