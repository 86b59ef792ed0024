package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/report"
)

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
		{"osu bcast -m 0:16384 -i 20 -x 1", 2, 1},
		{"osu bcast -m 0:16384 -i 20 -x 1 -n 5 --aware=false", 5, 1},
		{"osu bcast -m 0:16384 -i 20 -x 1 -n 9 -f --fabric sim", 9, 4},
		{"osu allreduce -m 4:131072 -i 20 -x 1 -n 3 -f", 3, 4},
		{"osu alltoallv -m 4:131072 -i 20 -x 1 -n 3 -f", 3, 4},
		{"osu iallreduce -m 4:131072 -i 20 -x 1 -n 3 -t 5", 3, 4},
		{"osu ialltoallv -m 4:131072 -i 20 -x 1 -n 3 -f", 3, 9},
		{"osu reduce_scatter -m 4:131072 -i 20 -x 1 -n 3 -f", 3, 4},
		{"osu gather -m 0:16384 -i 20 -x 1 -n 3 -k rotate -l", 3, 1},
		{"osu ireduce -m 4:131072 -i 20 -x 1 -n 3 -k fixed:2 -l", 3, 4},
	} {
		code, out, errs := ftbench(t, append(strings.Fields(c.args), "-c", "-z", "--json", file)...)
		require.Zero(t, code, "%s: %s", c.args, errs)
		rows := map[string]string{} // by size; a wide table is in two blocks
		for line := range strings.Lines(out) {
			if line != "\n" && !strings.HasPrefix(line, "#") {
				size, values, _ := strings.Cut(strings.TrimSpace(line), " ")
				rows[size] += " " + values
			}
		}
		require.Len(t, rows, 16, c.args)
		for size, values := range rows {
			require.Regexp(t, fmt.Sprintf(`^( +[\d.]+){%d} +Pass( +[\d.]+){3}$`, c.values), values, "%s: %s", c.args, size)
		}
		require.Regexp(t, `(?m)^# OSU MPI .* Test v(5\.9|7\.4)`, out)
		checkOsuFile(t, file, c.args, c.ranks)
	}
}

// Every program runs with real ranks, two, or three where there may be three, and finds no wrong byte.
func TestOsuPrograms(t *testing.T) {
	for _, b := range osu.All {
		if b.OneSided { // TestOsuWindows
			continue
		}
		if few := []string{"barrier_persistent", "alltoallv_persistent"}; b.Collective && !slices.Contains(few, b.Name) &&
			strings.HasSuffix(b.Name, "_persistent") {
			continue // TestCollectives of bench/osu runs them all
		}
		args := []string{"osu", b.Name, "-i", "3", "-x", "1", "--precision", "3", "-m", "8:8"}
		sizeless := strings.Contains(b.Name, "barrier")
		if !sizeless {
			args = append(args, "-c")
		}
		switch {
		case b.Collective:
			args = append(args, "-n", "3", "-f")
		case b.Fan:
			args = append(args, "-n", "3")
		}
		code, out, errs := ftbench(t, args...)
		require.Zero(t, code, "%s: %s", b.Name, errs)
		requireFits(t, out, b.Name)
		require.Regexp(t, `(?m)^# OSU MPI.* Test v(5\.9|7\.4)( \(its format; by Banyan\))?$`, out, b.Name)
		require.Regexp(t, `(?m)^ *[\d.]+( +[\d.]+)*( +Pass)?$`, out, b.Name)
		require.Equal(t, !sizeless, strings.Contains(out, "Pass"), b.Name)
	}
}

