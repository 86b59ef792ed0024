//go:build cgo

package verbs

import (
	"errors"
	"fmt"
)

// get is a Get under way. Its pieces go over all rails, several at once over each; those of one rail end in order. The pieces of a
// rail that fails are read again over the others, once its adapter has reported them all.
type get struct {
	p      *Provider
	r      *readPairs
	local  []byte
	from   uint64
	keys   [mostRails]uint32
	direct *registration // of local; nil: by way of buffers
	posted int           // bytes whose reads have started
	landed int           // bytes that have come
	again  []span        // pieces of rails that have failed
	flows  [mostRails]flow
	last   int   // rail of which a read has ended last
	why    error // of the last rail that has failed
}

// span is a piece of the message.
type span struct{ at, n int }

// flow is what is under way over a rail: the reads from first to next, whose pieces are by their numbers modulo readsAtOnce.
type flow struct {
	first, next uint64
	pieces      [readsAtOnce]span
	fails       bool // nothing more is posted
}

var errReadsEnd = errors.New("verbs: the peer is gone or cut off")

func (g *get) run() error {
	for g.landed < len(g.local) {
		if g.post(); !g.underWay() {
			return g.why
		}
		i, status, ended, err := waitRead(g.p.reading.rails, g.last)
		g.last = i
		switch {
		case err != nil:
			return g.fail(err)
		case ended && status != 0:
			g.breaks(i, fmt.Errorf("verbs: reading %d bytes: %s", len(g.local), statusName(status)))
			f := &g.flows[i]
			g.again = append(g.again, f.pieces[f.first%readsAtOnce])
			f.first++
		case ended:
			g.land(i)
		}
		if g.r.over.Load() {
			return g.fail(errReadsEnd)
		}
	}
	return nil
}

// post starts as many reads as there may be, one over each rail in turn.
func (g *get) post() {
	if g.why == nil {
		g.why = errNoReads // unless there is a rail
	}
	for more := true; more; {
		more = false
		for i := range g.r.rails {
			if f := &g.flows[i]; g.usable(i) && f.next-f.first < readsAtOnce {
				if piece, ok := g.take(); ok {
					g.start(i, piece)
					more = true
				}
			}
		}
	}
}

// usable reports whether reads may be posted to a rail.
func (g *get) usable(i int) bool {
	return g.r.rails[i].joined && !g.flows[i].fails && g.keys[i] != 0 && (g.direct == nil || g.direct.on[i].c != nil)
}

// take gives the next piece.
func (g *get) take() (piece span, ok bool) {
	if n := len(g.again); n > 0 {
		piece, g.again = g.again[n-1], g.again[:n-1]
		return piece, true
	}
	longest := stageBytes
	if g.direct != nil && len(g.r.rails) == 1 {
		longest = directBytes
	}
	piece = span{g.posted, min(longest, len(g.local)-g.posted)}
	g.posted += piece.n
	return piece, piece.n > 0
}

// start reads a piece over a rail.
func (g *get) start(i int, piece span) {
	x, f := &g.r.rails[i], &g.flows[i]
	at, m := g.local[piece.at:][:piece.n:piece.n], (*memory)(nil)
	if g.direct != nil {
		m = &g.direct.on[i]
	} else {
		if err := g.p.reading.prepare(i); err != nil {
			g.refused(i, piece, err)
			return
		}
		m = &g.p.reading.stage[i][f.next%readsAtOnce]
		at = m.bytes[:piece.n:piece.n]
	}
	if err := x.d.read(x.at, at, m, g.from+uint64(piece.at), g.keys[i], f.next); err != nil {
		g.refused(i, piece, err)
		return
	}
	f.pieces[f.next%readsAtOnce] = piece
	f.next++
}

// refused leaves a rail that has not taken a piece.
func (g *get) refused(i int, piece span, why error) {
	g.again = append(g.again, piece)
	g.breaks(i, why)
}

// land ends the oldest read of a rail.
func (g *get) land(i int) {
	f := &g.flows[i]
	piece := f.pieces[f.first%readsAtOnce]
	if g.direct == nil {
		copy(g.local[piece.at:][:piece.n], g.p.reading.stage[i][f.first%readsAtOnce].bytes)
	}
	g.r.rails[i].bytes += uint64(piece.n)
	g.landed += piece.n
	f.first++
}

// breaks leaves a rail: this and later messages are read over the others. Its adapter reports what is under way.
func (g *get) breaks(i int, why error) {
	if f := &g.flows[i]; !f.fails {
		f.fails, g.r.rails[i].joined = true, false
		g.r.rails[i].at.fail()
		g.why = why
		g.p.log.Info("a port for reads has failed", "port", i, "bytes", g.r.rails[i].bytes, "reason", why)
	}
}

func (g *get) underWay() bool {
	for i := range g.flows {
		if g.flows[i].first < g.flows[i].next {
			return true
		}
	}
	return false
}

// fail ends the reads that are under way.
func (g *get) fail(why error) error {
	for i := range g.r.rails {
		if g.r.rails[i].at != (pair{}) {
			g.breaks(i, why)
		}
	}
	for g.underWay() {
		i, _, ended, err := waitRead(g.p.reading.rails, 0)
		if err != nil {
			break
		}
		if ended {
			g.flows[i].first++
		}
	}
	return why
}
