package netpipe

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
)

// Point is the result for one size.
type Point struct {
	Size    int `json:"size"`    // bytes
	Repeats int `json:"repeats"` // messages, round trips or exchanges of a trial
	// Seconds that a message takes, in the best trial; of an exchange when both sides send.
	Seconds float64 `json:"seconds"`
	// Mbps is the throughput in 2^20 bits per second, both directions together.
	Mbps float64 `json:"mbps"`
	// Trials are the seconds of each.
	Trials []float64 `json:"trials"`
}

// Run measures all sizes. Both ranks of w call it with the same options; emit is called on rank 0
// after each size, and its error ends the run on rank 0 with that error.
//
// Errors: options or a job that do not fit, a message that failed, and bytes that arrived wrong
// ([*CorruptError], on both ranks; the size is not emitted). A [*budget.Cut], on both ranks, when the
// time was over: the size that was not complete is dropped.
func Run(w *banyan.World, o Options, emit func(Point) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	sizes := Sizes(o.Lower, o.Upper, o.Perturbation)
	p, err := newPair(w, &o, slices.Max(sizes))
	if err != nil {
		return err
	}
	guess := 100 // about; it is a pass's tenth that is done first
	for i, size := range sizes {
		if i > 0 { // as many bytes as before, at most
			guess = guess * sizes[i-1] / size
		}
		pt, err := p.point(size, guess, &o)
		if errors.Is(err, budget.ErrOver) {
			return o.Budget.Cut(i, len(sizes), "sizes")
		}
		if err != nil {
			return fmt.Errorf("netpipe: %d bytes: %w", size, err)
		}
		guess = pt.Repeats
		if !p.first {
			continue
		}
		if err := emit(pt); err != nil {
			return err
		}
	}
	return p.free(&o)
}

// point measures one size.
func (p *pair) point(size, guess int, o *Options) (Point, error) {
	n, err := p.repeats(size, guess, o)
	if err != nil {
		return Point{}, err
	}
	pt := Point{Size: size, Repeats: n}
	for range o.Trials {
		if err := p.over(o); err != nil {
			return pt, err
		}
		elapsed, err := p.pass(size, n)
		if err != nil {
			return pt, err
		}
		pt.Trials = append(pt.Trials, p.mode.seconds(elapsed, n))
	}
	pt.Seconds = slices.Min(pt.Trials)
	pt.Mbps = p.mode.mbps(size, pt.Seconds)
	if o.Integrity {
		err = p.integrity(size, n)
	}
	return pt, err
}

// over returns budget.ErrOver on both ranks when the time is over.
func (p *pair) over(o *Options) error {
	over, err := o.Budget.Agree(p.c)
	if over {
		return budget.ErrOver
	}
	return err
}

// seconds returns the time of one message. A clock may stand still in between: a nanosecond is its
// resolution.
func (m Mode) seconds(elapsed time.Duration, n int) float64 {
	s := max(1, elapsed).Seconds() / float64(n)
	if m == PingPong {
		return s / 2
	}
	return s
}

// mbps returns the throughput in 2^20 bits per second.
func (m Mode) mbps(size int, seconds float64) float64 {
	bits := 8 * float64(size)
	if m == Bidirectional {
		bits *= 2
	}
	return bits / seconds / (1 << 20)
}

// repeats warms up and returns how many messages a trial has. Passes grow from a tenth of the guess
// until one takes a tenth of a trial; it gives the number.
func (p *pair) repeats(size, guess int, o *Options) (int, error) {
	n := max(1, guess/10)
	if o.Repeats > 0 {
		_, err := p.pass(size, max(1, o.Repeats/10))
		return o.Repeats, err
	}
	for {
		if err := p.over(o); err != nil {
			return 0, err
		}
		elapsed, err := p.pass(size, n)
		if err != nil {
			return 0, err
		}
		next, done := grown(n, elapsed, max(1, o.Budget.Left(o.TrialTime)))
		if done {
			next = -next // one word for both
		}
		if n, err = p.agree(next); err != nil {
			return 0, err
		}
		if n < 0 {
			return -n, nil
		}
	}
}

// grown returns the messages of a trial and true if n messages, which took elapsed, were enough to
// compute it; otherwise the number to try next.
func grown(n int, elapsed, trial time.Duration) (next int, done bool) {
	each := float64(max(1, elapsed)) / float64(n)
	all := min(max(minRepeats, float64(trial)/each), maxRepeats)
	if elapsed >= trial/10 || n >= maxRepeats/10 {
		return int(all), true
	}
	return min(max(2*n, min(int(all/8), 20*n)), maxRepeats), false
}
