package osu

import (
	"time"

	"github.com/banyan-hpc/banyan"
)

// Overlap has the times of a non-blocking collective beside a computation that is about as long as the
// collective alone. The times are means over the calls and the ranks, in seconds.
type Overlap struct {
	// Overall is the sum of the four others.
	Overall float64 `json:"overall_seconds"`
	Start   float64 `json:"start_seconds"`   // the call
	Compute float64 `json:"compute_seconds"` // without the tests
	Test    float64 `json:"test_seconds"`    // of the request, during the computation
	Wait    float64 `json:"wait_seconds"`
	// Percent is how much of the communication the computation hides: 0 to 100.
	Percent float64 `json:"percent"`
}

// starting is the operation by another call, which is non-blocking.
func (op operation) starting(start func(g *group, size int) banyan.Request) operation {
	cut := op.gets
	op.start = func(g *group, size int) banyan.Request {
		if cut {
			g.cut(size)
		}
		return start(g, size)
	}
	op.call = func(g *group, size int) error {
		_, err := op.start(g, size).Wait()
		return err
	}
	return op
}

var (
	ibarrierOp = barrierOp.starting(func(g *group, _ int) banyan.Request { return g.c.Ibarrier() })
	ibcastOp   = bcastOp.starting(func(g *group, size int) banyan.Request { return g.c.Ibcast(g.buf[:size], 0) })
	igatherOp  = gatherOp.starting(func(g *group, size int) banyan.Request {
		return g.c.Igather(g.mineAtRoot(size), g.atRoot(g.all(size)), g.root)
	})
	igathervOp = gathervOp.starting(func(g *group, size int) banyan.Request {
		return g.c.Igatherv(g.mineAtRoot(size), g.to, g.root)
	})
	iscatterOp = scatterOp.starting(func(g *group, size int) banyan.Request {
		return g.c.Iscatter(g.atRoot(g.buf[:g.c.Size()*size]), g.taken(size), g.root)
	})
	iscattervOp = scattervOp.starting(func(g *group, size int) banyan.Request {
		return g.c.Iscatterv(g.from, g.taken(size), g.root)
	})
	iallgatherOp = allgatherOp.starting(func(g *group, size int) banyan.Request {
		return g.c.Iallgather(g.mine(size), g.all(size))
	})
	iallgathervOp = allgathervOp.starting(func(g *group, size int) banyan.Request {
		return g.c.Iallgatherv(g.mine(size), g.to)
	})
	ialltoallOp = alltoallOp.starting(func(g *group, size int) banyan.Request {
		return g.c.Ialltoall(g.given(size), g.all(size))
	})
	ialltoallvOp = alltoallvOp.starting(func(g *group, _ int) banyan.Request { return g.c.Ialltoallv(g.blocks(), g.to) })
)

// part is a part of a call beside a computation.
type part int

const (
	starts part = iota
	computes
	tests
	waits
	parts
)

// stopwatch adds up the times of parts.
type stopwatch struct {
	w     *banyan.World
	last  time.Duration
	spent [parts]time.Duration
}

// lap ends a part.
func (s *stopwatch) lap(p part) {
	now := s.w.Now()
	s.spent[p] += now - s.last
	s.last = now
}

// sum is the time of all parts.
func (s *stopwatch) sum() (all time.Duration) {
	for _, d := range s.spent {
		all += d
	}
	return all
}

// beside does one call beside a computation of that length, with the tests that were asked for spread over it.
func (g *group) beside(size int, computation time.Duration, s *stopwatch) error {
	s.last = g.w.Now()
	r := g.op.start(g, size)
	s.lap(starts)
	for range max(1, g.tests) {
		g.computer.run(computation / time.Duration(max(1, g.tests)))
		s.lap(computes)
		if g.tests > 0 {
			if _, _, err := r.Test(); err != nil { // returns at once after the end, as MPI's
				return err
			}
			s.lap(tests)
		}
	}
	_, err := r.Wait()
	s.lap(waits)
	return err
}

// overlap does as many calls as a point has, beside a computation that is as long as a call takes at this rank.
// It keeps the times of the first calls one by one, as many as there is room.
func (g *group) overlap(pt Point, warmup int, keep []time.Duration) (*Overlap, error) {
	if err := g.c.Barrier(); err != nil {
		return nil, err
	}
	s := stopwatch{w: g.w}
	for i := -warmup; i < pt.Iterations; i++ {
		if i == 0 {
			s.spent = [parts]time.Duration{}
		}
		g.root = g.roots.of(warmup+i, g.c.Size())
		before := s.sum()
		if err := g.beside(pt.Size, g.own, &s); err != nil {
			return nil, err
		}
		if 0 <= i && i < len(keep) {
			keep[i] = s.sum() - before
		}
		if err := g.c.Barrier(); err != nil {
			return nil, err
		}
	}
	return g.overlapped(&s, pt)
}

// overlapped makes the means over the ranks.
func (g *group) overlapped(s *stopwatch, pt Point) (*Overlap, error) {
	o := &Overlap{}
	for p, to := range []*float64{starts: &o.Start, computes: &o.Compute, tests: &o.Test, waits: &o.Wait} {
		_, _, sum, err := spread(g.c, int64(s.spent[p]))
		if err != nil {
			return nil, err
		}
		*to = float64(sum) / 1e9 / float64(pt.Iterations) / float64(g.c.Size())
		o.Overall += *to
	}
	if pt.Seconds > 0 {
		o.Percent = min(100, max(0, 100*(1-(o.Overall-o.Compute)/pt.Seconds)))
	}
	return o, nil
}
