package ft

import (
	"iter"
	"math/bits"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Set is a set of process ids, one bit each. The zero Set is empty and ready
// for use. It grows to the largest id added: n/8 bytes for n processes. It is
// not safe for concurrent use.
type Set struct {
	words []uint64
	n     int
}

// Add adds id and reports whether it was new.
//
// Preconditions: id.Valid().
func (s *Set) Add(id proc.ID) bool {
	w, bit := int(id>>6), uint64(1)<<(id&63)
	for len(s.words) <= w {
		s.words = append(s.words, 0)
	}
	if s.words[w]&bit != 0 {
		return false
	}
	s.words[w] |= bit
	s.n++
	return true
}

// Has reports whether id is in the set. Any id is allowed.
func (s *Set) Has(id proc.ID) bool {
	w := int(id >> 6)
	return w < len(s.words) && s.words[w]>>(id&63)&1 != 0
}

// Len is the number of processes in the set.
func (s *Set) Len() int { return s.n }

// All iterates over the members in ascending order.
func (s *Set) All() iter.Seq[proc.ID] {
	return func(yield func(proc.ID) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(proc.ID(i<<6 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}
