package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMany(t *testing.T) {
	dir := t.TempDir()
	plot, file := filepath.Join(dir, "m.svg"), filepath.Join(dir, "m.json")
	code, out, errs := ftbench(t, "many", "--ranks", "2,3", "--jobs", "2", "--repeats", "3", "--sizes", "8,4096",
		"--plot", plot, "--json", file)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^3 +4096( +\d+\.\d){5} +\d+$`, out)
	require.Regexp(t, `(?m)^3( +\d+\.\d){5}$`, out)
	require.Contains(t, out, "files: "+plot+" "+file)
	requireSource(t, plot, "all fabrics")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	r := stored[manyResults](t, "many", text)
	require.Len(t, r.Ranks, 2)
	require.Len(t, r.Ranks[1].Samples, 2)
	s := r.Ranks[1].Samples[1]
	require.Equal(t, 3, s.Ranks)
	require.Positive(t, s.Times[0].First)
	require.Positive(t, s.Before)
}
