package osu

import (
	"cmp"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

// group is this rank's side of a collective operation of all ranks of the job. It is for one
// goroutine.
type group struct {
	w      *banyan.World
	c      *banyan.Comm
	buf    []byte
	kind   Datatype // of sums
	sums   []byte   // the result of a reduction, in memory of its own as in OSU's programs
	op     operation
	out    []byte   // as long as buf, where an operation receives bytes apart
	from   [][]byte // the blocks of buf, by rank or by neighbour
	to     [][]byte // those of out
	counts []int    // of a reduce_scatter
	near   banyan.Neighborhood
	roots  Root
	root   int // of this call
	// inPlace: the data of this rank lie where its result does.
	inPlace bool
	lends   []banyan.Request // of loans to all others; nil: there are none

	// Of persistent operations: the request, and the size that it is for.
	again *banyan.Persistent
	size  int

	// Of non-blocking operations: the computation beside them, the tests in it, and the mean time of a call at
	// this rank.
	computer *computer
	tests    int
	own      time.Duration
}

// operation is how a benchmark uses a group.
type operation struct {
	// call does it once.
	call func(g *group, size int) error
	// start starts it; nil: it is blocking.
	start func(g *group, size int) banyan.Request
	// apart: a barrier, which is not timed, lies between two calls. Else a rank that is early could
	// begin the next while others are still in this one.
	apart bool
	// each: the size is that of a block for each rank; gets: they are received in memory apart. gives: a rank
	// sends such blocks. around: in place of ranks these are neighbours, those of Options.Grid.
	each, gets, gives, around bool
	// unit is the length in bytes of an element without Options.Type; 0: the operation has no size.
	unit int
	// rooted: it has a root that can be chosen. inPlace: it has a form with Options.InPlace.
	rooted, inPlace bool
	// fill and wrong are for validation: the contents of a rank's buffers before the call, and the
	// number of wrong bytes after it.
	fill  func(g *group, size int, round byte)
	wrong func(g *group, size int, round byte) int
}

var (
	barrierOp = operation{
		call: func(g *group, _ int) error { return g.c.Barrier() },
	}
	bcastOp = operation{
		call:  func(g *group, size int) error { return g.bcast(g.buf[:size]) },
		apart: true,
		unit:  1,
		fill:  fillBcast,
		wrong: func(g *group, size int, round byte) int { return pattern.Wrong(g.buf[:size], round) },
	}
)

// bcast broadcasts from rank 0, by loans to all others where these are asked for.
func (g *group) bcast(buf []byte) error {
	switch {
	case g.lends == nil:
		return g.c.Bcast(buf, 0)
	case g.c.Rank() > 0:
		return borrow(g.c, 0, tagData)
	}
	for i := range g.lends {
		g.lends[i] = g.c.Ilend(buf, 1+i, tagData)
	}
	return banyan.WaitAll(g.lends)
}

func newGroup(w *banyan.World, o *Options, op operation) *group {
	g := &group{w: w, c: w.Comm(), op: op, tests: o.Tests, kind: cmp.Or(o.Type, Int),
		roots: o.Root, inPlace: o.InPlace}
	n, length := g.c.Size(), o.Max
	if op.around {
		n = o.Grid.degree()
	}
	if op.each {
		length *= n
	}
	if op.unit > 0 {
		g.buf = pages(length)
		clear(g.buf) // so that it has memory
	}
	if op.gets {
		g.out, g.from, g.to = pages(length), make([][]byte, n), make([][]byte, n)
		clear(g.out)
	}
	g.counts = make([]int, n)
	if op.start != nil {
		g.computer = newComputer(w, clockCost(w))
	}
	if op.unit == number {
		g.sums = pages(o.Max)
		if o.InPlace {
			g.sums = pages(length)
		}
		clear(g.sums)
	}
	return g
}

// open makes the grid of neighbours and takes the registered memory that were asked for.
func (g *group) open(o *Options) (err error) {
	if g.op.around {
		err = g.surround(o.Grid)
	}
	if !o.Registered || err != nil {
		return err
	}
	if o.Lent {
		g.lends = make([]banyan.Request, g.c.Size()-1)
	}
	g.buf, err = banyan.Alloc[byte](g.w, max(1, o.Max))
	return err
}

// free gives both back.
func (g *group) free(o *Options) error {
	if g.op.around {
		return g.c.Free()
	}
	if !o.Registered {
		return nil
	}
	return banyan.Free(g.w, g.buf)
}

// calls does the operation n times and returns how long the calls took at this rank together. The
// first ones are kept one by one, as many as there is room.
func (g *group) calls(size, n int, keep []time.Duration) (time.Duration, error) {
	if err := g.c.Barrier(); err != nil {
		return 0, err
	}
	total := time.Duration(0)
	for i := range n {
		g.root = g.roots.of(i, g.c.Size())
		start := g.w.Now()
		if err := g.op.call(g, size); err != nil {
			return 0, err
		}
		took := g.w.Now() - start
		total += took
		if i < len(keep) {
			keep[i] = took
		}
		if g.op.apart {
			if err := g.c.Barrier(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

// spread is the smallest, the largest and the sum of the ranks' values.
func spread(c *banyan.Comm, v int64) (low, high, sum int64, err error) {
	for _, r := range []struct {
		to *int64
		op func(a, b int64) int64
	}{{&low, banyan.Min[int64]}, {&high, banyan.Max[int64]}, {&sum, banyan.Sum[int64]}} {
		one := []int64{v}
		if err := banyan.Allreduce(c, one, one, r.op); err != nil {
			return 0, 0, 0, err
		}
		*r.to = one[0]
	}
	return low, high, sum, nil
}

// sweep measures each size that holds an element, or once if the operation has no size.
func (g *group) sweep(o *Options, emit func(Point) error) error {
	low, high := o.first(o.unit(g.op.unit)), o.Max
	if g.op.unit == 0 {
		low, high = 0, 0
	}
	limit := bound{o: o}
	for size := low; size <= high; size = next(size) {
		if err := limit.next(size, func() (bool, error) { return o.Budget.Agree(g.c) }); err != nil {
			return err
		}
		pt, err := g.point(size, o, &limit)
		if err != nil {
			return fmt.Errorf("osu: %d bytes: %w", size, err)
		}
		if err := given(g.c.Rank(), pt, emit); err != nil {
			return err
		}
	}
	return nil
}

// point measures one size.
func (g *group) point(size int, o *Options, limit *bound) (Point, error) {
	n, err := limit.warmUp(size, func(n int) (time.Duration, error) {
		mine, err := g.calls(size, n, nil)
		if err != nil || o.MaxTime == 0 {
			return 0, err
		}
		_, longest, _, err := spread(g.c, int64(mine))
		return time.Duration(longest), err
	})
	if err != nil {
		return Point{}, err
	}
	pt, kept, err := g.measure(size, n, o)
	if err != nil {
		return pt, err
	}
	if g.op.start != nil {
		_, warmup := o.counts(size)
		if pt.Overlap, err = g.overlap(pt, min(warmup, pt.Iterations), kept); err != nil {
			return pt, err
		}
	}
	if len(o.Percentiles) > 0 {
		all, err := collect(g.c, g.c.Size(), kept)
		if err != nil {
			return pt, err
		}
		if g.c.Rank() == 0 {
			pt.Percentiles = percentiles(all, o.Percentiles)
		}
	}
	if o.Validate && g.op.fill != nil {
		pt.Errors, err = g.validate(size, pt.Iterations, o.ValidateWarmup)
	}
	return pt, err
}

// measure does n calls, and again with more of them until they take the least time that was asked
// for at the slowest rank. It returns single calls too, if percentiles are to be made of them.
func (g *group) measure(size, n int, o *Options) (Point, []time.Duration, error) {
	ranks := g.c.Size()
	for {
		var kept []time.Duration
		if len(o.Percentiles) > 0 {
			kept = make([]time.Duration, min(n, max(1, maxSingles/ranks)))
		}
		mine, err := g.calls(size, n, kept)
		if err != nil {
			return Point{}, nil, err
		}
		low, high, sum, err := spread(g.c, int64(mine))
		if err != nil {
			return Point{}, nil, err
		}
		more := raised(n, time.Duration(high), o.MinTime) // alike on all ranks
		if more == n {
			g.own = mine / time.Duration(n)
			each := func(total float64) float64 { return total / 1e9 / float64(n) }
			return Point{
				Size: size, Iterations: n,
				Seconds: each(float64(sum) / float64(ranks)), Least: each(float64(low)), Most: each(float64(high)),
			}, kept, nil
		}
		n = more
	}
}

// once does the operation as it is measured.
func (g *group) once(size int) error {
	if g.op.start == nil {
		return g.op.call(g, size)
	}
	return g.beside(size, g.own, &stopwatch{w: g.w})
}

// validate calls the operation up to n times with patterns, each after a warm-up, and returns the number of wrong bytes on
// all ranks, to all of them.
func (g *group) validate(size, n, warmup int) (int, error) {
	wrong := 0
	for i := range min(n, maxValidated) {
		g.root = g.roots.of(i, g.c.Size())
		for range warmup {
			if err := cmp.Or(g.once(size), g.c.Barrier()); err != nil {
				return 0, err
			}
		}
		g.op.fill(g, size, byte(i))
		if err := g.once(size); err != nil {
			return 0, err
		}
		wrong += g.op.wrong(g, size, byte(i))
	}
	clear(g.buf)
	_, _, total, err := spread(g.c, int64(wrong))
	return int(total), err
}

// fillBcast gives the root the pattern and spoils every byte of the others.
func fillBcast(g *group, size int, round byte) {
	if g.c.Rank() == 0 {
		pattern.Fill(g.buf[:size], round)
		return
	}
	pattern.Spoil(g.buf[:size], round)
}
