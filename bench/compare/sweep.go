package compare

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Sweep is a measure with many points, such as a curve over message sizes, of
// which one sample yields several: a run of a program that measures a range of
// sizes. Each point has pairs, moods and a verdict of its own.
type Sweep struct {
	// Name is short and without spaces, such as "netpipe".
	Name string
	// Title is for people; Label heads the column of the points.
	Title, Label string
	// Parts are sampled in turn, all of them in each round, so that what happens
	// to the machine happens to the whole curve.
	Parts []Part
	// Precision is the relative half-width that is sampled for, at each point.
	Precision float64
	// Middle, unless its Limit is 0, bounds the median over the points that have
	// a bound named MiddleOf, of the ratio over the better of the others there.
	Middle   Bound
	MiddleOf string
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
	// Sample measures once and returns the seconds of each of the part's points.
	// It is called as [Source].Sample is.
	Sample func(ctx context.Context) ([]float64, error)
}

// Curve is what a sweep has come to.
type Curve struct {
	Name   string        `json:"name"`
	Title  string        `json:"title"`
	Points []*CurvePoint `json:"points"`
	// Middle is the median over points, in each mood; see [Sweep].
	Middle []Row `json:"middle,omitempty"`

	sweep *Sweep
}

// CurvePoint is the result at one point.
type CurvePoint struct {
	X     float64 `json:"x"`
	Label string  `json:"label"`
	*Result
}

// Sweep samples until each point has what [Runner.Run] would stop at, or the
// limits are reached, which is no error. Limits are looked at between rounds. A
// source other than the subject that fails is left out from then on. On error
// the curve has what was sampled until then.
func (r *Runner) Sweep(ctx context.Context, s *Sweep) (*Curve, error) {
	c := newCurve(s)
	begin := time.Now()
	for i := 0; r.Limits.allow(i, time.Since(begin)); i++ {
		first := 0
		for k := range s.Parts {
			part := &s.Parts[k]
			points := c.Points[first : first+len(part.Points)]
			if err := r.sweepPart(ctx, part, points, i); err != nil {
				return c, fmt.Errorf("compare %s: round %d, from %s on: %w", s.Name, i+1, part.Points[0].Label, err)
			}
			first += len(points)
			if r.SweepProgress != nil {
				r.SweepProgress(s, i, k)
			}
		}
		if c.judge(r.Limits, findMoods(r.controls)); c.enough(r.Limits) {
			break
		}
	}
	return c, nil
}

func newCurve(s *Sweep) *Curve {
	c := &Curve{Name: s.Name, Title: s.Title, sweep: s}
	for _, part := range s.Parts {
		for _, p := range part.Points {
			name := s.Name + "/" + p.Label
			plan := &Plan{Name: name, Bounds: p.Bounds, Precision: s.Precision}
			for _, src := range part.Sources {
				plan.Sources = append(plan.Sources, Source{Name: src.Name})
			}
			c.Points = append(c.Points, &CurvePoint{X: p.X, Label: p.Label, Result: newResult(plan)})
		}
	}
	return c
}

// sweepPart samples a part once and files the values with their points.
func (r *Runner) sweepPart(ctx context.Context, part *Part, points []*CurvePoint, i int) error {
	failed := points[0].Failed
	samples, err := r.turn(ctx, part.Sources, len(points), i, failed)
	if err != nil {
		return err
	}
	for k, p := range points {
		round := Round{}
		for _, s := range samples {
			round.Samples = append(round.Samples, s.at(k))
		}
		p.Rounds, p.Failed = append(p.Rounds, round), failed
	}
	return nil
}

func (c *Curve) judge(l Limits, m moods) {
	for _, p := range c.Points {
		p.judge(l, m)
	}
	if c.sweep.Middle.Limit == 0 {
		return
	}
	c.Middle = nil
	for _, mood := range allMoods {
		if row, ok := c.middle(mood, l, m); ok {
			c.Middle = append(c.Middle, row)
		}
	}
}

// better returns, of a point's rows for one bound in one mood, the one over the
// other that leaves the subject looking worst: that is the better of the others.
// It is chosen by the medians of all rounds; choosing anew in each round would
// take the luckier of two samples as the measure of the better.
func (r *Result) better(id string, mood Mood) *Row {
	var worst *Row
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Bound.ID != id || row.Mood != mood {
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

// middle computes the median over the points. One round is one observation,
// if at least half of the points were kept in it.
func (c *Curve) middle(mood Mood, l Limits, m moods) (Row, bool) {
	var points []*CurvePoint
	var bounds []Bound // over the better, at each of the points
	rounds := 0
	for _, p := range c.Points {
		if row := p.better(c.sweep.MiddleOf, mood); row != nil {
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
			if o, got, ok := p.pairOf(&p.Rounds[i], bounds[k], l, m); ok && got == mood {
				ratios = append(ratios, o.ratio)
			}
		}
		if len(ratios) > 0 && 2*len(ratios) >= len(points) {
			medians = append(medians, Median(ratios))
		}
	}
	if len(medians) == 0 {
		return Row{}, false
	}
	row := Row{Bound: c.sweep.Middle, Mood: mood, Ratio: MedianInterval(medians)}
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

// Seconds returns what [Result.Seconds] does, at each point.
func (c *Curve) Seconds(source string, maxDrift float64) []float64 {
	out := make([]float64, len(c.Points))
	for i, p := range c.Points {
		out[i] = p.Result.Seconds(source, maxDrift)
	}
	return out
}

// Seconds returns the median seconds of a source over all samples that were
// steady, whatever the mood: for a picture. It is 0 if there are none.
func (r *Result) Seconds(source string, maxDrift float64) float64 {
	var all []float64
	for k := range r.Rounds {
		if s := r.Rounds[k].of(source); s != nil && s.steady(maxDrift) {
			all = append(all, s.Seconds)
		}
	}
	if len(all) == 0 {
		return 0
	}
	return Median(all)
}
