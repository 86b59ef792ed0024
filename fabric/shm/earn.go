package shm

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// A pair that has something to send beyond the occasional small frame earns a long ring: by a frame
// that the short ring cannot hold, by a burst that fills it, or by the number of its frames. The first
// long messages are announced and copied by the kernel, which takes less time than the memory of a ring. The
// long ring gets memory as its cursors advance for the first time, and a part of its payload bytes is used again and
// again until the pair is busy. So the memory of a node grows with its traffic, and not with the square of its processes.
//
// Each process has a share of the node's memory for long rings. When the share is used up, a pair
// that has been idle gives its ring back, or the messages of the new one are announced and copied by
// the kernel; only a frame that cannot be sent otherwise takes memory beyond the share.

const (
	// earnFrames is the number of frames by which a pair earns the long ring, earnAgain by which it
	// asks once more.
	earnFrames = 64
	earnAgain  = 1024
	// earnLong is the number of messages longer than shortFrame that are announced before one earns it.
	earnLong = 8
	// The memory that a long ring gets first, in bytes of lines and of bulk. The rest comes at once when
	// that has been used: in pieces it is slower, by a fifth of the bandwidth of 64 bytes.
	linesPiece = 2 * pageBytes
	bulkPiece  = narrowBulk
	// ringShare bounds the memory of all processes of a node for long rings, in bytes; leastShare
	// is the minimum for each on a node with many.
	ringShare  = 512 << 20
	leastShare = 1 << 20
	// quickLap is the time for narrowBulk bytes in which a pair counts as busy.
	quickLap = time.Millisecond
	// idleTime is how long a pair must have sent nothing before it gives its ring to another.
	idleTime = 100 * time.Millisecond
)

// ringState decides on the long ring of the sending side of a pair.
type ringState struct {
	spent     int64     // memory of the long ring
	left      uint32    // long rings that this side has left
	wanted    time.Time // since when a frame of needed bytes cannot be sent for lack of memory; or zero
	needed    int
	announced int // messages for lack of a long ring, up to earnLong
	// lap is the number of times that the narrow ring has been filled, and lapAt when it was last.
	lap    uint64
	lapAt  time.Time
	awaits bool // a frame waits for the peer to give back the memory of the last ring
	// visited is producer.sent at visitedAt, the last visit of shortenIdle after frames.
	visited   uint64
	visitedAt time.Time
}

// Share sets the number of processes of the job on this machine. It is called like Poll.
func (p *Provider) Share(processes int) {
	p.share = max(ringShare/int64(max(processes, 1)), leastShare)
}

// earn reports whether a frame of n bytes can be sent as far as the kind of the ring and its memory
// matter. It may make the ring a long one.
//
// Preconditions: c.live, !c.out.ripe.
func (c *Conn) earn(n int) bool {
	switch {
	case !c.ring.wanted.IsZero() && (c.out.long || n > shortFrame):
		return false // Poll tries again
	case c.out.long && !c.out.hasLine(): // the ring may become wide, which takes a line
		return false
	case !c.out.long && n > shortFrame && c.held():
		c.ring.awaits = true
		return false
	case c.out.long && c.grow(n), !c.out.long && n > shortFrame && c.lengthen(true) && c.grow(n):
		return true
	case c.out.long || n > shortFrame:
		c.ring.wanted, c.ring.needed = time.Now(), n
		c.p.scheduleRetry()
		return false
	case c.out.tail >= c.out.stop:
		if !c.lengthen(false) {
			c.out.stop = c.out.tail + earnAgain
		}
	case c.out.tail-c.out.headSeen >= c.out.mask+1-c.out.reserved && !c.out.creditMoved():
		c.lengthen(false)
	}
	return !c.out.long || c.grow(n)
}

// afford reports whether a frame of n bytes can be sent within the share of this process, or has to
// be sent in any case because the kernel does not copy between the two.
//
// Preconditions: as earn.
func (c *Conn) afford(n int) bool {
	switch {
	case !c.get:
		return true
	case c.out.long:
		return c.out.bulkBacked >= c.out.bulkSize && (c.out.wide() || c.out.fits(n)) || c.p.affords()
	case c.ring.announced < earnLong:
		c.ring.announced++
		return false
	default:
		return c.lengthen(false)
	}
}

// affords reports whether a long ring may get another piece.
func (p *Provider) affords() bool {
	return p.spent+linesPiece+bulkPiece <= p.share || p.shortenIdle()
}

// lengthen makes the ring of the pair a long one, and reports whether it is. Without force it keeps
// within the share of this process.
func (c *Conn) lengthen(force bool) bool {
	p := c.p
	switch {
	case c.out.long:
		return true
	case c.held():
		return false
	case !force && !p.affords():
		return false
	}
	lines := min(linesPiece, uint64(c.segment.lines)*lineBytes)
	err := c.mapRing()
	if err == nil {
		if err = c.backRing(0, lines); err != nil {
			err = errors.Join(err, c.segment.unmapRing())
		}
	}
	if err != nil {
		p.cfg.Log.Info("no long ring", "peer", int(c.peer), "reason", err)
		return false
	}
	c.out.enter(longRing(c.segment.page(p.cfg.Self), c.segment.rings, c.segment.geometry))
	c.out.backed = lines / lineBytes
	c.out.setStop()
	c.spend(int64(lines))
	c.ring.visited, c.ring.visitedAt = c.out.sent(), time.Now()
	p.long = append(p.long, c)
	return true
}

