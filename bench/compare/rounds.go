package compare

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Sample is one measurement of one source, in seconds per message, with the
// control in seconds one way before and after it.
type Sample struct {
	Source  string  `json:"source"`
	Seconds float64 `json:"seconds"`
	Before  float64 `json:"control_before"`
	After   float64 `json:"control_after"`
}

// Round is one sample of each source, in the order in which they were taken.
type Round struct {
	// Incarnation counts the renewals of the processes before this round.
	Incarnation int      `json:"incarnation"`
	Samples     []Sample `json:"samples"`
}

// Runner carries out plans. The controls of all its plans decide together what
// the machine's moods are.
type Runner struct {
	// Measure returns the time of the control, in seconds one way.
	Measure func(ctx context.Context) (float64, error)
	Limits  Limits
	// Progress is called after each round, if it is not nil.
	Progress func(p *Plan, r *Result)

	controls []float64
}

// Run samples until every mood that was seen often enough has its interval, or
// the limits are reached, which is no error. They are looked at between rounds,
// so that no sample is cut off. A source other than the subject that fails is
// left out from then on and named in the result. On error the result has what
// was sampled until then.
func (r *Runner) Run(ctx context.Context, p *Plan) (*Result, error) {
	res := &Result{Name: p.Name, Title: p.Title, Precision: p.Precision, Failed: map[string]string{}, plan: p}
	begin := time.Now()
	for i := 0; r.Limits.allow(i, time.Since(begin)); i++ {
		round, err := r.round(ctx, p, i, res)
		if err != nil {
			return res, fmt.Errorf("compare %s: round %d: %w", p.Name, i+1, err)
		}
		res.Rounds = append(res.Rounds, round)
		res.judge(r.Limits, findMoods(r.controls))
		if r.Progress != nil {
			r.Progress(p, res)
		}
		if res.enough(r.Limits) {
			break
		}
	}
	return res, nil
}

// round samples each source once. The order rotates, so that none always has
// the same neighbour: with two sources A B, B A, A B.
func (r *Runner) round(ctx context.Context, p *Plan, i int, res *Result) (Round, error) {
	out := Round{}
	if p.RenewEvery > 0 {
		out.Incarnation = i / p.RenewEvery
		if i%p.RenewEvery == 0 {
			if err := p.Renew(ctx); err != nil {
				return out, fmt.Errorf("renew the processes: %w", err)
			}
		}
	}
	before, err := r.control(ctx)
	if err != nil {
		return out, err
	}
	for k := range p.Sources {
		src := &p.Sources[(i+k)%len(p.Sources)]
		if _, failed := res.Failed[src.Name]; failed {
			continue
		}
		s := Sample{Source: src.Name, Before: before}
		s.Seconds, err = src.Sample(ctx)
		if err == nil && !(s.Seconds > 0) {
			err = fmt.Errorf("a sample of %v seconds", s.Seconds)
		}
		if err != nil && (src == &p.Sources[0] || ctx.Err() != nil) {
			return out, fmt.Errorf("%s: %w", src.Name, err)
		}
		if err != nil {
			res.Failed[src.Name] = err.Error()
			continue
		}
		if s.After, err = r.control(ctx); err != nil {
			return out, err
		}
		before = s.After
		out.Samples = append(out.Samples, s)
		r.controls = append(r.controls, s.control())
	}
	return out, nil
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
func (s *Sample) steady(drift float64) bool { return near(s.Before, s.After, drift) }

// near reports whether a and b differ by at most the relative drift.
func near(a, b, drift float64) bool { return math.Abs(a-b) <= drift*math.Min(a, b) }

// of returns the round's sample of a source, nil if there is none.
func (r *Round) of(source string) *Sample {
	for i := range r.Samples {
		if r.Samples[i].Source == source {
			return &r.Samples[i]
		}
	}
	return nil
}
