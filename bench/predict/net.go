package predict

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// none is the number of no rank.
const none = -1

// shapeOf is the tree, in the numbers of the survivors.
type shapeOf struct {
	parent   []int32
	children [][]int32 // in the order of service
	subtree  []int32   // ranks in each subtree
	lookups  []int32   // ranks that each looks up in an operation with Reroute
	order    []int32   // every parent before its children
	root     int32
	degree   int
	depth    int
}

// place is a rank's process.
func (j *Job) place(rank int) int {
	if j.Place == nil {
		return rank
	}
	return j.Place(rank)
}

// node is a rank's node.
func (j *Job) node(rank int) int { return j.place(rank) / j.Machine.Topology.ProcsPerNode }

func newShape(j *Job, a *tree.Alive) (*shapeOf, error) {
	root := j.Root
	if !j.Op.rooted() {
		root = a.Rank(0)
	}
	if !a.Has(root) {
		return nil, fmt.Errorf("predict: root %d is dead", root)
	}
	n := a.Count()
	s := &shapeOf{parent: make([]int32, n), children: make([][]int32, n), subtree: make([]int32, n)}
	all := make([]int32, 0, n)
	var p tree.Plan
	for me := range n {
		tree.Build(&p, j.Design, j.Shape, a, j.node, root, a.Rank(me))
		s.parent[me] = none
		if p.Parent >= 0 {
			s.parent[me] = int32(a.Number(p.Parent))
		} else {
			s.root = int32(me)
		}
		from := len(all)
		for _, child := range p.Children {
			all = append(all, int32(a.Number(child)))
		}
		s.children[me] = all[from:len(all):len(all)]
		s.degree = max(s.degree, len(p.Children))
	}
	s.sort()
	if len(s.order) != n {
		return nil, fmt.Errorf("predict: a tree of %d ranks reaches %d", n, len(s.order))
	}
	if j.Design == tree.Reroute && j.Costs.Lookup > 0 {
		s.countLookups(j, a, root)
	}
	return s, nil
}

// sort orders parents before children, and computes depth and subtrees.
func (s *shapeOf) sort() {
	s.order = append(make([]int32, 0, len(s.parent)), s.root)
	level := 1
	for at := 0; at < len(s.order); at++ {
		if at == level {
			s.depth, level = s.depth+1, len(s.order)
		}
		s.order = append(s.order, s.children[s.order[at]]...)
	}
	for _, v := range slices.Backward(s.order) {
		s.subtree[v]++
		if up := s.parent[v]; up != none {
			s.subtree[up] += s.subtree[v]
		}
	}
}

// countLookups counts the ranks that each one looks up: its neighbours, and the dead ranks on the way to
// them.
func (s *shapeOf) countLookups(j *Job, a *tree.Alive, root int) {
	s.lookups = make([]int32, len(s.parent))
	var p tree.Plan
	above := func(rank int) int {
		tree.Build(&p, tree.Unaware, j.Shape, a, j.node, root, rank)
		return p.Parent
	}
	for _, rank := range j.Dead { // the rank that adopts its children looks it up
		up := above(rank)
		for up >= 0 && !a.Has(up) {
			up = above(up)
		}
		if up >= 0 {
			s.lookups[a.Number(up)]++
		}
	}
	for v := range s.lookups {
		s.lookups[v] += int32(len(s.children[v]))
		for up := above(a.Rank(v)); up >= 0; up = above(up) {
			s.lookups[v]++
			if a.Has(up) {
				break
			}
		}
	}
}

// rooted reports whether the caller names a root.
func (o Op) rooted() bool { return o != Barrier && o != Allreduce }

// length is that of the messages over a rank's edge to its parent, with their header.
func (j *Job) length(subtree int32) int {
	switch {
	case j.Op == Barrier:
		return j.Header
	case j.Op.subtrees():
		return j.Header + j.Bytes*int(subtree)
	default:
		return j.Header + j.Bytes
	}
}

// awareness is the cost of the design for each message of rank v, and for the start of a round.
func (j *Job) awareness(s *shapeOf, v int32) (perMessage, perRound sim.Picos) {
	if j.Design == tree.Unaware {
		return 0, 0
	}
	perMessage = j.Costs.Check
	if s.lookups != nil {
		perRound = j.Costs.Lookup * sim.Picos(s.lookups[v])
	}
	if j.Design != tree.Reroute && j.Op.rooted() {
		perRound += j.Costs.Rebuild * sim.Picos(len(s.children[v])+1)
	}
	return perMessage, perRound
}
