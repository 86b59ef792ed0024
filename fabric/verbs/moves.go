//go:build cgo

package verbs

import (
	"sync"

	"github.com/banyan-hpc/banyan/fabric"
)

// A move is a write to, or a read from, memory that the peer has shared. It goes over the lane, between the frames, and
// has a completion of its own. Registered memory is moved where it lies, other memory by way of a buffer.
//
// A move may have a frame behind it, which the peer's adapter receives when it has done the move and those before it. Such a
// frame rides: it is not among those that go over the sockets if the lane fails, but lost with its move.
//
// A lane that fails loses its moves. They are reported once this end has been destroyed and the peer's end is in the
// error state: from then on neither adapter does anything more for them, so they can be done by frames. For that a move
// needs a lane in use both ways, whose failure the peer answers by the note back. The end of a peer puts this
// end of the lane into the error state before it is reported, so a dead peer's moves write nothing afterwards.

const (
	// mostMoves is the number of moves of a connection on their way, moveBytes the longest: frames wait behind them.
	mostMoves, moveBytes = 16, 256 << 10
	// noSlot is in place of a buffer.
	noSlot = 1<<32 - 1
)

// Moves implements fabric.Mover.
func (c *Conn) Moves() bool { return c.sending && c.receiving && c.losing == 0 && !c.p.left }

// TryPut implements fabric.Mover.
func (c *Conn) TryPut(local []byte, remote fabric.Region, offset uint64) int {
	return c.move(local, remote, offset, workWrite, nil)
}

// TryGet implements fabric.Mover.
func (c *Conn) TryGet(local []byte, remote fabric.Region, offset uint64) int {
	return c.move(local, remote, offset, workGet, nil)
}

// TryNotify implements fabric.Mover.
func (c *Conn) TryNotify(local []byte, remote fabric.Region, offset uint64, class fabric.Class, imm uint64, payload []byte) int {
	return c.move(local, remote, offset, workWrite, &rider{class, imm, payload})
}

// rider is the frame behind a move.
type rider struct {
	class   fabric.Class
	imm     uint64
	payload []byte
}

// move starts a move, with a frame behind it unless that is nil or the move is not of all of local.
func (c *Conn) move(local []byte, remote fabric.Region, offset uint64, what uint8, behind *rider) int {
	p := c.p
	keys, ok := readKeys(remote.Key)
	if !ok || !c.Moves() || keys[c.port.n] == 0 || offset > remote.Len || uint64(len(local)) > remote.Len-offset {
		return fabric.NoPath
	}
	if c.moves == mostMoves || behind != nil && !c.hasRoom() {
		c.starving = true
		return fabric.NoRoom
	}
	w := work{id: c.next, remote: remote.Addr + offset, key: keys[c.port.n], what: what, signal: true}
	o := onWay{slot: noSlot, port: uint8(c.port.n), move: true}
	if m := c.registeredLong(local); m != nil {
		w.at, w.m = local[:min(len(local), moveBytes)], m
	} else {
		slot, err := c.port.outgoing.take()
		if err != nil {
			return fabric.NoPath
		}
		o.slot = slot
		w.at, w.m = c.port.outgoing.at(slot)
		w.at = w.at[:min(len(local), slotBytes)]
		if what == workWrite {
			copy(w.at, local)
			w.inlined = len(w.at) <= c.inlined
		} else {
			o.into = local[:len(w.at)]
		}
	}
	if behind == nil || len(w.at) < len(local) {
		c.moving(o)
		p.submit(c, &w)
		return len(w.at)
	}
	slot, err := c.port.outgoing.take()
	if err != nil {
		p.give(&o)
		return fabric.NoPath
	}
	c.moving(o)
	w.signal = false // the completion of the frame stands for it
	m := c.message(slot, header{imm: behind.imm, class: behind.class, rides: true}, behind.payload, true)
	p.submit(c, &w, &m)
	return len(w.at)
}

// moving enters a move, whose completion stands for all before it.
func (c *Conn) moving(o onWay) {
	c.out = append(c.out, o)
	c.p.onWay++
	c.moves++
	c.next++
	c.quiet = 0
}

// registeredLong is the registration, with the port of the lane, of memory that is better not copied; nil: there is none.
func (c *Conn) registeredLong(mem []byte) *memory {
	if len(mem) <= batchBytes {
		return nil
	}
	r := c.p.registeredAs(mem)
	if r == nil || r.on[c.port.n].c == nil {
		return nil
	}
	return &r.on[c.port.n]
}

// ends ends a message or move that is complete.
func (c *Conn) ends(o *onWay) {
	if o.move {
		if o.into != nil {
			at, _ := c.port.outgoing.at(o.slot)
			copy(o.into, at)
		}
		c.moves--
		c.moved++
		c.reports()
	}
	c.p.give(o)
	*o = onWay{}
}

// give gives the buffer back, if there is one.
func (p *Provider) give(o *onWay) {
	if o.slot != noSlot {
		p.ports[o.port].outgoing.give(o.slot)
	}
}

// reports has Poll tell the sink of moves that have ended.
func (c *Conn) reports() {
	if !c.listedMoved {
		c.listedMoved = true
		c.p.moved = append(c.p.moved, c)
	}
}

func (p *Provider) reportMoved() {
	list := p.moved
	p.moved, p.reported = p.reported[:0], list
	for _, c := range list {
		moved, gone := c.moved, c.gone
		c.listedMoved, c.moved, c.gone = false, 0, 0
		if p.told++; p.up.Moved == nil {
			continue
		}
		if moved > 0 {
			p.up.Moved(c.Peer(), moved, false)
		}
		if gone > 0 && !c.ended {
			p.up.Moved(c.Peer(), gone, true)
		}
	}
}

// shares are memory that peers may write and read, by the key.
type shares struct {
	mu   sync.Mutex
	list map[string]regions
	over bool // the device is closed
}

// Share implements fabric.Sharer.
func (p *Provider) Share(mem []byte) (fabric.Region, error) {
	s := &p.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return fabric.Region{}, fabric.ErrClosed
	}
	on, key, err := p.register(mem, true)
	if err != nil {
		return fabric.Region{}, err
	}
	if s.list == nil {
		s.list = make(map[string]regions)
	}
	s.list[string(key)] = on
	return fabric.Region{Addr: addressOf(mem), Len: uint64(len(mem)), Key: key}, nil
}

// Unshare implements fabric.Sharer.
func (p *Provider) Unshare(r fabric.Region) {
	s := &p.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[string(r.Key)].deregister()
	delete(s.list, string(r.Key))
}

func (s *shares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, on := range s.list {
		on.deregister()
	}
	s.list, s.over = nil, true
}
