package compare

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// curveOf is a source whose times at the points are factors of the distance.
func (m *machine) curveOf(name string, factors ...float64) SweepSource {
	return SweepSource{Name: name, Sample: func(context.Context) ([]float64, error) {
		m.order = append(m.order, name)
		var out []float64
		for _, f := range factors {
			out = append(out, m.distance*f*m.jitter())
		}
		return out, nil
	}}
}

// testSweep has three points in two parts. Ours is 0.8, 1.25 and 2 times as fast as a, and as fast
// as b at the first two.
func testSweep(m *machine) *Sweep {
	point := func(label string, x float64) Point {
		return Point{Label: label, X: x, Bounds: []Bound{
			{ID: "R", Over: "a", Ratio: OfRates, Limit: 0.95}, {ID: "R", Over: "b", Ratio: OfRates, Limit: 0.95},
		}}
	}
	return &Sweep{
		Name: "np", Title: "a curve", Label: "bytes", Precision: 0.03,
		Middle: Bound{ID: "M", Over: "the better", Ratio: OfRates, Limit: 0.9}, MiddleOf: "R",
		Parts: []Part{
			{Points: []Point{point("1", 1), point("2", 2)},
				Sources: []SweepSource{m.curveOf("ours", 10, 8), m.curveOf("a", 8, 10), m.curveOf("b", 10, 8)}},
			{Points: []Point{point("4", 4)}, Sources: []SweepSource{m.curveOf("ours", 5), m.curveOf("a", 10),
				m.curveOf("b", 20)}},
		},
	}
}

func TestSweep(t *testing.T) {
	m := newMachine()
	r := m.runner(500)
	parts := 0
	r.Progress = func(string) { parts++ }
	c, err := r.Sweep(t.Context(), testSweep(m))
	require.NoError(t, err)
	require.Equal(t, []string{"ours", "a", "b", "ours", "a", "b", "a", "ours", "b"}, m.order[:9],
		"all parts in each round, and the order rotates")
	require.Len(t, c.Points, 3)
	require.Equal(t, 2*len(c.Points[0].Rounds), parts)
	for i, want := range []struct {
		over    string
		ratio   float64
		verdict Verdict
	}{{"a", 0.8, Missed}, {"b", 1, Met}, {"a", 2, Met}} {
		p := c.Points[i]
		require.Equal(t, []float64{1, 2, 4}[i], p.X)
		row := p.better("R", Near)
		require.Equal(t, want.over, row.Bound.Over)
		require.InDelta(t, want.ratio, row.Ratio.Median, 0.03)
		require.Equal(t, want.verdict, row.Verdict)
		require.Len(t, p.Rows, 2)
	}
	require.Len(t, c.Middle, 1)
	require.InDelta(t, 1, c.Middle[0].Ratio.Median, 0.03, "of 0.8, 1 and 2")
	require.Equal(t, Met, c.Middle[0].Verdict)
	require.Len(t, c.Rows(), 7)
	require.InDelta(t, 5*m.distance, c.Seconds("ours", 0.15)[2].Median, 0.03*5*m.distance)
	require.Zero(t, c.Points[0].Result.Seconds("absent", 0.15).N)
}

// A round in which the distance changes within a part loses that part's pairs only. The median over
// the points does without a round that kept less than half.
func TestSweepDropsPartsNotRounds(t *testing.T) {
	m := newMachine()
	s := testSweep(m)
	plain, n := s.Parts[1].Sources[2].Sample, 0
	s.Parts[1].Sources[2].Sample = func(ctx context.Context) ([]float64, error) {
		if n++; n == 5 {
			m.distance = 0.32e-6
		}
		return plain(ctx)
	}
	s.Precision = 0.001
	c, err := m.runner(30).Sweep(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, 0, c.Points[0].Dropped)
	require.Equal(t, 1, c.Points[2].Dropped)
	require.Equal(t, 5, c.Points[0].better("R", Near).Ratio.N)
	require.Equal(t, 25, c.Points[0].better("R", Far).Ratio.N)
	require.Len(t, c.Middle, 2)
	require.Equal(t, []int{5, 25}, []int{c.Middle[0].Ratio.N, c.Middle[1].Ratio.N},
		"two of three points are more than half")
}

func TestSweepErrors(t *testing.T) {
	m := newMachine()
	s := testSweep(m)
	s.Parts[1].Sources[1].Sample = func(context.Context) ([]float64, error) {
		return nil,
			errors.New("no such device")
	}
	s.Parts[0].Sources[2].Sample = func(context.Context) ([]float64, error) { return []float64{1}, nil }
	c, err := m.runner(20).Sweep(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "no such device"}, c.Points[2].Failed)
	require.Equal(t, map[string]string{"b": "a sample of 1 values, 2 were to come"}, c.Points[0].Failed)
	require.Equal(t, "b", c.Points[2].better("R", Near).Bound.Over)
	var b strings.Builder
	require.NoError(t, WriteCurve(&b, c))
	require.Contains(t, b.String(), "a could not be measured any more from 4 on: no such device")

	s.Parts[0].Sources[0].Sample = func(context.Context) ([]float64, error) { return []float64{1, 0}, nil }
	_, err = m.runner(20).Sweep(t.Context(), s)
	require.ErrorContains(t, err, "compare np: round 1, from 1 on: ours: a sample of 0 seconds")
}

