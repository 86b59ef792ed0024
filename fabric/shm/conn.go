package shm

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Conn is the connection to one peer: a slot in its segment that we fill and
// one in ours that it fills. TrySend and Invalidate belong to the engine, which
// calls with its lock held; Get and Caps may be called by any goroutine.
type Conn struct {
	p    *Provider
	peer proc.ID

	out  producer
	bell *futex.Bell // the peer's
	// needsBarrier: a full barrier must precede the look at the bell, because one
	// side cannot use membarrier.
	needsBarrier bool
	live         bool // out may be used

	in      consumer
	hasIn   bool // the peer has knocked
	segment *segment
	address address // the peer's, once live
	reader  reader
	// watchKey names the connection to the watcher.
	watchKey int32
	// polled is for deathPoll; without a word, nothing.
	polled polledWord
	// exitWatched: Config.Exits tells of the peer's end. Written before the watcher knows of
	// the connection.
	exitWatched bool
	// execs is what Config.Exits had of the peer's calls of exec when it was connected to. As told.
	execs uint32
	get   bool
	// suspected: the failure detector has asked whether the peer runs. Set by Runs, read by
	// the watcher.
	suspected atomic.Bool
	// halfOpen: the peer's address while it has knocked and cannot be connected back
	// to; why not, and since when it is tried. why stays when it is given up.
	halfOpen      *address
	lastError     error
	halfOpenSince time.Time
	// ending: there is evidence of the end that is not in the ring: end.
	ending   bool
	endCause proc.Cause
	// gone: the peer's process has ended; set by the watcher before the bell
	// rings, read by anybody.
	gone atomic.Bool
	// exitCause: how it has ended. Written before gone is set, read after.
	exitCause    proc.Cause
	killPending  bool // the peer is yet to be fenced; as fate
	reported     bool // Down or Departed has been said
	invalidated  bool // Invalidate
	killedSilent bool // this process was the first to kill the peer for its silence
	barrierWord  atomic.Uint32
}

// Peer implements fabric.Conn.
func (c *Conn) Peer() proc.ID { return c.peer }

// Caps implements fabric.Conn.
func (c *Conn) Caps() fabric.Caps {
	return fabric.Caps{
		Inline:    inlineBytes,
		MaxFrame:  c.out.maxFrame, // of the peer's slot: receivers choose their own
		Eager:     c.out.pace.near,
		Get:       c.get,
		GetBlocks: true,
		Link:      fabric.LinkNode,
		LatencyNs: 100,
		MBps:      20_000,
	}
}

// TryShort is TrySend for a frame that is one line, with credit at hand; false
// for all others, and if there is no connection.
//
// It is one call, with everything else inlined: the stores of a call's frame
// queue behind those to the ring, which wait for the other core's cache.
func (c *Conn) TryShort(class fabric.Class, imm uint64, payload []byte) bool {
	if c == nil || c.out.tail >= c.out.limit || len(payload) > inlineBytes {
		return false
	}
	l := c.out.line(c.out.tail)
	l.fill(payload)
	c.out.publish(l, class, imm, len(payload))
	if c.bell.Asleep() {
		c.bell.Ring()
	}
	return true
}

// TrySend implements fabric.Conn.
func (c *Conn) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	return c.TryShort(class, imm, payload) || c.trySend(class, imm, payload)
}

// trySend is TrySend for all but frames of one line with credit at hand.
func (c *Conn) trySend(class fabric.Class, imm uint64, payload []byte) bool {
	if !c.live {
		return c.dropsFrames()
	}
	if !c.out.send(class, imm, payload) {
		c.refused()
		return false
	}
	if c.needsBarrier {
		c.barrierWord.Swap(1)
	}
	if c.bell.Asleep() {
		c.bell.Ring()
	}
	return true
}

// dropsFrames reports whether frames that cannot be sent are taken: those to a peer
// that is gone, which nobody will read.
func (c *Conn) dropsFrames() bool { return !c.p.departed && (c.invalidated || c.halfOpen == nil) }

// closeSend ends the use of the sending half.
func (c *Conn) closeSend() { c.live, c.out.limit = false, 0 }

// hangUp sends the last line. After it nothing can be sent.
func (c *Conn) hangUp(why int) {
	if !c.live {
		return
	}
	c.out.bye(why)
	c.closeSend()
	c.barrierWord.Swap(1)
	c.bell.Ring()
}

func (c *Conn) refused() {
	if c.out.corrupt {
		c.in.corrupt, c.in.cut = true, true
		c.p.requestReap()
	}
	c.p.starved = true
}

// Received is the number of frames that the peer's ring has given so far.
func (c *Conn) Received() uint64 { return c.in.head }

// NotYet is what Await answers when no frame waits.
const NotYet = takeNone

// Await looks up to spins times for the next frame from the peer, and receives
// it into buf if it is of that class and immediate and fits: what Poll would
// have delivered next from this peer, without the way through the sink. It
// answers the length, or a negative number if nothing came, or something that
// is Poll's.
func (c *Conn) Await(class fabric.Class, imm uint64, buf []byte, spins int) int {
	if !c.hasIn || c.in.cut {
		return takeOther
	}
	n := c.in.await(class, imm, buf, spins)
	if n >= 0 {
		settled := c.in.headPublished
		if c.in.returnCredit(); c.in.headPublished != settled {
			c.returnCredit()
		}
	}
	return n
}

// Expose implements fabric.Conn. Ordinary memory needs no registration.
func (c *Conn) Expose(buf []byte) (fabric.Region, error) {
	return fabric.Region{Addr: addressOf(buf), Len: uint64(len(buf))}, nil
}

// Get implements fabric.Conn: one kernel copy.
func (c *Conn) Get(local []byte, remote fabric.Region, offset uint64) error {
	n := uint64(len(local))
	switch {
	case !c.get:
		return fabric.ErrUnsupported
	case offset > remote.Len || n > remote.Len-offset:
		return fmt.Errorf("shm: get of %d bytes at %d from a region of %d", n, offset, remote.Len)
	case n == 0:
		return nil
	case c.gone.Load():
		return fabric.ErrPeerGone
	}
	return c.reader.read(local, remote.Addr+offset)
}

// Invalidate implements fabric.Conn.
func (c *Conn) Invalidate() {
	c.invalidated, c.in.cut = true, true
	c.closeSend()
}

// returnCredit wakes a producer that was refused, after credit went back to it.
func (c *Conn) returnCredit() {
	if c.in.waiting() && c.bell != nil {
		c.bell.Ring()
	}
}

// creditReturned reports whether credit has come back since a frame was refused;
// once, so that a sender that has given up does not keep the process awake.
func (c *Conn) creditReturned() bool {
	if !c.live || !c.out.starving || !c.out.creditMoved() {
		return false
	}
	c.out.readCredit(c.out.mask, c.out.bulkSize)
	return true
}

// release gives back what the connection holds once the peer's end has been
// reported.
func (c *Conn) release() error {
	c.closeSend()
	c.hasIn, c.bell, c.halfOpen, c.polled = false, nil, nil, polledWord{}
	if c.reader.pidfd >= 0 {
		c.p.watch.forget(c) // it looks into the segment
		_ = unix.Close(c.reader.pidfd)
		c.reader.pidfd = -1
	}
	return c.segment.close()
}
