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
	// SweepProgress is called after each part of a sweep with the numbers of the
	// round and the part, if it is not nil.
	SweepProgress func(s *Sweep, round, part int)

	controls []float64
}

// Run samples until every mood that was seen often enough has its interval, or
// the limits are reached, which is no error. They are looked at between rounds,
// so that no sample is cut off. A source other than the subject that fails is
// left out from then on and named in the result. On error the result has what
// was sampled until then.
func (r *Runner) Run(ctx context.Context, p *Plan) (*Result, error) {
	res := newResult(p)
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

// round samples each source once, after a renewal where one is due.
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
	sources := make([]SweepSource, len(p.Sources))
	for k, src := range p.Sources {
		sources[k] = SweepSource{Name: src.Name, Sample: func(ctx context.Context) ([]float64, error) {
			seconds, err := src.Sample(ctx)
			return []float64{seconds}, err
		}}
	}
	samples, err := r.turn(ctx, sources, 1, i, res.Failed)
	for _, s := range samples {
		out.Samples = append(out.Samples, s.at(0))
	}
	return out, err
}

// values is one sample of one source that yields several values.
type values struct {
	source        string
	seconds       []float64
	before, after float64 // controls
}

// at is the sample as one of a single value.
func (v *values) at(k int) Sample {
	return Sample{Source: v.source, Seconds: v.seconds[k], Before: v.before, After: v.after}
}

// turn samples each source once, between controls. The order rotates, so that
// none always has the same neighbour: with two sources A B, B A, A B. Sources in
// failed are left out; one that fails is entered there, but the first source's
// failure is an error.
func (r *Runner) turn(ctx context.Context, sources []SweepSource, points, i int, failed map[string]string) ([]values, error) {
	var out []values
	before, err := r.control(ctx)
	if err != nil {
		return nil, err
	}
	for k := range sources {
		src := &sources[(i+k)%len(sources)]
		if _, skip := failed[src.Name]; skip {
			continue
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
