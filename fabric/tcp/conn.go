package tcp

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// state is the state of a connection.
type state uint8

const (
	waiting  state = iota // no socket; the next attempt is due at Conn.deadline
	dialling              // Conn.dial is in progress
	up                    // frames go both ways
	ended                 // the peer has ended, or is invalidated
)

// Conn is the connection to one peer. The engine calls it with its lock held.
type Conn struct {
	p     *Provider
	peer  proc.ID
	state state
	fd    int // in state up, else -1
	key   int32
	path  path // of the current connection, or the last one

	out outbox
	// starving: a frame was refused since credit was last available. blocked: it is in
	// Provider.blocked, because the socket is full.
	starving, blocked bool
	// watched: epoll reports when the socket takes more.
	watched bool
	// long: it is in Provider.long. settling: it is in Provider.blocked until the kernel has sent all.
	long, settling bool

	// doubted: it is in Provider.doubted. acked is the number of bytes that the peer's kernel had acknowledged at the last look, ackedThen
	// when that last changed, or nothing was being sent again.
	doubted   bool
	acked     uint64
	ackedThen time.Time

	// grown: it is in Provider.grown. sentThen is out.next when that was last looked at.
	grown    bool
	sentThen uint32

	in           inbox
	got          uint32 // frames received, modulo 2^32
	received     uint64 // the same, 64 bits
	unackedBytes int    // received since the last acknowledgement
	ackDue       bool   // the peer waits for an acknowledgement
	// outbox is the size of the peer's: it fills up unless acknowledgements come in time.
	outbox   uint32
	returned int // returned loans that are not reported yet
	detached int // loans whose return must not be reported

	peerAddress  address // of the peer
	paths        []path  // to the peer
	dial         *dial
	pathIndex    int       // of the paths, the current one
	refusedPaths int       // paths that refused in this round
	downSince    time.Time // when the connection was lost or first tried
	deadline     time.Time // next attempt, or end of this one; zero: none
	retryPause   time.Duration
	lastError    error // of the last attempt
	wasUp        bool  // has been up
	// broken, healed count the interruptions.
	broken, healed uint64

	farewell, told uint64      // see Farewell
	informedCause  *proc.Cause // Inform: how the peer has ended
	invalidated    bool        // Invalidate
	replaced       bool        // its last bytes are being read, and another connection replaces it
	endCause       proc.Cause
}

// Peer implements fabric.Conn.
func (c *Conn) Peer() proc.ID { return c.peer }

// Describe names the transport of the connection.
func (c *Conn) Describe() string {
	switch {
	case !c.wasUp && c.lastError != nil:
		return fmt.Sprintf("tcp, not connected yet: %v", c.lastError)
	case !c.wasUp:
		return "tcp, not connected yet"
	}
	return c.path.String()
}

// Caps implements fabric.Conn.
func (c *Conn) Caps() fabric.Caps {
	return fabric.Caps{MaxFrame: c.p.cfg.longest(), Eager: c.p.cfg.Eager, Reply: c.p.cfg.Reply}
}

// TrySend implements fabric.Conn.
func (c *Conn) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	p, o := c.p, &c.out
	h := header{length: uint32(len(payload)), kind: kind(class), imm: imm}
	if p.sent == c && len(payload) < burstFrame && c.joinBurst(&h, payload) {
		c.watchAcks()
		return true
	}
	p.endBurst()
	if !c.admits(len(payload)) {
		return c.state == ended && !p.departing
	}
	if len(payload) < directSend {
		c.addShort(&h, payload)
		c.flush()
		p.sent = c
		return true
	}
	h.taken = c.ack()
	c.add(&h, len(payload))
	// Written from its place first, so that the peer reads while the kept copy is made.
	v := &p.out
	n := o.gather(v.pieces[:maxPieces-1])
	v.pieces[n] = payload
	sent, errno := v.send(c.fd, n+1)
	c.watchAcks()
	o.append(payload)
	o.wrote(sent)
	c.wrote(errno)
	return true
}

// directSend is the length from which payloads are written from their place.
const directSend = 8 << 10

// TryLend sends a frame whose payload stays in place, unchanged, until fabric.Sink.Returned is
// called: once for each, in the order in which they were lent. False means no credit. A connection
// that ends returns nothing, and does not read the payloads any more.
//
// Preconditions: as TrySend, except the length, which is 1 to Lends.
func (c *Conn) TryLend(class fabric.Class, imm uint64, payload []byte) bool {
	c.p.endBurst()
	if !c.admits(0) {
		return c.state == ended && !c.p.departing
	}
	h := header{length: uint32(len(payload)), kind: kind(class), flags: flagLent, taken: c.ack(), imm: imm}
	c.add(&h, 0)
	c.out.lend(payload)
	c.noteLong(len(payload))
	c.flush()
	return true
}

