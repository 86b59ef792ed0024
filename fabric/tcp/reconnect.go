package tcp

import (
	"errors"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// broke notes that the connection ended without the peer's farewell, and has it made
// again. What had come was read before.
func (c *Conn) broke(why error) {
	if why == nil {
		why = io.EOF
	}
	c.hangUp()
	c.in.reset()
	if c.p.departing && !c.out.kept() {
		c.finish()
		return
	}
	now := time.Now()
	c.since, c.why = now, why
	c.p.cfg.Logf("tcp: %v: the connection broke (%v): connecting again, for %v at most", c.peer, why, c.p.cfg.Heal)
	if c.replaced { // the peer has called
		c.state = resting
		return
	}
	c.mend(now)
}

// mend begins to connect, again or for the first time.
func (c *Conn) mend(now time.Time) {
	c.state, c.choice, c.refused, c.pause = resting, 0, 0, firstPause
	if !slices.Contains(c.p.mending, c) {
		c.p.mending = append(c.p.mending, c)
	}
	c.start(now)
}

// rest sets the next attempt.
func (c *Conn) rest(now time.Time, pause time.Duration) {
	c.state, c.due = resting, now.Add(pause)
	c.p.alarm(c.due)
}

// refuse heeds that a way's port is closed. If all of them are, or the one by which
// the peer was reached before, nobody listens any more: the process has ended.
func (c *Conn) refuse(now time.Time) {
	w := c.ways[c.choice]
	c.why = unix.ECONNREFUSED
	if c.refused++; c.refused == len(c.ways) || c.met && w.same(c.way) {
		c.conclude(c.lost())
		return
	}
	c.next(now)
}

// lost is the cause of an end of which no more is known than that nobody answers. A
// peer that was never met may have departed before, and nobody is left to say so.
func (c *Conn) lost() proc.Cause {
	if !c.met {
		return proc.Cause{Kind: proc.Unknown}
	}
	return proc.Cause{Kind: proc.Connection}
}

// miss goes on to the next way after an attempt that has failed.
func (c *Conn) miss(now time.Time, why error) {
	if d := c.dial; d != nil && d.stage > connecting && now.Sub(d.begun) > silence {
		c.since = now // its machine had answered: silence is not death
	}
	c.hangUp()
	c.why = why
	if c.silenced || c.state == over {
		return
	}
	c.next(now)
}

// next tries the next way, or, when all have been tried, rests and begins again.
func (c *Conn) next(now time.Time) {
	if now.Sub(c.since) > c.p.cfg.Heal {
		c.giveUp()
		return
	}
	if c.choice++; c.choice < len(c.ways) {
		c.start(now)
		return
	}
	c.choice, c.refused = 0, 0
	c.rest(now, c.pause)
	c.pause = min(2*c.pause, longestPause)
}

// giveUp reports a peer that could not be reached for too long, or that one of the two
// has no means to reach. Silence is no proof that it has ended, so it is reported as that.
func (c *Conn) giveUp() {
	c.p.cfg.Logf("tcp: %v could not be reached for %v: %v", c.peer, c.p.cfg.Heal, c.why)
	c.conclude(c.unless(proc.Heartbeat))
}

// unless is the cause of an end of that kind, if it is not for want of something that
// the last attempt failed.
func (c *Conn) unless(kind proc.Kind) proc.Cause {
	if errno, ok := errors.AsType[unix.Errno](c.why); ok && isPressure(errno) {
		return proc.Cause{Kind: proc.Unreachable, Code: int32(errno)}
	}
	return proc.Cause{Kind: kind}
}

// overdue acts when the time of an attempt, or of a rest, has come.
func (c *Conn) overdue(now time.Time) {
	c.since = c.since.Add(now.Sub(c.due)) // nobody polled, so nothing was tried
	switch {
	case c.state == resting:
		c.start(now)
	case c.state == dialling && c.dial.stage != connecting:
		c.miss(now, errSilent)
	case c.state == dialling:
		c.miss(now, unix.ETIMEDOUT)
	}
}

var errSilent = errors.New("the other side takes the connection and says nothing")
