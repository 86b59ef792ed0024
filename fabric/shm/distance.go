package shm

import (
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/internal/vector"
)

// What another core has written lies in its cache. Where that is far, a copy into this cache waits for each
// line, and so does the next one in the other direction: past the caches it takes a third of the time. Where
// it is near, it takes twice as long. So the sender touches two lines before an announcement, and the
// receiver measures now and then how long it takes to load them, one after the other.
const (
	markers      = 2
	markerStride = 4
	// farMarker separates near cores from far ones, in nanoseconds; nearMarker separates them again, once
	// they are far. worstMarker bounds a sample.
	farMarker, nearMarker, worstMarker = 130, 100, 1000
	// nearPiece is what is copied at once into a near cache: of 1 MiB and more the built-in copy passes the
	// caches by itself.
	nearPiece = 256 << 10
	// placedNear is the length up to which frames are faster between near cores than an announcement.
	placedNear = 32 << 10
	placedTry  = 64
)

// distance is how far a peer's core is.
type distance struct {
	reads atomic.Uint32
	seen  atomic.Uint64 // the last marker
	took  atomic.Int64  // nanoseconds, smoothed
	far   atomic.Bool
}

// measure loads the markers of a block, if the peer has touched them.
func (d *distance) measure(p *[markers]marker) {
	if n := d.reads.Add(1); n%markerStride != 1 || n == 1 { // the first read maps the page
		return
	}
	start := time.Now()
	first := p[0].Load()
	second := p[1-first>>63].Load() // after the first
	took := int64(time.Since(start))
	if d.seen.Swap(second) == second {
		return // it has not been touched, and was here
	}
	took = min(took, worstMarker)
	was := d.took.Load()
	now := was + (took-was)/8
	if was == 0 {
		now = took
	}
	d.took.Store(now)
	if d.far.Load() {
		d.far.Store(now > nearMarker)
	} else {
		d.far.Store(now > farMarker)
	}
}

// copy copies what a block of the peer holds.
func (t *theirs) copy(to, from []byte, s *segment) {
	t.distance.measure(s.markers())
	if t.distance.far.Load() {
		vector.Stream(to, from)
		return
	}
	for len(to) > 0 {
		n := copy(to[:min(len(to), nearPiece)], from)
		to, from = to[n:], from[n:]
	}
}

// ReadInPlace reports whether a message is better announced, as the peer reads it from a block.
func (c *Conn) ReadInPlace(buf []byte) bool {
	if len(buf) <= placedNear && c.out.pace.line <= slowLine && !c.theirs.far.Load() {
		// Some are announced all the same, so that both sides notice when their cores are far.
		if c.short++; c.short%placedTry != 0 {
			return false
		}
	}
	return c.p.blocks.holding(addressOf(buf), uint64(len(buf))) != nil
}
