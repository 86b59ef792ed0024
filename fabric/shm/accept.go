package shm

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Each side of a pair maps the other's segment: the newcomer first, then the process that finds its
// knock. The second mapping may fail for lack of descriptors or memory; the newcomer is alive
// nevertheless. The connection is half open then: frames of the newcomer are delivered, frames to
// it are refused as without credit, and the attempt is repeated. After retryState.patience both
// sides report proc.Unreachable; the newcomer reads the reason in its slot, which is all that the
// two share.

// retryState schedules the attempts of Poll to complete half-open pairs.
type retryState struct {
	firstPause, maxPause time.Duration // between two attempts
	patience             time.Duration // until a half-open connection is given up
	pause                time.Duration // before the next attempt
	due                  time.Time     // time of the next attempt; zero if no pair needs one
	timer                *time.Timer
}

// defaultRetry leaves an operator the time to raise a limit.
var defaultRetry = retryState{firstPause: 10 * time.Millisecond, maxPause: 500 * time.Millisecond,
	patience: 30 * time.Second}

// acceptKnocks finds the processes that have announced themselves since the last call: newcomers,
// and peers that have sent something through a ring that Poll does not read at present.
func (p *Provider) acceptKnocks() {
	for i := range (p.cfg.MaxProcs + 63) / 64 {
		word := p.own.knockWord(i)
		if word.Load() == 0 {
			continue
		}
		for news := word.Swap(0); news != 0; news &= news - 1 {
			id := proc.ID(i*64 + bits.TrailingZeros64(news))
			if int64(id) >= int64(p.cfg.MaxProcs) {
				continue
			}
			if c := p.conns[id]; c != nil && c.hasIn {
				p.heat(c)
			} else {
				p.accept(id)
			}
		}
	}
}

// accept starts to poll a newcomer's slot and connects back, so that each side can return credit
// and announce its departure.
func (p *Provider) accept(id proc.ID) {
	a, err := p.own.knockAddress(id)
	if errors.Is(err, errEmptySlot) {
		return // a stray bit: its owner may still knock
	}
	if c := p.conns[id]; c != nil {
		p.addInbound(c)
		return
	}
	if p.departed {
		return // the newcomer reads that in our header
	}
	if errors.Is(p.barred[id], fabric.ErrPeerGone) {
		if err == nil {
			p.refuseDead(id, &a)
		}
		return
	}
	if err != nil { // no process that connected wrote this
		p.cfg.Log.Info("malformed slot", "peer", int(id), "reason", err)
		a.geometry = p.own.geometry
	}
	c := newConn(p, id, &a)
	p.conns[id] = c
	p.addInbound(c)
	if err != nil {
		c.in.corrupt, c.in.cut = true, true
		p.requestReap()
		return
	}
	if err := c.connect(&a); err != nil {
		kept := a
		c.halfOpen, c.halfOpenSince = &kept, time.Now()
		p.connectFailed(c, err)
	}
}

// addInbound starts to poll the peer's slot; it takes nothing from an invalidated peer.
func (p *Provider) addInbound(c *Conn) {
	if c.reported {
		return
	}
	page := p.own.page(c.peer)
	c.in = consumer{
		ring: shortRing(page), other: longRing(page, p.own.ringOf(c.peer), p.own.geometry), cut: c.invalidated,
	}
	c.hasIn = true
	p.heat(c)
}

// connectFailed keeps or ends a half-open connection after a failed attempt.
func (p *Provider) connectFailed(c *Conn, err error) {
	first := c.lastError == nil
	c.lastError = err
	switch {
	case errors.Is(err, fabric.ErrPeerGone):
		c.lastError = nil
		c.gone.Store(true)
		p.requestReap()
	case permanent(err) || time.Since(c.halfOpenSince) >= p.retry.patience && !first:
		errno := errnoOf(err)
		c.in.cur.refused.Store(uint32(errno))
		c.setEnd(proc.Cause{Kind: proc.Unreachable, Code: int32(errno)})
		p.cfg.Log.Info("giving up a peer that lives: connecting back failed", "peer", int(c.peer), "reason", err)
	case first:
		p.cfg.Log.Info("connecting back failed, trying again",
			"peer", int(c.peer), "for", p.retry.patience, "reason", err)
		p.scheduleRetry()
	}
}

// errnoOf is the error number that is sent to the peer.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	switch {
	case errors.As(err, &errno) && errno != 0:
		return errno
	case errors.Is(err, ErrNoSpace):
		return unix.ENOMEM
	default:
		return unix.EIO
	}
}

// retryConnect tries to complete a half-open connection, and reports whether it has.
func (p *Provider) retryConnect(c *Conn) bool {
	if err := c.connect(c.halfOpen); err != nil {
		p.connectFailed(c, err)
		return false
	}
	c.halfOpen, c.lastError = nil, nil
	p.cfg.Log.Info("connected back", "peer", int(c.peer), "after", time.Since(c.halfOpenSince))
	return true
}

// setEnd ends the connection by evidence that is not in the ring.
func (c *Conn) setEnd(cause proc.Cause) {
	c.ending, c.endCause = true, cause
	c.p.requestReap()
}

// checkRefusal checks whether the peer, which has not connected back, has refused.
func (c *Conn) checkRefusal() {
	code := c.out.cur.refused.Load()
	switch state := c.segment.head().state.Load(); {
	case state == stateDeparted:
		c.setEnd(proc.Cause{Kind: proc.Departed})
	case state == stateClosed:
		c.setEnd(proc.Cause{Kind: proc.Connection})
	case code != 0:
		cause := proc.Cause{Kind: proc.Unreachable, Code: int32(code & 0xfff)}
		c.lastError = fmt.Errorf("shm: %v", cause)
		c.setEnd(cause)
	}
}

// scheduleRetry makes Poll check half-open pairs: soon, then at doubling intervals.
func (p *Provider) scheduleRetry() {
	w := &p.retry
	w.pause = w.firstPause
	if w.due.IsZero() || time.Until(w.due) > w.pause {
		p.rescheduleRetry()
	}
}

// awaitBack makes Poll check whether a peer has connected back, with those that are checked already: each
// change of the timer wakes a thread of Go's runtime.
func (p *Provider) awaitBack() {
	if p.retry.due.IsZero() {
		p.scheduleRetry()
	}
}

func (p *Provider) rescheduleRetry() {
	w := &p.retry
	w.due = time.Now().Add(w.pause)
	if w.timer == nil {
		w.timer = time.AfterFunc(w.pause, func() { p.requestReap(); p.bell.Ring() })
		return
	}
	w.timer.Reset(w.pause)
}

// retryIncomplete checks the half-open pairs if it is time, and returns the number that it
// completed: refused frames may be sent then.
func (p *Provider) retryIncomplete() int {
	w := &p.retry
	if w.due.IsZero() || time.Now().Before(w.due) {
		return 0
	}
	w.due = time.Time{}
	n, left := 0, false
	for _, c := range p.conns {
		switch {
		case c.reported || c.ending || c.invalidated || c.gone.Load():
			continue
		case c.halfOpen != nil:
			if p.retryConnect(c) {
				n++
				continue
			}
		case !c.ring.wanted.IsZero():
			if p.retryRing(c) {
				n++
				continue
			}
		case c.hasIn:
			continue
		default:
			c.checkRefusal()
		}
		left = true
	}
	if left {
		w.pause = min(2*w.pause, w.maxPause)
		p.rescheduleRetry()
	}
	return n
}
