package corrected

import "math/bits"

// Ranks are counted around from the root of an operation: the root has the place 0. Place p > 0 is a child of p
// without its highest bit, so p has the children p+2^i for every 2^i > p.

// ranks is a set of ranks, a bit each. It has no memory until the first is added.
type ranks []uint64

func (r ranks) has(rank int) bool { return len(r) > 0 && r[rank/64]>>(rank%64)&1 != 0 }

func (r *ranks) add(rank, n int) {
	if *r == nil {
		*r = make(ranks, (n+63)/64)
	}
	(*r)[rank/64] |= 1 << (rank % 64)
}

// place gives the place of a rank in an operation.
func (m *Machine) place(o *op, rank int) int { return (rank - o.root + m.n) % m.n }

func (m *Machine) rankAt(o *op, place int) int { return (place + o.root) % m.n }

func (m *Machine) lives(o *op, place int) bool { return !m.ended.has(m.rankAt(o, place)) }

// acting is the lowest living place: the root, or its successor.
func (m *Machine) acting(o *op) int {
	p := 0
	for !m.lives(o, p) {
		p++
	}
	return p
}

// above is the parent in the tree of all places.
func above(p int) int { return p &^ (1 << (bits.Len(uint(p)) - 1)) }

// parent gives the place of the nearest living ancestor, else of the acting root; -1: this one acts.
func (m *Machine) parent(o *op) int {
	me := m.place(o, m.me)
	for p := me; p != 0; {
		if p = above(p); m.lives(o, p) {
			return p
		}
	}
	if p := m.acting(o); p != me {
		return p
	}
	return -1
}

// orphaned reports whether the parent in the tree of all has ended.
func (m *Machine) orphaned(o *op) bool {
	me := m.place(o, m.me)
	return me != 0 && !m.lives(o, above(me))
}

// children appends the ranks whose parent is this one.
func (m *Machine) children(out []int, o *op) []int {
	me := m.place(o, m.me)
	out = m.below(out, o, me, me)
	if me != 0 && m.acting(o) == me {
		out = m.below(out, o, 0, me) // those without a living ancestor
	}
	return out
}

// below appends the topmost living ranks under a place, but not the one at except.
func (m *Machine) below(out []int, o *op, p, except int) []int {
	for d := 1 << bits.Len(uint(p)); p+d < m.n; d *= 2 {
		switch child := p + d; {
		case !m.lives(o, child):
			out = m.below(out, o, child, except)
		case child != except:
			out = append(out, m.rankAt(o, child))
		}
	}
	return out
}
