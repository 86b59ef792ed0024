//go:build cgo

package verbs

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A message from registered memory is announced, and the receiver's adapter reads it: into registered memory directly,
// into other memory by way of buffers. Reads have queue pairs of their own, so that one that fails, because the sender has freed
// the memory, does not end the lane: one for each rail, a port that both processes have. Many messages are read at once, and a long
// one in pieces over all rails: see get.go. Poll finds ended reads, and starts the next ones.
//
// The pairs live as long as the lane. When they are freed nothing of theirs is written any more, so a peer's end, Invalidate and
// EndFetches free them first.

const (
	// stageBytes is the length of a buffer, and of a read by way of it, or over several rails.
	stageBytes = 256 << 10
	// directBytes is the length of a read into registered memory over one rail.
	directBytes = 1 << 20
	// readsAtOnce is the number of reads of a pair under way, mostReads those over a port, mostBuffers its buffers.
	readsAtOnce, mostReads, mostBuffers = 8, 64, 8
)

// reads is the state that the connections of a provider share for reads.
type reads struct {
	next               uint64       // the number of the last read
	due, posting       []*readPairs // connections whose messages may go on; that are at it
	starved            []*readPairs // that wait for reads of others to end
	fetched, reporting []fetched    // messages of which the sink has not been told; is being told
	renewing           []*rail      // that have failed and come back
	spare              []*fetch     // for later messages
}

// readPairs are the queue pairs for reads of a connection, by rail.
type readPairs struct {
	peer   proc.ID
	rails  []*rail
	list   []*fetch // messages, the oldest first
	joined bool
	over   bool // a message could not be read: no other is tried
	due    bool // it is in reads.due
	starve bool // it is in reads.starved
	ended  bool
}

// rail is a pair over one port.
type rail struct {
	of      *readPairs
	port    *openPort
	at      pair   // the zero one: there is none
	number  uint64 // of the pair, among those of the rail
	mine    end
	met     bool    // the peer's end is known
	linked  bool    // it is connected
	joined  bool    // met and linked, and it has not failed since
	why     error   // of the pair that has failed, until there is another one
	bytes   uint64  // that have come
	pieces  []piece // under way, in order
	renewal renewal

	unanswered watch
}

var errNoReads = fmt.Errorf("verbs: no reads from this peer: %w", fabric.ErrUnsupported)

// Expose implements fabric.Conn, for registered memory.
func (c *Conn) Expose(buf []byte) (fabric.Region, error) {
	if r := c.reads; r == nil || !r.joined || r.over {
		return fabric.Region{}, errNoReads
	}
	m := c.p.registeredAs(buf)
	if m == nil {
		return fabric.Region{}, fmt.Errorf("verbs: this memory is not registered: %w", fabric.ErrUnsupported)
	}
	return fabric.Region{Addr: addressOf(buf), Len: uint64(len(buf)), Key: m.key}, nil
}

// ReadInPlace reports whether a message is better announced, as the peer's adapter reads it.
func (c *Conn) ReadInPlace(buf []byte) bool {
	r := c.reads
	return r != nil && c.sending && r.joined && !r.over && c.p.registeredAs(buf) != nil
}

// takeBuffer gives a free buffer. errInUse: one will come back; other errors: there is none, and none can be made.
func (port *openPort) takeBuffer() (m memory, err error) {
	if n := len(port.buffers); n > 0 {
		m, port.buffers = port.buffers[n-1], port.buffers[:n-1]
		return m, nil
	}
	if port.made < mostBuffers {
		m, err = port.d.newMemory(stageBytes)
	}
	switch {
	case port.made == mostBuffers, err != nil && port.made > 0:
		return memory{}, errInUse
	case err == nil:
		port.made++
	}
	return m, err
}

var errInUse = errors.New("verbs: all buffers are in use")

// leaves takes a read from those under way.
func (a *reads) leaves(port *openPort, e *piece) {
	if e.via.c != nil {
		port.buffers = append(port.buffers, e.via)
	}
	e.f.underWay--
	port.underWay--
	for _, r := range a.starved {
		r.starve = false
		a.isDue(r)
	}
	a.starved = a.starved[:0]
}

// isDue has the messages of a connection go on.
func (a *reads) isDue(r *readPairs) {
	if !r.due {
		r.due = true
		a.due = append(a.due, r)
	}
}

// starves has them go on when a read has ended.
func (a *reads) starves(r *readPairs) {
	if !r.starve {
		r.starve = true
		a.starved = append(a.starved, r)
	}
}

// busy reports whether a look at the completions is not all that has to be done.
func (a *reads) busy() bool { return len(a.due)+len(a.fetched) > 0 }

