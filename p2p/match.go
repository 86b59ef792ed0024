package p2p

import (
	"math/bits"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// anyTag stands for AnyTag in the lower half of an imm; tags are at most MaxTag.
const anyTag = 1<<32 - 1

// hash is equal for messages of a process that may take each other's place; see tags.go.
func hash(src proc.ID, imm uint64) uint64 {
	h := (binned(imm) ^ uint64(src)*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

// The first number of bins; that of a sparse engine is small.
const (
	firstBins  = 256
	sparseBins = 8
)

// postedQueue holds the posted receives in hashed bins. A wildcard is a key like any other: a
// message is looked up once for each kind of wildcard posted, and the sequence number decides which
// receive came first.
type postedQueue struct {
	bins  []bin
	least int // the first number of bins, a power of two; at least sparseBins
	// full has a bit for each bin that is not empty: there are more bins than a process mostly has
	// receives.
	full []uint64
	n    int
	seq  uint64
	// wild counts the receives of each kind of wildcard.
	wild [4]int
}

// The kinds of wildcards; the bits combine.
const (
	wildSource = 1
	wildTag    = 2
)

type bin struct{ first, last *Request }

func wildcards(src proc.ID, imm uint64) int {
	w := 0
	if src == proc.None {
		w |= wildSource
	}
	if uint32(imm) == anyTag {
		w |= wildTag
	}
	return w
}

// wildcardKey is the key under which a receive with wildcards w is posted that matches the message.
func wildcardKey(w int, src proc.ID, imm uint64) (proc.ID, uint64) {
	if w&wildSource != 0 {
		src = proc.None
	}
	if w&wildTag != 0 {
		imm |= anyTag
	}
	return src, imm
}

// newPosted makes a queue; the number of bins is a power of two.
func newPosted(bins int) postedQueue {
	return postedQueue{bins: make([]bin, bins), full: make([]uint64, (bins+63)/64)}
}

func (q *postedQueue) at(src proc.ID, imm uint64) uint64 {
	return hash(src, imm) & uint64(len(q.bins)-1)
}

func (q *postedQueue) push(r *Request) {
	i := q.at(r.src, r.imm)
	q.bins[i].push(r)
	q.full[i/64] |= 1 << (i % 64)
}

// add appends r.
func (q *postedQueue) add(r *Request) {
	if q.n >= 2*len(q.bins) {
		q.grow()
	}
	q.n++
	q.seq++
	r.seq = q.seq
	q.wild[wildcards(r.src, r.imm)]++
	q.push(r)
}

func (b *bin) push(r *Request) {
	r.next, r.prev = nil, b.last
	if b.last == nil {
		b.first = r
	} else {
		b.last.next = r
	}
	b.last = r
}

func (b *bin) remove(r *Request) {
	if r.prev == nil {
		b.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		b.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
}

// grow doubles the bins. The first receive makes the first ones, so an engine without receives has none.
func (q *postedQueue) grow() {
	old, wider := q.bins, newPosted(max(2*len(q.bins), q.least, sparseBins))
	q.bins, q.full = wider.bins, wider.full
	for i := range old {
		for r := old[i].first; r != nil; {
			next := r.next
			q.push(r)
			r = next
		}
	}
}

// remove removes r from any place.
func (q *postedQueue) remove(r *Request) {
	q.n--
	q.wild[wildcards(r.src, r.imm)]--
	i := q.at(r.src, r.imm)
	if q.bins[i].remove(r); q.bins[i].first == nil {
		q.full[i/64] &^= 1 << (i % 64)
	}
}

func (q *postedQueue) find(src proc.ID, imm uint64) *Request {
	for r := q.bins[q.at(src, imm)].first; r != nil; r = r.next {
		if r.imm == imm && r.src == src {
			return r
		}
	}
	return nil
}

// match removes and returns the receive that a message matches: the one posted first, or nil.
func (q *postedQueue) match(src proc.ID, imm uint64) *Request {
	if q.n == 0 {
		return nil
	}
	best := q.find(src, imm)
	if q.wild[0] != q.n {
		best = q.matchWild(best, src, imm)
	}
	if best != nil {
		q.remove(best)
	}
	return best
}

func (q *postedQueue) matchWild(best *Request, src proc.ID, imm uint64) *Request {
	for w := wildSource; w <= wildSource|wildTag; w++ {
		if q.wild[w] == 0 {
			continue
		}
		if r := q.find(wildcardKey(w, src, imm)); r != nil && (best == nil || r.seq < best.seq) {
			best = r
		}
	}
	if best != nil && best.pending {
		best.resume()
	}
	return best
}

// all calls fn for every posted receive; fn may remove it.
func (q *postedQueue) all(fn func(*Request)) {
	if q.n == 0 {
		return
	}
	for i, word := range q.full {
		for ; word != 0; word &= word - 1 {
			q.bins[64*i+bits.TrailingZeros64(word)].all(fn)
		}
	}
}

func (b *bin) all(fn func(*Request)) {
	for r := b.first; r != nil; {
		next := r.next
		fn(r)
		r = next
	}
}
