package tree

// nodes lists the numbers 0 … n-1 node by node: the members of a node are order[start[j]:start[j+1]], in order, and
// nodes are ordered by their lowest members. It serves trees with any root: they are rotated in both levels.
type nodes struct {
	order []int32 // by position: the number
	at    []int32 // by number: the position
	of    []int32 // by number: which node, counted in the order of nodes
	start []int32 // by node: the first position; one more at the end
	known []int32 // by the node's name: one more than which node; 0: not met
}

// place makes n the nodes of numbers, of which name gives the names of their nodes. It works in the memory that the nodes have.
func (n *nodes) place(numbers int, name func(number int) int) {
	n.of, n.at, n.order = resize(n.of, numbers), resize(n.at, numbers), resize(n.order, numbers)
	n.start = append(n.start[:0], 0)
	clear(n.known)
	for v := range numbers {
		k := name(v)
		if k >= len(n.known) {
			n.known = append(n.known, make([]int32, k+1-len(n.known))...)
		}
		if n.known[k] == 0 {
			n.start = append(n.start, 0)
			n.known[k] = int32(len(n.start) - 1)
		}
		j := n.known[k] - 1
		n.of[v], n.at[v] = j, n.start[j+1]
		n.start[j+1]++
	}
	for j := 1; j < len(n.start); j++ {
		n.start[j] += n.start[j-1]
	}
	for v := range numbers {
		n.at[v] += n.start[n.of[v]]
		n.order[n.at[v]] = int32(v)
	}
}

func resize(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}

// spot is a place in the tree: of which node, counted from the root's, and which of its members, counted from its leader.
type spot struct{ node, member int }

func (n *nodes) count() int          { return len(n.start) - 1 }
func (n *nodes) members(j int32) int { return int(n.start[j+1] - n.start[j]) }

// spot gives the place of a number.
func (n *nodes) spot(v, root int) spot {
	j, top := n.of[v], n.of[root]
	s := spot{int(j - top), int(n.at[v] - n.start[j])}
	if s.node < 0 {
		s.node += n.count()
	}
	if j == top {
		if s.member -= int(n.at[root] - n.start[top]); s.member < 0 {
			s.member += n.members(j)
		}
	}
	return s
}

// number is the way back; none if the tree has no such place.
func (n *nodes) number(s spot, root int) int {
	if s.node >= n.count() {
		return none
	}
	top := int(n.of[root])
	j := int32(s.node + top)
	if int(j) >= n.count() {
		j -= int32(n.count())
	}
	member, size := s.member, n.members(j)
	if member >= size {
		return none
	}
	if int(j) == top {
		if member += int(n.at[root] - n.start[top]); member >= size {
			member -= size
		}
	}
	return int(n.order[int(n.start[j])+member])
}

func (n *nodes) parent(v, root int) int {
	s := n.spot(v, root)
	switch {
	case s.member > 0:
		s.member = up(binomial, 0, s.member)
	case s.node > 0:
		s.node = up(binomial, 0, s.node)
	default:
		return none
	}
	return n.number(s, root)
}

func (n *nodes) first(v, root int) int {
	s := n.spot(v, root)
	if s.member == 0 {
		if child := n.number(spot{node: down(binomial, 0, s.node)}, root); child != none {
			return child
		}
	}
	return n.number(spot{s.node, down(binomial, 0, s.member)}, root)
}

func (n *nodes) next(v, root int) int {
	s := n.spot(v, root)
	switch {
	case s.member > 0:
		return n.number(spot{s.node, beside(binomial, 0, s.member)}, root)
	case s.node == 0:
		return none
	}
	if leader := n.number(spot{node: beside(binomial, 0, s.node)}, root); leader != none {
		return leader
	}
	return n.number(spot{up(binomial, 0, s.node), 1}, root) // behind the leaders that a leader serves come its own node's
}
