//go:build cgo

package verbs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// fetch is a message that is read. Its pieces go over all rails. Those of a rail that fails are read again over the others, once
// its adapter has reported them.
type fetch struct {
	token    uint64
	local    []byte
	from     uint64
	keys     [mostRails]uint32
	direct   *registration // of local; nil: by way of buffers
	posted   int           // bytes whose reads have started
	landed   int           // bytes that have come
	again    []span        // pieces of rails that have failed
	underWay int           // its pieces that are
	why      error         // of the last rail that has failed
}

// span is a piece of a message.
type span struct{ at, n int }

// piece is a read under way.
type piece struct {
	span
	f   *fetch
	id  uint64
	via memory // the buffer; the zero one: none
}

// fetched is a message whose reads have ended.
type fetched struct {
	peer  proc.ID
	token uint64
	err   error
}

var errReadsEnd = errors.New("verbs: the queue pairs for reads have ended")

// Fetch implements fabric.Fetcher.
func (c *Conn) Fetch(local []byte, remote fabric.Region, token uint64) error {
	keys, ok := readKeys(remote.Key)
	r := c.reads
	if !ok || r == nil || !r.joined || r.over {
		return errNoReads
	}
	if uint64(len(local)) > remote.Len {
		return fmt.Errorf("verbs: %d bytes exceed the region of %d", len(local), remote.Len)
	}
	p := c.p
	f := p.reading.newFetch()
	*f = fetch{
		token: token, local: local, from: remote.Addr, keys: keys, direct: p.registeredAs(local), why: errNoReads, again: f.again,
	}
	r.list = append(r.list, f)
	p.reading.isDue(r)
	if p.up == nil { // else Poll posts it, with the work that other frames lead to
		p.endBatch()
		p.postReads()
		p.roundTrip(1)
	}
	return nil
}

// EndFetches implements fabric.Fetcher. There are no reads over this lane any more.
func (c *Conn) EndFetches() {
	p := c.p
	p.endBatch()
	c.awaitEndings()
	if r := c.reads; r != nil {
		e := &ending{c: c, pairs: r.detach(), reads: r}
		c.reads = nil
		e.free()
		e.settle()
	}
	p.reading.fetched = slices.DeleteFunc(p.reading.fetched, func(f fetched) bool { return f.peer == c.Peer() })
}

// postReads starts the reads that there may be, and ends the messages that have come, or for which there is no rail.
func (p *Provider) postReads() {
	a := &p.reading
	list := a.due
	a.due, a.posting = a.posting[:0], list
	for _, r := range list {
		r.due = false
		if r.ended {
			continue
		}
		for p.postOver(r) {
		}
		r.list = slices.DeleteFunc(r.list, func(f *fetch) bool {
			switch {
			case f.landed == len(f.local):
				a.ends(r, f, nil)
				return true
			case f.underWay > 0 || slices.ContainsFunc(r.rails, func(x *rail) bool { return x.takes(f) }):
				return false
			}
			r.over = true
			a.ends(r, f, f.why)
			return true
		})
	}
}

// newFetch gives a message that has ended, or a new one.
func (a *reads) newFetch() (f *fetch) {
	if n := len(a.spare); n > 0 {
		f, a.spare = a.spare[n-1], a.spare[:n-1]
		return f
	}
	return new(fetch)
}

// ends ends a message of which no read is under way.
func (a *reads) ends(r *readPairs, f *fetch, why error) {
	a.fetched = append(a.fetched, fetched{r.peer, f.token, why})
	*f = fetch{again: f.again[:0]}
	a.spare = append(a.spare, f)
}

// postOver starts a read over each rail that has room; false: over none.
func (p *Provider) postOver(r *readPairs) (more bool) {
	for _, x := range r.rails {
		if x.port.d.sending == most {
			p.endBatch()
		}
		if !x.joined || len(x.pieces) == readsAtOnce {
			continue
		}
		for _, f := range r.list {
			if x.takes(f) && f.left() {
				if !p.postRead(x, f) {
					p.reading.starves(r)
					break
				}
				more = true
				break
			}
		}
	}
	return more
}

