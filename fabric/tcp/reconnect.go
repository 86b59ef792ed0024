package tcp

import (
	"errors"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// broke handles the end of the connection without the peer's last frame, and reconnects. All data
// that had come were read before.
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
	c.broken++
	now := time.Now()
	c.downSince, c.lastError = now, why
	c.p.cfg.Log.Info("the connection broke: connecting again", "peer", int(c.peer), "for at most", c.p.cfg.Heal, "reason", why)
	if c.replaced { // the peer has called
		c.state = waiting
		return
	}
	c.reconnect(now)
}

// reconnect starts to connect, again or for the first time.
func (c *Conn) reconnect(now time.Time) {
	c.state, c.pathIndex, c.refusedPaths, c.retryPause = waiting, c.firstPath(), 0, firstPause
	if !slices.Contains(c.p.reconnecting, c) {
		c.p.reconnecting = append(c.p.reconnecting, c)
	}
	c.dialNext(now)
}

// awaitCall lets the peer, whose call this process is answering, make the first connection. If that
// takes long, this process calls, too.
func (c *Conn) awaitCall(now time.Time) {
	c.state, c.retryPause = waiting, firstPause
	c.p.reconnecting = append(c.p.reconnecting, c)
	c.scheduleRetry(now, callWait)
}

// scheduleRetry sets the next attempt.
func (c *Conn) scheduleRetry(now time.Time, pause time.Duration) {
	c.state, c.deadline = waiting, now.Add(pause)
	c.p.alarm(c.deadline)
}

// portClosed handles a path that refuses connections. If all of them do, or the path of the last
// connection, no process listens any more: the peer has ended.
func (c *Conn) portClosed(now time.Time) {
	w := c.paths[c.pathIndex]
	c.lastError = unix.ECONNREFUSED
	if c.refusedPaths++; c.refusedPaths == len(c.paths) || c.wasUp && w.sameInterface(c.path) {
		c.reportEnd(c.lossCause())
		return
	}
	c.nextPath(now)
}

// lossCause is the cause of an end if only the refused connection is known. A peer that was never
// connected may have departed before, without a witness.
func (c *Conn) lossCause() proc.Cause {
	if !c.wasUp {
		return proc.Cause{Kind: proc.Unknown}
	}
	return proc.Cause{Kind: proc.Connection}
}

// attemptFailed continues with the next path.
func (c *Conn) attemptFailed(now time.Time, why error) {
	if d := c.dial; d != nil && d.stage > connecting && now.Sub(d.started) > dialSilence {
		c.downSince = now // its machine had answered: silence is not death
	}
	c.hangUp()
	c.lastError = why
	if c.state == ended {
		return
	}
	c.nextPath(now)
}

// nextPath tries the next path, or pauses and begins again after the last.
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

// giveUp reports a peer that could not be reached for too long, or that one of the two lacks the
// resources to reach. Silence does not prove its end, so the cause is silence.
func (c *Conn) giveUp() {
	c.p.cfg.Log.Info("could not be reached", "peer", int(c.peer), "for", c.p.cfg.Heal, "reason", c.lastError)
	c.reportEnd(c.endCauseOf(proc.Heartbeat))
}

// endCauseOf is the cause of an end of that kind, unless the last attempt failed for a shortage.
func (c *Conn) endCauseOf(kind proc.Kind) proc.Cause {
	if errno, ok := errors.AsType[unix.Errno](c.lastError); ok && isPressure(errno) {
		return proc.Cause{Kind: proc.Unreachable, Code: int32(errno)}
	}
	return proc.Cause{Kind: kind}
}

// deadlinePassed acts when the time of an attempt, or of a pause, is over.
func (c *Conn) deadlinePassed(now time.Time) {
	c.downSince = c.downSince.Add(now.Sub(c.deadline)) // without polls, nothing was tried
	switch c.state {
	case waiting:
		c.dialNext(now)
	case dialling:
		d, stage := c.dial, c.dial.stage
		c.advance(now) // the answer may be there: this process looks late
		switch {
		case c.dial != d || d.stage != stage:
		case stage == connecting:
			c.attemptFailed(now, unix.ETIMEDOUT)
		default:
			c.attemptFailed(now, errSilentPeer)
		}
	}
}

var errSilentPeer = errors.New("the other side accepts the connection and sends nothing")
