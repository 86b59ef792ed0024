package shm

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/internal/vector"
)

// Data that another core has written are in its cache. If that cache is far, a copy into this cache waits for each
// line, and so does the next copy in the other direction: on some machines a copy past the caches takes a third of
// the time. On others, and if the core is near, it takes twice as long. So the sender touches two lines before an
// announcement, and the receiver measures now and then the time to load them, one after the other. If the result
// is far it measures its copies. It bypasses the caches if they take longer than such a copy within this process,
// and only as long as that helps.
const (
	markers      = 2
	markerStride = 16
	// farMarker separates near cores from far ones, in nanoseconds; nearMarker separates them again, once
	// they are far. worstMarker bounds a sample.
	farMarker, nearMarker, worstMarker = 130, 100, 1000
	// nearPiece is the length of one copy into a near cache: from 1 MiB on the built-in copy bypasses the
	// caches by itself.
	nearPiece = 256 << 10
	// mostTaken is the length up to which it helps to ask for the lines of the destination ahead.
	mostTaken = 128 << 10
	// placedNear is the length up to which frames are faster between near cores than an announcement.
	placedNear = 32 << 10
	placedTry  = 64
	// timedCopy is the length from which copies are timed; untimed are the first of a pair, as they map pages.
	timedCopy, untimedCopies = 16 << 10, 4
	// copyStride: one in so many is timed, as reading the clock twice takes as long as 512 bytes.
	copyStride = 4
	// A method is judged after enoughCopies. One that did not help is not tried again for barredCopies.
	enoughCopies, barredCopies = 16, 4096
)

// copyPace is how long copies by one method take.
type copyPace struct {
	copies atomic.Uint32
	cost   atomic.Int64 // nanoseconds of a MiB, smoothed
}

func (c *copyPace) note(n int, took time.Duration) {
	if c.copies.Add(1) <= untimedCopies {
		return
	}
	now := int64(took) << 20 / int64(n)
	if was := c.cost.Load(); was != 0 {
		now = was + (now-was)/8
	}
	c.cost.Store(now)
}

// known reports whether there are enough copies to judge.
func (c *copyPace) known() bool { return c.copies.Load() >= enoughCopies }

func (c *copyPace) reset() {
	c.copies.Store(0)
	c.cost.Store(0)
}

// streamCost is the time of a copy past the caches within this process, in nanoseconds of a MiB: the least that
// one of a peer's memory can take.
var streamCost = sync.OnceValue(func() int64 {
	const n = 128 << 10
	to, from := make([]byte, n), make([]byte, n)
	copy(to, from) // has pages for both
	var took [5]time.Duration
	for i := range took {
		start := time.Now()
		vector.Stream(to, from)
		took[i] = time.Since(start)
	}
	slices.Sort(took[:])
	return int64(took[len(took)/2]) << 20 / n
})

// distance is how far a peer's core is.
type distance struct {
	reads atomic.Uint32
	seen  atomic.Uint64 // the last marker
	took  atomic.Int64  // nanoseconds, smoothed
	far   atomic.Bool
	// The times of copies while the core is far: into the cache, and past it. Barred counts those that go into
	// the cache in any case.
	plain, streamed copyPace
	barred          atomic.Int32
}

// measure loads the markers of a block, if the peer has touched them.
func (d *distance) measure(p *[markers]marker) {
	start := time.Now()
	first := p[0].load()
	second := p[1-first>>63].load() // after the first
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
	} else if now > farMarker {
		d.plain.reset()
		d.streamed.reset()
		d.barred.Store(0)
		d.far.Store(true)
	}
}

// streams reports whether the next copy, of a far core's memory, goes past the caches.
func (d *distance) streams() bool {
	if !d.plain.known() || d.barred.Load() > 0 && d.barred.Add(-1) >= 0 {
		return false
	}
	plain := d.plain.cost.Load()
	if d.streamed.known() && d.streamed.cost.Load() > plain {
		d.streamed.reset()
		d.barred.Store(barredCopies)
		return false
	}
	return streamCost() < plain*3/4
}

// copy copies from a block of the peer.
func (t *theirs) copy(to, from []byte, s *segment) {
	d := &t.distance
	n := d.reads.Add(1)
	if n%markerStride == 1 && n > 1 { // the first read maps the page
		d.measure(s.markers())
	}
	if len(to) < timedCopy || !d.far.Load() {
		copyNear(to, from)
		return
	}
	copies, pace := copyNear, &d.plain
	if d.streams() {
		copies, pace = vector.Stream, &d.streamed
	}
	if n%copyStride != 0 {
		copies(to, from)
		return
	}
	start := time.Now()
	copies(to, from)
	pace.note(len(to), time.Since(start))
}

func copyNear(to, from []byte) {
	if len(to) <= mostTaken {
		vector.Take(to, from)
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
		// Some are announced all the same, so that both sides notice when their cores are far: see Expose.
		if c.short%placedTry != 0 {
			c.short++
			return false
		}
	}
	return c.p.blocks.holding(addressOf(buf), uint64(len(buf))) != nil
}