// A table below the other for each type, with the sizes that hold an element.
func TestOsuTypes(t *testing.T) {
	for _, c := range []struct{ args, title string }{
		{"iallreduce -n 3", "# OSU MPI Non-blocking Allreduce Latency Test v7.4"}, {"bw", "# OSU MPI Bandwidth Test v5.9"},
	} {
		code, out, errs := ftbench(t, strings.Fields("osu "+c.args+" -m 2:4 -i 3 -x 1 -c -T mpi_char,ALL")...)
		require.Zero(t, code, "%s: %s", c.args, errs)
		require.Equal(t, 1, strings.Count(out, c.title), out)
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^# Datatype: (\S+)\.$|^(\d)( .*)Pass$`).FindAllStringSubmatch(out, -1) {
			got = append(got, m[1]+m[2])
		}
		require.Equal(t, []string{"MPI_CHAR", "2", "4", "MPI_CHAR", "2", "4", "MPI_INT", "4", "MPI_FLOAT", "4"}, got, out)
	}
}

// Sizes beyond the memory limit are left out, and standard error reports that.
func TestOsuMemoryLimit(t *testing.T) {
	code, out, errs := ftbench(t, strings.Fields("osu ialltoall -n 2 -M 1048576 -m 262144:1048576 -i 2 -x 1 -c -u 3")...)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^524288 .*Pass$`, out)
	require.NotContains(t, out, "1048576")
	require.Contains(t, errs, "ftbench: osu ialltoall: sizes above 524288 bytes are left out: --mem-limit")
}

// Windows: over both fabrics and simulated, with each way to synchronize and to make them.
func TestOsuWindows(t *testing.T) {
	for _, args := range []string{
		"put_latency --fabric shm -s flush", "put_latency --fabric tcp -s lock", "get_latency --fabric shm -s pscw",
		"get_latency --fabric tcp -s fence", "put_bw --fabric shm -W 4 -s lock_all", "put_bw --fabric tcp -W 4",
		"get_bw --fabric shm -W 4", "get_bw --fabric tcp -W 4 -s pscw", "put_bibw --fabric shm -W 4",
		"put_bibw --fabric tcp -W 4 -s fence", "acc_latency --fabric shm", "acc_latency --fabric tcp -s fence",
		"get_acc_latency --fabric shm -w create", "get_acc_latency --fabric tcp -s lock", "fop_latency --fabric shm",
		"fop_latency --fabric tcp -s lock", "cas_latency --fabric shm -s pscw", "cas_latency --fabric tcp",
		"put_bw --fabric sim -W 4 -w create", "cas_latency --fabric sim",
	} {
		name, _, _ := strings.Cut(args, " ")
		code, out, errs := ftbench(t, strings.Fields("osu "+args+" -m 4:16384 -i 5 -x 1 -c -z")...)
		require.Zero(t, code, "%s: %s", args, errs)
		requireFits(t, out, args)
		require.Regexp(t, `(?m)^# OSU MPI_\S+ [\w -]+ Test v7\.4`, out, args)
		require.Contains(t, out, "# Window creation: MPI_Win_"+map[bool]string{true: "create\n", false: "allocate\n"}[strings.
			Contains(args, "-w create")])
		require.Regexp(t, `(?m)^# Synchronization: MPI_Win_\S+$`, out, args)
		require.Regexp(t, `(?m)^8 +[\d.]+ +Pass`, out, args)
		rows := 13
		if osu.Find(name).Defaults.Max == 8 {
			rows = 1
		}
		require.Equal(t, rows, strings.Count(out, "Pass"), args)
		require.NotContains(t, out, "Fail", args)
	}
}

// Options that OSU has and windows do not have are refused, with the remedy.
func TestOsuWindowsNameTheCure(t *testing.T) {
	expectUsageErrors(t, map[string]string{
		"osu bw -T mpi_long":              "use one of [mpi_char mpi_int mpi_float], or all",
		"osu put_bw -T mpi_int":           "leave it out",
		"osu bw -T all -m 2:2":            "a number has 4 bytes",
		"osu mbw_mr -V -T mpi_int":        "leave them out",
		"osu bcast -u 11":                 "0 to 10 are possible",
		"osu scatter -k 1":                "fixed:RANK or rotate is needed",
		"osu igatherv -n 2 -k fixed:2":    "choose another one",
		"osu bcast -l":                    "unknown flag -l",
		"osu bcast -M x":                  "mem-limit",
		"osu ibcast -t 2000000":           "0 to 1048576 are possible",
		"osu ibarrier --num-test-calls x": "num-test-calls",
		"osu put_bw -n 4":                 "exactly 2 are needed",
		"osu put_latency -w dynamic":      "not built: use allocate or create",
		"osu acc_latency --sync-option x": "no synchronization: use one of",
		"osu put_bibw -s lock":            "pscw or fence is needed",
	})
}

