package osu

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
)

// CutError reports that a sweep has ended before its largest size, as an iteration would not have
// ended within [Options].MaxTime.
type CutError struct {
	Size int           `json:"size"`    // the first that was left out, in bytes
	Last time.Duration `json:"last_ns"` // of an iteration of the size before
	Max  time.Duration `json:"max_time_ns"`
	// Budget is set where the time of the whole sweep was over, and the times above are not.
	Budget *budget.Cut `json:"budget,omitempty"`
}

// Error has the size from which on there are no results, and the cure.
func (e *CutError) Error() string {
	if e.Budget != nil {
		return fmt.Sprintf("sizes from %d bytes on are left out: %v", e.Size, e.Budget)
	}
	return fmt.Sprintf("sizes from %d bytes on are left out: an iteration of the size before took %v, and a size may "+
		"take %v (--max-time; 0: no bound)",
		e.Size, e.Last.Round(time.Millisecond), e.Max)
}

// bound keeps the time of each size below MaxTime, about. All ranks come to the same answers, as
// all ranks get the same times.
type bound struct {
	o    *Options
	each time.Duration // the longest iteration at the last size; 0: not known
	done int           // sizes
}

// next begins a size. The error ends the sweep: with twice the bytes not one iteration would fit, or
// the time of the whole sweep is over, on which agree has all ranks that measure agree.
func (b *bound) next(size int, agree func() (over bool, err error)) error {
	last := b.each
	b.each = 0
	if b.o.MaxTime > 0 && 2*last > b.o.MaxTime {
		return &CutError{Size: size, Last: last, Max: b.o.MaxTime}
	}
	over, err := agree()
	if over && b.done > 0 {
		return &CutError{Size: size, Budget: b.o.Budget.Cut(b.done, b.done+b.o.sizes(size), "sizes")}
	}
	b.done++
	return err
}

// warmUp runs the iterations that are not counted and returns the number of those to count. Without
// bound that is one run. Otherwise it runs growing numbers of iterations, since the first ones, on
// a new connection, are not typical. run returns the same time on all ranks.
func (b *bound) warmUp(size int, run func(n int) (time.Duration, error)) (int, error) {
	n, warmup := b.o.counts(size)
	if b.o.MaxTime == 0 {
		_, err := run(warmup)
		return n, err
	}
	var spent, each time.Duration
	for done, step := 0, 1; done < warmup && spent < b.o.MaxTime/2; step *= 2 {
		step = min(step, warmup-done)
		took, err := run(step)
		if err != nil {
			return 0, err
		}
		done += step
		spent += took
		each = took / time.Duration(step)
	}
	b.each = max(b.each, each)
	return fitting(n, each, b.o.MaxTime), nil
}

// fitting is how many of n iterations fit into a time, at least one.
func fitting(n int, each, limit time.Duration) int {
	if each <= limit/time.Duration(n) {
		return n
	}
	return max(1, int(limit/each))
}
