package coll

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// Where no tree was chosen an operation takes its algorithm from a table, see package choose: by the communicator when the first
// operation of its kind asks, and then by length.

// choices are the operations of the table, one more each; 0: there is nothing to choose.
var choices = [...]choose.Op{
	Barrier: 1 + choose.Barrier, Bcast: 1 + choose.Bcast, Reduce: 1 + choose.Reduce, Allreduce: 1 + choose.Allreduce,
	Gather: 1 + choose.Gather, Scatter: 1 + choose.Scatter, Allgather: 1 + choose.Allgather,
	Allgatherv: 1 + choose.Allgatherv, Alltoall: 1 + choose.Alltoall, ReduceScatterBlock: 1 + choose.ReduceScatterBlock,
	Alltoallv: 1 + choose.Alltoall, ReduceScatter: 1 + choose.ReduceScatterBlock,
	Scan: 1 + choose.Scan, Exscan: 1 + choose.Scan,
	NeighborAlltoallv: 0,
}

// menu returns the algorithms of the table for an operation of a communicator.
func (t *Trees) menu(op choose.Op) *choose.Menu {
	m := t.menus[op]
	if m == nil {
		table := t.Table
		if table == nil {
			table = choose.Default()
		}
		m = table.Menu(op, t.placed(table))
		t.menus[op] = m
	}
	return m
}

// placed is the place of the communicator.
func (t *Trees) placed(table *choose.Table) choose.Place {
	if t.place.Ranks == 0 {
		t.place = choose.Place{Ranks: t.on.Size(), OneNode: t.onOneNode(), Crowded: t.World != nil && t.Crowded}
		if table.CountsNodes() {
			t.place.PerNode = t.mostOnANode()
		}
	}
	return t.place
}

// mostOnANode is the most ranks on a node.
func (t *Trees) mostOnANode() (most int) {
	counts := map[int]int{}
	for rank := range t.on.Size() {
		node := 0
		if t.World != nil {
			node = t.Node(t.on.Group().Proc(rank))
		}
		counts[node]++
		most = max(most, counts[node])
	}
	return most
}

// menu is that of the operation. Precondition: its kind is in the table.
func (s *Schedule) menu() *choose.Menu { return s.o.menu(choices[s.kind] - 1) }

// segmentedTrees is the menu of trees that were chosen, where long messages go in segments.
var segmentedTrees = choose.Segments(longTree)

// segmented reports whether messages over a tree that was chosen may go in segments. On one node, where the receiver copies from
// the sender's memory and ranks may share cores, each segment costs more than it gains, except over a chain.
func (t *Trees) segmented() bool {
	if t.on.Size() <= 2 {
		return false
	}
	return t.Shape == tree.Chain && !t.Auto || !t.onOneNode()
}

// climbing is the menu of a reduction up a tree; nil: all messages are whole.
func (s *Schedule) climbing() *choose.Menu {
	switch {
	case s.kind == Reduce && s.free() && !s.between():
		if m := s.menu(); !m.One() {
			return m
		}
	case s.o.segmented():
		return segmentedTrees
	}
	return nil
}

// ahead reports whether a length header comes before data of a length, where a menu may have one.
func ahead(m *choose.Menu, length int) bool {
	return !m.One() && (length == headerLen || m.At(length) != m.First())
}

// Algorithm names the algorithm of a blocking operation by its name and length, in bytes, as the table has them, once the
// communicator has found out about its memory; "": a tree was chosen, or there is no table for it. Error: ft.ErrArgument.
func (o *Comm) Algorithm(c *p2p.Comm, name string, length int) (string, error) {
	op, err := choose.ParseOp(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ft.ErrArgument, err)
	case length < 0:
		return "", fmt.Errorf("%w: %d bytes", ft.ErrArgument, length)
	}
	corrected := o.Design == tree.Corrected && op <= choose.Bcast
	if err := o.ready(c, c.Coll()); err != nil || !o.free() || corrected || c.Local() != nil {
		return "", err
	}
	m, g, l := o.menu(op), o.segment, o.levels
	switch {
	case g != nil && length <= min(m.Memory, longest(op, g)):
		return choose.Memory.String(), nil
	case l != nil && length <= min(m.Levels, l.longest(op)):
		return choose.Levels.String(), nil
	}
	return m.At(length).String(), nil
}

// longest is the longest length that the memory itself takes.
func longest(op choose.Op, g *sm.Segment) int {
	switch op {
	case choose.Bcast:
		return sm.MaxLaid
	case choose.Alltoall, choose.ReduceScatterBlock:
		return g.Wide()
	}
	return g.Room()
}
