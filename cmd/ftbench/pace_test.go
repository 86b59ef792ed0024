package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/bench/budget"
)

// Each command that may last has --max-time and --quick.
func TestEachLongCommandIsBounded(t *testing.T) {
	short := regexp.MustCompile(`^ftbench (run|osu init|osu hello|info|doctor|agent|help|completion|docs)\b`)
	for name, flags := range leaves(t) {
		if short.MatchString(name) {
			require.NotContains(t, flags, "quick", name)
			continue
		}
		require.Contains(t, flags, "max-time", name)
		require.Contains(t, flags, "quick", name)
	}
	expectUsageErrors(t, map[string]string{
		"netpipe --max-time=-1s":         "--max-time -1s",
		"match --max-time=-1s":           "--max-time -1s",
		"fault detect --max-time=-1s":    "--max-time -1s",
		"fault shrink --max-time=-1s":    "--max-time -1s",
		"fault gather --max-time=-1s":    "--max-time -1s",
		"fault drill --max-time=-1s":     "--max-time -1s",
		"fault rebalance --max-time=-1s": "--max-time -1s",
		"fault soak --max-time=-1s":      "--max-time -1s",
		"sim --max-time=-1s":             "--max-time -1s",
		"tour --max-time=-1s":            "--max-time -1s",
		"tune --max-time=-1s":            "--max-time -1s",
		"paper --max-time=-1s":           "--max-time -1s",
	})
}

// manyRanks is a list of so many numbers.
func manyRanks(first, count int) string {
	var list []string
	for n := range count {
		list = append(list, fmt.Sprint(first+n))
	}
	return strings.Join(list, ",")
}

// cutRun runs a command that has hours of work with more and more time, until a part of it is done,
// and returns the cut in the file of results and in the text.
func cutRun(t *testing.T, command string) (cut budget.Cut, results map[string]any, text string) {
	t.Helper()
	for limit := 250 * time.Millisecond; ; limit *= 2 {
		args := append(strings.Fields(command), "--max-time", limit.String(), "--json", "-")
		code, out, errs := ftbench(t, args...)
		if code == exitFailed && strings.Contains(errs, "nothing was measured") {
			require.Less(t, limit, 5*time.Minute, errs)
			continue
		}
		require.Zero(t, code, errs)
		file := struct{ Results map[string]any }{}
		require.NoError(t, json.Unmarshal([]byte(out), &file), out)
		said, err := json.Marshal(file.Results["cut"])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(said, &cut))
		require.Equal(t, limit, cut.MaxTime, "%s\n%s", command, said)
		return cut, file.Results, errs
	}
}

// An operation under way at the end of --max-time is cut, and the result reports that.
func TestMaxTime(t *testing.T) {
	for _, command := range []string{
		"netpipe -o " + filepath.Join(t.TempDir(), "np.out"),
		"match --rounds 100000 --entries 10,20",
		"fault detect --kills 20000",
		"fault agree -n 2,3 --rounds 100000 --calls 10",
		"fault revoke -n 2,3 --rounds 100000",
		"fault agree --fabric sim -n " + manyRanks(100, 5000),
		"fault barrier -n 3 --failures 0,1 --sets 20000 --ops 10",
		"fault barrier --fabric sim -n 8 --failures 0 --sets 20000 --ops 10",
		"fault barrier -n 4 --unknown --sets 2000",
		"fault drill --runs 20000 -n 2-3 --fabric shm",
		"fault rebalance --rounds 100 -n " + manyRanks(100, 900),
		"fault soak -n 2 --for 10h --absent 10ms",
		"sim -n " + manyRanks(100, 2000),
	} {
		cut, results, text := cutRun(t, command)
		require.Positive(t, cut.Done, command)
		require.Less(t, cut.Done, cut.Of, command)
		require.Contains(t, text, "# cut by --max-time ", command)
		switch name := strings.Join(strings.Fields(command)[:2], " "); {
		case strings.HasPrefix(name, "netpipe"):
			require.Len(t, results["points"], cut.Done)
		case name == "fault detect":
			require.Equal(t, float64(cut.Done), float64(len(results["rounds"].([]any))))
		case strings.HasPrefix(name, "sim"):
			require.Len(t, results["rows"], cut.Done)
		case name == "fault rebalance":
			require.Len(t, results["trees"], cut.Done)
		}
	}
}

