package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/few"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// pollBatch bounds the frames of one Poll.
const pollBatch = 64

// endpoint is fabric.Provider for one process.
type endpoint struct {
	p        *Proc
	flows    few.Map[proc.ID, *flow] // outgoing, by peer; never iterated
	order    []*flow                 // the same, in the order of creation
	refused  []*flow                 // outgoing, refused since the last Ready
	ports    [numPorts]Picos         // when each port is free
	inbox    frameList
	regions  regionTable
	shares   map[uint64][]byte // memory that peers may write and read, by Region.Addr
	shared   uint64            // memory so far
	gets     []*pendingGet
	barred   ft.Set // peers that Inform reported before they connected
	departed bool
	closed   bool
	cause    proc.Cause // its end, once departed or closed
}

func (e *endpoint) Name() string { return "sim" }

const addressMark = 's'

func (e *endpoint) Address() []byte { return Address(e.p.id) }

// Address is the Provider.Address of a process, also before it has been started.
func Address(id proc.ID) []byte {
	return binary.LittleEndian.AppendUint32([]byte{addressMark}, uint32(id))
}

// Connect makes both directions at once and costs nothing: frames to a process that has not polled
// yet wait for it.
func (e *endpoint) Connect(spec fabric.ConnectSpec) (fabric.Conn, error) {
	e.p.step()
	e.p.settle()
	if err := e.checkConnect(&spec); err != nil {
		return nil, err
	}
	f := e.flows.Get(spec.Peer)
	if f == nil {
		f = e.connect(e.p.sim.procs[spec.Peer])
	}
	return (*conn)(f), nil
}

// checkConnect returns an error if the process cannot connect.
func (e *endpoint) checkConnect(spec *fabric.ConnectSpec) error {
	s := e.p.sim
	switch {
	case e.closed || e.departed:
		return fabric.ErrClosed
	case len(spec.Address) != 5 || spec.Address[0] != addressMark:
		return fmt.Errorf("sim: connect to %v: %x is no address of this provider", spec.Peer, spec.Address)
	case binary.LittleEndian.Uint32(spec.Address[1:]) != uint32(spec.Peer):
		return fmt.Errorf("sim: connect to %v: the address is another process's", spec.Peer)
	case s.checkID(spec.Peer) != nil || s.procs[spec.Peer] == nil:
		return fmt.Errorf("sim: connect to %v: no such process", spec.Peer)
	case s.disconnected[pairOf(e.p.id, spec.Peer)]:
		return fmt.Errorf("%w: sim: %v and %v have been parted", fabric.ErrNoPath, e.p.id, spec.Peer)
	case e.barred.Has(spec.Peer):
		return fabric.ErrPeerGone
	}
	return nil
}

// connect makes both directions of a connection.
func (e *endpoint) connect(peer *Proc) *flow {
	f := e.p.sim.join(e.p, peer)
	if peer.end.closed || peer.end.departed {
		f.back.queueEvidence()
	}
	if peer.end.barred.Has(e.p.id) {
		f.invalidated = true
		f.back.refuseSender()
	}
	return f
}

// Inform implements fabric.Provider. A peer that lives learns that it counts as dead, as soon as
// the evidence can reach it.
func (e *endpoint) Inform(peer proc.ID, cause proc.Cause) {
	e.p.step()
	e.p.settle()
	if e.closed || e.departed || e.p.sim.checkID(peer) != nil {
		return
	}
	f := e.flows.Get(peer)
	if f == nil {
		e.barred.Add(peer)
		return
	}
	if !f.back.shut && !f.back.invalidated {
		(&evidence{f.back, cause}).happen(e.p.sim)
		f.refuseSender()
	}
}

// Lookup is free and no step: it observes only known facts.
func (e *endpoint) Lookup(peer proc.ID) fabric.Conn {
	if f := e.flows.Get(peer); f != nil {
		return (*conn)(f)
	}
	return nil
}

func (e *endpoint) add(peer proc.ID, f *flow) {
	e.flows.Put(peer, f)
	e.order = append(e.order, f)
}

// open reports whether arrivals can still be polled.
func (e *endpoint) open() bool { return !e.p.over && !e.closed }

