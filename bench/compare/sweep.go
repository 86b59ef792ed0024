package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// Sweep is a measure with many points, such as a curve over message sizes, of which one sample
// yields several: a run of a program that measures a range of sizes. Each point has pairs,
// distances and a verdict of its own.
type Sweep struct {
	// Name is short and without spaces, such as "netpipe".
	Name string
	// Title is for people; Label heads the column of the points.
	Title, Label string
	// Parts are sampled in turn, all of them in each round, so that a disturbance of the machine
	// affects the whole curve.
	Parts []Part
	// Precision is the relative half-width that is sampled for, at each point.
	Precision float64
	// Middle, unless its Limit is 0, bounds the median over the points that have a bound named
	// MiddleOf, of the ratio over the better of the others there.
	Middle   Bound
	MiddleOf string
	// RenewEvery is the number of rounds after which Renew replaces the processes of the sources;
	// it does so before the first round too. 0: never.
	RenewEvery int
	Renew      func(ctx context.Context) error
}

// Part is the points that one sample yields.
type Part struct {
	Points []Point
	// The subject is the first.
	Sources []SweepSource
}

// Point is one place on the curve.
type Point struct {
	X      float64
	Label  string
	Bounds []Bound
}

// SweepSource is one implementation of a part.
type SweepSource struct {
	Name string
	// Sample measures once and returns the seconds of each of the part's points. It is called as
	// [Source].Sample is.
	Sample func(ctx context.Context) ([]float64, error)
	// Longest gives the longest call of the last sample, at each of the points; nil: it is not known.
	Longest func() []float64
}

// Curve is the result of a sweep.
type Curve struct {
	Name   string        `json:"name"`
	Title  string        `json:"title"`
	Points []*CurvePoint `json:"points"`
	// Middle is the median over points, in each distance; see [Sweep].
	Middle []Row `json:"middle,omitempty"`

	sweep *Sweep
}

// CurvePoint is the result at one point.
type CurvePoint struct {
	X     float64 `json:"x"`
	Label string  `json:"label"`
	*Result
}

// Sweep samples until, at each point, every core distance that was seen often enough has its
// interval, or the limits are reached, which is no error. Limits are checked between rounds, so
// that no sample is cut off, and after the first round also before each sample: a round that is over
// the time is dropped. A source other than the subject that fails is left out from then on
// and named in the result. On error the curve has the samples until then.
func (r *Runner) Sweep(ctx context.Context, s *Sweep) (*Curve, error) {
	c := newCurve(s)
	start := time.Now()
	for i := 0; r.Limits.allow(i, time.Since(start)); i++ {
		r.over = func() bool { return !r.Limits.allow(i, time.Since(start)) }
		err := r.sweepRound(ctx, c, i)
		if errors.Is(err, errOver) {
			c.cut(i)
			break
		}
		if err != nil {
			return c, fmt.Errorf("compare %s: round %d%w", s.Name, i+1, err)
		}
		if c.judge(r.Limits, findDistances(r.controls)); c.enough(r.Limits) {
			break
		}
	}
	return c, nil
}

func newCurve(s *Sweep) *Curve {
	c := &Curve{Name: s.Name, Title: s.Title, sweep: s}
	for _, part := range s.Parts {
		for _, p := range part.Points {
			plan := &Plan{Name: s.Name + "/" + p.Label, Bounds: p.Bounds, Precision: s.Precision,
				RenewEvery: s.RenewEvery}
			if p.Label == "" { // the one point of a plan
				plan.Name, plan.Title = s.Name, s.Title
			}
			for _, src := range part.Sources {
				plan.Sources = append(plan.Sources, Source{Name: src.Name})
			}
			c.Points = append(c.Points, &CurvePoint{X: p.X, Label: p.Label, Result: newResult(plan)})
		}
	}
	return c
}

// cut drops the incomplete round number i after the end of the time.
func (c *Curve) cut(i int) {
	for _, p := range c.Points {
		p.Rounds, p.Cut = p.Rounds[:min(i, len(p.Rounds))], true
	}
}

// sweepRound samples each part once, after a renewal where one is due.
func (r *Runner) sweepRound(ctx context.Context, c *Curve, i int) error {
	s, incarnation, first := c.sweep, 0, 0
	if s.RenewEvery > 0 {
		incarnation = i / s.RenewEvery
		if i%s.RenewEvery == 0 {
			if err := s.Renew(ctx); err != nil {
				return fmt.Errorf(": renew the processes: %w", err)
			}
		}
	}
	for k := range s.Parts {
		part := &s.Parts[k]
		points := c.Points[first : first+len(part.Points)]
		first += len(points)
		samples, err := r.turn(ctx, part.Sources, len(points), i, points[0].Failed)
		switch from := part.Points[0].Label; {
		case err != nil && from != "":
			return fmt.Errorf(", from %s on: %w", from, err)
		case err != nil:
			return fmt.Errorf(": %w", err)
		}
		for n, p := range points {
			round := Round{Incarnation: incarnation}
			for _, v := range samples {
				round.Samples = append(round.Samples, v.at(n))
			}
			p.Rounds, p.Failed = append(p.Rounds, round), points[0].Failed
		}
		if r.Progress != nil {
			r.Progress(c.status(i, k))
		}
	}
	return nil
}

