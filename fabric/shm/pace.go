package shm

import "time"

// Between the far limit and the near one it depends on how far apart the two
// cores are whether copying twice through the ring or once by the kernel is
// cheaper: measured, see docs/architecture.md. Far apart (another socket, another
// complex of cores) a line takes four times as long, and processes move.
const (
	defaultEagerFar  = 6 << 10
	defaultEagerNear = 16 << 10

	// What an announcement gains is bandwidth, while the copies of one message
	// overlap with those of the next and leave the cache to them. Who takes turns
	// with its peer waits for each message alone: there copying twice is cheaper up
	// to these lengths.
	defaultEagerReply = 32 << 10
	eagerReplyFar     = 8 << 10
)

// pace is how fast lines move to the peer now.
type pace struct {
	// near and far are Config.EagerNear and EagerFar; they never change.
	near, far int
	reply     int // Config.EagerReply

	frames  uint32 // large frames so far, to time one in paceStride
	refused uint32 // messages that Eager refused, to let one in paceRetry through
	line    int    // nanoseconds per line, smoothed
}

const (
	paceStride = 16
	paceRetry  = 64
	// paceFrame is the shortest frame that is timed: well beyond what the
	// core's store buffer hides.
	paceFrame = 2 << 10
	// slowLine divides near (4 to 8 ns) from far (16 to 27).
	slowLine = 12
	// worstLine bounds one sample: a preemption is no distance, and one alone
	// changes nothing.
	worstLine = 2 * slowLine
)

// Eager reports whether a message of n bytes is better sent in frames than
// announced. Now and then it answers yes against its knowledge, so that it
// notices when the peer has come nearer.
func (c *Conn) Eager(n int) bool {
	switch {
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

// Reply is the length up to which an answer is better sent in frames.
func (c *Conn) Reply() int {
	if c.out.pace.line <= slowLine {
		return c.out.pace.reply
	}
	return min(c.out.pace.reply, eagerReplyFar)
}

// AlwaysEager is the length up to which Eager is true at all times.
func (c *Conn) AlwaysEager() int { return c.out.pace.far }

// copy is copy, timed now and then; always while lines are slow, because then
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