// takes reports whether pieces of a message may go over a rail.
func (x *rail) takes(f *fetch) bool {
	return x.joined && f.keys[x.port.n] != 0 && (f.direct == nil || f.direct.on[x.port.n].c != nil)
}

// left reports whether reads are to be started.
func (f *fetch) left() bool { return len(f.again) > 0 || f.posted < len(f.local) }

// take gives the next piece. Precondition: left.
func (f *fetch) take(longest int) (s span) {
	if n := len(f.again); n > 0 {
		s, f.again = f.again[n-1], f.again[:n-1]
		return s
	}
	s = span{f.posted, min(longest, len(f.local)-f.posted)}
	f.posted += s.n
	return s
}

// postRead starts the next read of a message over a rail; false: it has to wait for the end of another one. A rail
// without buffers is left.
func (p *Provider) postRead(x *rail, f *fetch) bool {
	a, port := &p.reading, x.port
	if port.underWay == mostReads {
		return false
	}
	var via memory
	if f.direct == nil {
		var err error
		if via, err = port.takeBuffer(); err == errInUse {
			return false
		} else if err != nil {
			x.breaks(p, err)
			f.why = err
			return true
		}
	}
	longest := stageBytes
	if f.direct != nil && len(p.ports) == 1 {
		longest = directBytes
	}
	s := f.take(longest)
	a.next++
	w := work{id: readBit | a.next, remote: f.from + uint64(s.at), key: f.keys[port.n], what: workGet, signal: true}
	if f.direct != nil {
		w.at, w.m = f.local[s.at:][:s.n:s.n], &f.direct.on[port.n]
	} else {
		w.at, w.m = via.bytes[:s.n:s.n], &via
	}
	port.d.send(x.at, &w)
	x.pieces = append(x.pieces, piece{s, f, w.id, via})
	f.underWay++
	port.underWay++
	return true
}

// readEnded handles the end of a read.
func (p *Provider) readEnded(port *openPort, done *completion) {
	x := port.rails[done.qp]
	if x == nil || len(x.pieces) == 0 || x.pieces[0].id != done.id {
		return // of a pair that has ended
	}
	e := x.pieces[0]
	x.pieces = slices.Delete(x.pieces, 0, 1)
	p.reading.leaves(port, &e)
	if f := e.f; done.status == 0 {
		if e.via.c != nil {
			copy(f.local[e.at:], e.via.bytes[:e.n])
		}
		x.bytes += uint64(e.n)
		f.landed += e.n
	} else {
		x.breaks(p, fmt.Errorf("verbs: reading %d bytes: %s", len(f.local), statusName(done.status)))
		f.why = x.why
		f.again = append(f.again, e.span)
	}
	p.reading.isDue(x.of)
}

// breaks leaves a rail for a while, or has none made before: this and later messages are read over the others. Its adapter
// reports those under way.
func (x *rail) breaks(p *Provider, why error) {
	if x.why != nil {
		return
	}
	if x.joined, x.why = false, why; x.at != (pair{}) {
		x.at.fail()
	}
	p.log.Info("a port for reads has failed", "peer", int(x.of.peer), "port", x.port.n, "bytes", x.bytes, "reason", why)
	x.renewal.later(p.pause)
	p.reading.renewing = append(p.reading.renewing, x)
}

// refused frees the pair that has not taken a read; the zero pair: all of the port.
func (p *Provider) refused(port *openPort, at pair, why error) {
	for _, x := range port.rails {
		if at == (pair{}) || x.at == at {
			x.breaks(p, why)
			x.withdraw(p, why)
		}
	}
}

// reportFetched has the sink learn of the messages whose reads have ended.
func (p *Provider) reportFetched() {
	a := &p.reading
	list := a.fetched
	a.fetched, a.reporting = a.reporting[:0], list
	for i := range list {
		f := &list[i]
		if c := p.conns[f.peer]; c != nil && !c.ended && p.up.Fetched != nil {
			p.told++
			p.up.Fetched(f.peer, f.token, f.err)
		}
		*f = fetched{}
	}
}

// pollReads starts reads, and reports messages that have come.
func (p *Provider) pollReads() {
	if p.postReads(); len(p.reading.fetched) > 0 {
		p.reportFetched()
	}
}
