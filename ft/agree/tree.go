package agree

import (
	"math/bits"
	"slices"
)

// The tree stands on the members that are not in base, in their order. Positions are numbers to
// the base 2^Digit of the line's Shape, and the parent of p is p without its highest digit; so every
// ancestor has a lower position. To the base 2 that is the binomial tree in which
// p has the children p+2^i for every 2^i > p (design, "Collectives"); to a base of at least the number of
// members, a star.
//
// Death bends it: see parent. The functions take what is the same at all members (base),
// and what this process knows (gone).

// ranks is an ascending list of ranks.
type ranks []int32

func (r ranks) has(rank int) bool {
	_, found := slices.BinarySearch(r, int32(rank))
	return found
}

// add puts a rank into the list, and reports whether it was new.
func (r *ranks) add(rank int) bool {
	i, found := slices.BinarySearch(*r, int32(rank))
	if !found {
		*r = slices.Insert(*r, i, int32(rank))
	}
	return !found
}

// tree is the shape of one agreement as this process sees it now.
type tree struct {
	digit  uint  // of positions, in bits
	size   int   // of the group
	agreed ranks // agreed to be gone: not in the tree
	known  ranks // all that are known to be gone, those of base included
}

// width is the number of positions.
func (t *tree) width() int { return t.size - len(t.agreed) }

// position gives a rank's. Precondition: it is not in base.
func (t *tree) position(rank int) int {
	below, _ := slices.BinarySearch(t.agreed, int32(rank))
	return rank - below
}

// rank gives the rank at a position: of base, k members are below it if the rank
// of the k-th is at most p+k.
func (t *tree) rank(p int) int {
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

// hasEnded reports whether somebody in the tree is known to be gone.
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

// highest is where the highest digit of a position begins, in bits.
func (t *tree) highest(p int) uint { return uint(bits.Len(uint(p))-1) / t.digit * t.digit }

// parent gives the rank to which one contributes: the nearest living ancestor, else
// the root; -1 for the root itself.
func (t *tree) parent(rank int) int {
	p := t.position(rank)
	for up := p; up != 0; {
		up &= 1<<t.highest(up) - 1
		if t.alive(up) {
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
	if p != 0 && t.hasEnded() && t.root() == p { // who has lost all ancestors
		out = t.below(out, 0, p)
	}
	return out
}

// below appends the topmost living members under a position, but for one.
func (t *tree) below(out []int, p, except int) []int {
	at := uint(0)
	if p > 0 {
		at = t.highest(p) + t.digit
	}
	for ; p+1<<at < t.width(); at += t.digit {
		for child := p + 1<<at; child < t.width() && child>>at < 1<<t.digit; child += 1 << at {
			switch {
			case !t.alive(child):
				out = t.below(out, child, except)
			case child != except:
				out = append(out, t.rank(child))
			}
		}
	}
	return out
}
