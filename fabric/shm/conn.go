package shm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Conn is the connection to one peer: this process fills a ring in the peer's segment, the peer one
// in this process's. The engine calls TrySend and Invalidate with its lock held; any goroutine may
// call Get and Caps.
type Conn struct {
	p    *Provider
	peer proc.ID

	out  producer
	bell *futex.Bell // the peer's
	// needsBarrier: a full memory barrier must precede the check of the bell, because one side
	// cannot use membarrier.
	needsBarrier bool
	live         bool // out may be used
	// maxFrame is that of the long ring, which a frame that the short one cannot hold brings about.
	maxFrame int
	ring     ringState

	in    consumer
	hasIn bool // the peer has knocked
	// hot: in Provider.inbound. visited is in.received at the last visit of Provider.cool.
	hot     bool
	visited uint64

	segment *segment
	theirs  theirs
	// offered: the message that the peer helps to copy while offering, else the last one; see split.go.
	offered  split
	offering bool
	alone    bool    // the kernel has not let the peer copy into this process
	short    uint32  // messages of a length that near cores send in frames; one in placedTry is announced
	address  address // the peer's, once live
	reader   reader
	// watchKey identifies the connection to the watcher.
	watchKey int32
	// polled is for deathPoll; empty without a robust word.
	polled polledWord
	// exitWatched: Config.Exits reports the peer's end. Written before the watcher has the
	// connection.
	exitWatched bool
	// execs is the peer's number of exec calls in Config.Exits at the time of connecting. As
	// exitWatched.
	execs uint32
	// traced: the kernel has let this process take a descriptor of the peer.
	traced bool
	get    bool
	// suspected: the failure detector has asked whether the peer runs. Set by Runs, read by the
	// watcher.
	suspected atomic.Bool
	// halfOpen: the peer's address while it has knocked and cannot be connected back to; lastError
	// is the reason, halfOpenSince the time of the first attempt. lastError stays when the peer is
	// given up.
	halfOpen      *address
	lastError     error
	halfOpenSince time.Time
	// ending: there is evidence of the end that is not in the ring: endCause.
	ending   bool
	endCause proc.Cause
	// gone: the peer's process has ended; set by the watcher before the bell rings, read by any
	// goroutine.
	gone atomic.Bool
	// exitCause is written before gone is set, read after.
	exitCause    proc.Cause
	reported     bool // Down or Departed has been called
	invalidated  bool // Invalidate
	killedSilent bool // this process was the first to kill the peer for its silence
	barrierWord  atomic.Uint32
}

// Peer implements fabric.Conn.
func (c *Conn) Peer() proc.ID { return c.peer }

// Caps implements fabric.Conn.
func (c *Conn) Caps() fabric.Caps {
	return fabric.Caps{
		Inline:   inlineBytes,
		MaxFrame: c.maxFrame, // of the peer's rings: receivers choose their own
		Eager:    c.out.pace.near,
		Get:      c.get,
	}
}

// TryShort is TrySend for a frame of one line with credit at hand; false for all others, and
// without a connection.
//
// It is one call with everything inlined: a call's own stores would queue behind those to the ring,
// which wait for the other core's cache.
func (c *Conn) TryShort(class fabric.Class, imm uint64, payload []byte) bool {
	if c == nil || c.out.tail >= c.out.limit || len(payload) > inlineBytes {
		return false
	}
	l := c.out.line(c.out.tail)
	l.fill(payload)
	c.out.publish(l, class, imm, len(payload))
	if c.out.cur.cold.Load() != 0 {
		c.stir()
	}
	if c.bell.Asleep() {
		c.bell.Ring()
	}
	return true
}

// stir makes the peer poll the ring again, which it has found empty for long.
func (c *Conn) stir() { c.segment.announce(c.p.cfg.Self) }

// TrySend implements fabric.Conn.
func (c *Conn) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	return c.TryShort(class, imm, payload) || c.trySend(class, imm, payload)
}

// trySend is TrySend for all frames that TryShort refuses.
func (c *Conn) trySend(class fabric.Class, imm uint64, payload []byte) bool {
	if !c.live {
		return c.dropsFrames()
	}
	if !c.out.ripe && !c.earn(len(payload)) || !c.out.send(class, imm, payload) {
		c.refused()
		return false
	}
	if c.needsBarrier {
		c.barrierWord.Swap(1)
	}
	if c.out.cur.cold.Load() != 0 {
		c.stir()
	}
	if c.bell.Asleep() {
		c.bell.Ring()
	}
	return true
}

// dropsFrames reports whether frames that cannot be sent are accepted and dropped: those to an
// ended peer.
func (c *Conn) dropsFrames() bool { return !c.p.departed && (c.invalidated || c.halfOpen == nil) }

// closeSend ends the use of the sending side.
func (c *Conn) closeSend() { c.live, c.out.limit, c.out.fast = false, 0, false }

