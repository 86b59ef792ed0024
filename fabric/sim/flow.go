package sim

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// port is one network port of a process. Self, node and network traffic do not share one; both
// network classes do.
type port int

const (
	portSelf port = iota
	portNode
	portNet
	numPorts
)

var portOf = [numLinks]port{
	fabric.LinkSelf: portSelf, fabric.LinkNode: portNode, fabric.LinkSwitch: portNet, fabric.LinkAcross: portNet,
}

// flow is one direction of a connection: the frames from one process to another, and the receiver's
// knowledge of the sender. A process's flow to itself is its own back direction.
type flow struct {
	from, to *Proc
	back     *flow
	link     *Link
	class    fabric.LinkClass

	// There are two flows for each connected pair, so the fields are packed. Of the sender:
	refused bool // TrySend returned false, and credit has not been reported since
	listed  bool // in endpoint.refused
	due     bool // the event of the next credit is queued
	// Of the network:
	broken bool // a partition broke the connection: nothing arrives any more
	// Of the receiver:
	shut        bool // nothing more arrives: evidence of the sender's end is queued, or it broke
	polled      bool // the evidence has been polled
	invalidated bool // Conn.Invalidate: not even arrived frames are delivered

	unacked int32     // frames that came to the receiver's node since one went back
	used    int32     // credits not known to be returned
	done    int32     // index in credits
	credits []Picos   // when credits return, ascending; those before done have
	sent    uint64    // frames so far
	wire    frameList // frames that have not arrived, in order
	last    Picos     // arrival of the last of them

	moves    []*move  // under way, the oldest first
	moved    uint64   // moves so far
	pathless Picos    // no move is started before
	lastMove Picos    // arrival of the last one
	fetches  []*fetch // under way
	fetched  uint64   // so far
}

func (t Topology) class(a, b proc.ID) fabric.LinkClass {
	nodeA, nodeB := int(a)/t.ProcsPerNode, int(b)/t.ProcsPerNode
	switch {
	case a == b:
		return fabric.LinkSelf
	case nodeA == nodeB:
		return fabric.LinkNode
	case nodeA/t.NodesPerSwitch == nodeB/t.NodesPerSwitch:
		return fabric.LinkSwitch
	default:
		return fabric.LinkAcross
	}
}

// join makes both directions of a connection and returns the one from a to b.
func (s *Sim) join(a, b *Proc) *flow {
	class := s.cfg.Topology.class(a.id, b.id)
	out := &flow{from: a, to: b, class: class, link: &s.cfg.Links[class]}
	out.back = out
	a.end.add(b.id, out)
	if a != b {
		out.back = &flow{from: b, to: a, back: out, class: class, link: out.link}
		b.end.add(a.id, out.back)
	}
	return out
}

// hasCredit reports whether the sender has a credit at its clock. The sender has settled, so every
// credit that has returned by then is counted.
func (f *flow) hasCredit() bool {
	for int(f.done) < len(f.credits) && f.credits[f.done] <= f.from.clock {
		f.done++
		f.used--
	}
	return int(f.used) < f.from.sim.cfg.Credits
}

// giveCredit returns one credit to the sender, from the receiver's present.
func (f *flow) giveCredit() {
	s := f.from.sim
	at := s.passage(f.to.id, f.from.id, s.present())
	if at == never {
		return
	}
	if len(f.credits) == cap(f.credits) && f.done > 0 {
		f.credits = f.credits[:copy(f.credits, f.credits[f.done:])]
		f.done = 0
	}
	f.credits = append(f.credits, at+f.link.Latency)
	f.awaitCredit()
}

// refuse notes that the sender waits for the next credit.
func (f *flow) refuse() {
	f.refused = true
	if !f.listed {
		f.listed = true
		f.from.end.refused = append(f.from.end.refused, f)
	}
	f.awaitCredit()
}

func (f *flow) awaitCredit() {
	if f.refused && !f.due && int(f.done) < len(f.credits) {
		f.due = true
		f.from.sim.push(f.credits[f.done], (*creditBack)(f))
	}
}

// creditBack is a flow as an event: a credit returns to a sender that was refused. It is reported
// once, now or by Ready.
type creditBack flow

func (c *creditBack) happen(*Sim) *task {
	f := (*flow)(c)
	f.due = false
	if f.refused && f.from.host.armed {
		f.refused = false
		f.from.host.Ring()
	}
	return nil
}

// transmit puts a frame on the wire at the sender's clock.
func (f *flow) transmit(fr *frame) {
	p, s := f.from, f.from.sim
	transfer := Picos(len(fr.payload)) * f.link.GapPerByte
	f.back.unacked = 0 // the frame carries the acknowledgement
	var start Picos
	if e := s.engineOf(f, p); e != nil {
		start = e.take(p.clock, f.link.Gap+transfer)
	} else {
		free := &p.end.ports[portOf[f.class]]
		start = max(p.clock, *free)
		*free = start + f.link.Gap + transfer
	}
	f.sent++
	f.wire.push(fr)
	at := f.hold(start)
	if at == never || f.last == never {
		f.last = never // and so is everything behind it
		return
	}
	f.last = max(f.last, at+f.link.Latency+transfer+s.spike(f))
	s.push(f.last, fr)
}

// spike is the extra delay of the last frame.
func (s *Sim) spike(f *flow) Picos {
	sp := &s.cfg.Spikes
	if sp.Chance == 0 {
		return 0
	}
	a, b := uint64(f.from.id), uint64(f.to.id)
	if !happens(draw(s.cfg.Seed, forSpike, a, b, f.sent), sp.Chance) {
		return 0
	}
	return octaves(draw(s.cfg.Seed, forSpikeLength, a, b, f.sent), sp.Min, sp.Max)
}

// happen is the frame's arrival.
func (fr *frame) happen(s *Sim) *task {
	f := fr.flow
	if f.pass(fr, s) {
		return nil
	}
	f.wire.pop() // order is kept, so it is this frame
	if fr.lost || f.broken || f.shut || f.invalidated || !f.to.end.open() {
		s.record(traceDrop, f.to.id, f.from.id, fr.class, len(fr.payload))
		s.frames.put(fr)
		return nil
	}
	if fr.kind == frameDeparture {
		f.shut = true
	}
	s.record(traceArrive, f.to.id, f.from.id, fr.class, len(fr.payload))
	f.to.end.enqueue(fr)
	return nil
}
