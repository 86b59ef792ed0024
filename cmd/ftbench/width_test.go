package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/bench/tune"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// requireFits fails on a line that is longer than that of a terminal of 80 columns, and on a number that is
// none.
func requireFits(t *testing.T, text, of string) {
	t.Helper()
	require.NotEmpty(t, text, of)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		require.LessOrEqual(t, columns(line), table.Columns, "%s: %q", of, line)
	}
	require.NotContains(t, text, "NaN", of)
	require.NotContains(t, text, "Inf", of)
}

// The help of every command fits, with any value of the variable COLUMNS.
func TestHelpFits(t *testing.T) {
	t.Setenv("COLUMNS", "200")
	code, text, errs := ftbench(t, "docs", "markdown")
	require.Zero(t, code, errs)
	for section := range strings.SplitSeq(text, "\n## ") {
		name, _, _ := strings.Cut(section, "\n")
		requireFits(t, section, name)
	}
	for _, group := range []string{"--help", "fault --help", "osu --help"} {
		_, text, _ = ftbench(t, strings.Fields(group)...)
		requireFits(t, text, group)
	}
}

// Lines that the parser leaves as they are.
func TestFoldHelp(t *testing.T) {
	for text, want := range map[string]string{
		"short\n\n":                                "short\n\n",
		"    ftbench a --long xxxxxxxx --bb y\n":   "    ftbench a --long xxxxxxxx \\\n      --bb y\n",
		"    ftbench aaaaaaaaaaaaaaaaa bbbbbbbb\n": "    ftbench aaaaaaaaaaaaaaaaa \\\n      bbbbbbbb\n",
		"     aaaa,bbbb,cccc,dddd,eeee,ffff\n":     "     aaaa,bbbb,cccc,dddd,eeee,\n     ffff\n",
		"  wörter wörter wörter wörter wörter\n":   "  wörter wörter wörter wörter\n  wörter\n",
		"    " + strings.Repeat("x", 40) + "\n":    "    " + strings.Repeat("x", 40) + "\n",
	} {
		require.Equal(t, want, foldHelp(text, 31))
	}
}

// The output of each command without a terminal fits.
func TestTablesFit(t *testing.T) {
	for _, args := range []string{
		"fault barrier -n 8 --failures 0,6 --fabric sim --tree binomial,knomial:4",
		"fault bcast -n 8 --failures 0,6 --fabric sim --sets 8 --ops 2 --roots rotate --size 1048576",
		"fault reduce -n 8 --unknown --fabric sim --sets 4 --ops 2",
		"fault agree --fabric sim -n 4,1024 --failures 1",
		"fault rebalance -n 2,1024 --rounds 1 --kill average",
		"fault drill --fabric sim --runs 2",
		"sim -n 64,16384 --failures 0,3 --kill average --rounds 1 --op allreduce --bytes 1048576 --design rebalance",
		"osu latency -z --fabric sim -m 1:1", "osu bibw --fabric sim -m 4194304: -i 1 -x 0", "osu latency -c --fabric sim -m 1:1",
		"osu mbw_mr -c --fabric sim -m 1:1", "osu mbw_mr -V --fabric sim -m 1:1", "osu allreduce -f --fabric sim -m 4:4",
		"osu barrier -f --fabric sim",
		"netpipe -i --fabric sim -l 8388608 -n 1 --trials 1",
		"match --entries 10 --rounds 1 --min-time 1us",
		"many --ranks 2,3 --jobs 1 --repeats 1",
		"info", "doctor --networks lo", "help",
	} {
		code, out, errs := ftbench(t, strings.Fields(args)...)
		if strings.HasPrefix(args, "fault rebalance") && code == exitMissed {
			code = 0 // a busy machine is slower than the bound
		}
		require.Zero(t, code, "%s: %s", args, errs)
		requireFits(t, out, args)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, fabric := range []string{"shm", "tcp"} {
		code, out, errs := ftbench(t, "run", "-n", "12", "--fabric", fabric, "--", self, "doctor")
		require.Zero(t, code, errs)
		requireFits(t, out, "doctor")
	}
}

// The tables of OSU fit with every combination of the options that add columns.
func TestOSUTablesFit(t *testing.T) {
	for bench, letters := range map[string][]string{
		"latency": {"-c", "-z"}, "bw": {"-c", "-z"}, "bibw": {"-c", "-z"}, "mbw_mr": {"-c", "-z", "-R 0"},
		"multi_lat": {"-c", "-z"}, "barrier": {"-f", "-z"}, "bcast": {"-c", "-f", "-z"}, "allreduce": {"-c", "-f", "-z"},
		"alltoallv": {"-c", "-f", "-z"}, "reduce_scatter_block": {"-c", "-f", "-z"},
		"put_latency": {"-c", "-z"}, "put_bibw": {"-c", "-z"}, "cas_latency": {"-c", "-z"},
	} {
		for set := range 1 << len(letters) {
			args := "osu " + bench + " --fabric sim -m 4:4 -i 1 -x 0"
			for i, letter := range letters {
				if set>>i&1 > 0 {
					args += " " + letter
				}
			}
			code, out, errs := ftbench(t, strings.Fields(args)...)
			require.Zero(t, code, "%s: %s", args, errs)
			requireFits(t, out, args)
			if strings.Contains(args, "-z") {
				require.Contains(t, out, "P99 Tail", args)
			}
		}
	}
}

// The tables of jobs whose ranks are killed, with times that are long.
func TestTablesOfFailuresFit(t *testing.T) {
	var out bytes.Buffer
	times := stats.SpreadOf(100*time.Millisecond, 999*time.Millisecond)
	latencies := fault.Latencies{Each: times, Last: times}
	require.NoError(t, latencyTable(&out, "# Banyan failure detection, from kill to error, µs; 128 ranks, 1000 kills, "+
		"wait: barrier, victim with 512 MiB", &latencies, time.Microsecond))
	require.NoError(t, faultSilenceTable(&out, &fault.SilenceResult{Latencies: latencies}))
	for _, c := range []faultSoakCmd{{}, {Period: time.Second, Timeout: time.Minute}} {
		require.NoError(t, c.table(&out, &fault.SoakResult{Ranks: make([]fault.Seen, 2)}, false, time.Hour))
	}
	rows := tuneTable(&out)
	require.NoError(t, rows.Begin())
	require.NoError(t, printTried(&rows, tune.Tried{Trial: tune.Trial{Knob: settings.Eager, What: "16k over 8k",
		Job: tune.Job{Test: "bw", Size: 4 << 20, Window: 64}}, Rows: []tune.Row{{Distance: tune.Far, Pairs: 128, New: 1,
		Old: 1, Ratio: 1, Low: .9, High: 1.1}}}))
	revoke := recoverOptions{Op: fault.Revoke, N: []int{2}, Rounds: 40}
	recovery := revoke.table(&out, fault.Recovery{Op: fault.Revoke, Settle: 5 * time.Millisecond})
	require.NoError(t, recovery.Begin())
	require.NoError(t, recoverRow(&recovery, recoverResult{RecoveryResult: &fault.RecoveryResult{
		Options: fault.Recovery{Ranks: 1024, Failures: 512}, Calls: times, Baseline: times,
	}, Ratio: stats.MedianInterval([]float64{123.456})}))
	require.NoError(t, recovery.End())
	requireFits(t, out.String(), "tables")
}
