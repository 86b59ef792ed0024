package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/netpipe"
)

// Started alone on shared memory and in the simulator, in all modes: the lines,
// np.out, the picture and the file.
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
		out, plot, file := filepath.Join(dir, "new", "np.out"), filepath.Join(dir, "np.svg"), filepath.Join(dir, "np.json")
		args := append(strings.Fields("netpipe -l 16 -u 64 --trial-time 100us --trials 2 "+c.args), "-o", out, "--plot", plot, "--json", file)
		code, text, errs := ftbench(t, args...)
		require.Zero(t, code, errs)
		require.NotContains(t, errs, "left", "no progress where nobody watches")
		lines := strings.Split(strings.TrimSpace(text), "\n")
		sizes := netpipe.Sizes(16, 64, 3)
		require.Len(t, lines, len(sizes)+1, text)
		require.Equal(t, "files: "+out+" "+plot+" "+file, lines[len(sizes)])
		for _, line := range lines[:len(sizes)] {
			require.Regexp(t, `^ *\d+: +\d+ bytes +\d+ times --> +[\d.]+ Mbps in +[\d.]+ usec`, line)
			require.Equal(t, strings.Contains(c.args, "-i"), strings.HasSuffix(line, "integrity check passed"), line)
		}
		rows, err := readRows(out)
		require.NoError(t, err)
		require.Len(t, rows, len(sizes))
		for i, r := range rows {
			require.Equal(t, sizes[i], r.Bytes)
		}
		svg, err := os.ReadFile(plot)
		require.NoError(t, err)
		for _, want := range []string{">NetPIPE, " + c.mode + ", s", ">message size (bytes)<", ">time (µs)<", ">Signature: throughput against time<"} {
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

// A second run is drawn beside the first; a file that is none is named before
// anything is measured.
func TestNetpipeWithAnother(t *testing.T) {
	dir := t.TempDir()
	other, plot := filepath.Join(dir, "np.other"), filepath.Join(dir, "np.svg")
	args := []string{"netpipe", "--fabric", "sim", "-u", "8", "-n", "3", "-o", filepath.Join(dir, "np.out"), "--plot", plot}
	require.NoError(t, os.WriteFile(other, []byte("       1 0.000000   0.00000000\n       4 8.0   0.00000400\n"), 0o666))
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

// The status line stands below the output after two seconds, and goes before
// the next line of output comes.
func TestMeter(t *testing.T) {
	var both bytes.Buffer
	now := time.Unix(0, 0)
	m := newMeter(&call{out: &both, err: io.Discard}, "sizes", 10, "-->")
	m.line, m.started, m.now = statusLine{&both}, now, func() time.Time { return now }
	_, err := io.WriteString(m, "1 --> a\n2 --> b\n")
	require.NoError(t, err)
	now = now.Add(6 * time.Second)
	_, err = io.WriteString(m, "3 --> c\n")
	require.NoError(t, err)
	m.line.clear()
	const clear = "\r\033[K"
	require.Equal(t, clear+"1 --> a\n2 --> b\n"+clear+"3 --> c\n"+clear+"3 of 10 sizes, about 14s left"+clear, both.String())
	_, err = io.WriteString(m, strings.Repeat("-->\n", 7))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(both.String(), "-->\n"), "nothing is left to wait for")
}

// A pipe is no terminal, and neither is a buffer.
func TestStatusLineIsForTerminals(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	for _, to := range []io.Writer{w, new(bytes.Buffer)} {
		newStatusLine(to).print("secret")
	}
	require.NoError(t, w.Close())
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, r.Close())
}
