package p2p

import (
	"math/bits"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/proc"
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
	region     fabric.Region // rts: where the data lie
	remote     uint64        // rts: the sender's request

	next, prev     *message // in its bin
	younger, older *message // in order of arrival
}

// unexpected holds messages without a receive, in bins by (source, imm) and in
// one list by arrival for wildcards.
type unexpected struct {
	bins           []msgBin
	n              int
	oldest, newest *message
	free           *message
	// buffers are free payload buffers by size class (log2 of capacity).
	buffers [bits.UintSize][][]byte
}

type msgBin struct{ first, last *message }

func (u *unexpected) bin(src proc.ID, imm uint64) *msgBin {
	return &u.bins[hash(src, imm)&uint64(len(u.bins)-1)]
}

func (u *unexpected) newMessage() *message {
	m := u.free
	if m == nil {
		return new(message)
	}
	u.free = m.next
	m.next = nil
	return m
}

// release ends a message that is in no list.
func (u *unexpected) release(m *message) {
	u.dropData(m)
	*m = message{next: u.free}
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
	if u.n >= 2*len(u.bins) {
		u.grow()
	}
	u.n++
	u.bin(m.from, m.imm).push(m)
	m.older, m.younger = u.newest, nil
	if u.newest == nil {
		u.oldest = m
	} else {
		u.newest.younger = m
	}
	u.newest = m
}

func (b *msgBin) push(m *message) {
	m.next, m.prev = nil, b.last
	if b.last == nil {
		b.first = m
	} else {
		b.last.next = m
	}
	b.last = m
}

func (u *unexpected) grow() {
	u.bins = make([]msgBin, max(firstBins, 2*len(u.bins)))
	for m := u.oldest; m != nil; m = m.younger {
		u.bin(m.from, m.imm).push(m)
	}
}

func (u *unexpected) remove(m *message) {
	u.n--
	b := u.bin(m.from, m.imm)
	if m.prev == nil {
		b.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		b.last = m.prev
	} else {
		m.next.prev = m.prev
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
	m.next, m.prev, m.older, m.younger = nil, nil, nil, nil
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

func (u *unexpected) find(src proc.ID, imm uint64) *message {
	if u.n == 0 {
		return nil
	}
	if wildness(src, imm) != 0 {
		return u.findWild(src, imm)
	}
	for m := u.bin(src, imm).first; m != nil; m = m.next {
		if m.imm == imm && m.from == src {
			return m
		}
	}
	return nil
}

func (u *unexpected) findWild(src proc.ID, imm uint64) *message {
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
