package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaultRebalance(t *testing.T) {
	dir := t.TempDir()
	plot, picture, file := filepath.Join(dir, "r.svg"), filepath.Join(dir, "r.png"), filepath.Join(dir, "r.json")
	code, out, errs := ftbench(t, "fault", "rebalance", "-n", "16,1024", "--failures", "0,8,896", "--tree", "binomial,knomial:4,node",
		"--rounds", "1", "--plot", plot+","+picture, "--json", file)
	require.Contains(t, []int{0, exitMissed}, code, errs)
	require.Regexp(t, `(?m)^reroute    binomial +16 +8( +\d+\.\d{3}){3} +\d+\.\d\d +7$`, out)
	require.Regexp(t, `(?m)^rebalance  binomial +16 +8( +\d+\.\d{3}){3} +\d+\.\d\d +3$`, out)
	require.Regexp(t, `(?m)^rebalance  node +1024 +896 `, out)
	require.Regexp(t, `(?m)^# 1024 ranks, 896 failed: mean \d+\.\d{3} µs, the prototype of 2011 50.9, bound 1: (met|missed)$`, unwrapped(out))
	require.Contains(t, out, "files: "+plot+" "+picture+" "+file)
	requireSource(t, plot, "no messages, one core")
	drawing, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(drawing), "prototype of 2011, mean")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct {
		Kind    string
		Results struct {
			Options struct{ Failures []string }
			Trees   []struct {
				Design string
				Mean   float64 `json:"mean_ns"`
			}
			Bounds []struct{ Failures int }
		}
	}
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Equal(t, "fault-rebalance", stored.Kind)
	require.Equal(t, []string{"0", "8", "896"}, stored.Results.Options.Failures)
	require.Len(t, stored.Results.Trees, 2*3*(2+3))
	require.Positive(t, stored.Results.Trees[0].Mean)
	require.Len(t, stored.Results.Bounds, 2)
}

func TestFaultRebalanceUsage(t *testing.T) {
	for want, args := range map[string][]string{
		`--design: no design "hope": want unaware, reroute, lookup, rebalance or corrected`: {"--design", "hope"},
		`--tree: no tree "oak": want binomial, knomial:K, binary, chain, flat or node`:      {"--tree", "oak"},
		`as 896, or a share of less than all`:                                               {"--failures", "all"},
		"rebalance: 1 ranks: 2 to":                                                          {"-n", "1"},
	} {
		code, _, errs := ftbench(t, append([]string{"fault", "rebalance"}, args...)...)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, want)
	}
}
