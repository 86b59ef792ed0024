package p2p

import (
	"math/bits"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// message is one that has arrived before its receive, or one that arrives in
// fragments, or an announced one (RTS).
type message struct {
	from proc.ID
	imm  uint64
	// total is the sender's length, got what has arrived of it.
	total, got int
	data       []byte   // what has arrived while no receive was matched
	req        *Request // the matched receive of a message still arriving
	link       *link
	cost       int // what it counts for in link.kept
	rts        bool
	claimed    bool          // taken out by a matched probe, not received yet
	orphan     bool          // still arriving, and nobody will receive it
	placed     bool          // the provider writes into data, or into the receive's buffer, until it is whole
	region     fabric.Region // rts: where the data lie
	remote     uint64        // rts: the sender's request

	in             [4]msgLink // its neighbours in the bins of each index
	younger, older *message   // in order of arrival; or its neighbours among the claimed
}

type msgLink struct{ next, prev *message }

// unexpected holds messages without a receive, in order of arrival and in bins
// by what a receive may ask for: an index for each kind of wildcards (see
// [wildness]), as if a message came once for each. The first index, without
// wildcards, is kept always; another from the first search for its kind among
// more than a few.
type unexpected struct {
	index          [4][]msgBin
	n              int
	oldest, newest *message
	claims         *message // taken out by matched probes, in no order, linked by older
	free           *message // linked by younger
	// buffers are free payload buffers by size class (log2 of capacity).
	buffers [bits.UintSize][][]byte
}

type msgBin struct{ first, last *message }

// fewUnexpected can be looked through one by one.
const fewUnexpected = 16

func (u *unexpected) bin(w int, src proc.ID, imm uint64) *msgBin {
	src, imm = widen(w, src, imm)
	return &u.index[w][hash(src, imm)&uint64(len(u.index[w])-1)]
}

func (u *unexpected) newMessage() *message {
	m := u.free
	if m == nil {
		return new(message)
	}
	u.free = m.younger
	m.younger = nil
	return m
}

// release ends a message that is in no list.
func (u *unexpected) release(m *message) {
	u.dropData(m)
	*m = message{younger: u.free, region: fabric.Region{Key: m.region.Key[:0]}}
	u.free = m
}

func (u *unexpected) dropData(m *message) {
	if c := cap(m.data); c > 0 {
		class := bits.Len(uint(c)) - 1
		u.buffers[class] = append(u.buffers[class], m.data[:0])
	}
	m.data = nil
}

// buffer gives an empty buffer of capacity at least n.
func (u *unexpected) buffer(n int) []byte {
	class := bits.Len(uint(max(n, 64) - 1))
	if list := u.buffers[class]; len(list) > 0 {
		u.buffers[class] = list[:len(list)-1]
		return list[len(list)-1]
	}
	return make([]byte, 0, 1<<class)
}

func (u *unexpected) add(m *message) {
	u.n++
	m.older, m.younger = u.newest, nil
	if u.newest == nil {
		u.oldest = m
	} else {
		u.newest.younger = m
	}
	u.newest = m
	for w := range u.index {
		switch bins := len(u.index[w]); {
		case bins == 0 && w != 0:
		case u.n > 2*bins:
			u.build(w)
		default:
			u.bin(w, m.from, m.imm).push(w, m)
		}
	}
}

// build makes an index with room to grow.
func (u *unexpected) build(w int) {
	bins := firstBins
	for bins < u.n {
		bins *= 2
	}
	u.index[w] = make([]msgBin, bins)
	for m := u.oldest; m != nil; m = m.younger {
		u.bin(w, m.from, m.imm).push(w, m)
	}
}

func (b *msgBin) push(w int, m *message) {
	m.in[w] = msgLink{prev: b.last}
	if b.last == nil {
		b.first = m
	} else {
		b.last.in[w].next = m
	}
	b.last = m
}

func (b *msgBin) remove(w int, m *message) {
	at := m.in[w]
	if at.prev == nil {
		b.first = at.next
	} else {
		at.prev.in[w].next = at.next
	}
	if at.next == nil {
		b.last = at.prev
	} else {
		at.next.in[w].prev = at.prev
	}
	m.in[w] = msgLink{}
}

func (u *unexpected) remove(m *message) {
	u.n--
	for w := range u.index {
		if len(u.index[w]) > 0 {
			u.bin(w, m.from, m.imm).remove(w, m)
		}
	}
	if m.older == nil {
		u.oldest = m.younger
	} else {
		m.older.younger = m.younger
	}
	if m.younger == nil {
		u.newest = m.older
	} else {
		m.younger.older = m.older
	}
	m.older, m.younger = nil, nil
}

// claim takes a message out for a matched probe.
func (u *unexpected) claim(m *message) {
	u.remove(m)
	m.claimed = true
	if m.older = u.claims; m.older != nil {
		m.older.younger = m
	}
	u.claims = m
}

// unclaim ends that: its probe's Message is received, or nobody may receive it.
func (u *unexpected) unclaim(m *message) {
	m.claimed = false
	if m.younger == nil {
		u.claims = m.older
	} else {
		m.younger.older = m.older
	}
	if m.older != nil {
		m.older.younger = m.younger
	}
	m.older, m.younger = nil, nil
}

// match takes out the message that arrived first of those that a receive for
// (src, imm) matches, or gives nil.
func (u *unexpected) match(src proc.ID, imm uint64) *message {
	m := u.find(src, imm)
	if m != nil {
		u.remove(m)
	}
	return m
}

// find gives the message that match would take out.
func (u *unexpected) find(src proc.ID, imm uint64) *message {
	if u.n == 0 {
		return nil
	}
	w := wildness(src, imm)
	if len(u.index[w]) == 0 {
		if u.n <= fewUnexpected {
			return u.findAmongFew(src, imm)
		}
		u.build(w)
	}
	for m := u.bin(w, src, imm).first; m != nil; m = m.in[w].next {
		if m.matches(src, imm) {
			return m
		}
	}
	return nil
}

func (u *unexpected) findAmongFew(src proc.ID, imm uint64) *message {
	for m := u.oldest; m != nil; m = m.younger {
		if m.matches(src, imm) {
			return m
		}
	}
	return nil
}

// matches is the rule: whether a receive for (src, imm) takes the message.
func (m *message) matches(src proc.ID, imm uint64) bool {
	return (src == proc.None || m.from == src) &&
		m.imm>>32 == imm>>32 && (uint32(imm) == anyTag || m.imm == imm)
}

// unexpected makes a message with room for its data; nil: the sender may not have sent it.
func (e *Engine) unexpected(from proc.ID, imm uint64, total int) *message {
	ep := e.p.Lookup(from)
	if ep == nil {
		e.refused++
		return nil
	}
	l := e.adopt(ep)
	if !e.admits(l, total) {
		return nil
	}
	m := e.early.newMessage()
	m.from, m.imm, m.total = from, imm, total
	m.data = e.early.buffer(total)
	m.kept(l)
	return m
}