// add adds a frame with n bytes in the ring to the outbox.
func (c *Conn) add(h *header, n int) {
	c.out.add(h, n)
	if len(c.out.buf) > idleRing && !c.grown {
		c.p.grows(c)
	}
	c.noteLong(n)
}

// Received implements fabric.Lender.
func (c *Conn) Received() uint64 { return c.received }

// Traffic implements fabric.Meter.
func (c *Conn) Traffic() fabric.Traffic {
	return fabric.Traffic{Sent: c.out.added, Received: c.received, Broken: c.broken, Healed: c.healed}
}

// Lends is the longest payload of TryLend.
func (c *Conn) Lends() int { return maxLent }

// DetachBuffers implements fabric.Lender.
func (c *Conn) DetachBuffers() {
	c.p.endBurst()
	for i := range c.out.lent {
		c.out.lent[i].data = bytes.Clone(c.out.lent[i].data)
	}
	c.detached += len(c.out.lent)
	if in := &c.in; in.placed || in.again {
		in.dst, in.spareDst, in.discard = bytes.Clone(in.dst), true, true
	}
}

// admits reports whether a frame with n bytes in the outbox may be added. Accepted frames are in
// the kernel, except for a part of one: so Close has nothing else to wait for.
func (c *Conn) admits(n int) bool {
	if c.state == up && !c.out.unsent() && c.out.room(n) && !c.p.departing {
		return true
	}
	c.starving = true
	return false
}

// ack returns the acknowledgement for the next frame and notes that it is sent.
func (c *Conn) ack() uint32 {
	c.unackedBytes, c.ackDue = 0, false
	return c.got
}

// flush writes pending data, as far as the socket takes them.
func (c *Conn) flush() {
	if c.out.unsent() {
		c.watchAcks()
	}
	v := &c.p.out
	for c.out.unsent() {
		n := c.out.gather(v.pieces[:])
		var sent int
		var errno unix.Errno
		if n == 1 {
			sent, errno = sendBytes(c.fd, v.pieces[0])
			v.pieces[0] = nil
		} else {
			sent, errno = v.send(c.fd, n)
		}
		c.out.wrote(sent)
		if c.wrote(errno); errno != 0 {
			return
		}
	}
}

// wrote handles the result of a write. A failed write is not the end yet: data that the peer sent
// before may still be readable, and then the end of the stream.
func (c *Conn) wrote(errno unix.Errno) {
	if c.out.unsent() && !c.blocked {
		c.blocked = true
		c.p.blocked = append(c.p.blocked, c)
	}
	if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
		c.p.suspects = append(c.p.suspects, c)
	}
}

// sendAck sends an acknowledgement in a frame of its own, unless the socket is full: then the
// pending data must go first.
func (c *Conn) sendAck() {
	if c.state != up || c.out.unsent() {
		return
	}
	h := header{kind: kindTaken, taken: c.ack()}
	b := c.out.scratch[:]
	h.put(b)
	n, errno := sendBytes(c.fd, b)
	c.watchAcks()
	c.out.urgent = append(c.out.urgent, b[n:]...)
	c.wrote(errno)
}

// Expose implements fabric.Conn: the memory of a peer cannot be read over a stream.
func (c *Conn) Expose([]byte) (fabric.Region, error) { return fabric.Region{}, fabric.ErrUnsupported }

// Get implements fabric.Conn.
func (c *Conn) Get([]byte, fabric.Region, uint64) error { return fabric.ErrUnsupported }

// Invalidate implements fabric.Conn.
func (c *Conn) Invalidate() {
	p := c.p
	if p.departing && p.sink == nil { // the acceptor reads it, and Poll is not the caller
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	p.endBurst()
	c.invalidated = true
	c.finish()
}

// finish ends the use of the connection permanently.
func (c *Conn) finish() {
	c.hangUp()
	c.p.reconnected(c)
	c.state, c.deadline = ended, time.Time{}
	c.out.clear()
	c.in = inbox{}
}

// hangUp closes the socket, and that of the dial.
func (c *Conn) hangUp() {
	if c.dial != nil {
		c.p.discard(c.dial.fd, c.dial.key)
		c.dial = nil
	}
	if c.fd >= 0 {
		c.p.discard(c.fd, c.key)
		c.fd = -1
	}
	c.watched, c.blocked, c.settling = false, false, false
	c.p.suspects = slices.DeleteFunc(c.p.suspects, func(o *Conn) bool { return o == c })
}

// reportEnd ends the connection and makes the next Poll report the peer's end.
func (c *Conn) reportEnd(cause proc.Cause) {
	if c.state != ended {
		c.endCause = cause
		c.p.ends = append(c.p.ends, c)
		c.finish()
	}
}
