package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/netpipe"
)

// Started alone on shared memory and in the simulator, in all modes: the lines, np.out, the picture
// and the file.
func TestNetpipe(t *testing.T) {
	for _, c := range []struct{ args, mode string }{
		{"-i", "ping-pong"},
		{"-2 --aware=false", "bidirectional"},
		{"-s -i", "streaming"},
		{"-I -i", "ping-pong"},
		{"-2 -I", "bidirectional"},
		{"--fabric sim -i", "ping-pong"},
		{"--fabric sim -2", "bidirectional"},
	} {
		dir := t.TempDir()
		out, plot, file := filepath.Join(dir, "new", "np.out"), filepath.Join(dir, "np.svg"),
			filepath.Join(dir, "np.json")
		args := append(strings.Fields("netpipe -l 16 -u 64 --trial-time 100us --trials 2 "+c.args), "-o", out,
			"--plot", plot, "--json", file)
		code, text, errs := ftbench(t, args...)
		require.Zero(t, code, errs)
		require.NotContains(t, errs, "left", "no progress without a terminal")
		lines := strings.Split(strings.TrimSpace(text), "\n")
		sizes := netpipe.Sizes(16, 64, 3)
		require.Regexp(t, `^# No +Size +Repeats +Throughput +Time`, lines[0])
		lines = lines[1:]
		require.Len(t, lines, len(sizes)+1, text)
		require.Equal(t, "files: "+out+" "+plot+" "+file, lines[len(sizes)])
		for _, line := range lines[:len(sizes)] {
			require.Regexp(t, `^ *\d+: +\d+ bytes +\d+ times --> +[\d.]+ Mbps in +[\d.]+ usec`, line)
			require.Equal(t, strings.Contains(c.args, "-i"), strings.HasSuffix(line, " passed"), line)
		}
		rows, err := netpipe.ReadFile(out)
		require.NoError(t, err)
		require.Len(t, rows, len(sizes))
		for i, r := range rows {
			require.Equal(t, sizes[i], r.Bytes)
		}
		requireSource(t, plot, "")
		svg, err := os.ReadFile(plot)
		require.NoError(t, err)
		for _, want := range []string{">NetPIPE, " + c.mode, ">message size (bytes)<", ">time (µs)<",
			">Signature: throughput against time<"} {
			require.Contains(t, string(svg), want)
		}
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var got struct {
			Kind    string
			Results struct {
				Options struct{ Mode string }
				Aware   bool
				Points  []netpipe.Point
			}
		}
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, "netpipe", got.Kind)
		require.Equal(t, c.mode, got.Results.Options.Mode)
		require.Equal(t, !strings.Contains(c.args, "aware=false"), got.Results.Aware)
		require.Len(t, got.Results.Points, len(sizes))
	}
}

// Without -o there is no file.
func TestNetpipeWritesNoFileUnasked(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, fabric := range []string{"shm", "sim"} {
		code, out, errs := ftbench(t, "netpipe", "-u", "4", "-n", "3", "--fabric", fabric)
		require.Zero(t, code, errs)
		require.NotContains(t, out, "files:")
		left, err := os.ReadDir(".")
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// A second run is drawn beside the first; a file that is none is named before anything is measured.
func TestNetpipeWithAnother(t *testing.T) {
	dir := t.TempDir()
	other, plot := filepath.Join(dir, "np.other"), filepath.Join(dir, "np.svg")
	args := []string{"netpipe", "--fabric", "sim", "-u", "8", "-n", "3", "-o", filepath.Join(dir, "np.out"), "--plot",
		plot}
	require.NoError(t, os.WriteFile(other, []byte("       1 0.000000   0.00000000\n       4 8.0   0.00000400\n"),
		0o666))
	code, _, errs := ftbench(t, append(args, "--with", "A, B=="+other, "--with", other)...)
	require.Equal(t, exitFailed, code, "the file is called =…")
	require.Contains(t, errs, "no such file")
	code, _, errs = ftbench(t, append(args, "--with", "A, B="+other, "--with", other)...)
	require.Zero(t, code, errs)
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	for _, want := range []string{"Banyan", "A, B", "np.other"} {
		require.Contains(t, string(svg), want)
	}

	require.NoError(t, os.WriteFile(other, []byte("1 2\n"), 0o666))
	code, out, errs := ftbench(t, append(args, "--with", other)...)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "np.other: line 1: 2 columns")
}
