package peers

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The golden files are outputs of ucx_perftest 1.13.1.
func TestParseUCX(t *testing.T) {
	for file, want := range map[string]float64{"ucx-lat.txt": 1676173, "ucx-bw.txt": 264082, "ucx-noise.txt": 745487} {
		b, err := os.ReadFile("testdata/" + file)
		require.NoError(t, err)
		got, err := parseUCX(string(b))
		require.NoError(t, err, file)
		require.Equal(t, want, got, file)
	}
	for _, bad := range []string{
		"", "\n", "iterations,overall_mr\n", "iterations,overall_mr\n1,2,3\n", "iterations,overall_mr\n1,0\n",
		"iterations,overall_mr\n1,nan\n", "iterations,overall_mr\n1,-5\n", "iterations,lat\n1,2\n",
		"[ERROR] connect() failed: Connection refused\nfailed",
	} {
		_, err := parseUCX(bad)
		require.Error(t, err, "%q", bad)
	}
}

// Outputs of perftest 6.06: microseconds, and millions of messages a second.
func TestParsePerftest(t *testing.T) {
	latency, err := parsePerftest("16.410557\n", true)
	require.NoError(t, err)
	require.InDelta(t, 16.410557e-6, latency, 1e-12)
	each, err := parsePerftest("0.025000\n", false)
	require.NoError(t, err)
	require.InDelta(t, 40e-6, each, 1e-12)
	for _, bad := range []string{"", "\n", "Unable to init the socket connection", "-1.0\n", "0.000000\n", "nan", "inf"} {
		_, err := parsePerftest(bad, true)
		require.Error(t, err, "%q", bad)
	}
}

// Both sides get the same; one message at a time, or a window of them.
func TestPerftestArguments(t *testing.T) {
	p := Perftest{Program: "ib_write_bw", Device: "rxe0", Port: 1, GID: 3, CPUs: [2]int{0, 1}, path: "/bin/ib_write_bw", pin: "taskset"}
	j := Job{Test: Bandwidth, Size: 4096, Window: 8, Iters: 100}
	require.Equal(t, "taskset -c 1 /bin/ib_write_bw -F -d rxe0 -i 1 -x 3 -p 7 -s 4096 --output=message_rate -N -t 8 -n 800 127.0.0.1",
		strings.Join(p.argv(7, 1, j), " "))
	j.Iters = 2 // as few messages as asked for, not so many of each window
	require.Contains(t, strings.Join(p.argv(7, 0, j), " "), "-t 8 -n 16")
	p.Alone, j.Iters, j.Window = true, 1, 1
	require.Contains(t, strings.Join(p.argv(7, 0, j), " "), "-N -t 1 -n 5")
	p.Program = "none such"
	var absent *NotInstalledError
	require.ErrorAs(t, p.Find(), &absent)
	require.ErrorContains(t, absent, "apt-get install perftest")
}

func TestParseJob(t *testing.T) {
	j := Job{Test: Bandwidth, Size: 1 << 20, Window: 64, Warmup: 3, Iters: 100}
	got, err := parseJob(j.String())
	require.NoError(t, err)
	require.Equal(t, j, got)
	require.Equal(t, 6400.0, j.Messages())
	require.Equal(t, 20.0, Job{Test: Latency, Window: 1, Iters: 10}.Messages())
	require.Equal(t, 100.0, Job{Test: Posted, Size: 1000, Window: 1, Iters: 10}.Messages())
	require.Equal(t, 10.0, Job{Test: Put, Size: 8, Window: 1, Iters: 10}.Messages())
	require.Equal(t, 640.0, Job{Test: PutBandwidth, Size: 8, Window: 64, Iters: 10}.Messages())
	require.Equal(t, 20.0, Job{Test: PutPingPong, Size: 8, Window: 1, Iters: 10}.Messages())
	for _, bad := range []string{
		"put 8388609 1 0 1", "fop 4 1 0 1", "pingput 4 1 0 1", "putbw 8 1025 0 1", "get -1 1 0 1",
		"", "lat", "lat 8 1 0", "lat 8 1 0 0", "lat -1 1 0 1", "lat 8388609 1 0 1", "bw 8 1025 0 1", "bw 8 0 0 1",
		"dance 8 1 0 1", "lat 8 1 -1 1", "lat 8 1 0 1 1", "lat x 1 0 1",
		"posted 9 1 0 1", "unexpected 1048577 1 0 1",
	} {
		_, err := parseJob(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestParseReply(t *testing.T) {
	d, err := parseReply("ok 5630112\n")
	require.NoError(t, err)
	require.Equal(t, 5630112*time.Nanosecond, d)
	for bad, words := range map[string]string{
		"err no such thing\n": "answered: no such thing",
		"ok\n":                "not a time",
		"ok 0\n":              "not a time",
		"ok NaN\n":            "not a time",
		"ok 1e300\n":          "not a time",
		"hello\n":             "not an answer",
		"":                    "not an answer",
	} {
		_, err := parseReply(bad)
		require.ErrorContains(t, err, words)
	}
}

func TestParseStat(t *testing.T) {
	stat := "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 40 4 0 0 0 0 0\ncpu1 0 0 0 50 0 0 0 10 0 0\ncpu10 7 7 7 7 7 7 7 7 " +
		"0 0\nintr 5\n"
	idle, all, err := parseStat(stat, [2]int{0, 1})
	require.NoError(t, err)
	require.Equal(t, []float64{94, 110}, []float64{idle, all})
	for bad, cpus := range map[string][2]int{
		stat:                              {0, 2},
		"cpu 1\ncpu0 1 2\ncpu1 1 2 3":     {0, 1},
		"x\ncpu0 a b c d e f g h\ncpu1 1": {0, 1},
	} {
		_, _, err := parseStat(bad, cpus)
		require.Error(t, err)
	}
	busy, err := Busy(t.Context(), [2]int{0, 0})
	require.NoError(t, err)
	require.GreaterOrEqual(t, busy, -0.01, "ticks of CPUs are not read at one instant")
	require.LessOrEqual(t, busy, 1.01)
}

func TestParsePasses(t *testing.T) {
	last, err := parsePasses("passed 70\npassed 90\npassed 80\n", 3)
	require.NoError(t, err)
	require.Equal(t, time.Duration(90), last)
	for _, bad := range []string{"", "passed 70\npassed 80\n", "passed 70\npassed 80\npassed x\n",
		"passed 1\npassed 2\n3\n", "passed 1\npassed 2\npassed 0\n"} {
		_, err := parsePasses(bad, 3)
		require.Error(t, err, "%q", bad)
	}
}

func TestParseDeaths(t *testing.T) {
	rounds, err := parseDeaths("70 90\n80 60\n", 2, 2)
	require.NoError(t, err)
	require.Equal(t, [][]time.Duration{{70, 90}, {80, 60}}, rounds)
	for _, bad := range []string{"", "70 90\n", "70\n80 60\n", "70 90 1\n80 60\n", "70 -1\n80 60\n", "70 x\n80 60\n", "1 2\n3 4\n5 6\n"} {
		_, err := parseDeaths(bad, 2, 2)
		require.ErrorContains(t, err, "peers: ", bad)
	}
}
