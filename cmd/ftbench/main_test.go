package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/match"
)

// selfEnv makes the test binary be ftbench: it starts itself as ranks.
const selfEnv = "BANYAN_TEST_FTBENCH"

func TestMain(m *testing.M) {
	if os.Getenv(uncheckedEnv) != "" {
		if err := unchecked(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		return
	}
	if os.Getenv(selfEnv) != "" {
		main()
	}
	os.Setenv(selfEnv, "1")
	if signal.Ignored(os.Interrupt) { // as in the background of a script; interrupted programs must not inherit it
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	os.Setenv("BANYAN_TUNING", "none") // the tests are of the command, not of this machine's settings
	os.Exit(m.Run())
}

// ftbench runs a command line in this process and returns its output.
func ftbench(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	code = run(&call{args, &o, &e})
	return code, o.String(), e.String()
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "--help", "run --help", "osu --help", "osu latency --help", "osu bw --help",
		"osu bibw --help", "osu mbw_mr --help", "osu multi_lat --help", "osu latency_mt --help", "osu barrier --help",
		"osu bcast --help", "osu allreduce --help", "osu alltoall --help", "osu scan --help",
		"osu put_latency --help", "osu put_bw --help",
		"osu cas_latency --help", "osu init --help", "netpipe --help", "match --help", "many --help",
		"fault detect --help", "fault barrier --help", "fault bcast --help", "fault allreduce --help",
		"fault drill --help", "compare --help", "tour --help", "tune --help", "info --help", "doctor --help"} {
		code, out, errs := ftbench(t, strings.Fields(args)...)
		require.Zero(t, code, args)
		require.Empty(t, errs, args)
		require.Contains(t, out, "Usage: ftbench", args)
		if args != "osu --help" { // whose commands have them
			require.Regexp(t, `Examples?:`, out, args)
			require.Regexp(t, `\n    (ftbench|mpiexec)`, out, args)
		}
		require.NotContains(t, out, "One side of", "hidden commands")
	}
}

// expectUsageErrors checks that each command line is refused, with a message that contains a text.
func expectUsageErrors(t *testing.T, messages map[string]string) {
	t.Helper()
	for args, want := range messages {
		code, out, errs := ftbench(t, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Empty(t, out, args)
		require.Contains(t, errs, want, args)
	}
}

func TestUsageErrors(t *testing.T) {
	expectUsageErrors(t, map[string]string{
		"dance":                                     "unexpected argument dance",
		"osu latency --fabric rdma":                 "shm,verbs,unix,tcp are",
		"run --fabric sim -- true":                  "shm,verbs,unix,tcp are",
		"osu latency -W 3":                          "unknown flag -W",
		"osu bibw -p 2":                             "unknown flag -p",
		"osu mbw_mr -t 2":                           "unknown flag -t",
		"osu mbw_mr -V -W 8":                        "can't be used together",
		"osu mbw_mr -R 2":                           `must be one of "0","1"`,
		"osu bcast -W 8":                            "unknown flag -W",
		"osu bcast -t 2":                            "unknown flag -t",
		"osu barrier -c":                            "unknown flag -c",
		"osu latency -f":                            "unknown flag -f",
		"osu init -i 2":                             "unknown flag -i",
		"run -n 2":                                  "expected",
		"run -n 0 -- true":                          "at least 1 rank",
		"run --init-timeout=-2s -- true":            "no time",
		"run --bnd core -- true":                    "unknown flag --bnd",
		"run -n 2 -q true":                          "unknown flag -q",
		"many --ranks 1":                            "1 ranks: 2 to",
		"many --sizes 0":                            "0 bytes: 1 to",
		"many --jobs 0":                             "at least 1",
		"fault detect -n 1":                         "-n 1 is not within",
		"fault detect --wait asleep":                `must be one of "victim","any","barrier"`,
		"fault detect --plot x.gif":                 "must end in .svg or .png",
		"netpipe -2 -s":                             "can't be used together",
		"netpipe --fabric shm,sim":                  "sim alone",
		"run --bind socket -- true":                 "none",
		"compare --only everything":                 "latency",
		"tune --fabric tcp":                         "shm",
		"doctor --fabric pigeon":                    "shm,verbs,unix,tcp are",
		"osu init --fabric sim":                     "no start-up",
		"compare --entries x":                       "entries",
		"run --hosts a --hostfile f -- true":        "can't be used together",
		"run --hosts= -- true":                      "an empty name of a host",
		"run --hosts a --netns 2 -- true":           "can't be used together",
		"run --hosts a:x -- true":                   `"x" slots`,
		"run --hosts -a -- true":                    "expected string value",
		"run --hosts=-a -- true":                    "take it for an option",
		"run --hostfile /no/such -- true":           "no such file",
		"run --hosts a --rsh 'x -- true":            "quote",
		"run --netns 251 -- true":                   "1 to 250",
		"run --netns 4 -n 3 -- true":                "a rank for each namespace",
		"run --netns-rate 5 -- true":                "is for --netns",
		"run --netns 0 -- true":                     "1 to 250",
		"run --netns 2 --netns-rate 0 -- true":      "10mbit or 2.5gbit",
		"run --netns 2 --netns-rate 5kbit -- true":  "10mbit or 2.5gbit",
		"run --netns-rate 0.5gbit -- true":          "is for --netns",
		"run --rsh ssh -- true":                     "--rsh is for --hosts or --hostfile",
		"run --rsh= --netns 2 -- true":              "--rsh is for --hosts or --hostfile",
		"run --remote-ftbench /f -- true":           "--remote-ftbench is for --hosts or --hostfile",
		"run --networks nothere0 -- true":           `"nothere0"; there are lo 127.0.0.1`,
		"run --networks lo, -- true":                "an empty name",
		"run --exit some -- true":                   `"any","rank0","survivors"`,
		"run --max-failures=-1 -- true":             "a number from 0 on",
		"run --max-failures 1 --on-failure abort x": "leave one of them out",
	})
}

// Errors of the parser name the flag, and no tokens of the parser.
func TestUsageErrorsInPlainWords(t *testing.T) {
	for args, want := range map[string]string{
		"run -n -3 -- true":  "ftbench: --n: -3 is not possible: a number from 0 on is needed (see ftbench run --help)\n",
		"osu latency --json": "ftbench: --json: a value is missing (see ftbench osu latency --help)\n",
	} {
		code, _, errs := ftbench(t, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Equal(t, want, errs, args)
	}
}

// The help that is pointed to is that of the command that was meant.
func TestUsageErrorsNameTheHelp(t *testing.T) {
	for args, want := range map[string]string{
		"dance": "ftbench --help", "osu dance": "ftbench osu --help", "osu bw --dance": "ftbench osu bw --help",
		"run --dance": "ftbench run --help", "run -n x -- osu bw": "ftbench run --help",
	} {
		code, _, errs := ftbench(t, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, errs, " (see "+want+")\n", args)
	}
}

// Mistakes that the parser does not find are errors of the command line as well, and are found
// before anything is measured.
func TestUsageErrorsNameTheCure(t *testing.T) {
	expectUsageErrors(t, map[string]string{
		"osu latency -n 3":                  "exactly 2 are needed",
		"osu latency -m 8:4":                "smallest ≤ largest",
		"osu latency -m 4:x":                `"x" is no number of bytes`,
		"osu bw -W 0":                       "1 to 65536 are possible",
		"osu bw --max-time=-1s":             "a time from 0 on is needed",
		"osu bw -i 0":                       "at least 1 is needed",
		"compare --pairs 3":                 "at least 9 pairs",
		"netpipe -l 9 -u 8":                 "1 ≤ lower ≤ upper",
		"netpipe --trial-time 0s":           "a time above 0 is needed",
		"netpipe --plot np.jpg":             "must end in .svg or .png",
		"netpipe --with np.out":             "there is no --plot FILE",
		"osu bibw -n 4":                     "exactly 2 are needed",
		"osu mbw_mr -n 5":                   "an even number is needed for pairs: start it with -n 6",
		"osu mbw_mr -n 2 -p 2":              "4 are needed for 2 pairs: start it with -n 4",
		"osu multi_lat -n 1":                "at least 2 are needed",
		"osu latency_mt -n 4":               "exactly 2 are needed",
		"osu latency_mt -t 0":               "1 to 128 of each",
		"osu latency_mt -t 2:x":             "SENDERS:RECEIVERS is needed",
		"osu latency_mt -t 2:":              "SENDERS:RECEIVERS is needed",
		"osu latency_mt -t 3:0":             "0 receiving and 3 sending",
		"osu mbw_mr -V -c":                  "none for -c, -z",
		"osu mbw_mr -V -z":                  "none for -c, -z",
		"osu bcast -n 1":                    "at least 2 are needed: start it with -n 2",
		"osu barrier -n 0 -i 0":             "at least 1 is needed",
		"osu allreduce -m 6:64":             "whole numbers of 4 bytes are needed",
		"osu allreduce -m :2":               "a number has 4 bytes",
		"osu init -n 0":                     "at least 1 rank is needed",
		"osu latency_mt --fabric sim":       "use --fabric shm",
		"match --entries 5,100":             "10 to 1048576 are possible",
		"match --rounds 0":                  "at least 1 round",
		"compare --entries 5":               "10 to 1048576 are possible",
		"compare -n 0":                      "1 to 1024 are possible",
		"compare --sizes 16777216:":         "there are sizes from 1 to 8388608",
		"compare --sizes x":                 "is no number of bytes",
		"compare --plot a.jpg":              "must end in .svg or .png",
		"compare --only aware --plot a.svg": "none of them is asked for",
		"fault detect --settle=-1s":         "--settle -1s: at least 0 is needed",
		"fault detect --timeout 0s":         "--timeout 0s: a time above 0 is needed",
		"fault silence --timeout 1ms":       "--timeout: detect.timeout = 1ms: 30ms … 60m is possible",
		"fault silence --period 0s":         "times above 0 are needed",
		"fault silence --period 2s": "detect.timeout = 3s (--timeout) is less than 3 times detect.period = " +
			"2s (--period)",
		"fault silence --patience 4s":       "--patience 4s: more than 4s is needed",
		"fault silence --fabric shm,unix":   "tcp must be among the fabrics",
		"fault soak --netns 2 --fabric shm": "tcp must be among the fabrics",
		"fault soak --for 0s":               "--for 0s: a time above 0 is needed",
		"fault soak --absent=-1s":           "--absent -1s: at least 0 is needed",
		"fault soak --timeout 1s": "detect.timeout = 1s (--timeout) is less than 3 times detect.period = " +
			"500ms (default)",
		"fault soak --period 1500us": "--period 1.5ms: whole milliseconds are needed",
		"tour --min-time=-1s":        "a time from 0 on is needed",
		"tune --sample 0s":           "a time above 0 is needed",
	})
}

func TestErrorsNameTheCause(t *testing.T) {
	for args, want := range map[string]string{
		"netpipe --plot a.svg --with x": "x: no such file",
		"run -- /no/such/thing":         "/no/such/thing",
	} {
		code, _, errs := ftbench(t, strings.Fields(args)...)
		require.Equal(t, exitFailed, code, args)
		require.Contains(t, errs, want, args)
	}
}

func TestParseSizes(t *testing.T) {
	for text, want := range map[string][2]int{"": {1, 9}, "8": {1, 8}, "2:8": {2, 8}, "4:": {4, 9}, ":8": {1, 8},
		"0:0": {0, 0}} {
		low, high := 1, 9
		require.NoError(t, parseSizes(text, &low, &high))
		require.Equal(t, want, [2]int{low, high}, text)
	}
}

func TestRun(t *testing.T) {
	code, out, errs := ftbench(t, "run", "-n", "2", "--tag-output", "--", "sh", "-c", "echo $PMI_RANK -- $1", "sh",
		"--flag")
	require.Zero(t, code, errs)
	require.ElementsMatch(t, []string{"[0] 0 -- --flag", "[1] 1 -- --flag"},
		strings.Split(strings.TrimSpace(out), "\n"))

	code, _, errs = ftbench(t, "run", "-n", "1", "sh", "-c", "exit 7")
	require.Equal(t, 7, code)
	require.Contains(t, errs, "rank 0 exited with code 7")
}

// A full disk shows in the exit code of every command that starts ranks.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range []string{"run -- seq 1000", "osu latency -m 8:8 -i 10 -x 1",
		"netpipe -u 8 --trial-time 1us -o " + filepath.Join(t.TempDir(), "np.out")} {
		var errs strings.Builder
		require.Equal(t, exitFailed, run(&call{strings.Fields(args), full, &errs}), args)
		require.Contains(t, errs.String(), "cannot write to the standard output", args)
		require.Contains(t, errs.String(), "no space left on device", args)
	}
}

// fewCPUs matches the warning that the ranks do not have a CPU each.
var fewCPUs = regexp.MustCompile(`(?m)^ftbench: \d+ ranks on \d+ CPU: .*\n`)

// With lengths without a bound, so the result does not matter.
func TestMatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.json")
	code, out, errs := ftbench(t, "match", "--entries", "10,300", "--rounds", "2", "--min-time", "100us", "--json",
		file)
	require.Zero(t, code, errs)
	require.Empty(t, fewCPUs.ReplaceAllString(errs, ""))
	for _, series := range match.All {
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(series)+` +300 +[\d.]+ +[\d.]+$`, out)
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got struct {
		Kind    string
		Results matchResults
	}
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, "match", got.Kind)
	require.Len(t, got.Results.Series, len(match.All))
	require.Empty(t, got.Results.Bounds)
}

