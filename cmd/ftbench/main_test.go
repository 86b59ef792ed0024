package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/match"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/report"
)

// selfEnv makes the test binary be ftbench: it starts itself as ranks.
const selfEnv = "BANYAN_TEST_FTBENCH"

func TestMain(m *testing.M) {
	if os.Getenv(selfEnv) != "" {
		main()
	}
	os.Setenv(selfEnv, "1")
	os.Exit(m.Run())
}

// ftbench runs a command line in this process and returns what it printed.
func ftbench(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	code = run(&call{args, &o, &e})
	return code, o.String(), e.String()
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "--help", "run --help", "osu --help", "osu latency --help", "osu bw --help", "osu bibw --help", "osu mbw_mr --help", "osu multi_lat --help", "osu latency_mt --help", "netpipe --help", "match --help", "compare --help", "tour --help"} {
		code, out, errs := ftbench(t, strings.Fields(args)...)
		require.Zero(t, code, args)
		require.Empty(t, errs, args)
		require.Contains(t, out, "Usage: ftbench", args)
		if leaf := args != "" && args != "--help" && args != "osu --help"; leaf {
			require.Regexp(t, `Examples?:`, out, args)
			require.Regexp(t, `\n    (ftbench|mpiexec)`, out, args)
		}
		require.NotContains(t, out, "One side of", "hidden commands")
	}
}

func TestUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"dance":                     "unexpected argument dance",
		"osu latency --fabric tcp":  "shm",
		"osu latency -W 3":          "unknown flag -W",
		"osu bibw -p 2":             "unknown flag -p",
		"osu mbw_mr -t 2":           "unknown flag -t",
		"run -n 2":                  "expected",
		"run --bnd core -- true":    "unknown flag --bnd",
		"run -n 2 -q true":          "unknown flag -q",
		"netpipe -2 -s":             "can't be used together",
		"netpipe --fabric tcp":      "shm",
		"run --bind socket -- true": "none",
		"compare --only everything": "latency",
	} {
		code, out, errs := ftbench(t, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Empty(t, out, args)
		require.Contains(t, errs, want, args)
	}
}

func TestErrorsNameTheCure(t *testing.T) {
	for args, want := range map[string]string{
		"osu latency -n 3":              "exactly 2 are needed",
		"osu latency -m 8:4":            "smallest ≤ largest",
		"osu latency -m 4:x":            `"x" is no number of bytes`,
		"osu bw -W 0":                   "1 to 65536 are possible",
		"osu bw -i 0":                   "at least 1 is needed",
		"compare --pairs 3":             "at least 9 pairs",
		"netpipe -l 9 -u 8":             "1 ≤ lower ≤ upper",
		"netpipe --trial-time 0s":       "a time above 0 is needed",
		"netpipe --plot np.jpg":         "must end in .svg or .png",
		"netpipe --with np.out":         "there is no --plot FILE",
		"netpipe --plot a.svg --with x": "x: no such file",
		"run -- /no/such/thing":         "/no/such/thing",
		"run --init-timeout=-2s true":   "start-up of -2s",
		"osu bibw -n 4":                 "exactly 2 are needed",
		"osu mbw_mr -n 5":               "an even number is needed for pairs: start it with -n 6",
		"osu mbw_mr -n 2 -p 2":          "4 are needed for 2 pairs: start it with -n 4",
		"osu multi_lat -n 1":            "at least 2 are needed",
		"osu latency_mt -n 4":           "exactly 2 are needed",
		"osu latency_mt -t 0":           "1 to 128 of each",
		"osu latency_mt -t 2:x":         "RECEIVERS:SENDERS is needed",
		"osu latency_mt --fabric sim":   "use --fabric shm",
		"match --entries 5,100":         "10 to 1048576 are possible",
		"match --rounds 0":              "at least 1 round",
	} {
		code, _, errs := ftbench(t, strings.Fields(args)...)
		require.Equal(t, exitFailed, code, args)
		require.Contains(t, errs, want, args)
	}
}

func TestParseSizes(t *testing.T) {
	for text, want := range map[string][2]int{"": {1, 9}, "8": {1, 8}, "2:8": {2, 8}, "4:": {4, 9}, ":8": {1, 8}, "0:0": {0, 0}} {
		low, high := 1, 9
		require.NoError(t, parseSizes(text, &low, &high))
		require.Equal(t, want, [2]int{low, high}, text)
	}
}

