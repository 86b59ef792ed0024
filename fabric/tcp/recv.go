package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

const (
	// window is how much is read where a header is due: short frames come many at a
	// time, long ones are to be copied once only.
	window = 8 << 10
	// maxAssembled is the longest frame that is put together in the inbox; others have a
	// place, or get one.
	maxAssembled = 64 << 10
	inboxBytes   = headerBytes + maxAssembled + window
	// batch bounds what Poll reads from one connection before it looks at others.
	batch = 4 << 20
)

// inbox is what has been read and not been delivered: buf[r:w], and of a frame
// that has a place of its own the first part bytes, in dst.
type inbox struct {
	buf  []byte
	r, w int
	// placed: what is read next belongs to dst. again: the frame of dst comes once
	// more from its header on, over another connection.
	placed, again bool
	placeAsked    bool // where the frame at r is to go: nowhere in particular
	spareDst      bool // dst is of spare
	spare         []byte
	discard       bool // and nobody is to be told of what is in it
	head          header
	dst           []byte
	part          int
}

// reset forgets what was read of frames that are not whole: they come again. A
// frame that has a place keeps it.
func (in *inbox) reset() {
	in.r, in.w, in.part = 0, 0, 0
	in.again = in.again || in.placed
	in.placed = false
}

// receive reads what is there and delivers it; it says how much happened.
func (c *Conn) receive(s *fabric.Sink) int {
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
	// A peer whose outbox is full sends nothing more that would bring us here again.
	if c.ackDue || c.unackedBytes >= int(c.outbox)/4 && c.state == up && c.drained() {
		c.sendAck()
	}
	return n
}

// drained reports whether nothing more is there to be read.
func (c *Conn) drained() bool {
	left, err := unix.IoctlGetInt(c.fd, unix.SIOCINQ)
	return err != nil || left == 0
}

// ackIfDue tells the peer what has been taken in, if it waits for that, or for room.
// It is called when nothing more is there to be read: a peer that has departed may
// have closed, and what is sent to a closed socket takes back what has not been read.
// A peer that lives on has written all that its outbox holds by then.
func (c *Conn) ackIfDue() {
	if c.ackDue || c.unackedBytes >= int(c.outbox)/4 {
		c.sendAck()
	}
}

// read reads once. whole: the buffers were filled, so there may be more.
func (c *Conn) read() (got int, whole bool, errno unix.Errno) {
	in := &c.in
	if in.buf == nil {
		in.buf = make([]byte, inboxBytes)
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

// readStraight reads the rest of a placed frame to its place, and what follows it.
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

// parse delivers the frames that are whole, and says how many there were.
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
		if c.state != up { // who got loans back has cut the peer off
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

// checkHeader looks at the numbers of a frame.
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

// credit notes that frames may be added again, for who was refused.
func (c *Conn) credit() {
	if c.starving && c.state == up && !c.out.unsent() {
		c.starving = false
		c.p.creditReturned = true
	}
}

// take delivers the frame that begins at r, or finds a place for it; false: more of
// it has to come.
func (c *Conn) take(s *fabric.Sink, h *header) bool {
	in, n := &c.in, int(h.length)
	if !in.again && in.w-in.r >= headerBytes+n {
		payload := in.buf[in.r+headerBytes:][:n:n]
		in.r += headerBytes + n
		c.count(h)
		c.deliver(s, h, payload)
		return true
	}
	if n < minPlaced && h.flags != flagLent {
		return false
	}
	if in.again {
		if h.kind != in.head.kind || h.imm != in.head.imm || n != len(in.dst) {
			c.reportEnd(proc.Cause{Kind: proc.Corrupt})
			return false
		}
	} else if !c.place(s, h) {
		return false
	}
	in.again, in.placed, in.head, in.part = false, true, *h, 0
	in.r += headerBytes
	return true
}

// place finds a place for a frame that is longer than what has come of it.
func (c *Conn) place(s *fabric.Sink, h *header) bool {
	in, n := &c.in, int(h.length)
	in.dst, in.spareDst = nil, false
	if s.Place != nil && s.Deliver[h.kind] != nil && !in.placeAsked {
		in.placeAsked = true
		in.dst = s.Place(c.peer, fabric.Class(h.kind), h.imm, n)
	}
	if in.dst == nil && (h.flags == flagLent || n > maxAssembled) {
		if n > len(in.spare) {
			in.spare = make([]byte, n)
		}
		in.dst, in.spareDst = in.spare[:n], true
	}
	return in.dst != nil && c.state == up
}

// minPlaced is the length from which the sink is asked where a payload is to go.
const minPlaced = 4 << 10

// fill continues the placed frame with what has been read; false: more has to come.
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
	if h.kind == kindBye {
		c.sendAck()
		c.reportEnd(proc.Cause{Kind: proc.Departed})
		return
	}
	if fn := s.Deliver[h.kind]; fn != nil {
		fn(c.peer, h.imm, payload)
	}
}
