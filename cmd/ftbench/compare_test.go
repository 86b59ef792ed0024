package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/match"
	"github.com/banyan-hpc/banyan/bench/netpipe"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// comparison runs the command for a moment; what it finds is not a test's
// business. ok is false where there are no two CPUs, which it says.
func comparison(t *testing.T, args string) (out string, results compareResults, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.json")
	code, out, errs := ftbench(t, append(strings.Fields("compare --max-time 1ms --sample 1ms "+args), "--json", file)...)
	if _, err := peers.CPUs(); err != nil {
		require.Contains(t, errs, "two CPUs")
		return "", results, false
	}
	require.Contains(t, []int{0, exitMissed}, code, errs)
	require.Empty(t, errs, "no progress where nobody watches")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	stored := struct{ Results *compareResults }{&results}
	require.NoError(t, json.Unmarshal(b, &stored))
	return out, results, true
}

func TestCompare(t *testing.T) {
	out, _, ok := comparison(t, "--only latency,bw,aware --max-time 300ms")
	for _, title := range []string{"8-byte tagged one-way latency", "bandwidth, window 64, 1048576 bytes", "aware over unaware"} {
		require.True(t, !ok || strings.Contains(out, title), title)
	}
}

// expectPeers checks that those that are installed were sampled, and that the
// others are named with what installs them.
func expectPeers(t *testing.T, r compareResults, samples []compare.Sample, tools map[string][2]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range samples {
		seen[s.Source] = true
	}
	for name, tool := range tools {
		if _, err := exec.LookPath(tool[0]); err != nil {
			require.Contains(t, r.Absent[tool[1]], "apt-get install", name)
			require.False(t, seen[name], name)
			continue
		}
		require.True(t, seen[name], "%s is installed and was not sampled", name)
	}
}

func TestCompareNetpipe(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "np.svg")
	out, r, ok := comparison(t, "--only netpipe --sizes 1:300 --max-time 200ms --plot "+plot)
	if !ok {
		return
	}
	require.Contains(t, out, "NetPIPE, ping-pong, shared memory, time of a message one way")
	require.Len(t, r.Curves, 1)
	sizes := netpipe.Sizes(1, 1023, 0) // the runs that hold what was asked for
	require.Len(t, r.Curves[0].Points, len(sizes))
	for i, p := range r.Curves[0].Points {
		require.Equal(t, float64(sizes[i]), p.X)
		require.NotEmpty(t, p.Rounds)
		expectPeers(t, r, p.Rounds[0].Samples, map[string][2]string{openmpi: {"NPopenmpi", "NPopenmpi"}, mpich: {"NPmpich2", "NPmpich2"}})
	}
	requireDrawn(t, out, plot)
}

// requireDrawn checks that there is a picture, unless the cores moved in every round.
func requireDrawn(t *testing.T, out, plot string) {
	t.Helper()
	if strings.Contains(out, "curves: none") {
		require.NoFileExists(t, plot)
		return
	}
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(svg), "<svg")
}

// Curves without points are left out; without any curve it says so.
func TestCompareDrawsWhatThereIs(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "np.svg")
	empty := &compare.Curve{Name: groupNetpipe}
	told, err := (&compareCmd{Plot: plot}).draw(&compareResults{Curves: []*compare.Curve{empty}})
	require.NoError(t, err)
	requireDrawn(t, told, plot)
	require.Contains(t, told, "--max-time")

	point := func(x, before, after float64) *compare.CurvePoint {
		s := compare.Sample{Source: ours, Seconds: 1e-6, Before: before, After: after}
		return &compare.CurvePoint{X: x, Result: &compare.Result{Rounds: []compare.Round{{Samples: []compare.Sample{s}}}}}
	}
	moved := &compare.Curve{Name: groupNetpipe, Points: []*compare.CurvePoint{point(1, 1e-8, 1e-6)}}
	told, err = (&compareCmd{Plot: plot}).draw(&compareResults{Curves: []*compare.Curve{moved}})
	require.NoError(t, err)
	require.Contains(t, told, "curves: none")
	steady := &compare.Curve{Name: groupNetpipe, Points: []*compare.CurvePoint{point(1, 1e-8, 1e-8), point(2, 1e-8, 1e-8)}}
	told, err = (&compareCmd{Plot: plot}).draw(&compareResults{Curves: []*compare.Curve{empty, steady}})
	require.NoError(t, err)
	require.NotContains(t, told, "none")
	requireDrawn(t, told, plot)
}

func TestCompareMatch(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "match.svg")
	out, r, ok := comparison(t, "--only match --entries 10,300 --max-time 100ms --plot "+plot)
	if !ok {
		return
	}
	require.Contains(t, out, "match with the last of 300 posted receives")
	require.Contains(t, out, "match with the last of 300 unexpected messages")
	require.Len(t, r.Measures, 4)
	for _, m := range r.Measures {
		require.NotEmpty(t, m.Rounds)
		require.Empty(t, m.Failed)
		expectPeers(t, r, m.Rounds[0].Samples, map[string][2]string{openmpi: {"mpicc.openmpi", openmpi}, mpich: {"mpicc.mpich", mpich}})
	}
	requireDrawn(t, out, plot)
	require.Equal(t, match.Batch, peers.MatchBatch)
	require.Equal(t, match.MaxLength, peers.MaxEntries)
}

func TestCompareStartup(t *testing.T) {
	out, r, ok := comparison(t, "--only startup -n 5")
	if !ok {
		return
	}
	require.Contains(t, out, "start of 5 ranks")
	require.Len(t, r.Curves, 1)
	points := r.Curves[0].Points
	require.Len(t, points, 2)
	for i, s := range points[0].Rounds[0].Samples {
		require.Less(t, s.Seconds, points[1].Rounds[0].Samples[i].Seconds, "the barrier is passed before the launcher ends")
	}
	expectPeers(t, r, points[0].Rounds[0].Samples, map[string][2]string{openmpi: {"mpicc.openmpi", "openmpi start"}, mpich: {"mpicc.mpich", "mpich start"}})
}

