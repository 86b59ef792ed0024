package compare

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// With Seek a measure goes on until near and far cores are decided, or its limits are reached; ratios of near cores
// alone, and those for information, seek nothing.
func TestSeek(t *testing.T) {
	for _, c := range []struct {
		bound  Bound
		moves  bool // the cores are far from the 13th sample on
		rounds int
	}{
		{Bound{Over: "ucx", Ratio: OfTimes, Limit: 0.9}, true, 16},
		{Bound{Over: "ucx", Ratio: OfTimes, Limit: 0.9}, false, 40},
		{Bound{Over: "ucx", Ratio: OfTimes, Limit: 0.9, OnlyNear: true}, false, 9},
		{Bound{Over: "ucx", Ratio: OfTimes}, false, 9},
	} {
		m := newMachine()
		ucx := m.source("ucx", 1.5)
		plain, n := ucx.Sample, 0
		ucx.Sample = func(ctx context.Context) (float64, error) {
			if n++; n == 7 && c.moves {
				m.distance = 0.32e-6
			}
			return plain(ctx)
		}
		r := m.runner(40)
		r.Limits.Seek = true
		p := &Plan{Name: "x", Precision: 0.03, Sources: []Source{m.source("banyan", 1), ucx}, Bounds: []Bound{c.bound}}
		res, err := r.Run(t.Context(), p)
		require.NoError(t, err)
		if c.moves {
			require.Equal(t, []Distance{Near, Far}, []Distance{res.Rows[0].Distance, res.Rows[1].Distance})
			require.GreaterOrEqual(t, res.Rows[0].Ratio.N, 5)
		}
		require.GreaterOrEqual(t, len(res.Rounds), c.rounds)
		require.True(t, c.rounds > 9 || len(res.Rounds) == 9, "%d rounds", len(res.Rounds))
	}
}

// The longest call of the pairs of a distance is beside their times.
func TestLongestCalls(t *testing.T) {
	m := newMachine()
	s := testSweep(m)
	for i := range s.Parts {
		for k := range s.Parts[i].Sources {
			src, calls := &s.Parts[i].Sources[k], 0
			if src.Name == "b" {
				continue // without a distance
			}
			src.Longest = func() []float64 {
				calls++
				longest := make([]float64, len(s.Parts[i].Points))
				for at := range longest {
					longest[at] = 1e-3 * float64(at+k+1)
				}
				if calls == 3 {
					longest[0] *= 100
				}
				return longest
			}
		}
	}
	c, err := m.runner(9).Sweep(t.Context(), s)
	require.NoError(t, err)
	row := c.Points[0].Rows[0]
	require.InDeltaSlice(t, []float64{0.1, 0.2}, []float64{row.SubjectLongest, row.OtherLongest}, 1e-9)
	require.InDelta(t, 2e-3, c.Points[1].Rows[0].SubjectLongest, 1e-9)
	require.Zero(t, c.Points[0].Rows[1].OtherLongest)
	require.InDelta(t, 1e-3, c.Points[0].Rounds[0].Samples[0].Longest, 1e-9)
	var text strings.Builder
	require.NoError(t, WriteCurve(&text, c))
	require.Regexp(t, `ours µs +longest +a µs +longest +ratio +95 % interval`, text.String())
	require.Regexp(t, `(?m)^ *R +1 +near +9 +[\d.]+ +1e\+05 +[\d.]+ +2e\+05 `, text.String())
}
