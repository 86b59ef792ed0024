package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/match"
	"github.com/banyan-hpc/banyan/bench/netpipe"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// comparison runs the command for a moment, with any result. ok is false without two CPUs,
// which the command reports.
func comparison(t *testing.T, args string) (out string, results suite.Results, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.json")
	code, out, errs := ftbench(t, append(strings.Fields("compare --max-time 1ms --sample 1ms "+args), "--json",
		file)...)
	if _, err := peers.CPUs(); err != nil {
		require.Contains(t, errs, "two CPUs")
		return "", results, false
	}
	require.Contains(t, []int{0, exitMissed}, code, errs)
	require.Empty(t, errs, "no progress without a terminal")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	stored := struct{ Results *suite.Results }{&results}
	require.NoError(t, json.Unmarshal(b, &stored))
	return out, results, true
}

// All groups but the sizes of bandwidth in one run: each has its results, and the peers that are
// installed have theirs. Recovery among 32 ranks takes as long as all else, and is for the long form.
func TestCompare(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "np.svg")
	only, size, recoveries := "latency,aware,netpipe,match,startup,coll,crowd", "--max-time 20ms", 0
	if os.Getenv("BANYAN_LONG") != "" {
		only, size, recoveries = only+",ulfm", "--max-time 200ms", 4
	}
	out, r, ok := comparison(t, "--only "+only+" "+size+" --sizes 1:300 --entries 10,300 -n 5 --crowd-ranks 3,5 --plot "+plot)
	if !ok {
		return
	}
	for _, title := range []string{
		"8-byte tagged one-way latency", "aware over unaware",
		"NetPIPE, ping-pong, shared memory, time of a message one way",
		"match with the last of 300 posted receives", "match with the last of 300 unexpected messages",
		"start of 5 ranks",
		"barrier of 2 ranks", "bcast of 2 ranks", "allreduce of 2 ranks",
	} {
		require.Contains(t, out, title)
	}
	require.Equal(t, recoveries > 0, strings.Contains(out, "recovery of 32 ranks without a failure"))
	requireDrawn(t, out, plot)
	require.Len(t, r.Measures, 1+2+4)
	for _, m := range r.Measures[3:] {
		require.Empty(t, m.Failed)
		expectPeers(t, r, m.Rounds[0].Samples,
			map[string][2]string{"openmpi": {"mpicc.openmpi", "openmpi"}, "mpich": {"mpicc.mpich", "mpich"}})
	}
	require.Len(t, r.Curves, 1+1+3+2+recoveries)
	sizes := netpipe.Sizes(1, 1023, 0) // the runs that hold the sizes
	require.Len(t, r.Curves[0].Points, len(sizes))
	starts := r.Curves[1].Points
	for i, s := range starts[0].Rounds[0].Samples {
		require.Less(t, s.Seconds, starts[1].Rounds[0].Samples[i].Seconds,
			"the barrier is passed before the launcher ends")
	}
	for i, tools := range []map[string][2]string{
		{"openmpi": {"NPopenmpi", "NPopenmpi"}, "mpich": {"NPmpich2", "NPmpich2"}},
		{"openmpi": {"mpicc.openmpi", "openmpi start"}, "mpich": {"mpicc.mpich", "mpich start"}},
		{"openmpi": {"mpicc.openmpi", "openmpi collectives"}, "mpich": {"mpicc.mpich", "mpich collectives"}},
	} {
		expectPeers(t, r, r.Curves[i].Points[0].Rounds[0].Samples, tools)
	}
	require.Len(t, r.Curves[3].Points, 2*7)
	for _, p := range r.Curves[3].Points {
		require.GreaterOrEqual(t, p.Rounds[0].Samples[0].Longest, p.Rounds[0].Samples[0].Seconds, p.Label)
	}
	for _, curve := range r.Curves {
		for _, p := range curve.Points {
			for _, s := range p.Rounds[0].Samples {
				require.Positive(t, s.Seconds, "%s %s", curve.Name, p.Label)
			}
		}
	}
	require.Equal(t, match.Batch, peers.MatchBatch)
	require.Equal(t, match.MaxLength, peers.MaxEntries)
}