// grow adds memory to the long ring for another frame of n bytes, and reports whether it has it.
func (c *Conn) grow(n int) bool {
	o := &c.out
	if !c.growLines(1) || n > inlineBytes && !c.growBulk(n) {
		return false
	}
	o.ripe = o.backed > o.mask && o.bulkBacked >= o.wideBulk && o.wide()
	return true
}

// growLines adds memory for so many lines, and that behind them.
func (c *Conn) growLines(lines uint64) bool {
	o := &c.out
	if o.tail+lines > o.stop && !c.growPart(&o.backed, lineBytes, 0, uint64(o.mask+1)*lineBytes, linesPiece) {
		return false
	}
	o.setStop()
	return true
}

// growBulk adds memory for n bulk bytes, which lie behind those of the lines. The frame need not have credit then.
func (c *Conn) growBulk(n int) bool {
	o := &c.out
	lines := uint64(o.mask+1) * lineBytes
	for o.bulkBacked < o.bulkSize {
		if !c.growPart(&o.bulkBacked, 1, lines, o.wideBulk, bulkPiece) {
			return false
		}
	}
	if o.wide() || o.fits(n) && !(c.hurries() && c.p.affords()) {
		return true
	}
	if o.bulkBacked < o.wideBulk && !c.growPart(&o.bulkBacked, 1, lines, o.wideBulk, bulkPiece) || !c.growLines(2) {
		return n <= o.maxFrame // it waits for credit
	}
	o.goWide()
	return true
}

// hurries reports whether the pair uses the narrow ring for the second time within quickLap. A wide one takes less time
// for each frame, as the consumer returns credit less often.
func (c *Conn) hurries() bool {
	lap := c.out.bulkTail / c.out.bulkSize
	if lap == c.ring.lap {
		return false
	}
	last := c.ring.lapAt
	c.ring.lap, c.ring.lapAt = lap, time.Now()
	return c.ring.lapAt.Sub(last) < quickLap
}

// growPart gives memory to a part of the long ring that begins at base, has size bytes, and has memory
// up to backed, in units: a piece, then the rest.
func (c *Conn) growPart(backed *uint64, unit, base, size, piece uint64) bool {
	from := *backed * unit
	to := size
	if from == 0 {
		to = min(piece, size)
	}
	if err := c.backRing(base+from, base+to); err != nil {
		c.p.cfg.Log.Info("no memory for the long ring", "peer", int(c.peer), "reason", err)
		return false
	}
	*backed = to / unit
	c.spend(int64(to - from))
	return true
}

// spend counts memory of the long ring.
func (c *Conn) spend(n int64) {
	c.ring.spent += n
	c.p.spent += n
}

// held reports whether the peer has not given back the memory of the last long ring yet.
func (c *Conn) held() bool { return c.ring.left != c.out.cur.returned.Load() }

// shortenIdle makes one pair that has been idle give its ring back, if there is one. It visits some
// pairs at each call.
func (p *Provider) shortenIdle() bool {
	const visits = 4
	now := time.Now()
	for range min(visits, len(p.long)) {
		p.next = (p.next + 1) % len(p.long)
		c := p.long[p.next]
		switch sent := c.out.sent(); {
		case sent != c.ring.visited:
			c.ring.visited, c.ring.visitedAt = sent, now
		case now.Sub(c.ring.visitedAt) >= idleTime && c.shorten():
			return true
		}
	}
	return false
}

// shorten goes back to the short ring. The peer gives the memory back.
func (c *Conn) shorten() bool {
	if !c.live || c.out.tail >= c.out.stop || !c.out.leave(shortRing(c.segment.page(c.p.cfg.Self))) {
		return false
	}
	c.ring.left++
	c.out.stop, c.ring.wanted = c.out.tail+earnFrames, time.Time{}
	c.out.setLimit()
	c.p.forgetRing(c)
	if err := c.segment.unmapRing(); err != nil {
		c.p.cfg.Log.Info("unmapping a long ring", "peer", int(c.peer), "reason", err)
	}
	c.barrierWord.Swap(1)
	c.stir()
	c.bell.Summon()
	return true
}

// forgetRing takes c off the list of pairs with long rings.
func (p *Provider) forgetRing(c *Conn) {
	p.long = slices.DeleteFunc(p.long, func(x *Conn) bool { return x == c })
	c.spend(-c.ring.spent)
}

// takeRingBack gives the memory of a long ring that the peer has left to the system.
func (p *Provider) takeRingBack(c *Conn) {
	c.in.left = false
	if err := p.own.freeRing(c.peer); err != nil {
		p.cfg.Warn("shm: giving back memory: %v", err)
		return // the peer does without a long ring from now on
	}
	c.in.cur.long = heads{}
	c.in.cur.returned.Add(1)
	if c.bell != nil {
		c.bell.Summon() // a frame may wait for it
	}
}

// retryRing tries again to find memory. A pair that gets none for long is given up, as one that
// cannot connect.
func (p *Provider) retryRing(c *Conn) bool {
	if c.lengthen(true) && c.grow(c.ring.needed) {
		c.ring.wanted = time.Time{}
		return true
	}
	if time.Since(c.ring.wanted) >= p.retry.patience {
		c.hangUp(byeClosed)
		c.setEnd(proc.Cause{Kind: proc.Unreachable, Code: int32(unix.ENOMEM)})
	}
	return false
}
