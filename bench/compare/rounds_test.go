package compare

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// machine is a simulated machine with distances and noise.
type machine struct {
	rng      *rand.Rand
	distance float64 // the control's time in seconds
	noise    float64
	order    []string
}

func newMachine() *machine {
	return &machine{rng: rand.New(rand.NewPCG(3, 4)), distance: 0.056e-6, noise: 0.01}
}

func (m *machine) jitter() float64 { return 1 + m.noise*m.rng.NormFloat64() }

func (m *machine) control(context.Context) (float64, error) { return m.distance * m.jitter(), nil }

func (m *machine) source(name string, factor float64) Source {
	return Source{Name: name, Sample: func(context.Context) (float64, error) {
		m.order = append(m.order, name)
		return m.distance * factor * m.jitter(), nil
	}}
}

func (m *machine) runner(maxRounds int) *Runner {
	return &Runner{Measure: m.control, Limits: Limits{MinPairs: 9, MaxRounds: maxRounds, MaxDrift: 0.15}}
}

func TestRunStopsWhenPrecise(t *testing.T) {
	m := newMachine()
	p := &Plan{
		Name: "latency/8", Precision: 0.03,
		Sources: []Source{m.source("banyan", 1.4), m.source("ucx", 1.7)},
		Bounds: []Bound{
			{Over: "ucx", Ratio: OfTimes, Limit: 0.90},
			{Over: "ucx", Ratio: OfRates, Limit: 1.0},
			{Over: Control, Ratio: OfTimes, Limit: 1.3, OnlyNear: true},
			{Over: "ucx", Ratio: OfTimes},
		},
	}
	res, err := m.runner(500).Run(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, res.Rounds, 9, "narrow after the least number of pairs")
	require.Equal(t, []string{"banyan", "ucx", "ucx", "banyan", "banyan", "ucx"}, m.order[:6])
	require.Len(t, res.Rows, 4)
	for i, want := range []struct {
		ratio   float64
		verdict Verdict
	}{{1.4 / 1.7, Met}, {1.7 / 1.4, Met}, {1.4, Missed}, {1.4 / 1.7, Info}} {
		require.InDelta(t, want.ratio, res.Rows[i].Ratio.Median, 0.03)
		require.Equal(t, want.verdict, res.Rows[i].Verdict)
		require.Equal(t, Near, res.Rows[i].Distance)
	}
	require.Equal(t, 18, res.Kept+res.Dropped)
}

func TestRunGivesUpUndecided(t *testing.T) {
	m := newMachine()
	noisy := m.source("banyan", 1)
	quiet := noisy.Sample
	noisy.Sample = func(ctx context.Context) (float64, error) {
		s, err := quiet(ctx)
		return s * (1 + m.rng.Float64()), err
	}
	p := &Plan{Name: "x", Precision: 0.03, Sources: []Source{noisy, m.source("ucx", 3)},
		Bounds: []Bound{{Over: "ucx", Ratio: OfTimes, Limit: 0.9}}}
	res, err := m.runner(12).Run(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, res.Rounds, 12)
	require.Equal(t, Undecided, res.Rows[0].Verdict, "though the whole interval is below the bound")
	require.Contains(t, res.Rows[0].Why, "half-width")
}

// A flip of the distance within a round spoils the pair; the distances have rows apart.
func TestDistancesApart(t *testing.T) {
	m := newMachine()
	ucx := m.source("ucx", 1.5)
	plain, n := ucx.Sample, 0
	ucx.Sample = func(ctx context.Context) (float64, error) {
		if n++; n == 13 {
			m.distance = 0.32e-6
		}
		return plain(ctx)
	}
	p := &Plan{Name: "x", Precision: 0.001, Sources: []Source{m.source("banyan", 1), ucx},
		Bounds: []Bound{{Over: "ucx", Ratio: OfTimes, Limit: 0.9},
			{Over: Control, Ratio: OfTimes, Limit: 2, OnlyNear: true}}}
	res, err := m.runner(30).Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 1, res.Dropped)
	require.Len(t, res.Rows, 3, "both distances for the first bound, the fast one for the second")
	require.Equal(t, []Distance{Near, Far, Near},
		[]Distance{res.Rows[0].Distance, res.Rows[1].Distance, res.Rows[2].Distance})
	require.Equal(t, 12, res.Rows[0].Ratio.N)
	require.Equal(t, 17, res.Rows[1].Ratio.N)
	require.InDelta(t, 0.32e-6, res.Rows[1].Subject, 0.02e-6)
}

