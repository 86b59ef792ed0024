package osu

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Each non-blocking collective moves the right bytes, and its parts add up. In virtual time a computation takes as
// long as the communication alone.
func TestOverlap(t *testing.T) {
	seen := 0
	for _, b := range All {
		if b.op.start == nil {
			continue
		}
		seen++
		for _, tests := range []int{0, 7} {
			o := small(b)
			o.Max, o.Validate, o.Percentiles, o.Tests = 8, true, []int{0, 100}, tests
			got := points(t, b.Name, 5, o)
			require.Len(t, got, b.Rows(o))
			for _, p := range got {
				v := p.Overlap
				require.Zero(t, p.Errors, b.Name)
				require.InDelta(t, v.Overall, v.Start+v.Compute+v.Test+v.Wait, 1e-9, b.Name)
				require.InDelta(t, p.Seconds, v.Compute, 1e-8, "%s: rounded to tests", b.Name)
				require.Equal(t, tests > 0, v.Test > 0, b.Name)
				require.GreaterOrEqual(t, v.Percent, 0.0)
				require.LessOrEqual(t, v.Percent, 100.0)
				require.InDelta(t, max(0, 100*(p.Seconds-v.Overall+v.Compute)/p.Seconds), v.Percent, 1e-3, b.Name)
				require.GreaterOrEqual(t, 1.001*p.Percentiles[1], v.Overall, "of calls beside a computation")
			}
		}
	}
	require.Equal(t, 20, seen)
}

// A message that comes during a computation is complete when it ends; tests advance an operation of several
// steps.
func TestComputationHidesCommunication(t *testing.T) {
	o := small(Find("ibcast"))
	o.Min, o.Max, o.Iterations = 4096, 4096, 200
	p := points(t, "ibcast", 2, o)[0]
	require.Greater(t, p.Overlap.Percent, 10.0)

	o = small(Find("iallreduce"))
	o.Min, o.Max, o.Iterations = 64, 64, 200
	without := points(t, "iallreduce", 16, o)[0]
	o.Tests = 50
	with := points(t, "iallreduce", 16, o)[0]
	require.Less(t, with.Overlap.Wait, without.Overlap.Wait)
}

// Calls have the clock in their times, as in OSU's programs: none takes less than nothing.
func TestCallsHaveTheClock(t *testing.T) {
	w, err := banyan.Init()
	require.NoError(t, err)
	g := newGroup(w, &Options{}, operation{call: func(*group, int) error { return nil }})
	kept := make([]time.Duration, 10_000)
	total, err := g.calls(0, len(kept), kept)
	require.NoError(t, err)
	require.Positive(t, total)
	require.GreaterOrEqual(t, slices.Min(kept), time.Duration(0))
	require.NoError(t, w.Finalize())
}

// The steps of the computation are counted, not timed: a computation that is interrupted is not
// shorter.
func TestComputer(t *testing.T) {
	inSim(t, 1, func(w *banyan.World) error {
		c := newComputer(w, 0)
		before := w.Now()
		c.run(time.Millisecond)
		require.Equal(t, time.Millisecond, w.Now()-before)
		return nil
	})
	c := &computer{rate: 0.5}
	c.run(10)
	require.Equal(t, 5, changed(c))
	c.run(-1)
	require.Equal(t, 5, changed(c))
}

func changed(c *computer) (n int) {
	for _, v := range c.numbers {
		if v != 0 {
			n++
		}
	}
	return n
}
