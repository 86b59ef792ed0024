package match

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/stats"
)

// Batch is the number of matches in an iteration, and the shortest queue.
const Batch = 10

// MaxLength bounds a queue: each entry costs some hundred bytes.
const MaxLength = 1 << 20

// Options of a run.
type Options struct {
	// Lengths of the queue, in entries.
	Lengths []int `json:"lengths"`
	// Rounds in which each length is measured once.
	Rounds int `json:"rounds"`
	// MinTime is how long a length is measured in a round at least.
	MinTime time.Duration `json:"min_time_ns"`
	// Budget bounds the run.
	Budget budget.Budget `json:"-"`
}

// Defaults are five decades, five rounds.
func Defaults() Options {
	return Options{Lengths: []int{10, 100, 1000, 10_000, 100_000}, Rounds: 5, MinTime: 50 * time.Millisecond}
}

// Check reports the first invalid option, and the valid values.
func (o *Options) Check() error {
	if len(o.Lengths) == 0 {
		return fmt.Errorf("match: no length of a queue is given")
	}
	for _, n := range o.Lengths {
		if n < Batch || n > MaxLength {
			return fmt.Errorf("match: a queue of %d entries: %d to %d are possible", n, Batch, MaxLength)
		}
	}
	if o.Rounds < 1 || o.MinTime < 0 {
		return fmt.Errorf("match: %d rounds of at least %v: at least 1 round and a time from 0 on are needed", o.Rounds, o.MinTime)
	}
	return nil
}

// Point is the result for one length.
type Point struct {
	Length int `json:"length"` // entries
	// Rounds are the seconds per match of each round, Seconds is their median.
	Rounds  []float64 `json:"rounds"`
	Seconds float64   `json:"seconds"`
}

// Result is one series.
type Result struct {
	Series string  `json:"series"`
	Points []Point `json:"points"`
}

// Ratio is the median of the rounds' ratios between two lengths, and whether
// both were measured.
func (r *Result) Ratio(long, short int) (ratio float64, ok bool) {
	a, b := r.point(long), r.point(short)
	if a == nil || b == nil {
		return 0, false
	}
	return stats.Median(stats.Ratios(a.Rounds, b.Rounds)), true
}

func (r *Result) point(length int) *Point {
	for i := range r.Points {
		if r.Points[i].Length == length {
			return &r.Points[i]
		}
	}
	return nil
}

// The names of the series.
const (
	Posted         = "posted"
	PostedWild     = "posted+wild"
	Unexpected     = "unexpected"
	UnexpectedWild = "unexpected+wild"
)

// All has the series in the order in which they are measured.
var All = []string{Posted, PostedWild, Unexpected, UnexpectedWild}

// Run measures all series. Both ranks of w call it with the same options; emit
// is called on rank 0 after each series, and its error ends the run there.
//
// Errors: options or a job that do not fit, a message that failed or that is not
// the one that its tag promised, and a [*budget.Cut] when the time was over, on both ranks: a round
// that was not complete is dropped.
func Run(w *banyan.World, o Options, emit func(Result) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	s, err := newSide(w, slices.Max(o.Lengths))
	if err != nil {
		return err
	}
	for k, name := range All {
		r := Result{Series: name, Points: make([]Point, len(o.Lengths))}
		done := 0
		for done < o.Rounds && err == nil {
			if err = s.round(&r, &o); err == nil {
				done++
			}
		}
		over := errors.Is(err, budget.ErrOver)
		if err != nil && !over {
			return fmt.Errorf("match: %s: %w", name, err)
		}
		if s.first && done > 0 {
			for i := range r.Points {
				r.Points[i].Seconds = stats.Median(r.Points[i].Rounds)
			}
			if err := emit(r); err != nil {
				return err
			}
		}
		if over {
			return o.Budget.Cut(k*o.Rounds+done, len(All)*o.Rounds, "rounds")
		}
	}
	return nil
}

// round measures each length of a series once, or returns budget.ErrOver and adds nothing.
func (s *side) round(r *Result, o *Options) error {
	times := make([]float64, len(o.Lengths))
	for i, n := range o.Lengths {
		over, err := o.Budget.Agree(s.c)
		if over {
			return budget.ErrOver
		}
		if err == nil {
			times[i], err = s.measure(r.Series, n, o.Budget.Left(o.MinTime))
		}
		if err != nil {
			return fmt.Errorf("%d entries: %w", n, err)
		}
	}
	for i, n := range o.Lengths {
		r.Points[i].Length = n
		r.Points[i].Rounds = append(r.Points[i].Rounds, times[i])
	}
	return nil
}
