package match

import (
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
)

// Pair is one of two ranks that measure on command, for comparisons with other libraries. It belongs to
// one goroutine.
type Pair struct {
	s       *side
	longest int
}

// NewPair makes the side of this rank, for queues of up to longest entries.
func NewPair(w *banyan.World, longest int) (*Pair, error) {
	s, err := newSide(w, longest)
	if err != nil {
		return nil, err
	}
	return &Pair{s: s, longest: longest}, nil
}

// Measure builds a queue of a series, does warmup iterations over a batch and
// then iters that are timed, and takes the queue down. Both ranks call it with
// the same arguments. On rank 0 it returns how long the iters took, [Batch]
// matches each; 0 on rank 1.
func (p *Pair) Measure(series string, entries, warmup, iters int) (time.Duration, error) {
	if !slices.Contains(All, series) {
		return 0, fmt.Errorf("match: there is no series %q", series)
	}
	if entries < Batch || entries > p.longest {
		return 0, fmt.Errorf("match: a queue of %d entries: %d to %d are possible", entries, Batch, p.longest)
	}
	var elapsed time.Duration
	_, err := p.s.drive(series, entries, func(loop func(int) (time.Duration, error)) (float64, error) {
		if warmup > 0 {
			if _, err := loop(warmup); err != nil {
				return 0, err
			}
		}
		var err error
		elapsed, err = loop(iters)
		return 0, err
	})
	if !p.s.first {
		return 0, err
	}
	return elapsed, err
}
