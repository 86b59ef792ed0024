package agree

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// places are the positions in the tree of a group on several nodes, some of which have more members than one. The
// positions of a node follow each other. A node has a tree of its own, and the first members of the nodes, their
// leaders, have a tree among each other. So a frame for each node crosses in either direction.
//
// A leader is a member like others: if it fails, the members below contribute to the nearest living ancestor, on
// another node, until the failure is agreed on; the next agreement has another leader. All ancestors of a position
// are lower, as in the tree of one node.
type places struct {
	rank  []int32 // by position
	at    []int32 // by rank: its position
	first []int   // by node, in the order of their lowest members: its first position; and the number of positions
}

// placesOf gives the places of the members that are not in agreed; nil: they are on one node, or each on its own.
func placesOf(g Group, agreed ranks, nodeOf func(proc.ID) int) *places {
	nodes, members := map[int]int{}, []int(nil)
	at := make([]int32, g.Size())
	for rank := range at {
		if agreed.has(rank) {
			continue
		}
		number := nodeOf(g.Proc(rank))
		node, known := nodes[number]
		if !known {
			node = len(members)
			nodes[number], members = node, append(members, 0)
		}
		at[rank] = int32(node)
		members[node]++
	}
	if width := g.Size() - len(agreed); len(members) == 1 || len(members) == width {
		return nil
	}
	return arrange(at, members, agreed)
}

// arrange gives places for ranks with these nodes, of so many members each.
func arrange(at []int32, members []int, agreed ranks) *places {
	s := &places{at: at, first: make([]int, 1, len(members)+1)}
	for node, n := range members {
		s.first = append(s.first, s.first[node]+n)
	}
	s.rank = make([]int32, s.first[len(members)])
	next := slices.Clone(s.first)
	for rank, node := range at {
		if !agreed.has(rank) {
			at[rank] = int32(next[node])
			s.rank[next[node]] = int32(rank)
			next[node]++
		}
	}
	return s
}

func (s *places) nodes() int { return len(s.first) - 1 }

// node is the node of a position.
func (s *places) node(p int) int {
	node, found := slices.BinarySearch(s.first, p)
	if !found {
		node--
	}
	return node
}

// place finds the places of this agreement's members.
func (i *instance) place() {
	s := i.s
	switch {
	case s.m.shape.Node == nil:
	case s.old != nil && s.old.placed && len(s.old.excluded) == len(i.excluded):
		i.places = s.old.places
	default:
		i.places = placesOf(s.group, i.excluded, s.m.shape.Node)
	}
	i.placed = true
}