func TestRun(t *testing.T) {
	code, out, errs := ftbench(t, "run", "-n", "2", "--tag-output", "--", "sh", "-c", "echo $PMI_RANK -- $1", "sh", "--flag")
	require.Zero(t, code, errs)
	require.ElementsMatch(t, []string{"[0] 0 -- --flag", "[1] 1 -- --flag"}, strings.Split(strings.TrimSpace(out), "\n"))

	code, _, errs = ftbench(t, "run", "-n", "1", "sh", "-c", "exit 7")
	require.Equal(t, 7, code)
	require.Contains(t, errs, "rank 0 exited with code 7")
}

// A full disk shows in the exit code of every command that starts ranks.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range []string{"run -- seq 1000", "osu latency -m 8:8 -i 10 -x 1", "netpipe -u 8 --trial-time 1us -o " + filepath.Join(t.TempDir(), "np.out")} {
		var errs strings.Builder
		require.Equal(t, exitFailed, run(&call{strings.Fields(args), full, &errs}), args)
		require.Contains(t, errs.String(), "cannot write to the standard output", args)
		require.Contains(t, errs.String(), "no space left on device", args)
	}
}

// Started alone, the benchmarks start their ranks; a file has the environment.
func TestOsuAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	for _, c := range []struct {
		args   string
		ranks  int
		values int // columns of numbers before those of the percentiles
	}{
		{"osu latency -m 0:16384 -i 20 -x 1", 2, 1},
		{"osu latency -m 0:16384 -i 20 -x 1 --fabric sim", 2, 1},
		{"osu bw -m 0:16384 -i 2 -x 1 -W 4 --aware=false", 2, 1},
		{"osu bibw -m 0:16384 -i 2 -x 1 -W 4", 2, 1},
		{"osu bibw -m 0:16384 -i 2 -x 1 -W 4 --fabric sim", 2, 1},
		{"osu mbw_mr -m 0:16384 -i 2 -x 1 -W 4 -n 4", 4, 2},
		{"osu mbw_mr -m 0:16384 -i 2 -x 1 -W 4 -n 10 --fabric sim", 10, 2},
		{"osu multi_lat -m 0:16384 -i 20 -x 1 -p 2", 4, 1},
		{"osu multi_lat -m 0:16384 -i 20 -x 1 -n 5 -p 1", 5, 1},
		{"osu latency_mt -m 0:16384 -i 50 -x 1", 2, 1},
		{"osu latency_mt -m 0:16384 -i 50 -x 1 -t 3:2", 2, 1},
	} {
		code, out, errs := ftbench(t, append(strings.Fields(c.args), "-c", "-z", "--json", file)...)
		require.Zero(t, code, "%s: %s", c.args, errs)
		rows := 0
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "#") {
				require.Regexp(t, fmt.Sprintf(`^\d+( +[\d.]+){%d} +Pass( +[\d.]+){3}\n$`, c.values), line)
				rows++
			}
		}
		require.Equal(t, 16, rows, c.args)
		require.Regexp(t, `(?m)^# OSU MPI .* Test v5\.9`, out)
		checkOsuFile(t, file, c.args, c.ranks)
	}
}

// checkOsuFile checks what a run of osu has stored.
func checkOsuFile(t *testing.T, file, args string, ranks int) {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got struct {
		Kind        string
		Environment struct{ Kernel string }
		Results     struct {
			Benchmark, Fabric string
			Aware             bool
			Ranks             int
			Points            []struct{ Size int }
		}
	}
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, "osu", got.Kind)
	require.NotEmpty(t, got.Environment.Kernel)
	require.Len(t, got.Results.Points, 16)
	require.Equal(t, !strings.Contains(args, "aware=false"), got.Results.Aware)
	require.Equal(t, ranks, got.Results.Ranks)
	require.Equal(t, strings.Fields(args)[1], got.Results.Benchmark)
}

// Under another launcher the job's size counts, and each error is said before a
// table begins.
func TestOsuInJob(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	code, out, errs := ftbench(t, "run", "-n", "4", "--", self, "osu", "mbw_mr", "-m", "8:8", "-i", "2", "-W", "3")
	require.Zero(t, code, errs)
	require.Contains(t, out, "# [ pairs: 2 ] [ window size: 3 ]")

	code, out, errs = ftbench(t, "run", "-n", "3", "--", self, "osu", "mbw_mr")
	require.NotZero(t, code)
	require.Empty(t, out)
	require.Contains(t, errs, "an even number is needed")
}

// Every benchmark has a command, a help text and a table.
func TestOsuIsComplete(t *testing.T) {
	for _, b := range osu.All {
		require.NotEmpty(t, osuWords[b.Name].text, b.Name)
		require.NotEmpty(t, osuWords[b.Name].examples, b.Name)
		for _, example := range osuWords[b.Name].examples {
			var cli = commands{Osu: newOsuCmd()}
			parser, err := kong.New(&cli)
			require.NoError(t, err)
			_, err = parser.Parse(append([]string{"osu", b.Name}, strings.Fields(example)...))
			require.NoError(t, err, "%s %s", b.Name, example)
		}
		require.NoError(t, (&report.OSUTable{W: io.Discard, Name: b.Name}).Header())
	}
	require.Len(t, osuWords, len(osu.All))
}

