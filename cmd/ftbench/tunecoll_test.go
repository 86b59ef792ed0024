package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/choose"
)

// The whole machinery for a moment, with processes: a table that jobs accept, the times of all algorithms, and a
// figure, with any fastest algorithm.
func TestTuneColl(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	code, out, errs := ftbench(t, "tune", "coll", "-n", "3", "--only", "barrier,bcast,alltoall", "-m", "64:4096", "--step", "64",
		"--rounds", "6", "--sample", "200us", "--out", path("table"), "--plot", path("coll.svg"), "--json", path("coll.json"))
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^barrier +0 +memory `, out)
	require.Regexp(t, `(?m)^bcast +4096 +straight `, out)
	require.Contains(t, out, "written: "+path("table")+"; BANYAN_COLL_ALGORITHMS="+path("table")+" takes it\n")

	var stored struct{ Results tuneCollResults }
	b, err := os.ReadFile(path("coll.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &stored))
	want := map[string][]string{
		"barrier 0": {"memory", "dissemination", "binomial"},
		"bcast 64":  {"memory", "binomial", "straight", "pipelined", "chain"}, "bcast 4096": {"binomial", "straight", "pipelined", "chain"},
		"alltoall 192": {"memory", "straight"}, "alltoall 12288": {"memory", "straight"},
	}
	require.Len(t, stored.Results.Points, len(want))
	for _, p := range stored.Results.Points {
		var got []string
		for _, way := range p.Ways {
			got = append(got, way.Algorithm)
			require.Positive(t, way.Seconds)
		}
		require.Equal(t, want[fmt.Sprint(p.Name, " ", p.Bytes)], got, p.Name)
	}
	text, err := os.ReadFile(path("table"))
	require.NoError(t, err)
	require.Equal(t, stored.Results.Table, string(text))
	figure, err := os.ReadFile(path("coll.svg"))
	require.NoError(t, err)
	require.Contains(t, string(figure), "bcast, 3 ranks")

	// A job takes the table, and every other that it could have written.
	all := string(text)
	for op := range choose.NumOps {
		for _, by := range op.Algorithms() {
			all += choose.Force(op, by).String() + " # why\n"
		}
	}
	require.NoError(t, os.WriteFile(path("table"), []byte(all), 0o600))
	t.Setenv("BANYAN_COLL_ALGORITHMS", path("table"))
	code, _, errs = ftbench(t, "osu", "bcast", "-n", "2", "-m", "8:8", "-i", "10", "-c")
	require.Zero(t, code, errs)
	code, out, errs = ftbench(t, "info", "-c")
	require.Zero(t, code, errs)
	require.Contains(t, out, "coll.algorithms = "+path("table"))
}

// In virtual time, with several nodes: the choice of one place, alike in each run.
func TestTuneCollSimulated(t *testing.T) {
	tune := func() string {
		code, out, errs := ftbench(t, "tune", "coll", "--fabric", "sim", "-n", "6", "--per-node", "2", "--only", "reduce,allgather",
			"-m", "8192:524288", "--step", "64", "--rounds", "6", "--sample", "20us")
		require.Zero(t, code, errs)
		rows, _, _ := strings.Cut(out, "\n\n")
		return rows
	}
	out := tune()
	require.Regexp(t, `(?m)^reduce +524288 +pipelined +pipelined `, out)
	require.Regexp(t, `(?m)^allgather +8192 +doubling `, out)
	require.Contains(t, out, "ring")
	require.Equal(t, out, tune())
}

func TestTuneCollErrors(t *testing.T) {
	for want, args := range map[string][]string{
		`there is no choice for an operation "gatherv"`: {"--only", "gatherv"},
		`-m 9:8 has no size`:                            {"-m", "9:8"},
		`--rounds 0`:                                    {"--rounds", "0"},
		`--per-node 2: it is for --fabric sim`:          {"--per-node", "2"},
		`--ranks: "4..2": write`:                        {"--ranks", "4..2"},
		`not even 2 bytes hold an element of allreduce`: {"-m", "2:2", "--only", "allreduce"},
	} {
		code, out, errs := ftbench(t, append([]string{"tune", "coll"}, args...)...)
		require.Equal(t, exitUsage, code, errs)
		require.Empty(t, out)
		require.Contains(t, errs, want)
	}
	code, _, errs := ftbench(t, "tune", "coll", "-n", "1", "--fabric", "sim")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "at least 2 are needed")
}
