//go:build cgo

package verbs

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// The life of a lane. Each side sends an offer: its end of a queue pair. On the peer's offer it joins its pair to
// that, and says that it is ready. A side whose peer is ready sends the note over, and then its frames over the
// pair. Frames that come over the pair before the note wait for it.
//
// A side whose pair fails says so. Both sides then send back, with the number of the first frame that has no
// acknowledgement, and all frames from that on over the sockets; the receiver drops those that it has. So each frame
// comes once, and in order.
//
// A lane that has failed comes back, over the next port that both sides have. A side that has said so, and knows that nothing more
// comes over the lane (the peer has said back, or that its end has failed without a note over before), is done with that generation,
// and offers the next one: at once, or if the last lane over its port has failed too after a while, or when the peer does. Each side
// writes nothing to the peer over the new pair, and sends the note over when that has been acknowledged, so no frame waits for a
// path that is still broken.

// begin offers the peer a lane.
func (c *Conn) begin() {
	p := c.p
	p.endBatch()
	o := p.ports[c.turn()]
	made, mine, inlined, err := o.d.newPair(2*(p.ring()+mostMoves), false) // each message may be followed by a probe
	if err != nil {
		c.cannotBegin(err)
		return
	}
	c.port, c.pair, c.mine, c.inlined = o, made, mine, inlined
	o.lanes[mine.qp] = c
	p.lanes++
	o.needed += p.credit + spare
	if err := errors.Join(o.fillReceives(), o.outgoing.reserve()); err != nil {
		c.release()
		c.cannotBegin(err)
		return
	}
	c.say(&note{
		word: offer, credit: uint16(p.credit), ports: uint8(len(p.ports)), end: mine, reads: c.newReads().ends(),
	})
}

// turn is the number of the port of this generation: each has its turn among the ports that both processes have. Both know their
// number once they have had an offer.
func (c *Conn) turn() int { return int(c.generation) % max(1, c.ports) }

// cannotBegin notes, here and at the peer, that this side cannot make its end. Where there are several ports, both go on to the next
// one, unless the peer may not know yet how many this side has.
func (c *Conn) cannotBegin(why error) {
	c.p.log.Info("no lane over RDMA: the sockets are used", "peer", int(c.Peer()), "port", c.turn(), "reason", why)
	c.say(&note{word: broken})
	if c.generation == 0 || c.ports < 2 {
		c.off = true
		return
	}
	c.renewals[c.turn()].later(c.p.pause)
	c.advances()
}

// say sends a note over the sockets, now or later.
func (c *Conn) say(n *note) {
	n.generation = c.generation
	c.notes = append(c.notes, n.encode())
	c.pump()
}

// pump sends the frames for the sockets: notes, then those of a broken lane. It begins a lane where the sockets
// have connected, unless they are those of one machine.
func (c *Conn) pump() (sent int) {
	if c.wanted && !c.ended {
		up, unix := c.Up()
		if !up {
			c.queue()
			return 0
		}
		c.wanted = false
		switch {
		case unix:
			c.off = true
		case c.pair == (pair{}):
			c.begin()
		}
	}
	for len(c.notes) > 0 && !c.ended {
		if !c.SendBeside(c.notes[0]) {
			c.queue()
			return sent
		}
		last := word(c.notes[0][0])
		c.notes = c.notes[1:]
		sent++
		if last == over {
			c.wantsTo, c.sending = false, true
			if c.generation > 0 {
				c.heals++
			}
			c.p.log.Info("sends over RDMA", "peer", int(c.Peer()), "device", c.port.Device)
			c.mayContinue()
		}
	}
	for len(c.resend) > 0 && !c.ended {
		o := c.resend[0]
		at, _ := c.p.ports[o.port].outgoing.at(o.slot)
		h, payload := frameOf(at)
		if o.counted && !c.Conn.TrySend(h.class, h.imm, payload) {
			c.queue()
			return sent
		}
		c.p.give(&o)
		c.resend = c.resend[1:]
		sent++
		if len(c.resend) == 0 {
			c.change()
		}
	}
	if c.starving && !c.sending {
		c.starving, c.p.returned = false, true
	}
	return sent
}

// queue has Poll call pump.
func (c *Conn) queue() {
	if !c.queued {
		c.queued = true
		c.p.pending = append(c.p.pending, c)
	}
}

// pumpAll calls pump of the connections that wait for their sockets.
func (p *Provider) pumpAll() (sent int) {
	list := p.pending
	p.pending = nil
	for _, c := range list {
		c.queued = false
		sent += c.pump()
	}
	return sent
}

// heed handles a note of a peer.
func (p *Provider) heed(from proc.ID, payload []byte) {
	n, ok := decodeNote(payload)
	w := p.Lookup(from)
	c, has := w.(*Conn)
	if !has || p.closed || c.ended {
		return
	}
	if !ok {
		c.corrupt()
		return
	}
	if n.generation != c.generation { // one side could not make its end of the last lane
		return
	}
	switch n.word {
	case offer:
		c.join(&n)
	case ready:
		c.heard = true
		c.change()
	case over:
		c.comes(true)
		early := c.early
		c.early = nil
		for _, slot := range early {
			p.deliver(c, slot)
		}
	case broken:
		switch c.fails(nil); {
		case c.pair == (pair{}) && !c.off: // it could not make its end
			c.advances()
		case !c.receiving:
			c.renews()
		}
	case back:
		c.comesBack(n.first)
	case again:
		c.railAgain(&n)
	}
}

// comes notes whether the peer's frames come over the lane.
func (c *Conn) comes(over bool) {
	if over != c.receiving {
		c.receiving = over
		if c.p.over--; over {
			c.p.over += 2
		}
	}
}

