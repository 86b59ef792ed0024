package tree

import "math/bits"

// form is a tree over the numbers 0 … n-1 with any root. All shapes but TwoLevel are defined with the root 0 and
// are rotated: number v has the place that v-root, counted around, has in that tree.
type form struct {
	kind  kind
	radix int
	n     int
	root  int
	nodes *nodes // TwoLevel only
}

// none is no number and no rank.
const none = -1

// upright gives the number that a number has in the tree with the root 0.
func (f *form) upright(v int) int {
	if v -= f.root; v < 0 {
		v += f.n
	}
	return v
}

// rotated is the way back; none if there is no such number.
func (f *form) rotated(u int) int {
	if u < 0 || u >= f.n {
		return none
	}
	if u += f.root; u >= f.n {
		u -= f.n
	}
	return u
}

// parent gives the parent of a number; none for the root.
func (f *form) parent(v int) int {
	if f.kind == twoLevel {
		return f.nodes.parent(v, f.root)
	}
	return f.rotated(up(f.kind, f.radix, f.upright(v)))
}

// first gives the first child of a number; none if it is a leaf.
func (f *form) first(v int) int {
	if f.kind == twoLevel {
		return f.nodes.first(v, f.root)
	}
	return f.rotated(down(f.kind, f.radix, f.upright(v)))
}

// next gives the child of the same parent that comes after a number; none if it is the last one.
func (f *form) next(v int) int {
	if f.kind == twoLevel {
		return f.nodes.next(v, f.root)
	}
	return f.rotated(beside(f.kind, f.radix, f.upright(v)))
}

// up, down and beside are parent, first child and next sibling in the tree of infinitely many numbers with the root 0. Its part below
// any n is the tree over n numbers, since parents have lower numbers than their children, and siblings are in order.
func up(k kind, radix, u int) int {
	if u == 0 {
		return none
	}
	switch k {
	case binomial:
		return u &^ (1 << (bits.Len(uint(u)) - 1))
	case knomial:
		return u % topPower(radix, u)
	case binary:
		return (u - 1) / 2
	case chain:
		return u - 1
	default:
		return 0
	}
}

func down(k kind, radix, u int) int {
	switch k {
	case binomial:
		return u + 1<<bits.Len(uint(u))
	case knomial:
		if u == 0 {
			return 1
		}
		return u + topPower(radix, u)*radix
	case binary:
		return 2*u + 1
	case chain:
		return u + 1
	default:
		if u == 0 {
			return 1
		}
		return none
	}
}

func beside(k kind, radix, u int) int {
	if u == 0 {
		return none
	}
	switch k {
	case binomial:
		return u + 1<<(bits.Len(uint(u))-1) // the next higher bit in place of the highest
	case knomial:
		power := topPower(radix, u)
		if u/power < radix-1 {
			return u + power
		}
		return u%power + power*radix
	case binary:
		if u%2 == 1 {
			return u + 1
		}
		return none
	case chain:
		return none
	default:
		return u + 1
	}
}

// topPower is the value of the highest digit's place of u > 0.
func topPower(radix, u int) int {
	power := 1
	for u /= radix; u > 0; u /= radix {
		power *= radix
	}
	return power
}