// checkOsuFile checks the stored results of a run of osu.
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

// A barrier has one row and no size, and takes OSU's -m without effect.
func TestOsuBarrier(t *testing.T) {
	for args, columns := range map[string]int{"": 1, "-n 5 -f": 4, "-n 4 -m :64 -z --aware=false": 4,
		"-n 12 -f --fabric sim": 4} {
		code, out, errs := ftbench(t, append(strings.Fields("osu barrier -i 20 -x 1"), strings.Fields(args)...)...)
		require.Zero(t, code, errs)
		require.Regexp(t, fmt.Sprintf(`^\n# OSU MPI Barrier Latency Test v5.*\n# Avg Latency\(us\).*\n( +[\d.]+){%d}\n$`, columns), out, args)
	}
}

// OSU's long names, and a column for each window.
func TestOsuNames(t *testing.T) {
	code, out, errs := ftbench(t, strings.Fields("osu mbw_mr --message-size 8:16 --iterations 2 --warmup 1 "+
		"--num-pairs 1 --vary-window --print-rate 1")...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "# [ pairs: 1 ] [ window size: varied ]")
	require.Regexp(t, `(?m)^# +1 +2 +4 +8 +16 +32$`, out)
	require.Regexp(t, `(?m)^# +64 +128$`, out)
	require.Len(t, regexp.MustCompile(`(?m)^(8|16)( +[\d.]+)+$`).FindAllString(out, -1), 8,
		"two sizes, bandwidth and rate, some windows below others")

	code, out, errs = ftbench(t, strings.Fields("osu mbw_mr --window-size 3 -m 8:8 -i 2 -R 0 --validation --tail-lat")...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "[ window size: 3 ]")
	require.NotContains(t, out, "Messages/s")
	require.Regexp(t, `(?m)^8 +[\d.]+ +Pass$`, out)
	require.Regexp(t, `(?m)^8( +[\d.]+){3}$`, out)

	code, out, errs = ftbench(t, strings.Fields("osu latency_mt --num-test-calls 2:3 -m 8:8 -i 20 -x 1")...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "# Number of Sender threads: 2 \n# Number of Receiver threads: 3\n")
}

func TestOsuHello(t *testing.T) {
	code, out, errs := ftbench(t, strings.Fields("osu hello -n 3")...)
	require.Zero(t, code, errs)
	_, stored, _ := ftbench(t, strings.Fields("osu hello -n 2 --json -")...)
	require.Contains(t, strings.Join(strings.Fields(stored), ""), `"benchmark":"hello","aware":true,"ranks":2`)
	require.Regexp(t, `^# OSU MPI Hello World Test v7\.4 .*\nThis is a test with 3 processes\n$`, out)
	expectUsageErrors(t, map[string]string{
		"osu hello -n 0":         "at least 1 rank is needed",
		"osu hello --fabric sim": "use a real fabric",
	})
}

func TestOsuInit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "init.json")
	code, out, errs := ftbench(t, strings.Fields("osu init -n 6 --precision 3 --json "+file)...)
	require.Zero(t, code, errs)
	m := regexp.MustCompile(`(?m)^nprocs: 6, min: ([\d.]+) ms, max: ([\d.]+) ms, avg: ([\d.]+) ms$`).FindStringSubmatch(out)
	require.Len(t, m, 4, out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got struct {
		Kind    string
		Results osuInitResults
	}
	require.NoError(t, json.Unmarshal(b, &got))
	s := got.Results
	require.Equal(t, []any{"osu", "init", true, 6}, []any{got.Kind, s.Benchmark, s.Aware, s.Ranks})
	for _, of := range []osu.Spread{s.Init, s.Barrier, s.Total} {
		require.Positive(t, of.Min)
		require.LessOrEqual(t, of.Min, of.Mean)
		require.LessOrEqual(t, of.Mean, of.Max)
	}
	require.InEpsilon(t, s.Init.Mean+s.Barrier.Mean, s.Total.Mean, 1e-6)
	require.Equal(t, fmt.Sprintf("%.3f", 1e3*s.Total.Max), m[2])
}