// Operations on memory: each of those that are installed.
func TestCompareRMA(t *testing.T) {
	out, r, ok := comparison(t, "--only rma")
	if !ok {
		return
	}
	require.Contains(t, out, "fetch-and-add of 8 bytes and flush")
	require.Len(t, r.Measures, 6)
	for _, m := range r.Measures {
		require.Empty(t, m.Failed)
		expectPeers(t, r, m.Rounds[0].Samples,
			map[string][2]string{"openmpi-rma": {"mpicc.openmpi", "openmpi-rma"}, "mpich-rma": {"mpicc.mpich", "mpich-rma"}})
		for _, s := range m.Rounds[0].Samples {
			require.Positive(t, s.Seconds, m.Name)
		}
	}
}

// Without an RDMA adapter the group verbs is an error that reports it.
func TestCompareWithoutAnAdapter(t *testing.T) {
	if found, _ := filepath.Glob("/sys/class/infiniband/*"); len(found) > 0 {
		return // TestComparison of fabric/verbs/testbed has one
	}
	code, _, errs := ftbench(t, "compare", "--only", "verbs", "--json", filepath.Join(t.TempDir(), "c.json"))
	require.Equal(t, 1, code)
	if _, err := peers.CPUs(); err == nil {
		require.Contains(t, errs, "group verbs needs an RDMA adapter")
	}
}

// Messages among ranks: each value of each that is installed.
func TestCompareMany(t *testing.T) {
	out, r, ok := comparison(t, "--only many --many-ranks 3 --many-sizes 8,64")
	if !ok {
		return
	}
	require.Contains(t, out, "messages among 3 ranks")
	require.Len(t, r.Curves, 1)
	require.Len(t, r.Curves[0].Points, 7)
	for _, p := range r.Curves[0].Points {
		expectPeers(t, r, p.Rounds[0].Samples, map[string][2]string{"openmpi": {"mpicc.openmpi", "openmpi messages"},
			"mpich": {"mpicc.mpich", "mpich messages"}})
	}
}

// expectPeers checks that installed peers were sampled, and that the others are named with their
// packages.
func expectPeers(t *testing.T, r suite.Results, samples []compare.Sample, tools map[string][2]string) {
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

// requireDrawn checks that there is a picture, unless the cores moved in every round.
func requireDrawn(t *testing.T, out, plot string) {
	t.Helper()
	if strings.Contains(out, "curves: none") {
		require.NoFileExists(t, plot)
		return
	}
	requireSource(t, plot, "shared memory")
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(svg), "<svg")
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
	for _, name := range []string{"mpich", "mpich start"} {
		require.Contains(t, r.Absent[name], "no libmpich")
	}
	require.Contains(t, strings.Join(strings.Fields(out), " "), "left out: peers: ") // a long path begins a line
	require.Equal(t, "banyan", r.Measures[0].Rounds[0].Samples[0].Source)
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
	require.Contains(t, r.Measures[0].Failed["mpich"], "not now")
	require.Contains(t, r.Measures[1].Failed["mpich"], "not twice")
	require.Contains(t, r.Absent["mpich"], "not twice")
	require.Len(t, r.Measures, 7)
}

// requireSource checks that each picture of a file contains the source of its numbers.
func requireSource(t *testing.T, plot, fabric string) {
	t.Helper()
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)>`+fabric+`[^<]* · [^<]+ · \d{4}-\d\d-\d\d · commit \w+\+?</text>`).FindAll(svg, -1)
	require.NotEmpty(t, lines)
	svg = regexp.MustCompile(`(?s)<style.*?</style>`).ReplaceAll(svg, nil) // it has the colours, too
	require.Equal(t, bytes.Count(svg, []byte("fill:#F5F5F5")), len(lines), "as many as there are legends")
}

// requireBars checks that a picture has intervals: strokes of their width.
func requireBars(t *testing.T, plot string) {
	t.Helper()
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(svg), "stroke-width:0.9")
}
