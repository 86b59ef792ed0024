package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
)

var errFetch = errors.New("sim: a read has failed")

// fetchKey is the key of regions that are read by Fetch.
var fetchKey = []byte{1}

// fetch is a read of the peer's memory that goes on beside the process. As an event it is its completion.
type fetch struct {
	flow   *flow
	local  []byte
	remote fabric.Region
	token  uint64
	over   bool
}

// Fetch implements fabric.Fetcher: o_send + L, then L + n·G, without the peer's core. The data are those of the instant of
// completion.
func (c *conn) Fetch(local []byte, remote fabric.Region, token uint64) error {
	f := (*flow)(c)
	p, s := f.from, f.from.sim
	p.step()
	switch {
	case !s.cfg.Fetch || len(remote.Key) == 0:
		return fabric.ErrUnsupported
	case p.end.closed:
		return fabric.ErrClosed
	case f.dead():
		return fmt.Errorf("sim: read from %v: %w", f.to.id, fabric.ErrPeerGone)
	case uint64(len(local)) > remote.Len:
		return fmt.Errorf("sim: %d bytes from a region of %d", len(local), remote.Len)
	}
	p.clock += f.link.SendOverhead
	p.settle()
	s.record(traceGet, p.id, f.to.id, 0, len(local))
	g := &fetch{flow: f, local: local, remote: remote, token: token}
	f.fetches = append(f.fetches, g)
	f.fetched++
	if there := f.hold(p.clock); there < never {
		if back := f.back.afterHold(there+f.link.Latency, len(local)); back < never {
			s.push(back, g)
		}
	}
	return nil
}

// EndFetches implements fabric.Fetcher.
func (c *conn) EndFetches() {
	for _, g := range c.fetches {
		g.over = true
	}
	c.fetches = nil
}

func (g *fetch) happen(s *Sim) *task {
	f := g.flow
	if g.over || f.broken || f.dead() || !f.from.end.open() || !f.to.end.open() {
		return nil // the end of one of them is known, or on its way
	}
	f.fetches = slices.DeleteFunc(f.fetches, func(other *fetch) bool { return other == g })
	fr := s.frames.get(0)
	fr.flow, fr.kind, fr.imm = f.back, frameFetched, g.token
	from, err := f.to.end.regions.find(g.remote, 0, len(g.local))
	switch {
	case err != nil:
		fr.err = err
	case happens(draw(s.cfg.Seed, forFetches, uint64(f.from.id), uint64(f.to.id), f.fetched<<32|g.token&0xffffffff), s.cfg.MoveLoss):
		copy(g.local, from[:len(from)/2]) // a part of it has come
		fr.err = errFetch
	default:
		copy(g.local, from)
	}
	f.from.end.enqueue(fr)
	return nil
}

var _ fabric.Fetcher = (*conn)(nil)
