package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

const (
	// window is the length of a read where a header is due: many short frames come at a time, and
	// long ones should be copied only once.
	window = 8 << 10
	// maxAssembled is the longest frame that is assembled in the inbox; others have a buffer, or
	// get one.
	maxAssembled = 64 << 10
	inboxBytes   = headerBytes + maxAssembled + window
	// batch bounds the bytes that Poll reads from one connection before it turns to others.
	batch = 4 << 20
)

// inbox contains bytes that have been read and not delivered: buf[r:w], and the first part bytes of
// a frame with a buffer of its own, dst.
type inbox struct {
	buf  []byte // the provider's, while it is read and parsed; nil: nothing is left
	own  bool   // buf is of this connection
	r, w int
	// placed: the next bytes read belong to dst. again: the frame of dst comes once more from its
	// header on, over another connection.
	placed, again bool
	placeAsked    bool // the sink has no buffer for the frame at r
	spareDst      bool // dst is of Provider.takeSpare
	discard       bool // do not report the frame in dst
	head          header
	dst           []byte
	part          int
}

// reset forgets partial frames: they come again. A frame that has a buffer keeps it.
func (in *inbox) reset() {
	in.r, in.w, in.part = 0, 0, 0
	in.again = in.again || in.placed
	in.placed = false
}

// receive reads and delivers arrived frames; it returns the number of events.
func (c *Conn) receive(s *fabric.Sink) int {
	n := c.receiveSome(s)
	c.ownBuffer()
	return n
}

func (c *Conn) receiveSome(s *fabric.Sink) int {
	n := 0
	for total := 0; total < batch && c.state == up; {
		got, whole, errno := c.read()
		if errno == unix.EAGAIN {
			c.ackIfDue()
			return n
		}
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			c.broke(errno)
			return n + 1
		case got == 0:
			c.broke(nil)
			return n + 1
		}
		total += got
		n += 1 + c.parse(s)
		if !whole {
			break
		}
	}
	// A peer whose outbox is full sends nothing more that would lead here again.
	if c.ackDue || c.unackedBytes >= int(c.outbox)/4 && c.state == up && c.drained() {
		c.sendAck()
	}
	return n
}

// drained reports whether nothing more can be read.
func (c *Conn) drained() bool {
	left, err := unix.IoctlGetInt(c.fd, unix.SIOCINQ)
	return err != nil || left == 0
}

// ackIfDue sends an acknowledgement, if the peer waits for it, or for room. It is called when
// nothing more can be read: a peer that has departed may have closed, and data sent to a closed
// socket discard unread data. A living peer has written its whole outbox by then.
func (c *Conn) ackIfDue() {
	if c.ackDue || c.unackedBytes >= int(c.outbox)/4 {
		c.sendAck()
	}
}

// read reads once. whole: the buffers were filled, so there may be more.
func (c *Conn) read() (got int, whole bool, errno unix.Errno) {
	in := &c.in
	if in.buf == nil {
		in.buf = c.p.inbox
	}
	if in.placed && in.r == in.w {
		return c.readStraight()
	}
	if in.r == in.w {
		in.r, in.w = 0, 0
	} else if in.r > 0 && len(in.buf)-in.w < window {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	}
	room := in.buf[in.w:]
	if in.w-in.r < headerBytes && len(room) > window {
		room = room[:window]
	}
	got, errno = recvBytes(c.fd, room)
	in.w += got
	return got, got == len(room), errno
}

// readStraight reads the rest of a placed frame to its buffer, and the data after it.
func (c *Conn) readStraight() (got int, whole bool, errno unix.Errno) {
	in, v := &c.in, &c.p.in
	rest := in.dst[in.part:]
	v.pieces[0], v.pieces[1] = rest, in.buf[:window]
	got, errno = v.recv(c.fd, 2)
	step := min(got, len(rest))
	in.part += step
	in.r, in.w = 0, got-step
	return got, got == min(len(rest)+window, callMax), errno
}

