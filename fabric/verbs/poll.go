//go:build cgo

package verbs

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// fillSink makes the sink of the sockets, which passes on their frames.
func (p *Provider) fillSink() {
	for class := range p.down.Deliver {
		p.down.Deliver[class] = func(from proc.ID, imm uint64, payload []byte) {
			if c := p.conns[from]; c != nil && c.skip > 0 {
				c.skip--
				return
			}
			if fn := p.up.Deliver[class]; fn != nil {
				fn(from, imm, payload)
			}
		}
	}
	p.down.Place = func(from proc.ID, class fabric.Class, imm uint64, n int) []byte {
		if p.up.Place == nil || p.conns[from] != nil { // frames of a broken lane may have come before
			return nil
		}
		return p.up.Place(from, class, imm, n)
	}
	p.down.Placed = func(from proc.ID, class fabric.Class, imm uint64, n int) { p.up.Placed(from, class, imm, n) }
	p.down.Down = p.ends
	p.down.Departed = p.departs
	p.down.Returned = func(peer proc.ID, n int) {
		if p.up.Returned != nil {
			p.up.Returned(peer, n)
		}
	}
}

// Poll implements fabric.Provider.
func (p *Provider) Poll(s *fabric.Sink) int {
	if p.closed {
		return 0
	}
	p.endBatch()
	p.up = s
	if p.armed {
		p.armed = false
		for _, o := range p.ports {
			o.d.drain()
		}
	}
	if p.short {
		p.settle() // their completions free buffers
	}
	n, before := 0, p.told
	if len(p.moved) == 0 && p.lanes > 0 || len(p.arrived) > 0 { // found messages come first
		n = p.roundTrip(pollLooks)
		p.deliverAll()
		p.payOwed()
	}
	others := 0
	if p.lanes == 0 || p.socketsDue() || len(p.pending) > 0 || len(p.leaving) > 0 {
		others += p.Provider.Poll(&p.down)
		others += p.pollLinks()
		p.lookAfter()
	}
	if len(p.endings) > 0 {
		p.settleEndings()
	}
	if len(p.renewing) > 0 {
		p.renewLanes()
	}
	if len(p.reading.renewing) > 0 {
		p.renewRails()
	}
	if len(p.pending) > 0 {
		others += p.pumpAll()
	}
	if len(p.leaving) > 0 {
		p.reportLeaving()
	}
	if len(p.moved) > 0 {
		p.reportMoved()
	}
	if p.reading.busy() {
		p.pollReads()
	}
	p.endBatch()
	p.up = nil
	return max(n, p.told-before) + others
}

const (
	// pollLooks is the number of looks at the completion queue in one Poll: less than a microsecond.
	pollLooks = 8
	// socketStride and mixedStride are the numbers of polls for each of the sockets: where all peers have lanes, and
	// where frames come over sockets as well.
	socketStride, mixedStride = 256, 32
)

// socketsDue reports whether the sockets are to be polled: after some polls, or milliseconds.
func (p *Provider) socketsDue() bool {
	stride := uint64(socketStride)
	if p.mixed() {
		stride = mixedStride
	}
	if p.polls++; p.polls < stride && p.ticked == p.tick {
		return false
	}
	if p.ticked != p.tick {
		// Go's monitor interrupts a goroutine that runs for 10 ms without a turn of the scheduler, by signals, and if it
		// is in a call of cgo takes its processor.
		runtime.Gosched()
	}
	p.polls, p.ticked = 0, p.tick
	return true
}

// mixed reports whether there are connections over which frames come by the sockets.
func (p *Provider) mixed() bool { return p.bare || p.over < len(p.conns) }

// busy reports whether Poll has more to do than look at the completion queue.
func (p *Provider) busy() bool {
	return p.closed || p.armed || len(p.arrived)+len(p.owing)+len(p.pending)+len(p.leaving)+len(p.moved) > 0 || p.reading.busy()
}

func (p *Provider) complete(o *openPort, done *completion) {
	if done.id&receiveBit != 0 {
		slot := uint32(done.id)
		if done.status != 0 {
			o.repost = append(o.repost, slot)
			return
		}
		p.arrived = append(p.arrived, arrival{o, slot, done.qp, done.length})
		return
	}
	if done.id&readBit != 0 {
		p.readEnded(o, done)
		return
	}
	c := o.lanes[done.qp]
	switch {
	case c == nil, done.id+1 < c.first: // it is closed, or is a former lane of the same number
	case done.status == 0:
		if !c.off {
			c.acknowledged(done.id + 1)
			c.passes()
		}
	default:
		c.fails(fmt.Errorf("verbs: %s", statusName(done.status)))
	}
}

