package fabrictest

import (
	"errors"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// memRead is a read beside the process. It goes through the inbox, and reads when it is taken from there.
type memRead struct {
	local, from []byte
	token       uint64
}

// Fetch implements fabric.Fetcher.
func (c *memConn) Fetch(local []byte, remote fabric.Region, token uint64) error {
	c.p.step()
	defer c.p.net.mu.Unlock()
	switch {
	case c.p.closed:
		return fabric.ErrClosed
	case c.muted || c.to.over || c.to.closed:
		return fabric.ErrPeerGone
	case remote.Addr == 0 || remote.Addr > uint64(len(c.to.regions)):
		return errors.New("mem: no such region")
	}
	from := c.to.regions[remote.Addr-1]
	if len(local) > len(from) {
		return errors.New("mem: out of range")
	}
	c.p.push(memItem{kind: memFetched, from: c.to.id, read: memRead{local, from, token}})
	return nil
}

// EndFetches implements fabric.Fetcher.
func (c *memConn) EndFetches() {
	c.p.step()
	defer c.p.net.mu.Unlock()
	c.p.inbox = slices.DeleteFunc(c.p.inbox, func(it memItem) bool { return it.kind == memFetched && it.from == c.to.id })
}

func (c mutantConn) Fetch(local []byte, r fabric.Region, token uint64) error {
	if c.b.fetch == nil {
		return c.memConn.Fetch(local, r, token)
	}
	return c.b.fetch(c, local, r, token)
}

var _ fabric.Fetcher = (*memConn)(nil)

// fetchMutants have faults in reads beside the process.
var fetchMutants = []mutant{
	{name: "reads a half", in: "fetches", fault: func(b *mutantProvider) {
		b.fetch = func(c mutantConn, local []byte, r fabric.Region, token uint64) error {
			if uint64(len(local)) <= r.Len {
				local = local[:len(local)/2]
			}
			return c.memConn.Fetch(local, r, token)
		}
	}},
	{name: "reads less than is beyond the region", in: "fetches", fault: func(b *mutantProvider) {
		b.fetch = func(c mutantConn, local []byte, r fabric.Region, token uint64) error {
			return c.memConn.Fetch(local[:min(uint64(len(local)), r.Len)], r, token)
		}
	}},
	{name: "reports a read twice", in: "fetches", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Fetched = func(id proc.ID, token uint64, err error) { s.Fetched(id, token, err); s.Fetched(id, token, err) }
		})
	}},
	{name: "reports another read", in: "fetches", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Fetched = func(id proc.ID, token uint64, err error) { s.Fetched(id, token^1, err) }
		})
	}},
	{name: "does not report a read", in: "fetches", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Fetched = func(id proc.ID, token uint64, err error) {
				if token != 5 {
					s.Fetched(id, token, err)
				}
			}
		})
	}},
	{name: "reports a read before it has read", in: "fetches", fault: func(b *mutantProvider) {
		b.fetch = func(c mutantConn, local []byte, r fabric.Region, token uint64) error {
			if token != 7 {
				return c.memConn.Fetch(local, r, token)
			}
			return c.memConn.Fetch(make([]byte, len(local)), r, token)
		}
	}},
	{name: "reports a read after Down", in: "kill-fetch", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Down = func(id proc.ID, c proc.Cause) { s.Down(id, c); s.Fetched(id, 0, nil) }
		})
	}},
	{name: "an error in place of a read", in: "fetches", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Fetched = func(id proc.ID, token uint64, _ error) { s.Fetched(id, token, errors.New("a fault")) }
		})
	}},
	{name: "writes after Down", in: "kill-fetch", fault: writesAfterDown},
}

// writesAfterDown goes on writing where it has read once the peer is down.
func writesAfterDown(b *mutantProvider) {
	var last []byte
	down := false
	b.fetch = func(c mutantConn, local []byte, r fabric.Region, token uint64) error {
		last = local
		return c.memConn.Fetch(local, r, token)
	}
	b.poll = func(s *fabric.Sink) int {
		if down && last != nil {
			last[0]++
		}
		to := *s
		to.Down = func(id proc.ID, c proc.Cause) { s.Down(id, c); down = true }
		return b.memProc.Poll(&to)
	}
}