// parse delivers the complete frames, and returns their number.
func (c *Conn) parse(s *fabric.Sink) (frames int) {
	for in := &c.in; c.state == up; frames++ {
		if in.placed {
			if !c.fill(s) {
				return frames
			}
			continue
		}
		if in.w-in.r < headerBytes {
			return frames
		}
		h, ok := parseHeader(in.buf[in.r:])
		if !ok || !c.checkHeader(&h) {
			c.reportEnd(proc.Cause{Kind: proc.Corrupt})
			return frames
		}
		if c.state != up { // a callback has invalidated the peer
			return frames
		}
		if h.kind == kindTaken {
			in.r += headerBytes
			continue
		}
		if !c.take(s, &h) {
			return frames
		}
	}
	return frames
}

// checkHeader checks the numbers of a frame and handles its acknowledgement.
func (c *Conn) checkHeader(h *header) bool {
	if h.kind != kindTaken && h.number != c.got {
		return false
	}
	if h.taken == c.out.first {
		return true
	}
	returned := c.out.taken(h.taken)
	if returned < 0 {
		return false
	}
	c.credit()
	c.p.returnLoans(c, returned)
	return true
}

// credit notes that frames may be added again, for a refused sender.
func (c *Conn) credit() {
	if c.starving && c.state == up && !c.out.unsent() {
		c.starving = false
		c.p.creditReturned = true
		c.p.cfg.Ring() // see Await
	}
}

// take delivers the frame that begins at r, or finds a buffer for it; false: it is incomplete.
func (c *Conn) take(s *fabric.Sink, h *header) bool {
	in, n := &c.in, int(h.length)
	if !in.again && in.w-in.r >= headerBytes+n {
		payload := in.buf[in.r+headerBytes:][:n:n]
		in.r += headerBytes + n
		c.count(h)
		c.deliver(s, h, payload)
		return true
	}
	switch {
	case in.again:
		if h.kind != in.head.kind || h.imm != in.head.imm || n != len(in.dst) {
			c.reportEnd(proc.Cause{Kind: proc.Corrupt})
			return false
		}
	case n < minPlaced && h.flags != flagLent || !c.place(s, h):
		return false
	}
	in.again, in.placed, in.head, in.part = false, true, *h, 0
	in.r += headerBytes
	return true
}

// place finds a buffer for an incomplete frame.
func (c *Conn) place(s *fabric.Sink, h *header) bool {
	in, n := &c.in, int(h.length)
	in.dst, in.spareDst = nil, false
	if s.Place != nil && s.Deliver[h.kind] != nil && !in.placeAsked {
		in.placeAsked = true
		in.dst = s.Place(c.peer, fabric.Class(h.kind), h.imm, n)
	}
	if in.dst == nil && (h.flags == flagLent || n > maxAssembled) {
		in.dst, in.spareDst = c.p.takeSpare(n), true
	}
	return in.dst != nil && c.state == up
}

// minPlaced is the length from which the sink is asked for a buffer.
const minPlaced = 4 << 10

// fill continues the placed frame with the data read; false: it is incomplete.
func (c *Conn) fill(s *fabric.Sink) bool {
	in := &c.in
	step := copy(in.dst[in.part:], in.buf[in.r:in.w])
	in.part += step
	in.r += step
	if in.part < len(in.dst) {
		return false
	}
	h, dst, stray := in.head, in.dst, in.spareDst
	in.placed, in.dst = false, nil
	c.count(&h)
	if in.discard {
		in.discard = false
	} else if stray {
		c.deliver(s, &h, dst)
		c.p.giveSpare(dst)
	} else if s.Placed != nil { // nil: the process is closing
		s.Placed(c.peer, fabric.Class(h.kind), h.imm, len(dst))
	}
	return true
}

func (c *Conn) count(h *header) {
	c.in.placeAsked = false
	c.got++
	c.received++
	c.p.frames++
	c.unackedBytes += headerBytes + int(h.length)
	c.ackDue = c.ackDue || h.flags == flagLent
}

func (c *Conn) deliver(s *fabric.Sink, h *header, payload []byte) {
	switch h.kind {
	case kindBeside:
		if c.p.cfg.Beside == nil {
			c.reportEnd(proc.Cause{Kind: proc.Corrupt})
			return
		}
		c.p.cfg.Beside(c.peer, payload)
		return
	case kindBye:
		c.told = h.imm
		c.sendAck()
		c.reportEnd(proc.Cause{Kind: proc.Departed})
		return
	}
	if fn := s.Deliver[h.kind]; fn != nil {
		fn(c.peer, h.imm, payload)
	}
}
