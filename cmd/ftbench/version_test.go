package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	code, out, errs := ftbench(t, "--version")
	require.Zero(t, code, errs)
	require.Regexp(t, `^ftbench \S+, commit .+, `+runtime.Version(), out)
}

func TestHelpCommand(t *testing.T) {
	for _, command := range []string{"", "run", "osu latency", "fault drill"} {
		code, want, _ := ftbench(t, append(strings.Fields(command), "--help")...)
		require.Zero(t, code)
		code, out, errs := ftbench(t, append([]string{"help"}, strings.Fields(command)...)...)
		require.Zero(t, code, errs)
		require.Equal(t, want, out, command)
	}
	code, _, errs := ftbench(t, "help", "dance")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "unexpected argument dance")
}

// -np is -n where ranks are chosen, and a program keeps its own.
func TestNp(t *testing.T) {
	code, out, errs := ftbench(t, "run", "-np", "2", "--", "sh", "-c", `echo $PMI_SIZE "$@"`, "sh", "-np", "4")
	require.Zero(t, code, errs)
	require.Equal(t, "2 -np 4\n2 -np 4\n", out)
	expectUsageErrors(t, map[string]string{
		"run -np 0 -- true":        "-n 0: at least 1 rank",
		"osu latency -np 3":        "exactly 2 are needed",
		"osu init -np 0":           "at least 1 rank is needed",
		"fault detect -np 1":       "-n 1 is not within",
		"run -n p -- true":         `"p"`,
		"compare -np 0":            "1 to 1024 are possible",
		"fault drill -np 4-x":      "4-x",
		"fault shrink -np 2,x":     `"x"`,
		"osu multi_lat -np 1":      "at least 2 are needed",
		"osu allreduce -np 1 -f":   "at least 2 are needed",
		"fault barrier -np 4 -q x": "unknown flag -q",
	})
}
