package osu

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
)

// On a slow network each size has the iterations that fit, and sizes of which not one fits are left
// out, on all ranks. Virtual time is exact enough for limits.
func TestSweepsEndInTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks int
	}{{"latency", 2}, {"bw", 2}, {"bibw", 2}, {"mbw_mr", 4}, {"bcast", 3}, {"allreduce", 3}} {
		b := Find(c.name)
		o := small(b)
		o.Min, o.Max = 4, 1<<20
		o.Iterations, o.Warmup, o.IterationsLarge, o.WarmupLarge = 100, 5, 100, 5
		all := points(t, c.name, c.ranks, o)
		o.MaxTime = 20 * time.Microsecond
		var got []Point
		var cuts []int // one goroutine runs at a time
		inSim(t, c.ranks, func(w *banyan.World) error {
			err := b.Run(w, o, func(p Point) error { got = append(got, p); return nil })
			var cut *CutError
			require.ErrorAs(t, err, &cut, c.name)
			require.Contains(t, err.Error(), "--max-time")
			cuts = append(cuts, cut.Size)
			return w.Comm().Barrier()
		})
		require.Equal(t, slices.Repeat([]int{next(got[len(got)-1].Size)}, c.ranks), cuts, c.name)
		require.Less(t, len(got), len(all), c.name)
		require.Equal(t, all[0].Size, got[0].Size)
		for _, p := range got {
			require.Positive(t, p.Iterations)
			require.LessOrEqual(t, p.Iterations, 100)
		}
		require.Less(t, got[len(got)-1].Iterations, 100, c.name)
		o.MaxTime = time.Hour
		for _, p := range points(t, c.name, c.ranks, o) {
			require.Equal(t, 100, p.Iterations)
		}
	}
}

// When the time of the sweep is over, those that measure agree on its end without the others.
func TestBudgetOfSomeRanks(t *testing.T) {
	for name, pairs := range map[string]int{"mbw_mr": 1, "multi_lat": 2, "bw_fan_in": 0, "bcast": 0} {
		o := small(Find(name))
		o.Pairs, o.Budget = pairs, budget.Start(1)
		inSim(t, 5, func(w *banyan.World) error {
			err := Find(name).Run(w, o, func(Point) error { return nil })
			if pairs == 0 || w.Comm().Rank() < 2*pairs {
				var cut *CutError
				require.ErrorAs(t, err, &cut, name)
				require.Equal(t, 1, cut.Budget.Done, name)
			} else {
				require.NoError(t, err)
			}
			return w.Comm().Barrier()
		})
	}
}

func TestFitting(t *testing.T) {
	require.Equal(t, 10, fitting(10, 0, time.Second), "not known")
	require.Equal(t, 10, fitting(10, 100*time.Millisecond, time.Second))
	require.Equal(t, 4, fitting(10, 250*time.Millisecond, time.Second))
	require.Equal(t, 1, fitting(10, time.Minute, time.Second))
}
