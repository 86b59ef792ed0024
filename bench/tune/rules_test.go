package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/coll/choose"
)

// measured is a point of an operation where these algorithms take so much of the default's time.
func measured(op choose.Op, bytes int, usual string, ratios map[string]float64) CollectivePoint {
	p := CollectivePoint{Op: op, Name: op.String(), Size: bytes, Bytes: bytes, Default: usual, Chosen: usual}
	least := 1.0
	for by, ratio := range ratios {
		way := Way{Algorithm: by, Seconds: ratio * 1e-6, Ratio: ratio, Low: ratio - .01, High: ratio + .01}
		if by == usual {
			way.Low, way.High = 1, 1
		}
		if p.Ways = append(p.Ways, way); way.better() && ratio < least {
			least, p.Chosen = ratio, by
		}
	}
	return p
}

// Rules contain the algorithms that are faster than the default, for the lengths at which they are, and a
// table of them chooses so.
func TestRulesOfPoints(t *testing.T) {
	type ratios = map[string]float64
	at := choose.Rule{Ranks: choose.Range{From: 4, To: 4}, PerNode: choose.All, Span: choose.OneNode, Cores: choose.SharedCores}
	for _, c := range []struct {
		name   string
		points []CollectivePoint
		want   []string
	}{
		{"the defaults", []CollectivePoint{
			measured(choose.Barrier, 0, "memory", ratios{"memory": 1, "binomial": 1.4}),
			measured(choose.Bcast, 8, "memory", ratios{"memory": 1, "straight": .99}),
		}, nil},
		{"another barrier", []CollectivePoint{measured(choose.Barrier, 0, "memory", ratios{"memory": 1, "binomial": .7})},
			[]string{"barrier 4 all shared * binomial"}},
		{"a run of lengths, and the longest", []CollectivePoint{
			measured(choose.Bcast, 8, "memory", ratios{"memory": 1, "chain": 3}),
			measured(choose.Bcast, 64, "straight", ratios{"straight": 1, "chain": .9, "binomial": .8}),
			measured(choose.Bcast, 512, "straight", ratios{"straight": 1, "chain": .9, "binomial": .7}),
			measured(choose.Bcast, 4096, "straight", ratios{"straight": 1, "chain": 1.2, "binomial": 1.1}),
			measured(choose.Bcast, 32768, "straight", ratios{"straight": 1, "chain": .6}),
		}, []string{"bcast 4 all shared 64..4095 binomial", "bcast 4 all shared 32k.. chain"}},
		{"memory for fewer bytes", []CollectivePoint{
			measured(choose.Alltoall, 8, "memory", ratios{"memory": 1, "straight": 3}),
			measured(choose.Alltoall, 64, "memory", ratios{"memory": 1, "straight": .8}),
			measured(choose.Alltoall, 512, "straight", ratios{"straight": 1}),
		}, []string{"alltoall 4 all shared ..63 memory", "alltoall 4 all shared * straight"}},
		{"one way for all lengths", []CollectivePoint{
			measured(choose.Gather, 8, "straight", ratios{"straight": 1, "binomial": .8}),
			measured(choose.Gather, 64, "straight", ratios{"straight": 1, "binomial": 1.01}),
		}, []string{"gather 4 all shared * binomial"}},
		{"not where it is worse elsewhere", []CollectivePoint{
			measured(choose.Gather, 8, "straight", ratios{"straight": 1, "binomial": .8}),
			measured(choose.Gather, 64, "straight", ratios{"straight": 1, "binomial": 1.3}),
		}, nil},
	} {
		rules := Rules(at, c.points)
		var got []string
		for _, f := range rules {
			got = append(got, strings.Join(strings.Fields(f.Rule.String()), " "))
		}
		require.Equal(t, c.want, got, c.name)
		table, err := choose.Parse("t", TableText([]string{"a comment"}, rules))
		require.NoError(t, err, c.name)
		place := choose.Place{Ranks: 4, OneNode: true, PerNode: 4, Crowded: true}
		for _, p := range c.points {
			m := table.Menu(p.Op, place)
			by := m.At(p.Bytes).String()
			if p.Bytes <= m.Memory && shared(p.Default) {
				by = "memory"
			}
			if len(c.want) > 0 && p.Op.Switches() {
				require.Equal(t, p.Chosen, by, "%s: %v of %d bytes", c.name, p.Op, p.Bytes)
			}
		}
	}
}