// status describes how far a sweep has come, with the ratios of a sweep of one point.
func (c *Curve) status(round, part int) string {
	text := fmt.Sprintf("%s: round %d", c.Name, round+1)
	if len(c.Points) > 1 {
		return text + fmt.Sprintf(", part %d of %d", part+1, len(c.sweep.Parts))
	}
	text += fmt.Sprintf(", %d samples dropped", c.Points[0].Dropped)
	for _, row := range c.Points[0].Rows {
		if row.Ratio.N > 0 {
			text += fmt.Sprintf(", %s %s %s", row.Bound.Over, row.Distance, median(row.Ratio))
			if !row.Ratio.Unbounded() {
				text += stats.Text(" ± %.1f %%", 100*row.Ratio.HalfWidth())
			}
		}
	}
	return text
}

func (c *Curve) judge(l Limits, m distances) {
	for _, p := range c.Points {
		p.judge(l, m)
	}
	if c.sweep.Middle.Limit == 0 {
		return
	}
	c.Middle = nil
	for _, distance := range allDistances {
		if row, ok := c.middle(distance, l, m); ok {
			c.Middle = append(c.Middle, row)
		}
	}
}

// better returns, of a point's rows for one bound in one distance, the one over the other that
// leaves the subject looking worst: that is the better of the others. It is chosen by the medians
// of all rounds; choosing anew in each round would take the luckier of two samples as the measure
// of the better.
func (r *Result) better(id string, distance Distance) *Row {
	var worst *Row
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Bound.ID != id || row.Distance != distance {
			continue
		}
		if worst == nil || row.lead() < worst.lead() {
			worst = row
		}
	}
	return worst
}

// lead is how often the subject is as fast as the other.
func (r *Row) lead() float64 {
	if r.Bound.Ratio == OfRates {
		return r.Ratio.Median
	}
	return 1 / r.Ratio.Median
}

// middle computes the median over the points. One round is one observation, if at least half of the
// points were kept in it.
func (c *Curve) middle(distance Distance, l Limits, m distances) (Row, bool) {
	var points []*CurvePoint
	var bounds []Bound // over the better, at each of the points
	rounds := 0
	for _, p := range c.Points {
		if row := p.better(c.sweep.MiddleOf, distance); row != nil {
			points, bounds = append(points, p), append(bounds, row.Bound)
			rounds = max(rounds, len(p.Rounds))
		}
	}
	var medians []float64
	for i := range rounds {
		var ratios []float64
		for k, p := range points {
			if i >= len(p.Rounds) {
				continue
			}
			if o, got, ok := p.pairOf(&p.Rounds[i], bounds[k], l, m); ok && got == distance {
				ratios = append(ratios, o.ratio)
			}
		}
		if len(ratios) > 0 && 2*len(ratios) >= len(points) {
			medians = append(medians, stats.Median(ratios))
		}
	}
	if len(medians) == 0 {
		return Row{}, false
	}
	row := Row{Bound: c.sweep.Middle, Distance: distance, Ratio: stats.MedianInterval(medians)}
	row.Verdict, row.Why = row.Bound.judge(row.Ratio, c.sweep.Precision, l.MinPairs)
	return row, true
}

func (c *Curve) enough(l Limits) bool {
	return !slices.ContainsFunc(c.Points, func(p *CurvePoint) bool { return !p.enough(l) })
}

// Rows returns all that was judged.
func (c *Curve) Rows() []Row {
	rows := slices.Clone(c.Middle)
	for _, p := range c.Points {
		rows = append(rows, p.Result.Rows...)
	}
	return rows
}

// Seconds returns the same as [Result.Seconds], at each point.
func (c *Curve) Seconds(source string, maxDrift float64) []stats.Interval {
	out := make([]stats.Interval, len(c.Points))
	for i, p := range c.Points {
		out[i] = p.Result.Seconds(source, maxDrift)
	}
	return out
}

// Seconds returns the median seconds of a source over all samples that were steady, of all
// distances: for a picture. N is 0 if there are none.
func (r *Result) Seconds(source string, maxDrift float64) stats.Interval {
	var all []float64
	for k := range r.Rounds {
		if s := r.Rounds[k].of(source); s != nil && s.steady(maxDrift) {
			all = append(all, s.Seconds)
		}
	}
	if len(all) == 0 {
		return stats.Interval{}
	}
	return stats.MedianInterval(all)
}