// The report of a paper that was cut has the results so far, and a tuning without a finding changes no
// file.
func TestMaxTimeOfPaperAndTune(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := ftbench(t, append([]string{"paper", "--out", dir, "--json", "-", "--max-time", "1ms"},
		strings.Fields("--quick --ranks 4 --sets 1 --ops 2 --rounds 1")...)...)
	require.Zero(t, code, errs)
	require.FileExists(t, filepath.Join(dir, "report.md"))
	r := stored[paperResults](t, "paper-report", []byte(out))
	require.Equal(t, time.Millisecond, r.Cut.MaxTime)
	require.Less(t, r.Cut.Done, r.Cut.Of)
	require.Contains(t, errs, "cut by --max-time 1ms")

	file := filepath.Join(dir, "tune.conf")
	code, _, errs = ftbench(t, "tune", "--out", file, "--max-time", "1ms")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "nothing was measured: cut by --max-time 1ms: 0 of 4 knobs are done")
	require.NoFileExists(t, file)
}

// A sweep that another command has started has its time; the first size is always measured.
func TestOsuSharesTime(t *testing.T) {
	name, value, _ := strings.Cut(budget.Start(time.Nanosecond).Export()[0], "=")
	t.Setenv(name, value)
	for _, command := range []string{"osu latency", "osu bcast -n 3 -m 1:4096"} {
		code, out, errs := ftbench(t, append(strings.Fields(command), "--json", "-")...)
		require.Zero(t, code, errs)
		r := stored[osuResults](t, "osu", []byte(out))
		require.Len(t, r.Points, 1)
		require.Equal(t, 1, r.Cut.Budget.Done)
		require.Equal(t, 2, r.Cut.Size)
		require.Contains(t, errs, "sizes from 2 bytes on are left out: cut by --max-time 1ns")
	}
}

// With --quick little is measured, with all values of the other options.
func TestQuick(t *testing.T) {
	option := func(command, name string) (value any) {
		code, out, errs := ftbench(t, append(strings.Fields(command), "--quick", "--json", "-")...)
		require.Contains(t, []int{0, exitMissed}, code, errs)
		require.NotContains(t, errs, "this takes about")
		return stored[map[string]any](t, kindOf(out), []byte(out))["options"].(map[string]any)[name]
	}
	require.EqualValues(t, 2, option("match --rounds 9 --entries 10", "rounds"))
	require.EqualValues(t, 10, option("fault detect --kills 5000", "kills"))
	require.EqualValues(t, 3, option("fault rebalance --rounds 500 -n 64,1000000", "rounds"))
	require.EqualValues(t, 100, option("osu latency -m 8:8 -i 1000", "iterations"))
	require.EqualValues(t, 1, option("netpipe -u 64 -o "+filepath.Join(t.TempDir(), "np.out"), "trials"))
}

// kindOf is the kind of a file of results.
func kindOf(text string) string {
	return regexp.MustCompile(`"kind": "(.*)"`).FindStringSubmatch(text)[1]
}

// Before a long measurement starts the command prints its estimated duration.
func TestAnnounce(t *testing.T) {
	m := measure(t, "netpipe", "-o", filepath.Join(t.TempDir(), "np.out"))
	_, err := m.out.ReadString('\n')
	require.NoError(t, err)
	m.end(t, unix.SIGINT)
	require.Contains(t, m.errs.String(), "ftbench netpipe: this takes about 2 min\n")
	for _, c := range []struct {
		estimate, limit time.Duration
		want            string
	}{
		{9 * time.Second, 0, ""},
		{time.Hour, 9 * time.Second, ""},
		{42 * time.Second, 0, "ftbench x: this takes about 40 s\n"},
		{time.Hour, 61 * time.Second, "ftbench x: this takes about 60 s\n"},
		{100 * time.Minute, 0, "ftbench x: this takes about 1.7 h\n"},
	} {
		var b strings.Builder
		announce(&b, "x", c.estimate, c.limit)
		require.Equal(t, c.want, b.String())
	}
}