// A picture has a line for each algorithm of each operation with sizes, and the choice.
func TestCollectiveCharts(t *testing.T) {
	charts := CollectiveCharts(4, []CollectivePoint{
		measured(choose.Barrier, 0, "memory", map[string]float64{"memory": 1}),
		measured(choose.Bcast, 8, "memory", map[string]float64{"memory": 1, "chain": 2}),
		measured(choose.Bcast, 64, "straight", map[string]float64{"straight": 1, "chain": .5}),
	})
	require.Len(t, charts, 1)
	require.Equal(t, "bcast, 4 ranks", charts[0].Title)
	points := map[string]string{}
	for _, s := range charts[0].Series {
		points[s.Name] = fmt.Sprint(s.Points)
	}
	require.Equal(t, map[string]string{
		"memory": "[{8 1 0 0}]", "chain": "[{8 2 0 0} {64 0.5 0 0}]", "straight": "[{64 1 0 0}]",
		"chosen": "[{8 1 0 0} {64 0.5 0 0}]",
	}, points)
}

// An algorithm that wins by chance is not confirmed, on other communicators, and the default stays.
func TestAlgorithmsAreConfirmed(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		require.NoError(t, banyan.Simulate(4, banyan.Simulation{}, func(w *banyan.World) error {
			m := &measuring{w: w, o: &CollectiveOptions{}, op: choose.Allreduce}
			require.NoError(t, m.open())
			var fits [][]forced
			m.times = func(_ *osu.Trial, fit []forced) (times [][]float64, err error) {
				fits = append(fits, fit)
				for i := range fit {
					each := 2.0
					if i == len(fit)-1 && (len(fits) == 1 || confirmed) {
						each = float64(len(fits)) / 2
					}
					times = append(times, slices.Repeat([]float64{each}, 6))
				}
				return times, nil
			}
			p, err := m.point(osu.Find("allreduce"), 1<<20)
			require.NoError(t, err)
			require.Len(t, fits, 2)
			fastest := fits[0][len(fits[0])-1]
			require.NotEqual(t, p.Default, fastest.by)
			require.Equal(t, []string{p.Default, fastest.by}, []string{fits[1][0].by, fits[1][1].by})
			require.NotSame(t, fastest.c, fits[1][1].c)
			if confirmed {
				require.Equal(t, fastest.by, p.Chosen)
				require.InDelta(t, 0.5, p.Way(p.Chosen).Ratio, 1e-9)
			} else {
				require.Equal(t, p.Default, p.Chosen)
				require.InDelta(t, 1, p.Way(fastest.by).Ratio, 1e-9)
			}
			return m.free()
		}))
	}
}

// Too few rounds, or a time that is lost in noise, keep the default.
func TestJudge(t *testing.T) {
	fit := []forced{{by: "memory"}, {by: "chain"}}
	for _, c := range []struct {
		times [][]float64
		want  string
	}{
		{[][]float64{{2, 2, 2}, {1, 1, 1}}, "memory"},
		{[][]float64{{2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}}, "chain"},
		{[][]float64{{2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 3}}, "memory"},
	} {
		p := CollectivePoint{Default: "memory", Chosen: "memory"}
		p.judge(fit, c.times)
		require.Equal(t, c.want, p.Chosen)
		require.Len(t, p.Ways, 2)
	}
	require.True(t, math.IsNaN((&CollectivePoint{}).Way("ring").Ratio))
}
