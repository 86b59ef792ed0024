package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func (c *conn) Expose(buf []byte) (fabric.Region, error) {
	p := c.from
	p.step()
	switch {
	case !p.sim.cfg.Get && !p.sim.cfg.Fetch:
		return fabric.Region{}, fabric.ErrUnsupported
	case p.end.closed:
		return fabric.Region{}, fabric.ErrClosed
	}
	r := fabric.Region{Addr: p.end.regions.expose(buf), Len: uint64(len(buf))}
	if p.sim.cfg.Fetch {
		r.Key = fetchKey
	}
	return r, nil
}

// pendingGet is a Get in progress. As an event it is its completion.
type pendingGet struct {
	task *task
	peer *Proc
	over bool // the peer's end became known before completion
}

func (g *pendingGet) happen(*Sim) *task {
	if !g.over && !g.task.p.over {
		g.task.wake()
	}
	return nil
}

// Get sends a request to the peer and receives the data: o_send + L, then L + n·G + o_recv. It does
// not use the peer's core. The data are those of the instant of completion.
func (c *conn) Get(local []byte, remote fabric.Region, offset uint64) error {
	f := (*flow)(c)
	p, s := f.from, f.from.sim
	p.step()
	switch {
	case !s.cfg.Get:
		return fabric.ErrUnsupported
	case p.end.closed:
		return fabric.ErrClosed
	}
	p.clock += f.link.SendOverhead
	p.settle()
	s.record(traceGet, p.id, f.to.id, 0, len(local))
	c.awaitData(Picos(len(local)) * f.link.GapPerByte)
	p.clock += f.link.RecvOverhead
	p.settle()
	if f.dead() || !f.to.end.open() {
		return fmt.Errorf("sim: get from %v: %w", f.to.id, fabric.ErrPeerGone)
	}
	from, err := f.to.end.regions.find(remote, offset, len(local))
	if err != nil {
		return fmt.Errorf("sim: get from %v: %w", f.to.id, err)
	}
	copy(local, from)
	return nil
}

// awaitData blocks until the data could be here or the peer's end is known. The process's other
// activities continue meanwhile.
func (c *conn) awaitData(transfer Picos) {
	f := (*flow)(c)
	p, s := f.from, f.from.sim
	if f.dead() {
		return
	}
	g := &pendingGet{task: s.running, peer: f.to}
	if there := f.hold(p.clock); there < never {
		if back := f.back.hold(there + f.link.Latency); back < never {
			s.push(back+f.link.Latency+transfer, g)
		}
	}
	p.end.gets = append(p.end.gets, g)
	g.task.block(forGet)
	p.end.gets = slices.DeleteFunc(p.end.gets, func(other *pendingGet) bool { return other == g })
}

// endGets fails every Get from a peer whose end has become known.
func (e *endpoint) endGets(peer *Proc) {
	for _, g := range e.gets {
		if g.peer == peer && !g.over {
			g.over = true
			g.task.wake()
		}
	}
}

// View implements fabric.Viewer, for processes of a node and memory in a block. It takes no time. The view is
// the peer's memory itself: a store is not detected.
//
//banyan:decodes
func (c *conn) View(remote fabric.Region, _ bool) (mem []byte, end func() error, err error) {
	f := (*flow)(c)
	p, s := f.from, f.from.sim
	p.step()
	per := proc.ID(s.cfg.Topology.ProcsPerNode)
	switch {
	case !s.cfg.Get || !s.cfg.Blocks || f.to.id/per != p.id/per:
		return nil, nil, fabric.ErrUnsupported
	case f.dead() || !f.to.end.open():
		return nil, nil, fmt.Errorf("sim: view of %v: %w", f.to.id, fabric.ErrPeerGone)
	}
	mem, err = f.to.end.regions.find(remote, 0, int(min(remote.Len, math.MaxInt)))
	if err != nil {
		return nil, nil, fmt.Errorf("sim: view of %v: %w", f.to.id, err)
	}
	for _, b := range s.blocks {
		if b.owner == f.to.id && within(mem, b.mem) {
			return mem[:len(mem):len(mem)], func() error { return nil }, nil
		}
	}
	return nil, nil, fabric.ErrUnsupported
}

var _ fabric.Viewer = (*conn)(nil)
