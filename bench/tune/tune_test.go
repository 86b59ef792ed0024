package tune

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/settings"
)

// times gives a row whose ratio is known within a percent.
func times(ratio float64, distance Distance) Row {
	return Row{Distance: distance, Ratio: ratio, Low: ratio - .01, High: ratio + .01, Pairs: 9}
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		v    Row
		want Outcome
	}{
		{Row{Ratio: .9, Low: .88, High: .95}, Better},
		{Row{Ratio: .9, Low: .88, High: 1.01}, Same}, // holds equality
		{Row{Ratio: .98, Low: .97, High: .99}, Same}, // too little
		{Row{Ratio: 1.1, Low: 1.05, High: 1.2}, Worse},
		{Row{Ratio: 1.1, Low: .99, High: 1.2}, Same},
		{Row{Ratio: .5, Low: 0}, Unseen}, // no interval
	} {
		require.Equal(t, c.want, c.v.Outcome(), "%+v", c.v)
	}
}

func TestCombine(t *testing.T) {
	for _, c := range []struct {
		rows []Row
		want Outcome
	}{
		{nil, Unseen},
		{[]Row{times(.9, Near), times(1, Near)}, Better},
		{[]Row{times(.9, Near), times(1.1, Near)}, Same}, // they contradict each other
		{[]Row{times(1.1, Near), times(1, Near)}, Worse},
		{[]Row{times(1, Near)}, Same},
		{[]Row{times(.5, Far)}, Unseen}, // not the distance in question
	} {
		require.Equal(t, c.want, combine(c.rows, []Distance{Near}), "%v", c.rows)
	}
}

func TestCrossing(t *testing.T) {
	sizes := []int{2, 4, 8, 16, 32}
	for _, c := range []struct {
		name         string
		ratios       []float64 // eager over announced
		limit        int
		moved, where int
	}{
		{"crosses at the limit", []float64{.5, .6, .8, 1.3, 2}, 8, 8, 0},
		{"eager is better further up", []float64{.5, .6, .8, .8, 2}, 8, 16, 16},
		{"to the top", []float64{.5, .6, .8, .9, .7}, 8, 32, 32},
		{"eager is worse at the limit", []float64{.5, .6, 1.2, 1.3, 2}, 8, 4, 8},
		{"worse all the way", []float64{1.5, 1.6, 1.2, 1.3, 2}, 8, 1, 4},
		{"no difference at the limit", []float64{2, 2, 1, 2, 2}, 8, 8, 0},
		{"a gap ends the way up", []float64{.5, .6, .8, 1, .5}, 8, 8, 0},
		{"the limit is no size", []float64{.5, 1.3, 1.4, 1.5, 2}, 6, 2, 4},
	} {
		rows := map[int][]Row{}
		for i, r := range c.ratios {
			rows[sizes[i]] = []Row{times(r, Near), times(1/r, Far)}
		}
		moved, where := crossing(sizes, rows, []Distance{Near}, c.limit)
		require.Equal(t, c.moved, moved, c.name)
		require.Equal(t, c.where, where, c.name)
	}
}

// ideal is a machine whose costs are known: the time of a size with settings, near and far.
type ideal struct {
	distance Distance
	eager    func(size int) float64 // announced takes 1 for each byte
	ring     map[int]float64        // factor by shm.ring.bytes
	bursts   float64                // factor of bursts with another ring
	luck     float64                // makes the new faster unless processes are fresh
	trials   []Trial
}

func (m *ideal) time(v Values, job Job) float64 {
	size := job.Size
	limit, fixed := v[settings.Eager]
	if !fixed {
		limit = settings.Of(settings.EagerNear).Default
		if l, ok := v[settings.EagerNear]; ok {
			limit = l
		}
		if m.distance == Far {
			far := settings.Of(settings.EagerFar).Default
			if l, ok := v[settings.EagerFar]; ok {
				far = l
			}
			limit = min(limit, far)
		}
	}
	cost := 1.0
	if size <= limit {
		cost = m.eager(size)
	}
	if b, ok := v[settings.RingBytes]; ok && m.ring[b] > 0 {
		cost *= m.ring[b]
		if job.Window == burst && m.bursts > 0 {
			cost *= m.bursts
		}
	}
	return cost
}

func (m *ideal) measure(_ context.Context, t Trial) ([]Row, error) {
	m.trials = append(m.trials, t)
	ratio := m.time(t.New, t.Job) / m.time(t.Old, t.Job)
	if m.luck > 0 && !t.Confirms {
		ratio *= m.luck
	}
	return []Row{times(ratio, m.distance)}, nil
}

// crossesAt is a machine on which eager is better by a third up to a size.
func crossesAt(limit int) func(int) float64 {
	return func(size int) float64 {
		if size <= limit {
			return .7
		}
		return 1.4
	}
}