// hangUp sends the last line. Nothing can be sent after it.
func (c *Conn) hangUp(why int) {
	if !c.live {
		return
	}
	if !c.out.long || c.out.tail < c.out.backed || c.grow(0) { // nobody looks at the line behind the last one
		c.out.bye(why)
	}
	c.closeSend()
	c.barrierWord.Swap(1)
	c.stir()
	c.bell.Summon()
}

func (c *Conn) refused() {
	if c.out.corrupt {
		c.in.corrupt, c.in.cut = true, true
		c.p.requestReap()
	}
	c.p.starved = true
}

// Received is the number of frames taken from the peer.
func (c *Conn) Received() uint64 { return c.in.received() }

// Traffic implements fabric.Meter: the cursors of the rings count the frames.
func (c *Conn) Traffic() fabric.Traffic {
	return fabric.Traffic{Sent: c.out.sent(), Received: c.in.received()}
}

// NotYet is the result of Await if no frame has arrived.
const NotYet = takeNone

// Await polls up to spins times for the next frame from the peer, and receives it into buf if it
// has that class and immediate and fits. It delivers the frame that Poll would deliver next from this peer,
// without the sink. It returns the length, or a negative number if nothing came, or something for
// Poll.
func (c *Conn) Await(class fabric.Class, imm uint64, buf []byte, spins int) int {
	if !c.hasIn || c.in.cut {
		return takeOther
	}
	n := c.in.await(class, imm, buf, spins)
	if n >= 0 {
		c.taken()
	}
	return n
}

// taken returns credit after a frame.
func (c *Conn) taken() {
	settled := c.in.headPublished
	if c.in.returnCredit(); c.in.headPublished != settled {
		c.returnCredit()
	}
}

// Next gives the payload of the next frame from the peer where it lies, if the frame has arrived, has that class and
// immediate and no more than a line; else nil. Advance takes that frame.
func (c *Conn) Next(class fabric.Class, imm uint64) []byte {
	if !c.hasIn || c.in.cut {
		return nil
	}
	return c.in.next(class, imm)
}

// NextIs reports whether the next frame from the peer has arrived, has that class and needs no other line, and gives its
// immediate. Advance takes that frame.
func (c *Conn) NextIs(class fabric.Class) (imm uint64, ok bool) {
	if !c.hasIn || c.in.cut {
		return 0, false
	}
	return c.in.nextIs(class)
}

// Advance takes the frame that Next or NextIs has given.
func (c *Conn) Advance() {
	c.in.head++
	c.taken()
}

// Expose implements fabric.Conn. Memory of a block is named by it; other memory needs no registration.
func (c *Conn) Expose(buf []byte) (fabric.Region, error) {
	from, n := addressOf(buf), uint64(len(buf))
	if o := c.p.blocks.holding(from, n); o != nil {
		if c.short%placedTry == 0 {
			c.short++
		}
		for i := range o.markers {
			o.markers[i].touch()
		}
		return fabric.Region{Addr: from - o.from, Len: n, Key: o.name[:]}, nil
	}
	return fabric.Region{Addr: addressOf(buf), Len: uint64(len(buf))}, nil
}

// Get implements fabric.Conn: one copy, by the kernel unless the memory is that of a block.
func (c *Conn) Get(local []byte, remote fabric.Region, offset uint64) error {
	n := uint64(len(local))
	switch {
	case !c.get && len(remote.Key) == 0:
		return fabric.ErrUnsupported
	case offset > remote.Len || n > remote.Len-offset:
		return fmt.Errorf("shm: get of %d bytes at %d from a region of %d", n, offset, remote.Len)
	case n == 0:
		return nil
	case c.gone.Load():
		return fabric.ErrPeerGone
	case len(remote.Key) > 0:
		return c.readBlock(local, remote.Key, remote.Addr+offset)
	}
	return c.reader.read(local, remote.Addr+offset)
}

// Invalidate implements fabric.Conn.
func (c *Conn) Invalidate() {
	c.invalidated, c.in.cut = true, true
	c.closeSend()
}

// returnCredit wakes a producer that was refused, after credit was returned to it.
func (c *Conn) returnCredit() {
	if c.in.waiting() && c.bell != nil {
		c.bell.Ring()
	}
}

// creditReturned reports whether credit has come back since a frame was refused; once, so that a
// sender that has given up does not keep the process awake.
func (c *Conn) creditReturned() bool {
	if !c.live {
		return false
	}
	if c.ring.awaits && !c.held() {
		c.ring.awaits = false
		return true
	}
	if !c.out.starving || !c.out.creditMoved() {
		return false
	}
	c.out.readCredit(c.out.mask, c.out.bulkSize)
	return true
}

// release frees the connection's resources once the peer's end has been reported.
func (c *Conn) release() error {
	c.closeSend()
	c.p.forgetRing(c)
	c.hasIn, c.bell, c.halfOpen, c.polled = false, nil, nil, polledWord{}
	if !c.reader.handle.none() {
		c.p.watch.forget(c) // the watcher reads the segment
		c.reader.closeHandle()
	}
	return errors.Join(c.theirs.close(), c.segment.close())
}