// fewCPUs is what is said where the ranks do not have a CPU each.
var fewCPUs = regexp.MustCompile(`(?m)^ftbench: \d+ ranks on \d+ CPU: .*\n`)

// With lengths that no bound speaks of: what is found is not the test's business.
func TestMatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.json")
	code, out, errs := ftbench(t, "match", "--entries", "10,300", "--rounds", "2", "--min-time", "100us", "--json", file)
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
			{Length: matchShort, Rounds: []float64{1}}, {Length: matchLong, Rounds: []float64{long}},
		}}
	}
	require.Equal(t, []matchBound{{"B3-5", match.Posted, 3, 3, true}, {"B3-6", match.Unexpected, 3.5, 3, false}},
		judge([]match.Result{series(match.Posted, 3), series(match.PostedWild, 9), series(match.Unexpected, 3.5)}))
}

func TestTour(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	code, out, errs := ftbench(t, "tour", "--dir", dir, "--min-time", "1us")
	require.Zero(t, code, errs)
	require.Contains(t, out, "control")
	for _, name := range []string{"osu-latency.txt", "osu-latency.json", "osu-bw.txt", "osu-bw.json", "tour.json", "latency.svg", "bandwidth.svg"} {
		require.FileExists(t, filepath.Join(dir, name))
		require.Contains(t, out, filepath.Join(dir, name), "its name is printed")
	}
	for name, words := range map[string][]string{
		"latency.svg":   {">median<", ">99th percentile<", ">one-way time (µs)<"},
		"bandwidth.svg": {">window of 64<", ">bandwidth (MB/s, 10⁶ bytes)<"},
	} {
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

// The whole machinery, for a moment; what it finds is not the test's business.
func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	code, out, errs := ftbench(t, "compare", "--max-time", "300ms", "--sample", "1ms", "--json", file)
	if _, err := peers.CPUs(); err != nil {
		require.Contains(t, errs, "two CPUs")
		return
	}
	require.Contains(t, []int{0, exitMissed}, code, errs)
	for _, title := range []string{"8-byte tagged one-way latency", "bandwidth, window 64, 1048576 bytes", "aware over unaware"} {
		require.Contains(t, out, title)
	}
	require.FileExists(t, file)
	require.Empty(t, errs, "no progress where nobody watches")
}

// Every bound of the issue is in a plan, and the peers that a bound names are
// sampled.
func TestPlansHaveTheBounds(t *testing.T) {
	c := &contest{runners: map[string]peers.Runner{ours: nil}}
	for _, name := range []string{ours, unaware, ucx, openmpi, mpich, bare} {
		c.runners[name] = current{}
	}
	got := map[string][]float64{}
	for _, p := range c.plans([]string{groupLatency, groupBandwidth, groupAware}) {
		require.Equal(t, ours, p.Sources[0].Name, "the subject of %s", p.Name)
		for _, b := range p.Bounds {
			if b.ID == "" {
				continue
			}
			got[b.ID] = append(got[b.ID], b.Limit)
		}
	}
	require.Equal(t, map[string][]float64{
		"B2-1": {0.9}, "B2-2": {1}, "B2-3": {1}, "B2-4": {1.5},
		"B2-5": {1, 0, 0}, "B2-6": {.95, .95, .95}, "B2-7": {.95, .95, .95}, "B2-8": {.95, .95, .95}, "B2-9": {.95, .95, .95}, "B2-10": {.95, .95, .95},
		"B2-11": {1.012}, "B2-12": {1.004},
	}, got)
	require.ElementsMatch(t, []string{ours, unaware, ucx, openmpi, mpich}, names([]string{groupLatency, groupAware, groupBandwidth}))

	delete(c.runners, mpich)
	require.Len(t, c.latencyPlans()[0].Sources, 4, "what is not installed is left out")
}

func TestMissed(t *testing.T) {
	row := func(v compare.Verdict) *compare.Result { return &compare.Result{Rows: []compare.Row{{Verdict: v}}} }
	require.False(t, missed([]*compare.Result{row(compare.Met), row(compare.Undecided), row(compare.Info), {}}))
	require.True(t, missed([]*compare.Result{row(compare.Met), row(compare.Missed)}))
}

func TestVariables(t *testing.T) {
	require.Equal(t, []string{"GOMAXPROCS=1", "UCX_TLS=posix"}, variables([]string{"UCX_TLS=posix", "HOME=/", "GOMAXPROCS=1"}))
}
