//go:build cgo

package verbs

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Conn is the connection to a peer with an adapter. Its frames go over the sockets until the lane is there, and
// again if that fails: see lane.go.
type Conn struct {
	*tcp.Conn
	p *Provider

	generation uint32
	ports      int       // that both processes have; 0: the peer has not said how many
	port       *openPort // of the lane, or of the last one
	pair       pair
	mine       end
	inlined    int
	reads      *readPairs // nil: there are none
	met        bool       // the peer has offered its end
	linked     bool       // the pair is connected
	joined     bool       // met and linked: the pair receives and sends
	heard      bool       // the peer's end receives
	// sending: frames go over the lane. receiving: they come over it.
	sending, receiving bool
	starving           bool // a frame was refused since credit was last available

	credit      int      // messages that the peer has room for
	owed        int      // messages whose room the peer does not know of yet
	owing       bool     // it is in Provider.owing
	out         []onWay  // messages without acknowledgement, the oldest first
	first, next uint64   // number of out's first, and of the next one
	quiet       int      // the last messages, which have no completion
	listed      bool     // it is in Provider.unsignalled
	sent        uint64   // frames that have gone over lanes, but for those that have come back
	got         uint64   // frames that have come over lanes
	early       []uint32 // buffers with frames that have come before the note that they do

	wanted  bool     // the lane starts when the sockets have connected
	notes   [][]byte // for the peer, to be sent over the sockets
	wantsTo bool     // the note over waits among them, or is due
	resend  []onWay  // frames of a broken lane, to be sent over the sockets
	skip    uint64   // frames that come over the sockets and have come over the lane

	moves       int     // moves in out
	moved, gone int     // moves that are complete, and then lost, of which the sink has not been told
	listedMoved bool    // it is in Provider.moved
	lost        []onWay // moves of a broken lane, until the peer's end has failed too
	losing      int     // endings with such moves

	queued bool // it is in Provider.pending

	total    uint64 // frames that the departed peer has sent over lanes
	bye      watch  // since when nothing of that has come
	ended    bool   // the peer has ended, or is cut off
	cut      bool   // Invalidate
	asked    bool   // Unsent was true when last asked
	received uint64 // frames over lanes, for Traffic
	carried  uint64 // frames sent over lanes, for Traffic
	off      bool   // it has no lane any more, or never will
	breaks   uint64 // lanes that have failed
	heals    uint64 // lanes in place of those

	testing, tested bool               // it waits for the acknowledgement of the test of a new lane; has had it
	renewals        [mostRails]renewal // by the port of the lane that has failed
	unanswered      watch
}

// onWay is a message on its way, or a move (see moves.go). Its buffer is kept until the peer's adapter has it.
type onWay struct {
	slot    uint32
	port    uint8  // of the buffer
	counted bool   // it is a frame: it does not bring credit only, and does not ride
	move    bool   // slot may be noSlot
	into    []byte // a move copies there the bytes that it has read into its buffer
}

// messages is the number of messages on their way.
func (c *Conn) messages() int { return len(c.out) - c.moves }

// Caps implements fabric.Conn.
func (c *Conn) Caps() fabric.Caps {
	caps := c.Conn.Caps()
	caps.MaxFrame = min(caps.MaxFrame, slotBytes-headerBytes)
	return caps
}

// Describe names the path of the frames that are sent now.
func (c *Conn) Describe() string {
	if !c.sending {
		return c.Conn.Describe()
	}
	return fmt.Sprintf("verbs %s, queue pair %d", c.port.Port, c.mine.qp)
}

// TrySend implements fabric.Conn.
func (c *Conn) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	if !c.sending && len(c.notes) > 0 {
		c.p.endBatch()
		c.pump() // after the note over this frame goes over the lane
	}
	if !c.sending {
		c.p.endBatch()
		if len(c.notes)+len(c.resend) > 0 || c.p.left || c.awaitsLane() || !c.Conn.TrySend(class, imm, payload) {
			c.starving = true
			return c.ended && !c.p.left
		}
		return true
	}
	if c.p.left {
		return false
	}
	if !c.hasRoom() || !c.post(class, imm, payload) {
		c.starving = true
		return false
	}
	return true
}

// hasRoom reports whether the peer, and the queue pair, have room for a frame.
func (c *Conn) hasRoom() bool { return c.credit > 0 && c.messages() < c.p.ring()-spare }

// awaitsLane reports whether frames wait for the first lane. A peer may have sent before.
func (c *Conn) awaitsLane() bool { return c.p.cfg.Wait && c.generation == 0 && !c.off && !c.ended }

// post sends a message, class 0 to bring credit only; false: there is no buffer. Where it follows others at once it is
// sent with them: see batch.go.
func (c *Conn) post(class fabric.Class, imm uint64, payload []byte) bool {
	slot, err := c.port.outgoing.take()
	if err != nil {
		c.p.short = true
		return false
	}
	w := c.message(slot, header{imm: imm, class: class}, payload, c.signals())
	c.p.submit(c, &w)
	return true
}