// enqueue puts a frame into the inbox and rings.
func (e *endpoint) enqueue(fr *frame) {
	e.inbox.push(fr)
	e.p.host.Ring()
}

func (e *endpoint) Poll(sink *fabric.Sink) int {
	p := e.p
	p.step()
	p.settle()
	n := 0
	for ; n < pollBatch; n++ {
		fr := e.inbox.pop()
		if fr == nil {
			break
		}
		e.deliver(sink, fr)
	}
	if n == 0 {
		p.clock += p.sim.cfg.CPU.EmptyPoll
	}
	return n
}

func (e *endpoint) deliver(sink *fabric.Sink, fr *frame) {
	s, f := e.p.sim, fr.flow
	switch {
	case f.invalidated:
		s.record(traceDrop, e.p.id, f.from.id, fr.class, len(fr.payload))
	case fr.kind == frameData:
		e.deliverData(sink, fr)
	case fr.kind == frameDeparture:
		f.polled = true
		s.record(traceDeparted, e.p.id, f.from.id, 0, 0)
		if sink.Departed != nil {
			sink.Departed(f.from.id)
		}
	case fr.kind == frameMoved:
		if sink.Moved != nil && !f.polled {
			sink.Moved(f.from.id, int(fr.imm), fr.lost)
		}
	case fr.kind == frameFetched:
		if sink.Fetched != nil && !f.polled {
			sink.Fetched(f.from.id, fr.imm, fr.err)
		}
	default:
		f.polled = true
		s.record(traceDown, e.p.id, f.from.id, 0, int(fr.cause.Kind))
		if sink.Down != nil {
			sink.Down(f.from.id, fr.cause)
		}
	}
	s.frames.put(fr)
}

// deliverData charges for a frame, delivers it and returns its credit. It is a step of its own, so
// that a process can die between two frames.
func (e *endpoint) deliverData(sink *fabric.Sink, fr *frame) {
	p, f := e.p, fr.flow
	p.step()
	p.clock += f.link.RecvOverhead + Picos(len(fr.payload))*p.sim.cfg.CPU.PerByte
	p.settle()
	deliver := sink.Deliver[fr.class]
	if deliver == nil || f.invalidated { // another activity may have invalidated the sender
		p.count.Dropped++
		p.sim.record(traceDrop, p.id, f.from.id, fr.class, len(fr.payload))
	} else {
		p.count.Delivered++
		p.sim.record(traceDeliver, p.id, f.from.id, fr.class, len(fr.payload))
		deliver(f.from.id, fr.imm, fr.payload)
	}
	f.giveCredit()
}

// Ready reports the credit of a refused connection once per refusal, so that a refused send that
// its owner has given up does not keep the process awake.
func (e *endpoint) Ready() bool {
	e.p.step()
	e.p.settle()
	ready := e.inbox.first != nil
	still := e.refused[:0]
	for _, f := range e.refused {
		switch {
		case f.refused && !f.hasCredit():
			still = append(still, f)
			continue
		case f.refused:
			f.refused = false
			ready = true
		}
		f.listed = false
	}
	e.refused = still
	return ready
}

// Depart is a step per connection, so that a process can die half-way.
func (e *endpoint) Depart() {
	p := e.p
	p.step()
	if e.departed || e.closed {
		return
	}
	e.departed = true
	e.cause = proc.Cause{Kind: proc.Departed}
	p.sim.record(traceDepart, p.id, proc.None, 0, 0)
	for _, f := range e.order {
		p.step()
		if f.to == p || f.dead() {
			continue
		}
		p.clock += f.link.SendOverhead
		p.settle()
		fr := p.sim.frames.get(0)
		fr.flow, fr.kind = f, frameDeparture
		f.transmit(fr)
	}
}

// Close has no effect when repeated and in a process that is over.
func (e *endpoint) Close() error {
	if e.closed || e.p.over {
		return nil
	}
	e.p.step()
	e.p.settle()
	e.p.sim.record(traceClose, e.p.id, proc.None, 0, 0)
	if e.departed {
		e.close()
	} else {
		e.fail(proc.Cause{Kind: proc.Connection})
	}
	return nil
}

func (e *endpoint) close() {
	e.closed = true
	e.inbox = frameList{}
}
