package collective

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/ranks"
	"github.com/banyan-hpc/banyan/bench/ranks/rankstest"
)

// tested are options that the tests change.
func tested(op Op, failures int) Options {
	return Options{
		Op: op, Ranks: 6, Failures: failures, Kill: kill.Worst, Sets: 2, Calls: 3, Size: 24,
		Designs: []string{"reroute", "lookup", "rebalance"}, Trees: []string{"binomial", "chain"},
	}
}

func TestMain(m *testing.M) {
	rankstest.Main(m.Run, func(role string, w *banyan.World) error {
		var op Op
		var failures int
		var unknown bool
		if _, err := fmt.Sscan(role, &op, &failures, &unknown); err != nil {
			return err
		}
		if unknown {
			return RankUnknown(w, tested(op, failures), 1, os.Stdout)
		}
		return Rank(w, tested(op, failures), os.Stdout)
	})
}

// job starts ranks that measure that; with unknown some die during operations.
func job(o Options, unknown bool) ranks.Start {
	return rankstest.Job(fmt.Sprint(o.Op, " ", o.Failures, " ", unknown))
}

// complete checks that a result has all that was asked for.
func complete(t *testing.T, o Options, r *Result) {
	t.Helper()
	require.Equal(t, o, r.Options)
	var got []Line
	for _, l := range r.Lines {
		got = append(got, l.Line)
		require.Len(t, l.Sets, o.Sets)
		for _, ns := range l.Sets {
			require.Positive(t, ns)
		}
		against := r.Against(l.Line)
		require.True(t, against.Baseline())
		require.Equal(t, l.Tree, against.Tree)
	}
	require.Equal(t, o.Lines(), got)
}

// A job of real ranks, some of whom die, is measured.
func TestMeasure(t *testing.T) {
	for _, op := range Ops {
		failures := len(op) % 2 * 3 // 0 or 3
		t.Run(fmt.Sprintf("%s, %d failed", op, failures), func(t *testing.T) {
			o := tested(op, failures)
			var rest bytes.Buffer
			steps := 0
			r, err := Measure(t.Context(), o, job(o, false), &rest, func() { steps++ })
			require.NoError(t, err)
			require.Equal(t, o.Sets, steps)
			complete(t, o, r)
			require.GreaterOrEqual(t, bytes.Count(rest.Bytes(), []byte("some rank says hello\n")), o.Ranks-failures)
		})
	}
}

// simulated measures in virtual time.
func simulated(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Measure(t.Context(), o, Simulated(o, 7, nil), io.Discard, nil)
	require.NoError(t, err)
	complete(t, o, r)
	return r
}

// Every operation gives the right data in every design, on every tree, whoever dies, with one root and with all in turn.
func TestSimulated(t *testing.T) {
	for _, op := range Ops {
		for _, order := range kill.Orders() {
			for _, failures := range []int{0, 5} {
				o := tested(op, failures)
				o.Ranks, o.Kill, o.Calls, o.Rotate = 13, order, 11, op.Rooted()
				o.Trees = []string{"binomial", "knomial:3"}
				simulated(t, o)
			}
		}
	}
}

// In virtual time the balanced design takes what the baseline takes, and the ones with the root as everybody's parent take longer.
func TestSimulatedTimes(t *testing.T) {
	o := tested(Barrier, 16)
	o.Ranks, o.Trees, o.Calls = 64, []string{"binomial"}, 20
	r := simulated(t, o)
	mean := make(map[string]float64)
	for _, l := range r.Lines {
		mean[l.Design] = l.Sets[1]
	}
	require.InEpsilon(t, mean["unaware"], mean["rebalance"], 0.01)
	require.Greater(t, mean["reroute"], 1.3*mean["rebalance"])
	require.Greater(t, mean["lookup"], 1.3*mean["rebalance"])
}