// newReads makes the queue pairs for reads of a connection; without one messages go as frames.
func (c *Conn) newReads() *readPairs {
	r := &readPairs{peer: c.Peer()}
	for _, port := range c.p.ports {
		x := &rail{of: r, port: port}
		x.open(c.p)
		r.rails = append(r.rails, x)
	}
	c.reads = r
	return r
}

// open makes a pair; false: there is none yet.
func (x *rail) open(p *Provider) bool {
	x.met, x.linked, x.why, x.mine = false, false, nil, end{}
	at, mine, _, err := x.port.d.newPair(readsAtOnce, true)
	if err != nil {
		x.breaks(p, err)
		return false
	}
	x.at, x.mine = at, mine
	x.port.rails[mine.qp] = x
	return true
}

// ends describes the pairs for the peer.
func (r *readPairs) ends() (list [mostRails]end) {
	for i, x := range r.rails {
		list[i] = x.mine
	}
	return list
}

// joinReads joins them to the peer's, each to that of the same number.
func (c *Conn) joinReads(theirs *[mostRails]end) {
	r := c.reads
	if r == nil {
		return
	}
	for i, x := range r.rails {
		if x.at != (pair{}) && theirs[i].qp > 0 {
			x.join(c.p, &theirs[i])
		}
	}
}

func (x *rail) join(p *Provider, theirs *end) {
	linked, err := x.port.d.join(x.at, &x.mine, theirs, p.cfg.Timeout, p.conns[x.of.peer].connects())
	if err != nil {
		x.breaks(p, err)
		return
	}
	x.met = true
	if x.linked = x.linked || linked; x.linked {
		x.meets(p)
	}
}

// meets notes that both ends are joined.
func (x *rail) meets(p *Provider) {
	x.joined, x.of.joined, x.of.over = true, true, false
	p.reading.isDue(x.of)
}

// renewRails makes other pairs for the rails whose time has come.
func (p *Provider) renewRails() {
	now, a := time.Now(), &p.reading
	list := a.renewing
	a.renewing = nil
	for _, x := range list {
		switch c := p.conns[x.of.peer]; {
		case x.of.ended || x.why == nil || c.off || p.left: // the lane has ended too, or the peer was first
		case now.Before(x.renewal.at):
			a.renewing = append(a.renewing, x)
		default:
			c.renewRail(x, x.number+1)
		}
	}
}

// renewRail replaces the pair of a rail, and has the peer do so too.
func (c *Conn) renewRail(x *rail, number uint64) {
	c.p.endBatch()
	x.withdraw(c.p, errReadsEnd)
	if x.number = number; x.open(c.p) {
		c.say(&note{word: again, first: number*mostRails + uint64(x.port.n), end: x.mine})
	}
}

// railAgain joins a rail to another pair of the peer.
func (c *Conn) railAgain(n *note) {
	i, number := int(n.first%mostRails), n.first/mostRails
	if c.reads == nil || i >= len(c.reads.rails) || c.p.left {
		return
	}
	x := c.reads.rails[i]
	if number > x.number {
		c.renewRail(x, number)
	}
	if number == x.number && x.at != (pair{}) && !x.met && x.why == nil {
		x.join(c.p, &n.end)
	}
}

// detach takes the pairs. No other read begins.
func (r *readPairs) detach() (pairs []pair) {
	r.ended = true
	for _, x := range r.rails {
		if x.at != (pair{}) {
			pairs = append(pairs, x.detach())
		}
	}
	return pairs
}

// settle reports each message under way with an error. The pairs have been freed.
func (r *readPairs) settle(a *reads) {
	for _, x := range r.rails {
		x.settle(a)
	}
	for _, f := range r.list {
		a.fetched = append(a.fetched, fetched{r.peer, f.token, errReadsEnd})
	}
}

// withdraw frees the pair. Then the pieces under way are read again.
func (x *rail) withdraw(p *Provider, why error) {
	if x.at == (pair{}) {
		return
	}
	for i := range x.pieces {
		x.pieces[i].f.why = why
	}
	e := &ending{c: p.conns[x.of.peer], pairs: []pair{x.detach()}, rail: x, again: x.pieces}
	x.pieces = nil
	p.freeLater(e)
}

// readsAgain has pieces read again that are not under way any more.
func (x *rail) readsAgain(a *reads, pieces []piece) {
	for i := range pieces {
		e := &pieces[i]
		e.f.again = append(e.f.again, e.span)
		a.leaves(x.port, e)
	}
	a.isDue(x.of)
}

// detach takes the pair, which fails.
func (x *rail) detach() pair {
	at := x.at
	at.fail()
	delete(x.port.rails, x.mine.qp)
	x.at, x.joined = pair{}, false
	return at
}

func (x *rail) settle(a *reads) {
	for i := range x.pieces {
		a.leaves(x.port, &x.pieces[i])
	}
	x.pieces = nil
}