// deliverAll delivers the messages that have arrived.
func (p *Provider) deliverAll() {
	for i := 0; i < len(p.arrived); i++ { // a function of the sink may lead to more
		a := p.arrived[i]
		c := a.lane()
		if c == nil || c.ended {
			a.port.repost = append(a.port.repost, a.slot)
			continue
		}
		at, _ := a.port.incoming.at(a.slot)
		if !validMessage(at[:min(int(a.length), slotBytes)]) {
			a.port.repost = append(a.port.repost, a.slot)
			c.corrupt()
			continue
		}
		if !c.receiving { // until the note over has come
			c.early = append(c.early, a.slot)
			continue
		}
		p.deliver(c, a.slot)
	}
	p.arrived = p.arrived[:0]
}

// deliver delivers a message, and has its buffer posted again.
func (p *Provider) deliver(c *Conn, slot uint32) {
	o := c.port
	at, _ := o.incoming.at(slot)
	h, payload := frameOf(at)
	if c.count(&h); h.class != 0 {
		if fn := p.up.Deliver[h.class]; fn != nil && !c.ended {
			fn(c.Peer(), h.imm, payload)
		}
	}
	o.repost = append(o.repost, slot)
}

// count counts a message that has come, and the credit that it takes and brings.
func (c *Conn) count(h *header) {
	p := c.p
	if h.credit > 0 {
		c.credit += int(h.credit)
		c.mayContinue()
	}
	if h.class == 0 {
		return
	}
	p.told++
	if !h.rides {
		c.got++
	}
	c.received++
	if c.owed++; c.owed >= p.credit/2 && !c.owing {
		c.owing = true
		p.owing = append(p.owing, c)
	}
}

// payOwed brings credit to the peers that may soon have none.
func (p *Provider) payOwed() {
	list := p.owing
	if len(list) == 0 {
		return
	}
	p.owing = p.owing[:0]
	for i, c := range list {
		switch {
		case c.owed < p.credit/2 || c.ended || !c.joined || c.off: // a frame has brought it, or nothing can
			c.owing = false
		case c.messages() >= p.ring() || !c.post(0, 0, nil):
			p.owing = append(p.owing, list[i])
		default:
			c.owing = false
		}
	}
}

// empty takes and delivers all that has arrived.
func (p *Provider) empty() {
	for p.roundTrip(1) > 0 || len(p.arrived) > 0 {
		p.deliverAll()
	}
}

// ends handles the end of a peer that the sockets report: first come its arrived messages.
func (p *Provider) ends(peer proc.ID, cause proc.Cause) {
	if c := p.conns[peer]; c != nil {
		if c.pair != (pair{}) && !c.ended {
			c.pair.fail()
			p.empty()
		}
		c.ended = true
		c.drop()
	}
	p.told++
	if p.up.Down != nil {
		p.up.Down(peer, cause)
	}
}

// departs handles the departure of a peer that the sockets report.
func (p *Provider) departs(peer proc.ID) {
	c := p.conns[peer]
	if c != nil && c.receiving && !c.ended {
		c.total = c.Told()
		p.leaving = append(p.leaving, c)
		if c.got < c.total && c.joined && !c.off {
			c.post(0, 0, nil) // it fails if the peer has died meanwhile
		}
		return
	}
	p.departsNow(peer, c)
}

func (p *Provider) departsNow(peer proc.ID, c *Conn) {
	if c != nil {
		c.ended = true
		c.drop()
	}
	p.told++
	if p.up.Departed != nil {
		p.up.Departed(peer)
	}
}

// reportLeaving reports the departed peers of which all has come.
func (p *Provider) reportLeaving() {
	list := p.leaving
	p.leaving = nil
	for _, c := range list {
		switch {
		case c.ended:
		case c.got >= c.total:
			p.departsNow(c.Peer(), c)
		case c.off, c.bye.lasts(true, c.got, 2*p.silence(c.port)): // or its adapter is silent
			p.ends(c.Peer(), proc.Cause{Kind: proc.Connection})
		default:
			p.leaving = append(p.leaving, c)
		}
	}
}

// Ready implements fabric.Provider.
func (p *Provider) Ready() bool {
	if p.closed {
		return false
	}
	p.endBatch()
	p.polls = socketStride // the next Poll finds the events that this or the bell reports
	if p.returned {
		p.returned = false
		return true
	}
	if len(p.leaving) > 0 {
		p.WakeBy(time.Now().Add(p.cfg.Timeout / 4))
	}
	if len(p.arrived)+len(p.owing)+len(p.moved)+len(p.reading.due)+len(p.reading.fetched) > 0 ||
		slices.ContainsFunc(p.endings, (*ending).isDone) {
		return true
	}
	if p.lanes > 0 {
		all := false
		for _, o := range p.ports {
			all = all || o.underWay > 0
		}
		for _, c := range p.conns {
			// Linux's rxe does not tell a process of a failed message where only messages of peers are asked for,
			// against InfiniBand's rule: so a process that sleeps with messages on their way asks for all.
			all = all || c.asked || c.testing || c.sending && (c.starving || len(c.out) > 0)
		}
		if all {
			p.WakeBy(time.Now().Add(p.cfg.Timeout / 4)) // to look after what is on its way
		}
		if p.arm(all) {
			return true
		}
	}
	return p.Provider.Ready()
}
