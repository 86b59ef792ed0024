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
	c.downSince, c.lastError = now, why
	c.p.cfg.Logf("tcp: %v: the connection broke (%v): connecting again, for %v at most", c.peer, why, c.p.cfg.Heal)
	if c.replaced { // the peer has called
		c.state = waiting
		return
	}
	c.reconnect(now)
}

// reconnect begins to connect, again or for the first time.
func (c *Conn) reconnect(now time.Time) {
	c.state, c.pathIndex, c.refusedPaths, c.retryPause = waiting, 0, 0, firstPause
	if !slices.Contains(c.p.reconnecting, c) {
		c.p.reconnecting = append(c.p.reconnecting, c)
	}
	c.dialNext(now)
}

// scheduleRetry sets the next attempt.
func (c *Conn) scheduleRetry(now time.Time, pause time.Duration) {
	c.state, c.deadline = waiting, now.Add(pause)
	c.p.alarm(c.deadline)
}

// portClosed heeds that a way's port is closed. If all of them are, or the one by which
// the peer was reached before, nobody listens any more: the process has ended.
func (c *Conn) portClosed(now time.Time) {
	w := c.paths[c.pathIndex]
	c.lastError = unix.ECONNREFUSED
	if c.refusedPaths++; c.refusedPaths == len(c.paths) || c.wasUp && w.sameInterface(c.path) {
		c.reportEnd(c.lossCause())
		return
	}
	c.nextPath(now)
}

// lossCause is the cause of an end of which no more is known than that nobody answers. A
// peer that was never met may have departed before, and nobody is left to say so.
func (c *Conn) lossCause() proc.Cause {
	if !c.wasUp {
		return proc.Cause{Kind: proc.Unknown}
	}
	return proc.Cause{Kind: proc.Connection}
}

// attemptFailed goes on to the next way after an attempt that has failed.
func (c *Conn) attemptFailed(now time.Time, why error) {
	if d := c.dial; d != nil && d.stage > connecting && now.Sub(d.started) > dialSilence {
		c.downSince = now // its machine had answered: silence is not death
	}
	c.hangUp()
	c.lastError = why
	if c.invalidated || c.state == ended {
		return
	}
	c.nextPath(now)
}

// nextPath tries the next way, or, when all have been tried, rests and begins again.
func (c *Conn) nextPath(now time.Time) {
	if now.Sub(c.downSince) > c.p.cfg.Heal {
		c.giveUp()
		return
	}
	if c.pathIndex++; c.pathIndex < len(c.paths) {
		c.dialNext(now)
		return
	}
	c.pathIndex, c.refusedPaths = 0, 0
	c.scheduleRetry(now, c.retryPause)
	c.retryPause = min(2*c.retryPause, longestPause)
}

// giveUp reports a peer that could not be reached for too long, or that one of the two
// has no means to reach. Silence is no proof that it has ended, so it is reported as that.
func (c *Conn) giveUp() {
	c.p.cfg.Logf("tcp: %v could not be reached for %v: %v", c.peer, c.p.cfg.Heal, c.lastError)
	c.reportEnd(c.endCauseOf(proc.Heartbeat))
}

// endCauseOf is the cause of an end of that kind, if it is not for want of something that
// the last attempt failed.
func (c *Conn) endCauseOf(kind proc.Kind) proc.Cause {
	if errno, ok := errors.AsType[unix.Errno](c.lastError); ok && isPressure(errno) {
		return proc.Cause{Kind: proc.Unreachable, Code: int32(errno)}
	}
	return proc.Cause{Kind: kind}
}

// deadlinePassed acts when the time of an attempt, or of a rest, has come.
func (c *Conn) deadlinePassed(now time.Time) {
	c.downSince = c.downSince.Add(now.Sub(c.deadline)) // nobody polled, so nothing was tried
	switch {
	case c.state == waiting:
		c.dialNext(now)
	case c.state == dialling && c.dial.stage != connecting:
		c.attemptFailed(now, errSilentPeer)
	case c.state == dialling:
		c.attemptFailed(now, unix.ETIMEDOUT)
	}
}

var errSilentPeer = errors.New("the other side takes the connection and says nothing")