// A rank that fails is what the error tells, and a job without a result is one.
func TestRankFails(t *testing.T) {
	good := tested(Barrier, 0)
	_, err := Measure(t.Context(), good, job(tested("nothing", 0), false), io.Discard, nil)
	require.ErrorContains(t, err, "exited with code 3")
	require.ErrorContains(t, err, "fault nothing: no such operation")
	_, err = Measure(t.Context(), good, func(context.Context, int, func(int) bool, io.Writer) error { return nil }, io.Discard, nil)
	require.ErrorContains(t, err, "without a result")
}

func TestOptions(t *testing.T) {
	for want, spoil := range map[string]func(*Options){
		"-n 1 is not within":      func(o *Options) { o.Ranks, o.Failures = 1, 0 },
		"at most 4 may fail":      func(o *Options) { o.Failures = 5 },
		"--failures -1":           func(o *Options) { o.Failures = -1 },
		"--sets 0":                func(o *Options) { o.Sets = 0 },
		"--ops 0":                 func(o *Options) { o.Calls = 0 },
		"--size -8":               func(o *Options) { o.Size = -8 },
		"integers of 8 bytes":     func(o *Options) { o.Op, o.Size = Reduce, 12 },
		`no design "bold"`:        func(o *Options) { o.Designs = []string{"bold"} },
		`no tree "oak"`:           func(o *Options) { o.Trees = []string{"oak"} },
		"name at least one":       func(o *Options) { o.Trees = nil },
		"no such operation: [bar": func(o *Options) { o.Op = "sing" },
	} {
		o := tested(Barrier, 2)
		require.NoError(t, o.Check())
		spoil(&o)
		require.ErrorContains(t, o.Check(), want)
		_, err := Measure(t.Context(), o, nil, io.Discard, nil)
		require.ErrorContains(t, err, want)
	}
}

// The baseline of each tree is measured whether it is asked for or not, and once.
func TestLines(t *testing.T) {
	o := Options{Designs: []string{"rebalance", "unaware", "rebalance"}, Trees: []string{"flat", "chain"}}
	require.Equal(t, []Line{{"unaware", "flat"}, {"rebalance", "flat"}, {"unaware", "chain"}, {"rebalance", "chain"}}, o.Lines())
}

// In virtual time deaths are told and repaired too, and those of one seed always alike.
func TestUnknownSimulated(t *testing.T) {
	for _, op := range []Op{Bcast, Allreduce} {
		o := tested(op, 10)
		o.Ranks = 16
		measure := func(seed uint64) []Death {
			deaths, err := MeasureUnknown(t.Context(), o, 2, SimulatedUnknown(o, 2, seed, nil), io.Discard, func() {})
			require.NoError(t, err)
			return deaths
		}
		one := measure(1)
		require.Len(t, one, o.Failures)
		require.Equal(t, o.aware()[2], one[0].Line)
		require.Equal(t, one, measure(1))
		require.NotEqual(t, one, measure(2))
	}
}

// Every rank that dies during operations is one death, of a line in its turn, told before it is repaired.
func TestUnknown(t *testing.T) {
	o := tested(Allreduce, 4)
	steps := 0
	deaths, err := MeasureUnknown(t.Context(), o, 1, job(o, true), io.Discard, func() { steps++ })
	require.NoError(t, err)
	require.Equal(t, o.Failures, steps)
	require.Len(t, deaths, o.Failures)
	for i, d := range deaths {
		require.Equal(t, i, d.Number)
		require.Equal(t, i+1, d.Rank)
		require.Equal(t, o.aware()[(1+i)%6], d.Line)
		require.Positive(t, d.Told)
		require.GreaterOrEqual(t, d.Repaired, d.Told)
	}
	for want, spoil := range map[string]func(*Options){
		"want at least one": func(o *Options) { o.Failures = 0 },
		"it would hang":     func(o *Options) { o.Designs = []string{"unaware"} },
		"-n 0":              func(o *Options) { o.Ranks = 0 },
	} {
		bad := o
		spoil(&bad)
		_, err := MeasureUnknown(t.Context(), bad, 0, nil, io.Discard, nil)
		require.ErrorContains(t, err, want)
	}
}