func TestJudge(t *testing.T) {
	series := func(name string, long float64) match.Result {
		return match.Result{Series: name, Points: []match.Point{
			{Length: suite.MatchShort, Rounds: []float64{1}}, {Length: suite.MatchLong, Rounds: []float64{long}},
		}}
	}
	require.Equal(t, []matchBound{{"B3-5", match.Posted, 3, 3, true}, {"B3-6", match.Unexpected, 3.5, 3, false}},
		judge([]match.Result{series(match.Posted, 3), series(match.PostedWild, 9), series(match.Unexpected, 3.5)}))
}

func TestTour(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	file := filepath.Join(t.TempDir(), "all.json")
	code, out, errs := ftbench(t, "tour", "--dir", dir, "--min-time", "1us", "--json", file)
	require.Zero(t, code, errs)
	all, err := os.ReadFile(file)
	require.NoError(t, err)
	measured := stored[controls](t, "tour", all).Measured
	require.Len(t, measured, 2)
	require.Equal(t, "bw", measured[1].Benchmark)
	require.Len(t, measured[1].Points, tourSizes)
	require.Contains(t, out, "control")
	for _, name := range []string{"osu-latency.txt", "osu-latency.json", "osu-bw.txt", "osu-bw.json", "tour.json",
		"latency.svg", "bandwidth.svg"} {
		require.FileExists(t, filepath.Join(dir, name))
		require.Contains(t, out, filepath.Join(dir, name), "its name is printed")
	}
	for name, words := range map[string][]string{
		"latency.svg":   {"median", "99th percentile", ">one-way time (µs)<"},
		"bandwidth.svg": {"window of 64", ">bandwidth (MB/s, 10⁶ bytes)<"},
	} {
		requireSource(t, filepath.Join(dir, name), "shared memory")
		svg, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, w := range append(words, ">message size (bytes)<", ">1 Ki<", ">4 Mi<") {
			require.Contains(t, string(svg), w, name)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "osu-bw.txt"))
	require.NoError(t, err)
	require.Contains(t, out, string(text))
}
