package rebalance

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

func TestRun(t *testing.T) {
	half, _ := of("50%")
	most, _ := of("98%")
	o := Options{
		Ranks: []int{2, 16, 3000}, Failures: []Failures{{}, half, most}, Kill: kill.Worst, PerNode: 4, Rounds: 3,
		Designs: []tree.Design{tree.Reroute, tree.Rebalance}, Shapes: []tree.Shape{tree.Binomial, tree.TwoLevel},
	}
	var got []Result
	require.NoError(t, Run(context.Background(), o, func(r Result) error {
		got = append(got, r)
		return nil
	}))
	require.Len(t, got, o.Cells())
	require.Len(t, got, 4*(2+3+3), "half of two and nearly all of two are the same")
	degrees := map[string]int{} // of 16 binomial ranks of which half have failed
	for _, r := range got {
		require.Equal(t, min(r.Ranks-r.Failures, sample+1), r.Measured)
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

func TestRunEnds(t *testing.T) {
	o := Options{
		Ranks: []int{64}, Failures: []Failures{{}}, Kill: kill.Best, PerNode: 1, Rounds: 1,
		Designs: []tree.Design{tree.Rebalance}, Shapes: []tree.Shape{tree.Binomial},
	}
	stop := errors.New("enough")
	require.ErrorIs(t, Run(context.Background(), o, func(Result) error { return stop }), stop)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Run(ctx, o, func(Result) error { return nil }), context.Canceled)
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"1 ranks: 2 to":      func(o *Options) { o.Ranks = []int{4, 1} },
		"nothing to measure": func(o *Options) { o.Shapes = nil },
		"0 ranks a node":     func(o *Options) { o.PerNode = 0 },
		"0 rounds":           func(o *Options) { o.Rounds = 0 },
		"[9] failures leave nobody of [4 8] ranks": func(o *Options) { o.Failures = []Failures{{n: 9}} },
	} {
		o := Options{
			Ranks: []int{4, 8}, Failures: []Failures{{}}, PerNode: 1, Rounds: 1,
			Designs: []tree.Design{tree.Rebalance}, Shapes: []tree.Shape{tree.Binomial},
		}
		require.NoError(t, o.Check())
		change(&o)
		require.ErrorContains(t, o.Check(), want)
	}
}