// join joins this end to the peer's.
func (c *Conn) join(n *note) {
	p := c.p
	c.ports = min(int(n.ports), len(p.ports))
	if c.pair == (pair{}) && !c.off && !p.left {
		c.begin()
	}
	if c.pair == (pair{}) || c.met {
		return // the peer's lane is never ready
	}
	linked, err := c.port.d.join(c.pair, &c.mine, &n.end, p.cfg.Timeout, c.connects())
	switch {
	case errors.Is(err, errKinds):
		p.log.Info("no lane over RDMA: the sockets are used", "peer", int(c.Peer()), "reason", err)
		c.off = true
		return
	case err != nil:
		c.fails(err)
		return
	}
	c.met, c.credit = true, int(n.credit)
	c.joinReads(&n.reads)
	if c.linked = c.linked || linked; c.linked {
		c.meets()
	}
}

// connects is 1 if this process connects the pairs of iWARP, 0 if the peer does.
func (c *Conn) connects() int { return max(0, cmp.Compare(c.Peer(), c.p.cfg.Sockets.Self)) }

// meets notes that both ends are joined.
func (c *Conn) meets() {
	c.joined = true
	c.say(&note{word: ready})
	c.change()
}

// ackTimeout is the exponent by which all retries together take so long.
func ackTimeout(all time.Duration) int {
	each := all / (retries + 1)
	return min(31, max(1, bits.Len64(uint64(each/(4096*time.Nanosecond)))-1))
}

// change has the frames go over the lane if both ends receive.
func (c *Conn) change() {
	switch {
	case !c.joined || !c.heard || c.sending || c.wantsTo || c.off || c.p.left || len(c.resend) > 0:
	case c.generation > 0 && !c.tested:
		c.test()
	default:
		c.wantsTo = true
		c.say(&note{word: over})
	}
}

// test writes nothing to the peer: see passes.
func (c *Conn) test() {
	if c.testing {
		return
	}
	c.p.endBatch()
	c.testing = true
	c.port.d.probe(c.pair, c.next-1)
	c.p.round(c.port, 1)
}

// passes notes that the lane has acknowledged something.
func (c *Conn) passes() {
	if c.testing {
		c.testing, c.tested = false, true
		c.change()
	}
}

// fails gives the lane up. why is nil if the peer has found it broken.
func (c *Conn) fails(why error) {
	if c.pair == (pair{}) || c.off || c.ended {
		return
	}
	c.off = true
	c.breaks++
	c.renewals[c.port.n].later(c.p.pause)
	c.p.log.Info("the lane over RDMA has failed: its messages go on over the sockets", "peer", int(c.Peer()),
		"port", c.port.Port, "reason", reason(why))
	c.pair.fail()
	if c.wantsTo { // the note has not left: nothing has been sent over the lane
		c.wantsTo = false
		c.notes = slices.DeleteFunc(c.notes, func(b []byte) bool { return word(b[0]) == over })
	}
	c.say(&note{word: broken})
	sent := c.sending
	c.sending = false
	c.p.onWay -= len(c.out)
	for _, o := range c.out { // without frames, if it has brought credit only
		switch {
		case o.move:
			c.lost = append(c.lost, o)
			continue
		case o.counted:
			c.sent--
		}
		c.resend = append(c.resend, o)
	}
	c.out, c.quiet, c.moves = nil, 0, 0
	if sent {
		c.say(&note{word: back, first: c.sent})
	}
	c.pump()
}

func reason(why error) any {
	if why == nil {
		return "the peer's end has failed"
	}
	return why
}

// comesBack handles the note that the peer's frames come over the sockets again, from a number on. All that have come
// over the lane are in the completion queue.
func (c *Conn) comesBack(first uint64) {
	c.fails(nil)
	c.p.empty()
	if c.ended {
		return
	}
	if first > c.got || !c.receiving {
		c.corrupt()
		return
	}
	c.comes(false)
	c.skip = c.got - first
	c.got = first
	c.renews()
}

// renewal is when a lane or a rail that has failed is made again: after a pause, which is twice as long each time it has not
// lasted, and longest at most.
type renewal struct {
	at    time.Time
	times int
}

const longest = time.Minute

// later sets the time.
func (r *renewal) later(pause time.Duration) {
	now := time.Now()
	if now.Sub(r.at) > longest {
		r.times = 0
	}
	r.at = now.Add(min(pause<<min(r.times, 16), longest))
	r.times++
}

// renews frees a lane that has failed at both ends, and has the next one begin after a while.
func (c *Conn) renews() {
	if !c.off || c.ended || c.pair == (pair{}) {
		return
	}
	c.releaseLater()
	c.advances()
}

// advances goes on to the next lane. It begins at once, unless the last one over its port has failed not long ago.
func (c *Conn) advances() {
	if c.p.left || c.ended {
		return
	}
	c.off, c.met, c.linked, c.heard, c.testing, c.tested, c.wanted = false, false, false, false, false, false, false
	c.owed, c.quiet = 0, 0
	c.generation++
	c.next++ // the number of the test
	c.first = c.next
	if !slices.Contains(c.p.renewing, c) {
		c.p.renewing = append(c.p.renewing, c)
	}
}

// renewLanes begins the lanes whose time has come.
func (p *Provider) renewLanes() {
	now := time.Now()
	p.renewing = slices.DeleteFunc(p.renewing, func(c *Conn) bool {
		switch {
		case c.ended || p.left || c.off || c.pair != (pair{}):
		case now.Before(c.renewals[c.turn()].at):
			return false
		default:
			c.wanted = true
			c.queue()
		}
		return true
	})
}
