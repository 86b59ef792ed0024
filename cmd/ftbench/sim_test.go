package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// simulate runs ftbench sim and gives the fields of the lines of its table.
func simulate(t *testing.T, args ...string) [][]string {
	var out, errs strings.Builder
	require.Zero(t, run(&call{append([]string{"sim"}, args...), &out, &errs}), errs.String())
	require.Empty(t, errs.String(), "silent without a terminal")
	var rows [][]string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Fields(line))
		}
	}
	return rows
}

func TestSim(t *testing.T) {
	dir := t.TempDir()
	stored, picture := filepath.Join(dir, "sim.json"), filepath.Join(dir, "sim.svg")
	rows := simulate(t, "--op", "barrier,bcast", "-n", "64", "--failures", "0,32", "--kill", "worst,best", "--design",
		"unaware,reroute,rebalance",
		"--rounds", "5", "--bytes", "8,64", "--json", stored, "--plot", picture)
	// The barrier has no lengths, and without failures there is one order: (1 + 2 orders) × 3
	// designs × (1 + 2 lengths).
	require.Len(t, rows, 27)
	require.Equal(t, []string{"barrier", "0", "64", "32", "worst", "reroute", "binomial"}, rows[4][:7])
	require.Equal(t, []string{"31", "1"}, rows[4][8:])
	b, err := os.ReadFile(stored)
	require.NoError(t, err)
	var file struct {
		Kind    string
		Results simResults
	}
	require.NoError(t, json.Unmarshal(b, &file))
	require.Equal(t, "sim", file.Kind)
	require.Len(t, file.Results.Rows, 27)
	require.Positive(t, file.Results.Rows[26].Micros)
	requireSource(t, picture, "simulated paper-2011")
	svg, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Contains(t, string(svg), "process failures")
}

// The parameters that --write prints are a machine of the same times, and a change of them is seen.
func TestSimParameters(t *testing.T) {
	var out, errs strings.Builder
	require.Zero(t, run(&call{[]string{"sim", "infiniband", "--write"}, &out, &errs}), errs.String())
	path := filepath.Join(t.TempDir(), "machine.json")
	args := []string{"-n", "64", "--rounds", "2", "--design", "rebalance"}
	for text, same := range map[string]bool{out.String(): true, strings.Replace(out.String(), `"latency_ns": 800`, `"latency_ns": 900`, 1): false} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.Equal(t, same, simulate(t, append(args, "infiniband")...)[0][7] == simulate(t,
			append(args, path)...)[0][7])
	}
}

func TestSimRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"no operation":       {"--op", "alltoall"},
		"no design":          {"--design", "hope"},
		"no kill order":      {"--kill", "kindest"},
		"512 of 512 ranks":   {"--failures", "512"},
		"-n 0":               {"-n", "0"},
		"no profile":         {"nowhere.json"},
		"--rounds=0":         {"--rounds", "0"},
		"12 lines in one":    {"--plot", "x.svg", "--kill", "worst,average,best"},
		"ftbench sim --help": {"--nothing"},
	} {
		var out, errs strings.Builder
		require.Equal(t, exitUsage, run(&call{append([]string{"sim"}, args...), &out, &errs}), want)
		require.Contains(t, errs.String(), want)
	}
}
