package agree

import (
	"iter"
	"math/bits"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// procSet is a set of processes, a bit each.
type procSet []uint64

func (s procSet) has(p proc.ID) bool {
	w := int(p >> 6)
	return w < len(s) && s[w]>>(p&63)&1 != 0
}

func (s *procSet) add(p proc.ID) {
	for len(*s) <= int(p>>6) {
		*s = append(*s, 0)
	}
	(*s)[p>>6] |= 1 << (p & 63)
}

// all iterates over the members in ascending order.
func (s procSet) all() iter.Seq[proc.ID] {
	return func(yield func(proc.ID) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(proc.ID(i<<6 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}