// Each source is at each place as often, and comes after others in turn.
func TestOrderOfSources(t *testing.T) {
	m := newMachine()
	p := &Plan{Name: "x", Sources: []Source{m.source("a", 1), m.source("b", 1), m.source("c", 1), m.source("d", 1)}}
	_, err := m.runner(8).Run(t.Context(), p)
	require.NoError(t, err)
	before, places := map[string]int{}, map[string][4]int{}
	for i, name := range m.order {
		at := places[name]
		at[i%4]++
		places[name] = at
		if i%4 > 0 {
			before[m.order[i-1]+name]++
		}
	}
	require.Len(t, places, 4)
	for name, at := range places {
		require.Equal(t, [4]int{2, 2, 2, 2}, at, name)
	}
	require.Equal(t, map[string]int{"ab": 4, "bc": 2, "cd": 4, "da": 2, "ba": 4, "cb": 2, "dc": 4, "ad": 2}, before)
}

// One bound that is decided does not end the sampling for another.
func TestEnoughIsForAllBounds(t *testing.T) {
	bound := Bound{Limit: 1}
	narrow, wide := estimate(1, 0.99, 1.01, 9), estimate(1, 0.9, 1.1, 30)
	few := estimate(1, 0.99, 1.01, 6)
	for _, c := range []struct {
		rows []Row
		want bool
	}{
		{nil, false},
		{[]Row{{Bound: bound, Distance: Near, Ratio: narrow}}, true},
		{[]Row{{Bound: bound, Distance: Near, Ratio: few}}, false},
		{[]Row{{Bound: bound, Distance: Near, Ratio: narrow}, {Bound: bound, Distance: Near, Ratio: few}}, false},
		{[]Row{{Bound: bound, Distance: Near, Ratio: narrow}, {Bound: bound, Distance: Near, Ratio: wide}}, false},
		{[]Row{{Bound: bound, Distance: Near, Ratio: narrow}, {Distance: Near, Ratio: wide}}, true},
		{[]Row{{Bound: bound, Distance: Near, Ratio: narrow}, {Bound: bound, Distance: Far, Ratio: few}}, true},
		{[]Row{{Bound: bound, Distance: Near, Ratio: narrow}, {Bound: bound, Distance: Far, Ratio: wide}}, false},
	} {
		r := &Result{Precision: 0.03, Rows: c.rows}
		require.Equal(t, c.want, r.enough(Limits{MinPairs: 9}), "%v", c.rows)
	}
}

// Pairs that share processes are one observation, and of a renewal with mostly spoilt pairs nothing
// is kept.
func TestRenewal(t *testing.T) {
	m := newMachine()
	m.noise = 0.001
	luck, renewals := 1.0, 0
	a := m.source("aware", 1)
	plain := a.Sample
	a.Sample = func(ctx context.Context) (float64, error) {
		s, err := plain(ctx)
		return s * luck, err
	}
	p := &Plan{Name: "x", Precision: 0.003, Sources: []Source{a, m.source("unaware", 1)}, RenewEvery: 4,
		Renew: func(context.Context) error {
			renewals++
			luck = 1 + 0.02*m.rng.NormFloat64()
			return nil
		},
		Bounds: []Bound{{Over: "unaware", Ratio: OfTimes, Limit: 1.012}}}
	res, err := m.runner(80).Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 20, renewals)
	require.Equal(t, 20, res.Rows[0].Ratio.N)
	require.Greater(t, res.Rows[0].Ratio.HalfWidth(), 0.003, "the spread between processes is in the interval")

	for i := range 3 {
		res.Rounds[i].Samples[0].After *= 2
	}
	res.judge(m.runner(0).Limits, findDistances([]float64{m.distance}))
	require.Equal(t, 19, res.Rows[0].Ratio.N)
}

func TestRunErrors(t *testing.T) {
	m := newMachine()
	broken := Source{Name: "mpich", Sample: func(context.Context) (float64, error) {
		return 0,
			errors.New("no such device")
	}}
	p := &Plan{Name: "x", Precision: 1, Sources: []Source{m.source("banyan", 1), broken, m.source("ucx", 2)},
		Bounds: []Bound{{Over: "mpich", Ratio: OfTimes, Limit: 1}, {Over: "ucx", Ratio: OfTimes, Limit: 1}}}
	res, err := m.runner(20).Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, "no such device", res.Failed["mpich"])
	require.Len(t, res.Rows, 2)
	require.Equal(t, Undecided, res.Rows[0].Verdict)
	require.Equal(t, Met, res.Rows[1].Verdict)

	p.Sources[0], p.Sources[1] = p.Sources[1], p.Sources[0]
	_, err = m.runner(20).Run(t.Context(), p)
	require.ErrorContains(t, err, "mpich: no such device")

	r := m.runner(20)
	r.Measure = func(context.Context) (float64, error) { return 0, nil }
	_, err = r.Run(t.Context(), p)
	require.ErrorContains(t, err, "control")
}

