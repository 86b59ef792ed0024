package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Sample is one measurement of one source, in seconds per message, with the control in seconds one
// way before and after it.
type Sample struct {
	Source  string  `json:"source"`
	Seconds float64 `json:"seconds"`
	Before  float64 `json:"control_before"`
	After   float64 `json:"control_after"`
	// Longest is the longest of the calls whose mean is Seconds; 0: it is not known.
	Longest float64 `json:"longest_seconds,omitempty"`
}

// Round is one sample of each source, in the order in which they were taken.
type Round struct {
	// Incarnation counts the renewals of the processes before this round.
	Incarnation int      `json:"incarnation"`
	Samples     []Sample `json:"samples"`
}

// Runner carries out plans. The controls of all its plans determine the machine's distances.
type Runner struct {
	// Measure returns the time of the control, in seconds one way.
	Measure func(ctx context.Context) (float64, error)
	Limits  Limits
	// Progress gets a description of the state after each part of a round, if it is not nil.
	Progress func(status string)

	controls []float64
	over     func() bool // the time of the measure is over, and a round is there
}

// errOver ends a round when the time of its measure is over.
var errOver = errors.New("the time of the measure is over")

// Run carries out a plan, see [Runner.Sweep].
func (r *Runner) Run(ctx context.Context, p *Plan) (*Result, error) {
	part := Part{Points: []Point{{Bounds: p.Bounds}}}
	for _, src := range p.Sources {
		part.Sources = append(part.Sources, SweepSource{Name: src.Name,
			Sample: func(ctx context.Context) ([]float64, error) {
				seconds, err := src.Sample(ctx)
				return []float64{seconds}, err
			}})
	}
	c, err := r.Sweep(ctx, &Sweep{
		Name: p.Name, Title: p.Title, Parts: []Part{part}, Precision: p.Precision, RenewEvery: p.RenewEvery,
		Renew: p.Renew,
	})
	return c.Points[0].Result, err
}

// values is one sample of one source that yields several values.
type values struct {
	source        string
	seconds       []float64
	longest       []float64 // or nil
	before, after float64   // controls
}

// at is the sample as one of a single value.
func (v *values) at(k int) Sample {
	s := Sample{Source: v.source, Seconds: v.seconds[k], Before: v.before, After: v.after}
	if v.longest != nil {
		s.Longest = v.longest[k]
	}
	return s
}

// turn samples each source once, between controls. The order rotates, and every second one is
// backwards, so that none always follows the same: A B, B A, A B of two sources, A B C, B A C, C A B of
// three. Sources in failed are left out; one that fails is entered there, but the first source's
// failure is an error.
func (r *Runner) turn(ctx context.Context, sources []SweepSource, points, i int, failed map[string]string) ([]values,
	error) {
	var out []values
	before, err := r.control(ctx)
	if err != nil {
		return nil, err
	}
	for k := range sources {
		at := i + k
		if i%2 == 1 {
			at = i - k + len(sources)
		}
		src := &sources[at%len(sources)]
		if _, skip := failed[src.Name]; skip {
			continue
		}
		if r.over() {
			return nil, errOver
		}
		v := values{source: src.Name, before: before}
		v.seconds, err = src.Sample(ctx)
		if err == nil {
			err = checkValues(v.seconds, points)
		}
		if err != nil && (src == &sources[0] || ctx.Err() != nil) {
			return out, fmt.Errorf("%s: %w", src.Name, err)
		}
		if err != nil {
			failed[src.Name] = err.Error()
			continue
		}
		if v.after, err = r.control(ctx); err != nil {
			return out, err
		}
		before = v.after
		if src.Longest != nil {
			v.longest = src.Longest()
		}
		out = append(out, v)
		r.controls = append(r.controls, (v.before+v.after)/2)
	}
	return out, nil
}

func checkValues(seconds []float64, points int) error {
	if len(seconds) != points {
		return fmt.Errorf("a sample of %d values, %d were to come", len(seconds), points)
	}
	for _, s := range seconds {
		if !(s > 0) {
			return fmt.Errorf("a sample of %v seconds", s)
		}
	}
	return nil
}

func (r *Runner) control(ctx context.Context) (float64, error) {
	c, err := r.Measure(ctx)
	if err == nil && !(c > 0) {
		err = fmt.Errorf("it returned %v seconds", c)
	}
	if err != nil {
		return 0, fmt.Errorf("control: %w", err)
	}
	return c, nil
}

// control is the control's time around the sample.
func (s *Sample) control() float64 { return (s.Before + s.After) / 2 }

// steady reports whether the control stayed within the drift.
func (s *Sample) steady(drift float64) bool { return within(s.Before, s.After, drift) }

// within reports whether a and b differ by at most the relative drift.
func within(a, b, drift float64) bool { return math.Abs(a-b) <= drift*math.Min(a, b) }

// of returns the round's sample of a source, nil if there is none.
func (r *Round) of(source string) *Sample {
	for i := range r.Samples {
		if r.Samples[i].Source == source {
			return &r.Samples[i]
		}
	}
	return nil
}
