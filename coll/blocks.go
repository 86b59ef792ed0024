package coll

import (
	"cmp"

	"github.com/banyan-hpc/banyan/p2p"
)

// blocks are those of a subtree on their way up or down.
type blocks struct {
	w    *p2p.Comm
	r    *route
	size int // of one, in bytes
	// all has them by the ranks of the communicator, at the root. Those of a child's subtree that lie there as they travel are sent
	// from there and received there, unless staged.
	all    []byte
	dense  bool // all has them by rank without gaps
	staged bool
	stage  []byte // in the order in which they travel
}

// prepare takes the memory in which blocks are put together. Who has no children passes on its own, as it is.
func (b *blocks) prepare(s *Setting, mine []byte) {
	b.staged = b.staged || s.End != nil
	top := b.r.parent < 0
	if !top && len(b.r.children) == 0 {
		b.stage = mine
		return
	}
	apart := b.staged || !top
	for i := 0; i < len(b.r.children) && !apart; i++ {
		apart = b.direct(i) == nil
	}
	if apart {
		b.stage = s.Memory.bytes(len(b.r.order) * b.size)
	}
}

// place is the block of a rank in all.
func (b *blocks) place(rank int) []byte { return b.all[b.said(rank)*b.size:][:b.size] }

// said is the rank by which all has a rank's block.
func (b *blocks) said(rank int) int {
	if b.dense {
		return rank
	}
	return b.w.OriginalRank(rank)
}

// below is where the i-th child's blocks are in the stage.
func (b *blocks) below(i int) []byte { return b.stage[b.r.first[i]*b.size : b.r.last[i]*b.size] }

// direct is where the i-th child's blocks lie in all, as they travel; nil: they do not.
func (b *blocks) direct(i int) []byte {
	from, to := b.r.order[b.r.first[i]], b.r.order[b.r.last[i]-1]
	at := b.said(from)
	if !b.r.run(i) || b.said(to)-at != to-from {
		return nil
	}
	return b.all[at*b.size : (at+to-from+1)*b.size : len(b.all)]
}

// upward receives the blocks of the children's subtrees and passes them on together with mine: all of them, or nothing if one
// does not fit. At the root they are in the stage then, or in all.
func upward[M p2p.Mode](b *blocks, mine []byte, tag int) error {
	r := b.r
	copy(b.stage, mine)
	var first error
	for i := len(r.children) - 1; i >= 0; i-- { // the smallest subtree is ready first
		into := []byte(nil)
		if r.parent < 0 && !b.staged {
			into = b.direct(i)
		}
		if into == nil {
			into = b.below(i)
		}
		_, err := recvAll[M](b.w, into, r.children[i], tag)
		if fatal(err) {
			return err
		}
		first = cmp.Or(first, err)
	}
	if r.parent < 0 {
		return first
	}
	out := b.stage
	if first != nil {
		out = nil
	}
	return cmp.Or(p2p.Send[M](b.w, out, r.parent, tag), first)
}

// unpack puts what has come to the root where it belongs.
func (b *blocks) unpack(mine []byte) {
	if copy(b.place(b.w.Rank()), mine); b.stage == nil {
		return
	}
	for i := range b.r.children {
		if !b.staged && b.direct(i) != nil {
			continue
		}
		for at := b.r.first[i]; at < b.r.last[i]; at++ {
			copy(b.place(b.r.order[at]), b.stage[at*b.size:][:b.size])
		}
	}
}

// downward passes to the children what is for their subtrees and gives this rank's own block. If what has come does not fit they get
// nothing.
func downward[M p2p.Mode](b *blocks) (mine []byte, first error) {
	r, top := b.r, b.r.parent < 0
	fits := true
	if !top {
		if _, first = recvAll[M](b.w, b.stage, r.parent, r.tag(kindScatter)); fatal(first) {
			return nil, first
		}
		fits = first == nil
	}
	for i, child := range r.children {
		out := []byte(nil)
		switch {
		case top && b.all != nil:
			out = b.pack(i)
		case fits && !top:
			out = b.below(i)
		}
		first = cmp.Or(first, p2p.Send[M](b.w, out, child, r.tag(kindScatter)))
	}
	switch {
	case first != nil:
		return nil, first
	case top:
		return b.place(b.w.Rank()), nil
	}
	return b.stage[:b.size], nil
}

// pack gives the i-th child's blocks as they travel.
func (b *blocks) pack(i int) []byte {
	if out := b.direct(i); out != nil {
		return out
	}
	for at := b.r.first[i]; at < b.r.last[i]; at++ {
		copy(b.stage[at*b.size:], b.place(b.r.order[at]))
	}
	return b.below(i)
}
