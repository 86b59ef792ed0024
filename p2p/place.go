package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// On media that are read by system calls, a long payload is received straight into its final place.
// The provider asks for the place when it has the frame's header, and reports when the payload is
// complete. In between the message is arriving, like one in fragments.

// place is the memory for the payload of an arriving frame; nil: the frame is to be delivered.
func (e *Engine) place(from proc.ID, class fabric.Class, imm uint64, n int) []byte {
	ep := e.p.Lookup(from)
	if ep == nil {
		return nil
	}
	l := e.linkFor(ep)
	switch {
	case class == fabric.ClassEager && l.in == nil:
		return e.placeEager(l, imm, n)
	case class == fabric.ClassFrag && imm == 0 && l.in != nil && l.in.req != nil && n <= l.in.total-l.in.got:
		return rest(l.in.req.buf, l.in.got, n)
	case class == fabric.ClassFrag && imm != 0:
		if r := e.request(imm-1, l); r != nil && r.streaming && n <= r.total-r.got {
			return rest(r.buf, r.got, n)
		}
	}
	return nil
}

// rest is the n bytes from at, or nil if the buffer is shorter.
func rest(buf []byte, at, n int) []byte {
	if at+n > len(buf) {
		return nil
	}
	return buf[at:][:n:n]
}

// placeEager matches a message whose header has arrived: into its receive's buffer, or into a
// buffer of its own if there is no receive or a shorter one.
func (e *Engine) placeEager(l *link, imm uint64, n int) []byte {
	r := e.posted.match(l.peer, imm)
	if r == nil {
		m := e.newUnexpected(l.peer, imm, n)
		if m == nil {
			return nil // onEager drops it
		}
		m.data, m.placed = m.data[:n], true
		l.in = m
		e.addUnexpected(m)
		return m.data
	}
	m := e.unexpected.newMessage()
	m.from, m.imm, m.total, m.link, m.req, m.placed = l.peer, imm, n, l, r, true
	l.in = m
	r.matched(l.peer, imm)
	l.addActive(r)
	if n > len(r.buf) {
		m.data = e.unexpected.buffer(n)[:n]
		return m.data
	}
	return r.buf[:n:n]
}

// onPlaced continues with a complete payload.
func (e *Engine) onPlaced(from proc.ID, class fabric.Class, imm uint64, n int) {
	l := e.findLink(from)
	switch {
	case l == nil:
	case class == fabric.ClassFrag && imm != 0:
		if r := e.request(imm-1, l); r != nil && r.streaming {
			e.advance(l, r, n)
		}
	case l.in == nil:
	case class == fabric.ClassEager:
		m := l.in
		if r := m.req; r != nil && m.data != nil {
			copy(r.buf, m.data)
		}
		e.arrived(l, n)
	default:
		e.arrived(l, n)
	}
}

// onReturned completes the sends whose last loan has been returned.
func (e *Engine) onReturned(peer proc.ID, n int) {
	l := e.findLink(peer)
	for ; l != nil && n > 0 && l.loans.n > 0; n-- {
		r := l.loans.pop()
		r.lent--
		if r.lent == 0 && r.handed {
			l.removeActive(r)
			r.Finish()
		}
	}
}

// loans are the requests whose payloads have been lent, in order, one entry for each loan.
type loans struct {
	ring     []*Request
	first, n int
}

func (q *loans) push(r *Request) {
	if q.n == len(q.ring) {
		grown := make([]*Request, max(2*q.n, 8))
		for i := range q.n {
			grown[i] = q.ring[(q.first+i)%len(q.ring)]
		}
		q.ring, q.first = grown, 0
	}
	q.ring[(q.first+q.n)%len(q.ring)] = r
	q.n++
}

func (q *loans) pop() *Request {
	r := q.ring[q.first]
	q.ring[q.first] = nil
	q.first = (q.first + 1) % len(q.ring)
	q.n--
	return r
}

// lendFrom is the length from which fragments are lent instead of copied: for shorter ones the copy
// is cheaper than the notice of return.
const lendFrom = 32 << 10

// lend hands over the next fragment without a copy, or returns false without credit.
func (o *op) lend(l *link) bool {
	n := min(len(o.data), l.ep.Lends)
	if !l.ep.TryLend(o.class, o.imm, o.data[:n]) {
		return false
	}
	o.data = o.data[n:]
	o.req.lent++
	l.loans.push(o.req)
	return true
}
