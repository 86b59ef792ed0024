package coll

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Choice is the way that the operations of a communicator go. It is the same at all members.
type Choice struct {
	// Design determines the tree after failures.
	Design tree.Design
	// Auto leaves the way to the operation, by length and number of ranks: it need not be a tree. Where the design
	// keeps the places of failed ranks it is the tree all the same.
	Auto bool
	// Shape is that of the trees.
	Shape tree.Shape
	// Table chooses the algorithms where Auto leaves them to the operation; nil: the default.
	Table *choose.Table
}

// Trees are the trees of one communicator. An operation walks them in the ranks of p2p.Comm.Coll, which
// have no gaps. One operation uses them at a time.
type Trees struct {
	Choice
	*World // nil where neither nodes nor shared memory count
	*grown
}

// World is shared by the collectives of a job.
type World struct {
	// Node numbers the nodes of processes, from 0 on.
	Node func(proc.ID) int
	// Shared is memory for collectives of few bytes; nil: all go by messages.
	Shared *sm.Memory
	// Agreement is for uniform operations.
	Agreement Agreement
	// Corrected runs the operations of tree.Corrected; nil: they are those of tree.Rebalance.
	Corrected *control.Corrected
	// Unaware: the engine does not look for failures.
	Unaware bool
	// Crowded: all ranks of the job are on one node and share its cores. It is the same at all ranks.
	Crowded bool
}

// grown is the state that Trees allocate for operations, so that communicators without operations
// stay small.
type grown struct {
	// on is the communicator of collectives for which all below holds; a validate replaces it.
	on *p2p.Comm
	// dense: trees are of the ranks of on. Otherwise they are of those of the communicator itself, with the
	// remaining ranks alive.
	dense bool
	alive *tree.Alive
	node  func(rank int) int // by rank of the tree
	// home is rooted at rank 0 and computed by Renew, away at the last other root that has been asked for.
	home, away route

	spread reach
	// place is the key of this communicator in the table of algorithms, and menus are the results: nil until an
	// operation needs one.
	place choose.Place
	menus [choose.NumOps]*choose.Menu
	// most is the longest length of an operation that goes through segment; 0: none does, or no operation has.
	most [choose.NumOps]int

	// segment is the shared memory of the communicator of collectives sharing, or nil; calls counts the
	// operations until it is looked for.
	segment *sm.Segment
	levels  *levels // instead, where the ranks are on several nodes
	sharing *p2p.Comm
	calls   int

	sides // of an intercommunicator; see between.go
}

// reach is whether the members of a communicator are on one node.
type reach uint8

const (
	unasked reach = iota
	oneNode
	manyNodes
)

// onOneNode reports whether all ranks are.
func (t *Trees) onOneNode() bool {
	if t.spread == unasked {
		t.spread = oneNode
		for rank := 1; rank < t.on.Size() && t.World != nil && t.spread == oneNode; rank++ {
			if t.Node(t.on.Group().Proc(rank)) != t.Node(t.on.Group().Proc(0)) {
				t.spread = manyNodes
			}
		}
	}
	return t.spread == oneNode
}

// noRoot is the root of a route that is not computed.
const noRoot = -1

// route is this rank's place in one tree. All but plan is in ranks without gaps.
type route struct {
	plan     tree.Plan
	root     int // noRoot: there is nothing here yet
	parent   int // -1 at the root
	children []int
	fan      int // of a k-nomial tree: k; else 0

	// The blocks of a subtree travel in one message, a rank's own first. order has the ranks of the blocks;
	// those of the i-th child are order[first[i]:last[i]]. Empty: not computed yet.
	order       []int
	first, last []int
}

// Set chooses other trees.
func (t *Trees) Set(choice Choice) {
	if t.Choice = choice; t.grown != nil {
		t.on = nil
	}
}

