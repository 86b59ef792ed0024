package p2p

import (
	"math/bits"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// message is an unexpected message, an announced one (RTS), or one that is arriving in fragments.
type message struct {
	from proc.ID
	imm  uint64
	// total is the message's length, got the number of bytes that have arrived.
	total, got int
	data       []byte   // bytes that arrived without a receive
	req        *Request // the matched receive of a message that is still arriving
	link       *link
	cost       int // counted in link.kept
	rts        bool
	claimed    bool          // removed from matching by a matched probe, not received yet
	orphan     bool          // still arriving, to be dropped
	lent       bool          // rts: the receiver may look at the sender's memory; see loan.go
	placed     bool          // the provider writes into data or the receive's buffer until the message is complete
	region     fabric.Region // rts: location of the data
	remote     uint64        // rts: the sender's request

	in             [4]msgLink // neighbours in the bins of each index
	younger, older *message   // neighbours in order of arrival, or among the claimed
}

type msgLink struct{ next, prev *message }

// unexpectedQueue holds the unexpected messages in order of arrival, and in one index for each kind
// of wildcard that a receive may have (see [wildcards]). The first message builds the index without
// wildcards; another one is built by the first search for its kind among more than a few messages.
type unexpectedQueue struct {
	index          [4][]msgBin
	least          int // as in postedQueue
	n              int
	oldest, newest *message
	claims         *message // removed by matched probes, in no order, linked by older
	free           *message // linked by younger
	// buffers are free payload buffers by size class (log2 of capacity), up to the largest class so far.
	buffers [][][]byte
}

type msgBin struct{ first, last *message }

// fewUnexpected messages are searched one by one.
const fewUnexpected = 16

func (u *unexpectedQueue) bin(w int, src proc.ID, imm uint64) *msgBin {
	src, imm = wildcardKey(w, src, imm)
	return &u.index[w][hash(src, imm)&uint64(len(u.index[w])-1)]
}

func (u *unexpectedQueue) newMessage() *message {
	m := u.free
	if m == nil {
		return new(message)
	}
	u.free = m.younger
	m.younger = nil
	return m
}

// release recycles a message that is in no list.
func (u *unexpectedQueue) release(m *message) {
	u.dropData(m)
	*m = message{younger: u.free, region: fabric.Region{Key: m.region.Key[:0]}}
	u.free = m
}

func (u *unexpectedQueue) dropData(m *message) {
	if c := cap(m.data); c > 0 {
		class := bits.Len(uint(c)) - 1
		for class >= len(u.buffers) {
			u.buffers = append(u.buffers, nil)
		}
		u.buffers[class] = append(u.buffers[class], m.data[:0])
	}
	m.data = nil
}

// buffer returns an empty buffer of capacity at least n.
func (u *unexpectedQueue) buffer(n int) []byte {
	class := bits.Len(uint(max(n, 64) - 1))
	if class < len(u.buffers) && len(u.buffers[class]) > 0 {
		list := u.buffers[class]
		u.buffers[class] = list[:len(list)-1]
		return list[len(list)-1]
	}
	return make([]byte, 0, 1<<class)
}

func (u *unexpectedQueue) add(m *message) {
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
func (u *unexpectedQueue) build(w int) {
	bins := max(u.least, sparseBins)
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

func (u *unexpectedQueue) remove(m *message) {
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

// claim removes a message from matching for a matched probe.
func (u *unexpectedQueue) claim(m *message) {
	u.remove(m)
	m.claimed = true
	if m.older = u.claims; m.older != nil {
		m.older.younger = m
	}
	u.claims = m
}

// unclaim undoes claim: the message is received or dropped.
func (u *unexpectedQueue) unclaim(m *message) {
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

// match removes and returns the earliest message that a receive for (src, imm) matches, or nil.
func (u *unexpectedQueue) match(src proc.ID, imm uint64) *message {
	m := u.find(src, imm)
	if m != nil {
		u.remove(m)
	}
	return m
}

// find returns the message that match would remove.
func (u *unexpectedQueue) find(src proc.ID, imm uint64) *message {
	if u.n == 0 {
		return nil
	}
	w := wildcards(src, imm)
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

func (u *unexpectedQueue) findAmongFew(src proc.ID, imm uint64) *message {
	for m := u.oldest; m != nil; m = m.younger {
		if m.matches(src, imm) {
			return m
		}
	}
	return nil
}

// matches is the matching rule: whether a receive for (src, imm) takes the message.
func (m *message) matches(src proc.ID, imm uint64) bool {
	return (src == proc.None || m.from == src) &&
		m.imm>>32 == imm>>32 && (uint32(imm) == anyTag || m.imm == imm)
}

// newUnexpected makes a message with room for its data, or returns nil if the sender may not have
// sent it.
func (e *Engine) newUnexpected(from proc.ID, imm uint64, total int) *message {
	ep := e.p.Lookup(from)
	if ep == nil {
		e.refused++
		return nil
	}
	l := e.linkFor(ep)
	if !e.admits(l, total) {
		return nil
	}
	m := e.unexpected.newMessage()
	m.from, m.imm, m.total = from, imm, total
	m.data = e.unexpected.buffer(total)
	m.kept(l)
	return m
}