func TestBudgetOfTimeIsNoError(t *testing.T) {
	m := newMachine()
	r := m.runner(0)
	r.Limits.MaxTime = 1
	res, err := r.Run(t.Context(), &Plan{Name: "x", Sources: []Source{m.source("banyan", 1)}})
	require.NoError(t, err)
	require.Len(t, res.Rounds, 1, "one round is always done, and whole")

	require.True(t, (&Limits{}).allow(1_000_000, time.Hour))
	require.False(t, (&Limits{MaxRounds: 5}).allow(5, 0))
}

// An interrupted run returns an error, and the samples until then.
func TestCancelled(t *testing.T) {
	m := newMachine()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	n := 0
	src := Source{Name: "banyan", Sample: func(ctx context.Context) (float64, error) {
		if n++; n == 3 {
			cancel(stop)
		}
		return m.distance, context.Cause(ctx)
	}}
	res, err := m.runner(10).Run(ctx, &Plan{Name: "x", Sources: []Source{src}})
	require.ErrorIs(t, err, stop)
	require.Len(t, res.Rounds, 2)
}

func TestJudge(t *testing.T) {
	most := Bound{Ratio: OfTimes, Limit: 1.012}
	least := Bound{Ratio: OfRates, Limit: 0.95}
	for _, c := range []struct {
		b    Bound
		v    stats.Interval
		want Verdict
	}{
		{most, estimate(1.010, 1.009, 1.012, 9), Met},
		{most, estimate(1.012, 1.010, 1.0121, 9), Undecided},
		{most, estimate(1.02, 1.0121, 1.021, 9), Missed},
		{most, estimate(1.00, 0.99, 1.01, 8), Undecided},
		{least, estimate(0.96, 0.95, 0.97, 9), Met},
		{least, estimate(0.94, 0.93, 0.949, 9), Missed},
		{least, estimate(0.95, 0.94, 0.96, 9), Undecided},
	} {
		got, why := c.b.judge(c.v, 0.03, 9)
		require.Equal(t, c.want, got, "%v %v", c.b, c.v)
		require.Equal(t, got == Undecided, why != "")
	}
}

// A bound without a pair is in the result, with the reason; ratios for information without one are
// not.
func TestBoundsWithoutPairs(t *testing.T) {
	m := newMachine()
	m.distance = 0.25e-6 // slow
	broken := Source{Name: "mpich", Sample: func(context.Context) (float64, error) { return 0, errors.New("gone") }}
	p := &Plan{Name: "bw/65536", Precision: 0.03, Sources: []Source{m.source("banyan", 1), m.source("ucx", 3), broken},
		Bounds: []Bound{
			{ID: "seen", Over: "ucx", Ratio: OfTimes, Limit: 1},
			{ID: "near", Over: "ucx", Ratio: OfTimes, Limit: 1, OnlyNear: true},
			{ID: "broken", Over: "mpich", Ratio: OfRates, Limit: 1},
			{ID: "absent", Over: "openmpi", Ratio: OfRates, Limit: 1},
			{ID: "info", Over: "openmpi", Ratio: OfRates},
		}}
	res, err := m.runner(50).Run(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, res.Rounds, 9, "what cannot be decided holds up nothing")
	require.Len(t, res.Rows, 4)
	require.Equal(t, Met, res.Rows[0].Verdict)
	for i, want := range []struct {
		id, why  string
		distance Distance
	}{{"near", "0 of 9 pairs", Near}, {"broken", "0 of 9 pairs, it failed", ""}, {"absent", "not measured", ""}} {
		row := res.Rows[i+1]
		require.Equal(t, want.id, row.Bound.ID)
		require.Equal(t, Undecided, row.Verdict)
		require.Equal(t, want.why, row.Why)
		require.Equal(t, want.distance, row.Distance)
	}
	b, err := json.Marshal(res)
	require.NoError(t, err)
	require.Contains(t, string(b), `"ratio":{"median":null,"low":null,"high":null,"n":0}`)

	// Nothing kept at all: a script still finds lists.
	drift := 0.0
	r := m.runner(1)
	r.Measure = func(context.Context) (float64, error) { drift++; return drift, nil }
	res, err = r.Run(t.Context(), &Plan{Name: "x", Sources: p.Sources[:1]})
	require.NoError(t, err)
	b, err = json.Marshal([]any{res, newResult(p)})
	require.NoError(t, err)
	require.NotContains(t, string(b), `:null`)
}

// estimate is an interval with its median.
func estimate(median, low, high float64, n int) stats.Interval {
	return stats.Interval{Median: median, Low: low, High: high, N: n}
}
