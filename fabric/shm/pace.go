package shm

import "time"

// Between the far limit and the near one, the distance of the two cores decides whether copying
// twice through the ring or once by the kernel is cheaper (docs/decisions/0020-eager-limit.md). On
// far cores (another socket, another complex of cores) a line takes four times as long, and
// processes move.
const (
	defaultEagerFar  = 6 << 10
	defaultEagerNear = 16 << 10

	// An announcement gains bandwidth while the copies of one message overlap with those of the
	// next and leave the cache to them. A process that alternates with its peer waits for each
	// message alone: there copying twice is cheaper up to these lengths.
	defaultEagerReply = 32 << 10
	eagerReplyFar     = 8 << 10
)

// pace is the current speed of lines to the peer.
type pace struct {
	// near and far are Config.EagerNear and EagerFar; they never change.
	near, far int
	reply     int // Config.EagerReply

	frames  uint32 // large frames so far; one in paceStride is timed
	refused uint32 // messages that Eager refused; one in paceRetry passes
	line    int    // nanoseconds per line, smoothed
}

const (
	paceStride = 16
	paceRetry  = 64
	// paceFrame is the shortest frame that is timed: the core's store buffer cannot hide its cost.
	paceFrame = 2 << 10
	// slowLine separates near (4 to 8 ns) from far (16 to 27).
	slowLine = 12
	// worstLine bounds one sample, so that one preemption changes nothing.
	worstLine = 2 * slowLine
)

// Eager reports whether a message of n bytes is better sent in frames than announced. One in
// paceRetry messages passes although lines were slow, to notice when the peer has moved nearer.
//
// A message that the short ring cannot hold earns the long one, or is announced.
func (c *Conn) Eager(n int) bool {
	switch {
	case !c.out.ripe && n > shortFrame && c.live && !c.afford(n):
		return false
	case n <= c.out.pace.far:
		return true
	case n > c.out.pace.near:
		return false
	case c.out.pace.line <= slowLine || !c.get:
		return true
	}
	c.out.pace.refused++
	return c.out.pace.refused%paceRetry == 0
}

// aheadTimes is the limit of Ahead, in those of Eager between near cores.
const aheadTimes = 8

// Ahead is Eager for a message that the peer may take late, where processes share cores: a second copy takes less time
// than the turns of both until an announced one has been copied.
func (c *Conn) Ahead(n int) bool {
	return n <= aheadTimes*c.out.pace.near && (c.out.ripe || n <= shortFrame || !c.live || c.afford(n))
}

// Reply is the length up to which an answer is better sent in frames.
func (c *Conn) Reply() int {
	if !c.out.long {
		return shortFrame
	}
	if c.out.pace.line <= slowLine {
		return c.out.pace.reply
	}
	return min(c.out.pace.reply, eagerReplyFar)
}

// AlwaysEager is the length up to which Eager is always true, also of a pair without a long ring.
func (c *Conn) AlwaysEager() int { return min(c.out.pace.far, shortFrame) }

// copy is the built-in copy, timed now and then, and always while lines are slow, because then
// there are few.
func (p *pace) copy(dst, src []byte) {
	if len(src) >= paceFrame {
		if p.frames++; p.frames%paceStride == 0 || p.line > slowLine {
			start := time.Now()
			copy(dst, src)
			p.sample(time.Since(start), len(src))
			return
		}
	}
	copy(dst, src)
}

func (p *pace) sample(took time.Duration, n int) {
	line := min(int(took)*lineBytes/n, worstLine)
	p.line = (3*p.line + line + 2) / 4
}
