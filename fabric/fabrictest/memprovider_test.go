package fabrictest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The limits of memNet for frames in flight from one process to another.
const (
	memFrames   = 32
	memBytes    = 16 << 10
	memMaxFrame = 4 << 10
	memBatch    = 16
)

type memKind uint8

const (
	memFrame memKind = iota
	memDown
	memDeparted
	memFetched
)

// memItem is an entry of an inbox.
type memItem struct {
	kind    memKind
	from    proc.ID
	class   fabric.Class
	imm     uint64
	payload []byte
	cause   proc.Cause
	read    memRead
}

// memConn is one process's end of a connection.
type memConn struct {
	p       *memProc
	to      *memProc
	frames  int // under way to the peer
	bytes   int
	refused bool
	muted   bool
	ended   bool // the peer's end has been delivered
}

func memAddress(id proc.ID) []byte {
	return binary.LittleEndian.AppendUint32([]byte("mem"), uint32(id))
}

func (p *memProc) Name() string    { return "mem" }
func (p *memProc) Address() []byte { return memAddress(p.id) }

func (p *memProc) Connect(spec fabric.ConnectSpec) (fabric.Conn, error) {
	p.step()
	defer p.net.mu.Unlock()
	switch {
	case p.closed || p.departed:
		return nil, fabric.ErrClosed
	case int(spec.Peer) >= len(p.net.procs) || !slices.Equal(spec.Address, memAddress(spec.Peer)):
		return nil, fmt.Errorf("mem: %x is not the address of %v", spec.Address, spec.Peer)
	}
	if c := p.out[spec.Peer]; c != nil {
		return c, nil
	}
	q := p.net.procs[spec.Peer]
	if q.over || q.closed || q.departed || p.barred[q.id] || q.barred[p.id] {
		return nil, fabric.ErrPeerGone
	}
	p.out[q.id] = &memConn{p: p, to: q}
	q.out[p.id] = &memConn{p: q, to: p}
	return p.out[q.id], nil
}

func (p *memProc) Inform(peer proc.ID, cause proc.Cause) {
	p.step()
	defer p.net.mu.Unlock()
	c := p.out[peer]
	if c == nil {
		p.barred[peer] = true
		return
	}
	p.push(memItem{kind: memDown, from: peer, cause: cause})
	c.to.push(memItem{kind: memDown, from: p.id, cause: proc.Cause{Kind: proc.Refused}})
}

func (p *memProc) Lookup(peer proc.ID) fabric.Conn {
	p.net.mu.Lock() // no step: called while Poll delivers
	defer p.net.mu.Unlock()
	if c := p.out[peer]; c != nil {
		return c
	}
	return nil
}

// push puts an item into an inbox. The lock is held.
func (p *memProc) push(it memItem) {
	c := p.out[it.from]
	if p.over || p.closed || c.muted || c.ended {
		return
	}
	c.ended = it.kind == memDown || it.kind == memDeparted
	p.inbox = append(p.inbox, it)
	p.ring()
}

func (p *memProc) notifyPeers(it memItem) {
	if p.closed {
		return
	}
	it.from = p.id
	for _, c := range p.out {
		if !c.muted {
			c.to.push(it)
		}
	}
}

func (p *memProc) Poll(s *fabric.Sink) int {
	n := 0
	for ; n < memBatch; n++ {
		p.step()
		if len(p.inbox) == 0 {
			p.net.mu.Unlock()
			break
		}
		it := p.inbox[0]
		p.inbox = p.inbox[1:]
		muted := p.out[it.from].muted
		p.returnCredit(it)
		p.net.mu.Unlock()
		if !muted {
			deliverItem(s, it)
		}
	}
	return n
}

func (p *memProc) returnCredit(it memItem) {
	c := p.net.procs[it.from].out[p.id]
	if it.kind != memFrame || c == nil {
		return
	}
	c.frames--
	c.bytes -= len(it.payload)
	if c.refused {
		c.p.ring()
	}
}

func deliverItem(s *fabric.Sink, it memItem) {
	switch it.kind {
	case memDown:
		s.Down(it.from, it.cause)
	case memDeparted:
		s.Departed(it.from)
	case memFetched:
		copy(it.read.local, it.read.from)
		s.Fetched(it.from, it.read.token, nil)
	default:
		if fn := s.Deliver[it.class]; fn != nil {
			fn(it.from, it.imm, it.payload)
		}
	}
}

func (p *memProc) Ready() bool {
	p.step()
	defer p.net.mu.Unlock()
	ready := len(p.inbox) > 0
	for _, c := range p.out {
		if c.refused && c.fits(0) {
			c.refused, ready = false, true
		}
	}
	return ready
}

func (p *memProc) Depart() {
	p.step()
	defer p.net.mu.Unlock()
	if p.departed || p.closed {
		return
	}
	p.notifyPeers(memItem{kind: memDeparted})
	p.departed = true
}

func (p *memProc) Close() error {
	p.step()
	defer p.net.mu.Unlock()
	if p.closed {
		return nil
	}
	if !p.departed {
		p.notifyPeers(memItem{kind: memDown, cause: proc.Cause{Kind: proc.Connection}})
	}
	p.closed = true
	p.inbox = nil
	return nil
}

func (c *memConn) Peer() proc.ID { return c.to.id }

func (c *memConn) Caps() fabric.Caps {
	return fabric.Caps{Inline: 32, MaxFrame: memMaxFrame, Eager: 2 * memMaxFrame, Get: true}
}

// fits leaves room for a longest frame, so that credit is always useful.
func (c *memConn) fits(n int) bool { return c.frames < memFrames && c.bytes <= memBytes-memMaxFrame }

func (c *memConn) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	c.p.step()
	defer c.p.net.mu.Unlock()
	switch {
	case c.p.departed || c.p.closed:
		return false
	case c.muted || c.to.over || c.to.closed || c.to.departed:
		return true
	case !c.fits(len(payload)):
		c.refused = true
		return false
	}
	c.frames++
	c.bytes += len(payload)
	c.to.push(memItem{from: c.p.id, class: class, imm: imm, payload: slices.Clone(payload)})
	return true
}

func (c *memConn) Expose(buf []byte) (fabric.Region, error) {
	c.p.step()
	defer c.p.net.mu.Unlock()
	c.p.regions = append(c.p.regions, buf)
	return fabric.Region{Addr: uint64(len(c.p.regions)), Len: uint64(len(buf)), Key: []byte{1}}, nil
}

func (c *memConn) Get(local []byte, remote fabric.Region, offset uint64) error {
	c.p.step()
	defer c.p.net.mu.Unlock()
	switch {
	case c.p.closed:
		return fabric.ErrClosed
	case c.to.over || c.to.closed:
		return fabric.ErrPeerGone
	case remote.Addr == 0 || remote.Addr > uint64(len(c.to.regions)):
		return errors.New("mem: no such region")
	}
	from := c.to.regions[remote.Addr-1]
	if n := uint64(len(from)); offset > n || uint64(len(local)) > n-offset {
		return errors.New("mem: out of range")
	}
	copy(local, from[offset:])
	return nil
}

func (c *memConn) Invalidate() {
	c.p.step()
	defer c.p.net.mu.Unlock()
	c.muted = true
}
