package fault

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var recovery = Recovery{Ranks: 5, Rounds: 3, Calls: 4, Settle: time.Millisecond}

// Every operation is measured, with failures and without, and the ranks that were to die have.
func TestRecovery(t *testing.T) {
	for _, op := range []Op{Agree, Shrink, Revoke} {
		for _, failures := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d failed", op, failures), func(t *testing.T) {
				o := recovery
				o.Op, o.Failures = op, failures
				var rest bytes.Buffer
				steps := 0
				r, err := o.Measure(t.Context(), processes("recovery", op, failures), &rest, func() { steps++ })
				require.NoError(t, err)
				require.Equal(t, o, r.Options)
				require.Equal(t, o.Rounds, steps)
				require.Len(t, r.Ratios, o.Rounds)
				require.Len(t, r.Times, o.Rounds)
				living := o.Ranks - failures
				calls := o.Rounds * o.Calls * living
				require.Equal(t, calls, r.Baseline.Count)
				if op == Revoke {
					calls = o.Rounds
				}
				require.Equal(t, calls, r.Calls.Count)
				require.Positive(t, r.Calls.Min)
				require.LessOrEqual(t, r.Calls.P50, r.Calls.Max)
				for i, ratio := range r.Ratios {
					require.InEpsilon(t, float64(r.Times[i])/float64(r.BaselineTimes[i]), ratio, 1e-9)
				}
				require.GreaterOrEqual(t, bytes.Count(rest.Bytes(), []byte(greeting)), living)
			})
		}
	}
}

// The error names a failed rank.
func TestRecoveryRankFails(t *testing.T) {
	o := recovery
	o.Op = "no such thing"
	_, err := o.Measure(t.Context(), nil, io.Discard, nil)
	require.ErrorContains(t, err, "agree, shrink or revoke")
	bad := o
	bad.Op = Agree
	_, err = bad.Measure(t.Context(), processes("recovery", "nothing", 0), io.Discard, nil)
	require.ErrorContains(t, err, "exited with code 3")
	_, err = bad.Measure(t.Context(), silentJob(nil), io.Discard, nil)
	require.ErrorContains(t, err, "without a result")
}

func TestRecoveryCheck(t *testing.T) {
	good := Recovery{Op: Agree, Ranks: 2, Rounds: 1, Calls: 1}
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*Recovery){
		"-n 1":         func(o *Recovery) { o.Ranks = 1 },
		"--failures 1": func(o *Recovery) { o.Failures = 1 },
		"--rounds 0":   func(o *Recovery) { o.Rounds = 0 },
		"--calls 0":    func(o *Recovery) { o.Calls = 0 },
		"--settle":     func(o *Recovery) { o.Settle = -1 },
		"fault sing":   func(o *Recovery) { o.Op = "sing" },
	} {
		o := good
		spoil(&o)
		require.ErrorContains(t, o.Check(), name)
	}
}

// A table of revocations describes how the others wait.
func TestWaiting(t *testing.T) {
	require.Empty(t, Recovery{Op: Agree, Settle: time.Second}.Waiting())
	require.Contains(t, Recovery{Op: Revoke, Settle: 200 * time.Microsecond}.Waiting(), "polling")
	require.Contains(t, Recovery{Op: Revoke, Settle: 5 * time.Millisecond}.Waiting(), "asleep")
}

// grows checks a job's agreements: without failures 2(n-1) messages and a time that follows the logarithm of the number
// of ranks; after agreed failures the same of the survivors.
func grows(t *testing.T, ranks, failures int) {
	t.Helper()
	points, err := SimulateAgree(ranks, failures, 7)
	require.NoError(t, err)
	// A step up or down takes a latency at most across, and a parent some more for each child.
	steps := bits.Len(uint(ranks - 1))
	most := time.Duration(2*steps) * 2 * time.Microsecond
	for _, p := range points {
		t.Logf("%+v", p)
		switch p.What {
		case FirstAgree, ConnectedAgree, RecoveredAgree:
			require.Equal(t, 2*(ranks-p.Failed-1), p.Messages, p.What)
		case StrickenAgree: // some contribute once more
			require.GreaterOrEqual(t, p.Messages, 2*(ranks-p.Failed-1))
			require.Less(t, p.Messages, 3*ranks)
		}
		if p.What == ConnectedAgree || p.What == RecoveredAgree {
			require.Less(t, p.Time, most, p.What)
			require.Positive(t, p.Time)
		}
	}
}

// At 1024 ranks, and at 10^5 where there is time, an agreement takes as many messages and steps as two collectives.
func TestSimulatedAgreeScale(t *testing.T) {
	for _, ranks := range []int{16, 128, 1024} {
		grows(t, ranks, 0)
		grows(t, ranks, ranks/16)
	}
	if os.Getenv("BANYAN_LONG") != "" {
		grows(t, 100_000, 0)
	}
}

// Jobs of like sizes lose the same places of the tree, whether or not their size is a power of two: the first agreement
// after the deaths finds some of them, and detection takes at least 20 µs.
func TestSameDeathsAtAllSizes(t *testing.T) {
	require.Equal(t, []int{0, 256, 512, 768}, Recovery{Ranks: 1024, Failures: 4}.victims())
	require.Equal(t, []int{0, 128, 256, 384}, Recovery{Ranks: 1000, Failures: 4}.victims())
	require.Equal(t, []int{0, 1, 2}, Recovery{Ranks: 5, Failures: 3}.victims())
	require.Empty(t, Recovery{Ranks: 8}.victims())
	for _, ranks := range []int{128, 100} {
		points, err := SimulateAgree(ranks, 4, 7)
		require.NoError(t, err)
		require.Greater(t, points[2].Time, points[3].Time+20*time.Microsecond, "%d ranks: %+v", ranks, points)
	}
}
