package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/osu"
)

// The page of benchmarks has all of them, and its command lines are possible.
func TestPageOfBenchmarks(t *testing.T) {
	b, err := os.ReadFile("../../docs/benchmarks.md")
	require.NoError(t, err)
	page := string(b)
	for _, bench := range osu.All {
		require.True(t, strings.Contains(page, "`"+bench.Name+"`") || strings.Contains(page, "`ftbench osu "+bench.Name+"`"), bench.Name)
	}
	for _, command := range []string{"tour", "osu init", "netpipe", "match", "fault detect", "fault silence",
		"fault soak", "fault rebalance", "fault drill", "sim", "paper", "compare", "tune"} {
		require.True(t, strings.Contains(page, "| `ftbench "+command+"` |"), command)
	}
	for _, op := range fault.CollectiveOps {
		require.Regexp(t, "(?m)^\\| `ftbench fault .*`"+string(op)+"`|^\\| `ftbench fault "+string(op)+"`", page, op)
	}
	lines := regexp.MustCompile(`(?m)^(?:\$ )?ftbench ([^|\n]*)`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(lines), 8)
	for _, line := range lines {
		require.NoError(t, parse(strings.Fields(line[1])), line[0])
	}
}
