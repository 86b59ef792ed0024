package osu

import (
	"fmt"
	"time"
)

// sweep is a run of a benchmark over the sizes.
type sweep struct {
	*Pair
	o      *Options
	passes []pass // for each of the windows
	pass          // the one at work
	bound  bound
}

func (s *sweep) all(emit func(Point) error) error {
	for size := s.o.first(s.o.unit(1)); size <= s.o.Max; size = next(size) {
		if err := s.bound.next(size, s.over); err != nil {
			return err
		}
		s.renew(size)
		for i, pass := range s.passes {
			s.pass = pass
			pt, err := s.point(size)
			if err != nil {
				return fmt.Errorf("osu: %d bytes: %w", size, err)
			}
			if len(s.o.Windows) > 0 {
				pt.Window = s.o.Windows[i]
			}
			if err := given(s.c.Rank(), pt, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

// over reports to all ranks that measure whether the time of the sweep is over at rank 0. Other ranks have gone on,
// and would not be in a broadcast.
func (s *sweep) over() (bool, error) {
	if s.o.Budget.Max() == 0 {
		return false, nil
	}
	over := int64(0)
	if s.o.Budget.Over() {
		over = 1
	}
	over, err := s.share(over)
	return over == 1, err
}

// given emits a point on rank 0 and reports whether bytes arrived wrong.
func given(rank int, pt Point, emit func(Point) error) error {
	if rank == 0 {
		if err := emit(pt); err != nil {
			return err
		}
	}
	if pt.Errors > 0 {
		return &CorruptError{Size: pt.Size, Bytes: pt.Errors}
	}
	return nil
}

// point does the passes for one size.
func (s *sweep) point(size int) (Point, error) {
	pt := Point{Size: size}
	n, err := s.bound.warmUp(size, func(n int) (time.Duration, error) { return s.uncounted(size, n) })
	if err != nil {
		return pt, err
	}
	n, elapsed, err := s.measure(size, n)
	if err != nil {
		return pt, err
	}
	pt.Iterations = n
	pairs := 1
	if s.total {
		pairs = s.pairs
	}
	pt.Seconds = s.perMessage(elapsed.Seconds()/float64(n)*float64(s.abreast), pairs)
	if len(s.o.Percentiles) > 0 {
		if pt.Percentiles, err = s.tail(size, n); err != nil {
			return pt, err
		}
	}
	if s.o.Validate {
		pt.Errors, err = s.validate(size, n)
	}
	return pt, err
}

// uncounted does n iterations. Where there is a bound it returns to all how long they took.
func (s *sweep) uncounted(size, n int) (time.Duration, error) {
	mine, err := s.run(s.Pair, size, n)
	if err != nil || s.o.MaxTime == 0 {
		return 0, err
	}
	elapsed, err := s.combine(mine, s.total)
	if err != nil {
		return 0, err
	}
	shared, err := s.share(int64(elapsed))
	return time.Duration(shared), err
}

// perMessage converts the seconds of an iteration of so many pairs to those of a message.
func (s *sweep) perMessage(seconds float64, pairs int) float64 {
	return seconds / float64(pairs) / float64(s.count)
}

// measure does n iterations, and again with more of them until they take the least requested time.
// Only rank 0 has the time, so it decides. The number is rounded up so that each of those abreast does as many.
func (s *sweep) measure(size, n int) (int, time.Duration, error) {
	for {
		n = (n + s.abreast - 1) / s.abreast * s.abreast
		mine, err := s.run(s.Pair, size, n)
		if err != nil {
			return n, 0, err
		}
		elapsed, err := s.combine(mine, s.total)
		if err != nil || s.o.MinTime == 0 {
			return n, elapsed, err
		}
		more, err := s.share(int64(raised(n, elapsed, s.o.MinTime)))
		if err != nil || int(more) == n {
			return n, elapsed, err
		}
		n = int(more)
	}
}

// raised returns how many iterations make a pass take at least atLeast, given that n took elapsed;
// n if they did.
func raised(n int, elapsed, atLeast time.Duration) int {
	if elapsed >= atLeast {
		return n
	}
	factor := 1.1 * float64(atLeast) / float64(max(1, elapsed))
	return int(float64(n) * min(max(2, factor), 1000))
}
