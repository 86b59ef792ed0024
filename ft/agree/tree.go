package agree

import (
	"math/bits"
	"slices"
)

// The tree consists of the members that have not been agreed to have ended, in their order.
// Positions are numbers to the base 2^Digit of the [Shape], and the parent of p is p without its
// highest digit, so every ancestor has a lower position. To the base 2 that is the binomial tree,
// in which p has the children p+2^i for every 2^i > p; to a base of at least the number of members
// it is a star. If members share nodes, each node has such a tree of its own, and the first members of the nodes
// have one: see places.
//
// Ends change it: see parent. The functions take the ends that are the same at all members (agreed)
// and those that are known to this process (known).

// ranks is an ascending list of ranks.
type ranks []int32

func (r ranks) has(rank int) bool {
	_, found := slices.BinarySearch(r, int32(rank))
	return found
}

// add adds a rank and reports whether it was new.
func (r *ranks) add(rank int) bool {
	i, found := slices.BinarySearch(*r, int32(rank))
	if !found {
		*r = slices.Insert(*r, i, int32(rank))
	}
	return !found
}

// tree is the tree of one agreement as this process sees it now.
type tree struct {
	digit  uint  // of positions, in bits
	size   int   // of the group
	agreed ranks // agreed to have ended: not in the tree
	known  ranks // all known to have ended, those in agreed included
	places *places
}

// width is the number of positions.
func (t *tree) width() int { return t.size - len(t.agreed) }

// position returns a rank's position. Precondition: it is not in agreed.
func (t *tree) position(rank int) int {
	if t.places != nil {
		return int(t.places.at[rank])
	}
	below, _ := slices.BinarySearch(t.agreed, int32(rank))
	return rank - below
}

// rank returns the rank at a position: k members of agreed are below it if the rank of the k-th is
// at most p+k.
func (t *tree) rank(p int) int {
	if t.places != nil {
		return int(t.places.rank[p])
	}
	lo, hi := 0, len(t.agreed)
	for lo < hi {
		if mid := (lo + hi) / 2; int(t.agreed[mid])-mid <= p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return p + lo
}

// hasEnded reports whether a member of the tree is known to have ended.
func (t *tree) hasEnded() bool { return len(t.known) > len(t.agreed) }

func (t *tree) alive(p int) bool { return !t.hasEnded() || !t.known.has(t.rank(p)) }

// root is the lowest living position. Precondition: there is one.
func (t *tree) root() int {
	p := 0
	for !t.alive(p) {
		p++
	}
	return p
}

// highest is the first bit of a position's highest digit.
func (t *tree) highest(p int) uint { return uint(bits.Len(uint(p))-1) / t.digit * t.digit }

// parent returns the rank that a member contributes to: the nearest living ancestor, else the root;
// -1 for the root itself.
func (t *tree) parent(rank int) int {
	p := t.position(rank)
	for up := p; up != 0; {
		if up = t.up(up); t.alive(up) {
			return t.rank(up)
		}
	}
	if root := t.root(); root != p {
		return t.rank(root)
	}
	return -1
}

// children appends the ranks whose parent is this one.
func (t *tree) children(out []int, rank int) []int {
	p := t.position(rank)
	out = t.below(out, p, p)
	if p != 0 && t.hasEnded() && t.root() == p { // members without living ancestors
		out = t.below(out, 0, p)
	}
	return out
}

// up is the position above another one, whether it lives or not. Precondition: p > 0.
func (t *tree) up(p int) int {
	if t.places == nil {
		return t.without(p)
	}
	node := t.places.node(p)
	if first := t.places.first[node]; p > first {
		return first + t.without(p-first)
	}
	return t.places.first[t.without(node)]
}

// without is a number without its highest digit.
func (t *tree) without(p int) int { return p & (1<<t.highest(p) - 1) }

// below appends the topmost living members under a position, except one.
func (t *tree) below(out []int, p, except int) []int {
	first, end := 0, t.width()
	if t.places != nil {
		node := t.places.node(p)
		if first, end = t.places.first[node], t.places.first[node+1]; p == first {
			for under := t.least(node); under < t.places.nodes(); under = t.next(under) {
				out = t.topmost(out, t.places.first[under], except)
			}
		}
	}
	for under := t.least(p - first); first+under < end; under = t.next(under) {
		out = t.topmost(out, first+under, except)
	}
	return out
}

// topmost appends a member, or those below it if it has ended.
func (t *tree) topmost(out []int, p, except int) []int {
	switch {
	case !t.alive(p):
		out = t.below(out, p, except)
	case p != except:
		out = append(out, t.rank(p))
	}
	return out
}

// least is the least of the numbers that are p without their highest digit.
func (t *tree) least(p int) int {
	if p == 0 {
		return 1
	}
	return p + 1<<(t.highest(p)+t.digit)
}

// next is the next one of these.
func (t *tree) next(p int) int { return p + 1<<t.highest(p) }
