//go:build cgo

package verbs

import (
	"errors"
	"time"
)

// Work that has no answer for too long ends its lane or rail. An adapter of InfiniBand or RoCE should report that itself. Linux 6.1's rxe
// sometimes does not, after its interface was down for a while: it sends nothing more for that queue pair.

var errNoAnswer = errors.New("verbs: no answer from the peer's adapter")

// lookAfter looks at the oldest work of all lanes and rails, now and then.
func (p *Provider) lookAfter() {
	since := time.Duration(p.tick - p.looked)
	if since < p.cfg.Timeout/8 {
		return
	}
	p.looked = p.tick
	for _, c := range p.conns {
		if c.pair != (pair{}) && !c.off {
			c.lookAfter(since > p.silence(c.port))
		}
	}
}

// silence is how long the oldest work may have no answer. Adapters that report that themselves may take a little longer.
func (p *Provider) silence(o *openPort) time.Duration {
	if o.d.links != nil {
		return p.cfg.Timeout
	}
	return 2 * p.cfg.Timeout
}

// lookAfter gives the lane, or a rail, up whose work has no answer for too long. Work without a completion gets one. late: this process has
// not looked for so long that answers may wait for it.
func (c *Conn) lookAfter(late bool) {
	p, w, limit := c.p, &c.unanswered, c.p.silence(c.port)
	asked := func() bool { return c.testing || c.sending && len(c.out) > c.quiet } // the oldest work has a completion
	switch first := c.first; {
	case late || !c.testing && (!c.sending || len(c.out) == 0):
		*w = watch{}
	case asked() && w.lasts(true, 2*c.first, limit):
		if p.takeAll(c.port); asked() && c.first == first {
			c.fails(errNoAnswer)
			return
		}
	case !asked() && w.lasts(true, 2*c.first+1, limit/4):
		p.endBatch()
		c.port.d.probe(c.pair, c.next-1)
		c.quiet = 0
		p.round(c.port, 1)
	}
	if c.reads == nil {
		return
	}
	for _, x := range c.reads.rails {
		oldest := x.oldest()
		if !x.unanswered.lasts(oldest > 0 && !late, oldest, p.silence(x.port)) {
			continue
		}
		if p.takeAll(x.port); x.oldest() == oldest {
			x.leaves(p, errNoAnswer)
		}
	}
}

// takeAll takes the completions that there are.
func (p *Provider) takeAll(o *openPort) {
	for p.round(o, 1) > 0 {
	}
}

// oldest is the number of the oldest read under way; 0: there is none.
func (x *rail) oldest() uint64 {
	if !x.joined || len(x.pieces) == 0 {
		return 0
	}
	return x.pieces[0].id
}

// watch is since when work has no answer.
type watch struct {
	oldest uint64
	since  time.Time // zero: nothing waits
}

// lasts reports whether the same piece of work, the oldest, has waited for longer than the limit.
func (w *watch) lasts(waits bool, oldest uint64, limit time.Duration) bool {
	switch now := time.Now(); {
	case !waits:
		w.since = time.Time{}
	case w.since.IsZero() || oldest != w.oldest:
		w.oldest, w.since = oldest, now
	default:
		return now.Sub(w.since) > limit
	}
	return false
}