// Renew computes the parts of trees that do not depend on the root, for the remaining members of c. It
// is called when a validate has changed them. For a new communicator the first operation calls it, so
// that communicators without operations cost nothing.
func (t *Trees) Renew(c *p2p.Comm) {
	if t.grown == nil {
		t.grown = new(grown)
	}
	w := c.Coll()
	if w != t.sharing {
		t.sharing, t.segment, t.levels, t.calls = w, nil, nil, 0
	}
	whole := w.Size() == c.Size()
	t.on, t.dense, t.node = w, whole || t.Design >= tree.Rebalance || c.Local() != nil, nil
	t.sides, t.spread = sidesOf(c, w), unasked
	t.place = choose.Place{}
	clear(t.menus[:])
	clear(t.most[:])
	switch {
	case c.Local() != nil:
		return // no tree of these
	case t.dense:
		t.alive = tree.All(w.Size())
	default:
		words := make([]uint64, (c.Size()+63)/64)
		for rank := range w.Size() {
			said := w.OriginalRank(rank)
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
	t.away.root = noRoot
	if t.fits() {
		t.find(&t.home, 0)
	}
}

// fits reports whether the design has a tree: the unaware one takes no notice of failed ranks.
func (t *Trees) fits() bool { return t.dense || t.Design != tree.Unaware }

// ready has t hold for c. Error: ft.ErrArgument where the design has no tree.
func (t *Trees) ready(c, w *p2p.Comm) error {
	if t.grown == nil || t.on != w {
		t.Renew(c)
	}
	if t.fits() {
		return nil
	}
	return fmt.Errorf("%w: the unaware design has no tree without the %d ranks that are gone: "+
		"choose another design, or shrink", ft.ErrArgument, c.Size()-w.Size())
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
	if t.free() {
		r.neighbours(me, t.on.Size())
		return
	}
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

// neighbours takes the binomial tree that is used where the choice is free: counted from the root, v has
// the parent v without its lowest bit and the children v plus each lower bit, so that a subtree is a run
// of ranks. The farthest and largest comes first.
func (r *route) neighbours(me, n int) {
	v, top := (me-r.root+n)%n, 1<<bits.Len(uint(n-1))
	r.parent, r.children, r.fan = -1, r.children[:0], 0
	if v != 0 {
		top = v & -v
		r.parent = (v - top + r.root) % n
	}
	for bit := top / 2; bit > 0; bit /= 2 {
		if v+bit < n {
			r.children = append(r.children, (v+bit+r.root)%n)
		}
	}
}

// knomial takes the k-nomial tree, in which the numbers counted from the root have digits of base k: a rank has the parent
// without its lowest digit that is not 0, and as children all with another digit in place of one of the zeros behind
// that. Subtrees are runs of ranks. The farthest child comes first.
func (r *route) knomial(me, n int) {
	v := (me - r.root + n) % n
	r.parent, r.children, r.fan = -1, r.children[:0], knomialFan
	for weight := 1; weight < n; weight *= r.fan {
		if digit := v / weight % r.fan; digit > 0 {
			r.parent = (v - digit*weight + r.root) % n
			break
		}
		for at := v + weight; at < min(n, v+r.fan*weight); at += weight {
			r.children = append(r.children, (at+r.root)%n)
		}
	}
	slices.Reverse(r.children)
}

// knomialFan is k of k-nomial trees: a power of two.
const knomialFan = 8

// group is the number of children that have the same distance from each other, of which those of a smaller subtree come
// first on the way up.
func (r *route) group() int { return max(1, r.fan-1) }

// arrangeNeighbours is arrange for that tree: the blocks travel in the order of ranks, from this one on.
func (r *route) arrangeNeighbours(me, n int) {
	v, size := (me-r.root+n)%n, 1
	for _, child := range r.children {
		at := (child - me + n) % n // a power of two
		r.first, r.last = append(r.first, at), append(r.last, min(2*at, n-v))
		size = max(size, min(2*at, n-v))
	}
	for i := range size {
		r.order = append(r.order, (me+i)%n)
	}
}

// arrange fills in the order of blocks.
func (t *Trees) arrange(r *route) {
	if len(r.order) > 0 {
		return
	}
	me := t.on.Rank()
	r.first, r.last = r.first[:0], r.last[:0]
	switch {
	case t.free():
		r.arrangeNeighbours(me, t.on.Size())
	case t.dense:
		r.order = r.plan.Subtree(r.order, me)
	default:
		r.order = r.plan.Subtree(r.order, t.alive.Rank(me))
		for i, rank := range r.order {
			r.order[i] = t.alive.Number(rank)
		}
	}
	if !t.free() {
		for i, rank := range r.order {
			if len(r.first) < len(r.children) && rank == r.children[len(r.first)] {
				r.first = append(r.first, i)
			}
		}
		if len(r.first) > 0 {
			r.last = append(append(r.last, r.first[1:]...), len(r.order))
		}
	}
}

// run reports whether the blocks of the i-th child's subtree are those of consecutive ranks.
func (r *route) run(i int) bool {
	for at := r.first[i] + 1; at < r.last[i]; at++ {
		if r.order[at] != r.order[at-1]+1 {
			return false
		}
	}
	return true
}