func run(t *testing.T, m *ideal, quick bool) map[settings.ID]Finding {
	t.Helper()
	tuner := Tuner{Measure: m.measure, Quick: quick}
	shown := 0
	tuner.Progress = func(tried Tried) {
		if !tried.Confirms {
			shown++
		}
	}
	found, err := tuner.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, tuner.Trials(), shown)
	out := map[settings.ID]Finding{}
	for i, f := range found {
		require.Equal(t, tuner.Knobs()[i], f.Knob)
		require.NoError(t, settings.Of(f.Knob).Check(f.Value))
		require.NotEmpty(t, f.Why)
		out[f.Knob] = f
	}
	return out
}

// On machines whose best settings are known they are found, in the distance that the machine is in;
// the limit of the other distance stays.
func TestFindsTheBest(t *testing.T) {
	for _, c := range []struct {
		name      string
		machine   ideal
		quick     bool
		near, far int
		bytes     int
	}{
		{"crosses at 16k", ideal{distance: Near, eager: crossesAt(16 << 10)}, false, 16 << 10, 6 << 10, 256 << 10},
		{"crosses at 32k", ideal{distance: Near, eager: crossesAt(32 << 10)}, false, 32 << 10, 6 << 10, 256 << 10},
		{"crosses at 5k", ideal{distance: Near, eager: crossesAt(5 << 10)}, false, 4 << 10, 6 << 10, 256 << 10},
		{"crosses at 5k, quick", ideal{distance: Near, eager: crossesAt(5 << 10)}, true, 4 << 10, 6 << 10, 256 << 10},
		{"far, crosses at 12k", ideal{distance: Far, eager: crossesAt(12 << 10)}, false, 16 << 10, 12 << 10,
			256 << 10},
		{"far, never better", ideal{distance: Far, eager: crossesAt(0)}, false, 16 << 10, 1 << 10, 256 << 10},
		{"far, beyond the near limit", ideal{distance: Far, eager: crossesAt(48 << 10)}, false, 16 << 10, 16 << 10,
			256 << 10},
		{"a larger ring", ideal{distance: Near, eager: crossesAt(16 << 10),
			ring: map[int]float64{512 << 10: .9, 1 << 20: .8}}, false, 16 << 10, 6 << 10, 1 << 20},
		{"a smaller ring", ideal{distance: Near, eager: crossesAt(16 << 10), ring: map[int]float64{128 << 10: .9}},
			false, 16 << 10, 6 << 10, 128 << 10},
		{"a smaller ring, bad for bursts", ideal{distance: Near, eager: crossesAt(16 << 10),
			ring: map[int]float64{128 << 10: .9}, bursts: 1.3}, false, 16 << 10, 6 << 10, 256 << 10},
		{"not worth it", ideal{distance: Near, eager: crossesAt(16 << 10), ring: map[int]float64{512 << 10: .98}},
			false, 16 << 10, 6 << 10, 256 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := run(t, &c.machine, c.quick)
			require.Equal(t, c.near, found[settings.EagerNear].Value, found[settings.EagerNear].Why)
			require.Equal(t, c.far, found[settings.EagerFar].Value, found[settings.EagerFar].Why)
			require.Equal(t, c.bytes, found[settings.RingBytes].Value, found[settings.RingBytes].Why)
		})
	}
}

// A result by chance is not confirmed, and the default stays.
func TestLuckIsNotConfirmed(t *testing.T) {
	m := &ideal{distance: Near, eager: func(int) float64 { return 1 }, luck: .8}
	for _, f := range run(t, m, false) {
		require.False(t, f.Changed(), f.Why)
		require.Contains(t, f.Why, "default kept")
	}
	confirmed := 0
	for _, trial := range m.trials {
		if trial.Confirms {
			confirmed++
		}
	}
	require.Positive(t, confirmed)
}

// A confirmation compares the settings that a program would have: the far limit beside the near one
// that has been decided.
func TestConfirmsBesideWhatIsDecided(t *testing.T) {
	m := &ideal{distance: Far, eager: crossesAt(12 << 10)}
	run(t, m, false)
	for _, trial := range m.trials {
		if trial.Confirms {
			require.Equal(t, Values{settings.EagerNear: 16 << 10, settings.EagerFar: 12 << 10}, trial.New)
			require.Equal(t, Values{settings.EagerNear: 16 << 10}, trial.Old)
		}
	}
}

func TestErrorsEndTheRun(t *testing.T) {
	broken := errors.New("broken")
	for at := range 20 {
		n := 0
		tuner := Tuner{Measure: func(context.Context, Trial) ([]Row, error) {
			if n++; n > at {
				return nil, broken
			}
			return []Row{times(.5, Near)}, nil
		}}
		_, err := tuner.Run(t.Context())
		require.ErrorIs(t, err, broken)
		require.Equal(t, at+1, n)
	}
}