// message puts a message into a buffer, and enters it.
func (c *Conn) message(slot uint32, h header, payload []byte, signal bool) work {
	h.length, h.credit = uint32(len(payload)), uint16(c.owed)
	c.owed = 0
	at, m := c.port.outgoing.at(slot)
	h.put(at)
	n := headerBytes + copy(at[headerBytes:], payload)
	counted := h.class != 0 && !h.rides
	c.out = append(c.out, onWay{slot: slot, port: uint8(c.port.n), counted: counted})
	c.p.onWay++
	if h.class != 0 {
		c.credit--
		c.carried++
	}
	if counted {
		c.sent++
	}
	c.next++
	return work{at: at[:n], m: m, id: c.next - 1, signal: signal, inlined: n <= c.inlined}
}

// signals reports whether the next message is to have a completion: now and then, for room among those on their way. While
// this process asks whether all have arrived, each message has one that is the only one on its way, which nothing may follow.
func (c *Conn) signals() bool {
	p := c.p
	alone := p.asking > 0 && len(c.out) == 0
	if p.asking > 0 {
		p.asking--
	}
	if c.quiet++; !alone && c.quiet < p.ring()/4 {
		if !c.listed {
			c.listed = true
			c.p.unsignalled = append(c.p.unsignalled, c)
		}
		return false
	}
	c.quiet = 0
	return true
}

// acknowledged frees the messages before a number.
func (c *Conn) acknowledged(before uint64) {
	n := int(min(before-c.first, uint64(len(c.out))))
	for i := range c.out[:n] {
		c.ends(&c.out[i])
	}
	c.first += uint64(n)
	c.p.onWay -= n
	if c.p.short && n > 0 {
		c.p.short, c.p.returned = false, true
	}
	if n == len(c.out) {
		c.out = c.out[:0]
		if c.asked {
			c.asked, c.p.returned = false, true
		}
	} else {
		c.out = append(c.out[:0], c.out[n:]...)
	}
	c.mayContinue()
}

// mayContinue notes that a refused sender has credit.
func (c *Conn) mayContinue() {
	if c.starving && c.sending && c.hasRoom() && c.moves < mostMoves {
		c.starving, c.p.returned = false, true
	}
}

const (
	// forPoll is the result of Await when Poll has something to do.
	forPoll = fabric.NotYet - 1
	// looksEach is the number of looks at the completion queue that take as long as one at a socket.
	looksEach = 32
)

// Await implements fabric.Awaiter: a frame of the lane goes to its buffer without the sink.
func (c *Conn) Await(class fabric.Class, imm uint64, buf []byte, looks int) int {
	p := c.p
	if !c.receiving {
		if c.skip > 0 || c.ended || p.lanes > 0 {
			return forPoll
		}
		return c.Conn.Await(class, imm, buf, looks)
	}
	p.endBatch()
	if p.busy() || p.socketsDue() {
		return forPoll
	}
	p.roundTrip(looksEach * looks)
	switch {
	case len(p.arrived) == 0:
		return fabric.NotYet
	case len(p.arrived) > 1 || p.arrived[0].port != c.port || p.arrived[0].pair != c.mine.qp || !c.receiving:
		return forPoll
	}
	a := p.arrived[0]
	at, _ := a.port.incoming.at(a.slot)
	if !validMessage(at[:min(int(a.length), slotBytes)]) {
		return forPoll
	}
	h, payload := frameOf(at)
	if h.class != class || h.imm != imm || len(payload) > len(buf) {
		return forPoll
	}
	p.arrived = p.arrived[:0]
	c.count(&h)
	copy(buf, payload)
	a.port.repost = append(a.port.repost, a.slot)
	return len(payload)
}

// TryLend implements fabric.Lender. Its limit is 0, so it is never called.
func (c *Conn) TryLend(fabric.Class, uint64, []byte) bool { return false }

// Lends implements fabric.Lender: payloads are copied to registered memory.
func (c *Conn) Lends() int { return 0 }

// Received implements fabric.Lender.
func (c *Conn) Received() uint64 { return c.Conn.Received() + c.received }

// Unsent implements fabric.Lender: messages on their way are lost if this process dies, until the peer's adapter
// has them.
func (c *Conn) Unsent() bool {
	c.p.endBatch()
	if c.quiet > 0 {
		c.p.settle()
	}
	c.asked = !c.ended && (c.sending && len(c.out) > 0 || len(c.resend) > 0)
	return c.asked || c.Conn.Unsent()
}

// Traffic implements fabric.Meter.
func (c *Conn) Traffic() fabric.Traffic {
	t := c.Conn.Traffic()
	t.Sent += c.carried
	t.Received += c.received
	t.Broken += c.breaks
	t.Healed += c.heals
	return t
}

// Invalidate implements fabric.Conn.
func (c *Conn) Invalidate() {
	c.p.endBatch()
	c.cut, c.ended = true, true
	c.drop()
	c.Conn.Invalidate()
}

// drop frees the lane, and the messages on their way.
func (c *Conn) drop() {
	c.EndFetches()
	c.release()
	c.p.onWay -= len(c.out)
	for _, list := range [][]onWay{c.out, c.resend, c.lost} {
		for i := range list {
			c.p.give(&list[i])
		}
	}
	c.out, c.resend, c.lost, c.notes = nil, nil, nil, nil
	c.moves, c.moved, c.gone = 0, 0, 0
	c.sending = false
	c.comes(false)
}

// corrupt cuts a peer off that has sent a message that no correct process sends.
func (c *Conn) corrupt() {
	if !c.ended {
		c.Invalidate()
		if c.p.up != nil && c.p.up.Down != nil {
			c.p.up.Down(c.Peer(), proc.Cause{Kind: proc.Corrupt})
		}
	}
}