// Only ratios for information: it ends when they are narrow.
func TestSweepForInformationEnds(t *testing.T) {
	m := newMachine()
	s := &Sweep{Name: "x", Precision: 0.03, Parts: []Part{{
		Points:  []Point{{Label: "1", X: 1, Bounds: []Bound{{Over: "a", Ratio: OfTimes}}}},
		Sources: []SweepSource{m.curveOf("ours", 1), m.curveOf("a", 2)},
	}}}
	r, said := m.runner(500), ""
	r.Progress = func(text string) { said += text + "\n" }
	c, err := r.Sweep(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, c.Points[0].Rounds, 9)
	require.Empty(t, c.Middle)
	require.Regexp(t, `(?m)round 2, \d+ samples dropped, a near \d\.\d{3}$`, said, "two pairs have no interval")
	require.Regexp(t, `(?m)round 9, .* ± \d\.\d %$`, said)
	require.NotContains(t, said, "Inf")
}

func TestWriteCurve(t *testing.T) {
	row := func(id, over string, limit, ratio float64, v Verdict) Row {
		return Row{Bound: Bound{ID: id, Over: over, Ratio: OfRates, Limit: limit}, Distance: Near, Subject: 1e-6,
			Other: ratio * 1e-6,
			Ratio: estimate(ratio, ratio-0.01, ratio+0.01, 9), Verdict: v}
	}
	c := &Curve{
		Title: "a curve", sweep: &Sweep{Label: "bytes", Middle: Bound{Over: "the better"}},
		Points: []*CurvePoint{
			{Label: "64", Result: &Result{Kept: 27, Rounds: make([]Round, 9),
				Rows: []Row{row("R", "a", 0.95, 1.5, Met), row("R", "b", 0.95, 0.9, Missed)}}},
			{Label: "96", Result: &Result{Kept: 27, Rows: []Row{row("R", "a", 0.95, 1.25, Met)}}},
			{Label: "99", Result: &Result{Dropped: 1,
				Rows: []Row{row("", "a", 0, 1, Info), row("", "b", 0, 1, Info)}}},
		},
		Middle: []Row{row("M", "the better", 1, 1.1, Met)},
	}
	b := wide{columns: 132}
	require.NoError(t, WriteCurve(&b, c))
	require.Equal(t, `a curve (9 rounds, 54 values kept, 1 dropped: the control changed)
id  bytes  cores  pairs  ours µs  a µs  ratio  95 % interval  b µs  ratio  95 % interval        bound  verdict
 R     64   near      9        1   1.5  1.500  1.490 … 1.510   0.9  0.900  0.890 … 0.910  ≥ 0.95 rate  missed
 R     96   near      9        1  1.25  1.250  1.240 … 1.260     -      -              -  ≥ 0.95 rate  met
       99   near      9        1     1  1.000  0.990 … 1.010     1  1.000  0.990 … 1.010         rate  -
M, median of the points over the better of the others, near cores: 1.100, interval 1.090 … 1.110 of 9 rounds, bound ≥ 1 rate: met

`, b.String())

	narrow := wide{columns: 80}
	require.NoError(t, WriteCurve(&narrow, c))
	require.Equal(t, `a curve (9 rounds, 54 values kept, 1 dropped: the control changed)
id  bytes  cores  pairs  ours µs  a µs  ratio  95 % interval
 R     64   near      9        1   1.5  1.500  1.490 … 1.510
 R     96   near      9        1  1.25  1.250  1.240 … 1.260
       99   near      9        1     1  1.000  0.990 … 1.010

id  bytes  cores  b µs  ratio  95 % interval        bound  verdict
 R     64   near   0.9  0.900  0.890 … 0.910  ≥ 0.95 rate  missed
 R     96   near     -      -              -  ≥ 0.95 rate  met
       99   near     1  1.000  0.990 … 1.010         rate  -
M, median of the points over the better of the others, near cores: 1.100,
  interval 1.090 … 1.110 of 9 rounds, bound ≥ 1 rate: met

`, narrow.String())
}

// A round that exceeds the time is dropped at its next sample, in all parts, and the result reports
// that.
func TestSweepIsCutWithinARound(t *testing.T) {
	m := newMachine()
	r := m.runner(500)
	s := testSweep(m)
	rounds := 0
	last := &s.Parts[1].Sources[0]
	sample := last.Sample
	last.Sample = func(ctx context.Context) ([]float64, error) {
		if rounds++; rounds == 3 {
			r.Limits.MaxTime = 1
		}
		return sample(ctx)
	}
	c, err := r.Sweep(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, "ours", m.order[len(m.order)-1])
	for _, p := range c.Points {
		require.True(t, p.Cut)
		require.Len(t, p.Rounds, 2)
		require.LessOrEqual(t, p.Kept, 6)
	}
	var text strings.Builder
	require.NoError(t, WriteCurve(&text, c))
	require.Contains(t, text.String(), "2 rounds and one cut by --max-time")
}