// Under another launcher the job's size counts, and each error is printed before a table begins.
func TestOsuInJob(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	code, out, errs := ftbench(t, "run", "-n", "4", "--", self, "osu", "mbw_mr", "-m", "8:8", "-i", "2", "-W", "3")
	require.Zero(t, code, errs)
	require.Contains(t, out, "# [ pairs: 2 ] [ window size: 3 ]")

	code, out, errs = ftbench(t, "run", "-n", "3", "--", self, "osu", "allreduce", "-m", "4:4", "-i", "2", "-f")
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^4( +[\d.]+){3} +2$`, out)

	code, out, errs = ftbench(t, "run", "-n", "3", "--", self, "osu", "init")
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^nprocs: 3, min: \d+ ms, max: \d+ ms, avg: \d+ ms$`, out)

	code, out, errs = ftbench(t, "run", "-n", "3", "--", self, "osu", "mbw_mr")
	require.NotZero(t, code)
	require.Empty(t, out)
	require.Contains(t, errs, "an even number is needed")
}

// Every benchmark has a command, a help text and a table.
func TestOsuIsComplete(t *testing.T) {
	for _, b := range osu.All {
		require.NotEmpty(t, helpOf(b.Name).text, b.Name)
		require.NotEmpty(t, helpOf(b.Name).examples, b.Name)
		for _, example := range helpOf(b.Name).examples {
			require.NoError(t, parse(append([]string{"osu", b.Name}, strings.Fields(example)...)), "%s %s", b.Name, example)
		}
		require.NoError(t, (&report.OSUTable{W: io.Discard, Name: b.Name}).Header())
	}
	for name := range osuWords {
		require.NotNil(t, osu.Find(name), name)
	}
}

// All ranks of a simulation are in one process: ranks of a job would each simulate all of them. A
// number of ranks alone makes no job.
func TestSimulationIsAlone(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for args, made := range map[string]string{
		"osu latency --fabric sim -m 8:8 -i 2 --json made":    "made",
		"netpipe --fabric sim -u 1 -p 0 -n 3 -o made":         "made",
		"osu barrier --fabric sim -n 9 -i 2 -x 1 --json made": "made",
	} {
		code, out, errs := ftbench(t, append([]string{"run", "-n", "2", "--", self}, strings.Fields(args)...)...)
		require.NotZero(t, code, args)
		require.Empty(t, out, args)
		require.Contains(t, errs, "start it alone", args)
		require.NoFileExists(t, made)

		for _, stray := range []string{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"} {
			require.NoError(t, os.Setenv(stray, "4"))
			code, _, errs = ftbench(t, strings.Fields(args)...)
			require.NoError(t, os.Unsetenv(stray))
			require.Zero(t, code, "%s, %s: %s", args, stray, errs)
			require.NoError(t, os.Remove(made))
		}
	}
}

// A sweep that its bound has cut short has succeeded, and reports that everywhere but in the table.
func TestOSUEndsInTime(t *testing.T) {
	for _, bench := range []string{"bibw", "allreduce"} {
		code, out, errs := ftbench(t, "osu", bench, "-m", "65536:4194304", "--max-time", "1us")
		require.Zero(t, code, errs)
		require.Regexp(t, `(?m)^65536 +[\d.]+\n$`, out)
		require.NotContains(t, out, "131072")
		require.Contains(t, errs, "ftbench: osu "+bench+": sizes from 131072 bytes on are left out")
	}
}