// Every bound of docs/status.md is in a plan, and the peers that a bound names
// are sampled.
func TestPlansHaveTheBounds(t *testing.T) {
	c := &contest{runners: map[string]peers.Runner{}}
	for _, name := range []string{ours, unaware, roomy, ucx, openmpi, mpich, bare} {
		c.runners[name] = current{}
	}
	groups := []string{groupLatency, groupBandwidth, groupAware, groupMatch}
	got := map[string][]float64{}
	note := func(bounds []compare.Bound) {
		for _, b := range bounds {
			if b.ID != "" {
				got[b.ID] = append(got[b.ID], b.Limit)
			}
		}
	}
	for _, g := range groups {
		for _, p := range c.plans(g, []int{10, 10_000}) {
			require.Contains(t, []string{ours, roomy}, p.Sources[0].Name, "the subject of %s", p.Name)
			note(p.Bounds)
		}
	}
	require.Equal(t, map[string][]float64{
		"B2-1": {0.9}, "B2-2": {1}, "B2-3": {1}, "B2-4": {1.5},
		"B2-5": {1, 0, 0}, "B2-6": {.95, .95, .95}, "B2-7": {.95, .95, .95}, "B2-8": {.95, .95, .95}, "B2-9": {.95, .95, .95}, "B2-10": {.95, .95, .95},
		"B2-11": {1.012}, "B2-12": {1.004}, "B3-5": {3}, "B3-6": {3},
	}, got)
	require.ElementsMatch(t, []string{ours, unaware, roomy, ucx, openmpi, mpich}, names(groups))

	delete(c.runners, mpich)
	require.Len(t, c.latencyPlans()[0].Sources, 4, "what is not installed is left out")
}

// The bound is of the start of 64 ranks; NetPIPE's are in netpipes_test.go.
func TestStartupHasItsBound(t *testing.T) {
	c := &contest{startups: []startupRun{{name: ours}, {name: openmpi}, {name: mpich}}}
	at64 := c.sweeps(groupStartup, sizeRange{}, startupRanks)[0].Parts[0].Points
	require.Equal(t, []compare.Bound{{ID: "B3-7", Over: openmpi, Ratio: compare.OfTimes, Limit: 1}, {ID: "B3-7", Over: mpich, Ratio: compare.OfTimes}}, at64[0].Bounds)
	require.Zero(t, at64[1].Bounds[0].Limit, "the launcher's end is for information")
	require.Empty(t, c.sweeps(groupStartup, sizeRange{}, 5)[0].Parts[0].Points[0].Bounds[0].ID, "the ledger speaks of 64 ranks")
}

func TestMissed(t *testing.T) {
	rows := func(v ...compare.Verdict) *compare.Result {
		r := &compare.Result{}
		for _, verdict := range v {
			r.Rows = append(r.Rows, compare.Row{Verdict: verdict})
		}
		return r
	}
	curve := func(v compare.Verdict) []*compare.Curve {
		return []*compare.Curve{{Points: []*compare.CurvePoint{{Result: rows(v)}}}}
	}
	require.False(t, (&compareResults{Measures: []*compare.Result{rows(compare.Met, compare.Undecided, compare.Info), {}}, Curves: curve(compare.Met)}).missed())
	require.True(t, (&compareResults{Measures: []*compare.Result{rows(compare.Met, compare.Missed)}}).missed())
	require.True(t, (&compareResults{Curves: curve(compare.Missed)}).missed())
	require.True(t, (&compareResults{Curves: []*compare.Curve{{Middle: []compare.Row{{Verdict: compare.Missed}}}}}).missed())
}

// fakeTool puts a shell script of that name before all others in PATH.
func fakeTool(t *testing.T, name, script string) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", dir)
}

// A peer whose installation is broken is left out, and the others are compared.
func TestCompareWithABrokenPeer(t *testing.T) {
	fakeTool(t, "mpicc.mpich", "echo ld: no libmpich; exit 1\n")
	out, r, ok := comparison(t, "--only latency,startup -n 2")
	if !ok {
		return
	}
	for _, name := range []string{mpich, starterName(peers.MPICH)} {
		require.Contains(t, r.Absent[name], "no libmpich")
	}
	require.Contains(t, out, "left out: peers: ")
	require.Equal(t, ours, r.Measures[0].Rounds[0].Samples[0].Source)
	require.Len(t, r.Curves, 1)
}

// A peer that fails and does not start again fails for good; that is all.
func TestCompareWithAPeerThatLeaves(t *testing.T) {
	fakeTool(t, "mpicc.mpich", `case $1 in -show) echo cc ;; *) : >"$5" ;; esac`)
	once := filepath.Join(t.TempDir(), "once")
	fakeTool(t, "mpiexec.mpich", `
		test -e `+once+` && { echo not twice; exit 1; }
		: >`+once+`
		exec 3<"$6/cmd.0" 4<"$6/cmd.1" 5>"$6/reply"
		echo ready a shell >&5
		read -r job <&3
		echo err not now >&5`)
	_, r, ok := comparison(t, "--only latency,bw")
	if !ok {
		return
	}
	require.Contains(t, r.Measures[0].Failed[mpich], "not now")
	require.Contains(t, r.Measures[1].Failed[mpich], "not twice")
	require.Contains(t, r.Absent[mpich], "not twice")
	require.Len(t, r.Measures, 7)
}
