package fault

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

func of(text string) (f Failures, err error) {
	err = f.UnmarshalText([]byte(text))
	return f, err
}

func TestFailures(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "896": 896, "87.5%": 896, "50%": 512, "98%": 1004, "99.99%": 1023, "0%": 0} {
		f, err := of(text)
		require.NoError(t, err)
		require.Equal(t, want, f.Of(1024), text)
		require.Equal(t, text, f.String())
	}
	for _, wrong := range []string{"-1", "100%", "half", "-2%", "nan%", ""} {
		_, err := of(wrong)
		require.ErrorContains(t, err, "want a number of ranks, as 896, or a share of less than all, as 87.5%")
	}
}

func TestPlanning(t *testing.T) {
	half, _ := of("50%")
	most, _ := of("98%")
	o := Planning{
		Ranks: []int{2, 16, 3000}, Failures: []Failures{{}, half, most}, Kill: kill.Worst, PerNode: 4, Rounds: 3,
		Designs: []tree.Design{tree.Reroute, tree.Rebalance}, Shapes: []tree.Shape{tree.Binomial, tree.TwoLevel},
	}
	var got []Plan
	require.NoError(t, o.Measure(context.Background(), func(r Plan) error {
		got = append(got, r)
		return nil
	}))
	require.Len(t, got, o.Cells())
	require.Len(t, got, 4*(2+3+3), "half of two and nearly all of two are the same")
	degrees := map[string]int{} // of 16 binomial ranks of which half have failed
	for _, r := range got {
		require.Equal(t, min(r.Ranks-r.Failures, sampledRanks+1), r.Measured)
		require.Positive(t, r.MinNs)
		require.Positive(t, r.First)
		require.LessOrEqual(t, r.MinNs, r.MeanNs)
		require.LessOrEqual(t, r.MeanNs, r.MaxNs)
		if r.Ranks == 16 && r.Failures == 8 && r.Shape == "binomial" {
			degrees[r.Design] = r.Degree
		}
	}
	require.Equal(t, map[string]int{"reroute": 7, "rebalance": 3}, degrees)
}

func TestPlanningEnds(t *testing.T) {
	o := Planning{
		Ranks: []int{64}, Failures: []Failures{{}}, Kill: kill.Best, PerNode: 1, Rounds: 1,
		Designs: []tree.Design{tree.Rebalance}, Shapes: []tree.Shape{tree.Binomial},
	}
	stop := errors.New("enough")
	require.ErrorIs(t, o.Measure(context.Background(), func(Plan) error { return stop }), stop)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, o.Measure(ctx, func(Plan) error { return nil }), context.Canceled)
}

func TestPlanningCheck(t *testing.T) {
	for want, change := range map[string]func(*Planning){
		"1 ranks: 2 to":      func(o *Planning) { o.Ranks = []int{4, 1} },
		"nothing to measure": func(o *Planning) { o.Shapes = nil },
		"0 ranks a node":     func(o *Planning) { o.PerNode = 0 },
		"0 rounds":           func(o *Planning) { o.Rounds = 0 },
		"[9] failures leave no survivor of [4 8] ranks": func(o *Planning) { o.Failures = []Failures{{n: 9}} },
	} {
		o := Planning{
			Ranks: []int{4, 8}, Failures: []Failures{{}}, PerNode: 1, Rounds: 1,
			Designs: []tree.Design{tree.Rebalance}, Shapes: []tree.Shape{tree.Binomial},
		}
		require.NoError(t, o.Check())
		change(&o)
		require.ErrorContains(t, o.Check(), want)
	}
}

// Plans are compared with the paper where it has a mean: in the worst order.
func TestJudgePlans(t *testing.T) {
	p := Plan{Design: "rebalance", Shape: "binomial", Ranks: 1024, Failures: 896, MeanNs: 1500}
	other := p
	other.Design = "reroute"
	require.Equal(t, []PlanBound{{896, 1.5, 50.9, 1, false}}, JudgePlans([]Plan{p, other}, kill.Worst))
	require.Empty(t, JudgePlans([]Plan{p}, kill.Best))
}
