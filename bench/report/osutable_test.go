package report

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func print(t *testing.T, tab OSUTable, rows ...OSURow) string {
	t.Helper()
	var b strings.Builder
	tab.W = &b
	require.NoError(t, tab.Header())
	for _, r := range rows {
		require.NoError(t, tab.Row(r))
	}
	require.NoError(t, tab.End())
	return b.String()
}

var tables = map[string]struct {
	tab  OSUTable
	rows []OSURow
}{
	"latency": {OSUTable{Name: "latency", Decimals: 2},
		[]OSURow{{Size: 0, Seconds: 0.0812e-6}, {Size: 1, Seconds: 0.1e-6}, {Size: 4194304, Seconds: 2230.567e-6}}},
	"latency-tail": {OSUTable{Name: "latency", Decimals: 2, Percentiles: []int{50, 90, 99}},
		[]OSURow{{Size: 8, Seconds: 19.09e-6, Tail: []float64{18.77e-6, 19.91e-6, 24.81e-6}}}},
	"latency-validated": {OSUTable{Name: "latency", Decimals: 3, Validated: true},
		[]OSURow{{Size: 1, Seconds: 0.1e-6}, {Size: 2, Seconds: 0.1e-6, Errors: 1}}},
	"bw": {OSUTable{Name: "bw", Decimals: 2},
		[]OSURow{{Size: 1, Seconds: 1 / 24.5e6}, {Size: 8192, Seconds: 8192 / 48123.456e6}}},
	"bw-tail": {OSUTable{Name: "bw", Decimals: 2, Percentiles: []int{50, 90, 99}},
		[]OSURow{{Size: 1, Seconds: 1 / 24.5e6, Tail: []float64{1 / 1e6, 1 / 2e6, 1 / 3e6}}}},
	"bibw": {OSUTable{Name: "bibw", Decimals: 2}, []OSURow{{Size: 64, Seconds: 50e-9}}},
	"mbw_mr": {OSUTable{Name: "mbw_mr", Decimals: 2, Pairs: 2, Window: 64},
		[]OSURow{{Size: 1, Seconds: 1 / 8346864.134}, {Size: 4194304, Seconds: 4194304 / 26903.29e6}}},
	"mbw_mr-tail": {OSUTable{Name: "mbw_mr", Decimals: 2, Pairs: 4, Window: 64, Validated: true,
		Percentiles: []int{50, 90, 99}},
		[]OSURow{{Size: 1, Seconds: 1e-7, Tail: []float64{1e-7, 2e-7, 4e-7}}}},
	"multi_lat": {OSUTable{Name: "multi_lat", Decimals: 2}, []OSURow{{Size: 1, Seconds: 0.23e-6}}},
	"barrier":   {OSUTable{Name: "barrier", Decimals: 2}, []OSURow{{Seconds: 1.234e-6}}},
	"barrier-full": {OSUTable{Name: "barrier", Decimals: 2, Full: true},
		[]OSURow{{Seconds: 1.234e-6, Least: 1.2e-6, Most: 1.5e-6, Iterations: 1000}}},
	"barrier-tail": {OSUTable{Name: "barrier", Decimals: 2, Percentiles: []int{50, 90, 99}},
		[]OSURow{{Seconds: 1.234e-6, Tail: []float64{1e-6, 2e-6, 3e-6}}}},
	"bcast": {OSUTable{Name: "bcast", Decimals: 2},
		[]OSURow{{Size: 1, Seconds: 0.8e-6}, {Size: 1 << 20, Seconds: 210e-6}}},
	"bcast-tail": {OSUTable{Name: "bcast", Decimals: 2, Percentiles: []int{50, 90, 99}},
		[]OSURow{{Size: 1, Seconds: 1.234e-6, Tail: []float64{1e-6, 2e-6, 3e-6}}}},
	"allreduce-full": {OSUTable{Name: "allreduce", Decimals: 2, Full: true, Validated: true, Percentiles: []int{99}},
		[]OSURow{{Size: 4, Seconds: 2e-6, Least: 1.5e-6, Most: 2.25e-6, Iterations: 1000, Tail: []float64{3e-6}},
			{Size: 8, Seconds: 2e-6, Errors: 1, Tail: []float64{3e-6}}}},
	"mbw_mr-norate": {OSUTable{Name: "mbw_mr", Decimals: 2, Pairs: 2, Window: 64, WithoutRate: true},
		[]OSURow{{Size: 1, Seconds: 1 / 8346864.134}}},
	"put_latency": {OSUTable{Name: "put_latency", Decimals: 2, Creation: "allocate", Sync: "flush"},
		[]OSURow{{Size: 1, Seconds: 0.23e-6}, {Size: 4194304, Seconds: 2230.567e-6}}},
	"put_bibw": {OSUTable{Name: "put_bibw", Decimals: 2, Creation: "create", Sync: "pscw"},
		[]OSURow{{Size: 64, Seconds: 50e-9}}},
	"fop_latency": {OSUTable{Name: "fop_latency", Decimals: 2, Creation: "allocate", Sync: "lock_all"},
		[]OSURow{{Size: 8, Seconds: 0.45e-6}}},
	"ibarrier": {OSUTable{Name: "ibarrier", Decimals: 2}, []OSURow{{Seconds: 1e-6,
		Overlap: OSUOverlap{Overall: 1.5e-6, Compute: 1.01e-6, Start: 0.2e-6, Wait: 0.29e-6, Percent: 51}}}},
	"iallreduce": {OSUTable{Name: "iallreduce", Decimals: 2}, []OSURow{{Size: 4, Seconds: 1e-6,
		Overlap: OSUOverlap{Overall: 1.5e-6, Compute: 1.01e-6, Start: 0.2e-6, Wait: 0.29e-6, Percent: 51}},
		{Size: 1 << 20, Seconds: 1000e-6, Overlap: OSUOverlap{Overall: 2500e-6, Compute: 1010e-6}}}},
	"ibcast-full": {OSUTable{Name: "ibcast", Decimals: 2, Full: true, Validated: true}, []OSURow{
		{Size: 1, Seconds: 1e-6, Least: 0.9e-6, Most: 1.1e-6, Overlap: OSUOverlap{
			Overall: 1.5e-6, Compute: 1.01e-6, Start: 0.2e-6, Test: 0.1e-6, Wait: 0.19e-6, Percent: 51}}}},
	"latency_mt": {OSUTable{Name: "latency_mt", Decimals: 2, Senders: 1, Receivers: 2},
		[]OSURow{{Size: 1, Seconds: 3.05e-6}}},
}

func TestOSUTableGolden(t *testing.T) {
	for name, c := range tables {
		want, err := os.ReadFile("testdata/osu-" + name + ".txt")
		require.NoError(t, err)
		require.Equal(t, string(want), print(t, c.tab, c.rows...), name)
	}
}

// Each combination of columns fits a terminal of 80.
func TestOSUTableFits(t *testing.T) {
	row := OSURow{Size: 4 << 20, Seconds: 1.234567e-3, Least: 1e-3, Most: 1.2345678, Iterations: 10000,
		Tail: []float64{1e-7, 1e-3, 1}}
	for name := range osuTables {
		for options := range 16 {
			tab := OSUTable{Name: name, Decimals: 2, Validated: options&1 > 0, Full: options&2 > 0,
				WithoutRate: options&4 > 0}
			if options&8 > 0 {
				tab.Percentiles = []int{50, 90, 99}
			}
			for line := range strings.Lines(print(t, tab, row, row)) {
				require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80, "%s with options %04b: %q", name, options, line)
			}
		}
	}
}

// The expressions are those of GoogleCloudPlatform/ramble, application osu-micro-benchmarks: it
// decides by the line of the columns and then matches each row.
func TestRambleReadsIt(t *testing.T) {
	for name, c := range map[string]struct{ header, row string }{
		"latency": {`^#\s+Size\s+Latency \(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"latency-tail": {`^# Size\s+Latency \(us\)\s+P50 Tail Lat\(us\)\s+P90 Tail Lat\(us\)\s+P99 Tail Lat\(us\)$`,
			`^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s+(?P<p50_lat>[0-9\.]+)\s+(?P<p90_lat>[0-9\.]+)\s+(?P<p99_lat>[0-9\.]+)\s*$`},
		"bw":          {`^# Size\s+Bandwidth \(MB/s\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s*$`},
		"bibw":        {`^# Size\s+Bandwidth \(MB/s\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s*$`},
		"multi_lat":   {`^#\s+Size\s+Latency \(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"latency_mt":  {`^#\s+Size\s+Latency \(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"put_latency": {`^#\s+Size\s+Latency \(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"put_bibw":    {`^# Size\s+Bandwidth \(MB/s\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s*$`},
		"mbw_mr":      {`^# Size\s+MB/s\s+Messages/s\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s+(?P<msg_rate>[0-9\.]+)\s*$`},
		"barrier":     {`^# Avg Latency\(us\)\s*$`, `^\s*(?P<avg_lat>[0-9\.]+)\s*$`},
		"barrier-tail": {`^# Avg Latency\(us\)\s+P50 Tail Lat\(us\)\s+P90 Tail Lat\(us\)\s+P99 Tail Lat\(us\)\s*$`,
			`^\s*(?P<avg_lat>[0-9\.]+)\s+(?P<p50_lat>[0-9\.]+)\s+(?P<p90_lat>[0-9\.]+)\s+(?P<p99_lat>[0-9\.]+)\s*$`},
		"ibarrier": {`^# Overall\(us\)\s+Compute\(us\)\s+Pure Comm\.\(us\)\s+Overlap\(%\)\s*$`, `^\s*[\d.]+(\s+[\d.]+){3}$`},
		"iallreduce": {`^#\s+Size\s+Overall\(us\)\s+Compute\(us\)\s+Pure Comm\.\(us\)\s+Overlap\(%\)\s*$`,
			`^(?P<msg_size>[0-9]+)\s+[\d.]+(\s+[\d.]+){3}$`},
		"bcast": {`^#\s+Size\s+Avg Latency\(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"bcast-tail": {`^# Size\s+Avg Latency\(us\)\s+P50 Tail Lat\(us\)\s+P90 Tail Lat\(us\)\s+P99 Tail Lat\(us\)$`,
			`^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s+(?P<p50_lat>[0-9\.]+)\s+(?P<p90_lat>[0-9\.]+)\s+(?P<p99_lat>[0-9\.]+)\s*$`},
		// NVIDIA/cloudai's, which knows the columns of -f too.
		"allreduce-full": {`^#\s*Size\s+Avg Latency\(us\)(?:\s+Min Latency\(us\)\s+Max Latency\(us\)\s+Iterations)`, `^[0-9]+\s+[0-9\.]+`},
		"bw-tail": {`^# Size\s+Bandwidth \(MB/s\) P50 Tail BW\(MB/s\) P90 Tail BW\(MB/s\) P99 Tail BW\(MB/s\)\s*$`,
			`^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s+(?P<p50_bw>[0-9\.]+)\s+(?P<p90_bw>[0-9\.]+)\s+(?P<p99_bw>[0-9\.]+)\s*$`},
	} {
		first := print(t, tables[name].tab, tables[name].rows...)
		if !osuTables[tables[name].tab.Name].overlap { // their title ends with an empty line
			first, _, _ = strings.Cut(first, "\n\n#") // without a further block
		}
		lines := strings.Split(strings.TrimSuffix(first, "\n"), "\n")
		var title, header, rows int
		for _, line := range lines {
			switch {
			case regexp.MustCompile(`^# OSU.*Test (?P<ver>v[0-9\.]+)`).MatchString(line):
				title++
			case regexp.MustCompile(c.header).MatchString(line):
				header++
			case line != "" && !strings.HasPrefix(line, "#"):
				require.Regexp(t, c.row, line, name)
				rows++
			}
		}
		require.Equal(t, []int{1, 1, len(tables[name].rows)}, []int{title, header, rows}, name)
	}
}

// ReFrame's hpctestlib extracts '^8\s+(\S+)' and checks that '^8' is there; others check for the
// words of the title.
func TestReFrameReadsIt(t *testing.T) {
	out := print(t, tables["latency"].tab, OSURow{Size: 8, Seconds: 0.0812e-6})
	m := regexp.MustCompile(`(?m)^8\s+(\S+)`).FindStringSubmatch(out)
	require.Len(t, m, 2)
	v, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	require.Equal(t, 0.08, v)
	require.Contains(t, out, "OSU MPI Latency Test")
	require.Contains(t, print(t, tables["bw"].tab), "OSU MPI Bandwidth Test")
}

// hpcbench skips everything up to a line that is exactly this.
func TestHpcbenchReadsIt(t *testing.T) {
	require.Contains(t, strings.Split(print(t, tables["latency"].tab), "\n"), "# Size          Latency (us)")
	require.Contains(t, strings.Split(print(t, tables["bw"].tab), "\n"), "# Size      Bandwidth (MB/s)")
}

// PerfKitBenchmarker takes the numbers of pairs, of messages in flight and of threads from lines
// that begin like these, and from rows exactly as many columns as the benchmark has.
func TestPerfKitReadsIt(t *testing.T) {
	for name, want := range map[string][]string{
		"mbw_mr":     {`(?m)^# \[ pairs: (?P<pairs>\d+) \] \[ window size: (?P<window_size>\d+) \]`},
		"latency_mt": {`(?m)^# Number of Sender threads: (?P<sender_threads>\d+)`, `(?m)^# Number of Receiver threads: (?P<receiver_threads>\d+)`},
	} {
		out := print(t, tables[name].tab, tables[name].rows...)
		for _, expression := range want {
			require.Regexp(t, expression, out)
		}
	}
	for name, columns := range map[string]int{"latency": 2, "bw": 2, "bibw": 2, "mbw_mr": 3, "multi_lat": 2,
		"latency_mt": 2} {
		lines := strings.Split(strings.TrimSpace(print(t, tables[name].tab, tables[name].rows...)), "\n")
		require.Len(t, strings.Fields(lines[len(lines)-1]), columns, name)
	}
}

// Ramble's expression for osu_init; OSU itself prints whole milliseconds.
func TestInit(t *testing.T) {
	for decimals, want := range map[int][]string{0: {"64", "12", "346", "101"},
		2: {"64", "12.30", "345.60", "101.00"}} {
		var b strings.Builder
		require.NoError(t, OSUInit(&b, 64, decimals, [3]float64{.0123, .3456, .101}, [3]float64{.01, .3, .1},
			[3]float64{.001, .002, .0015}))
		m := regexp.MustCompile(`nprocs: (?P<nprocs>[0-9]+), min: (?P<min>[0-9\.]+) ms, max: (?P<max>[0-9\.]+) ms, avg: (?P<avg>[0-9\.]+) ms`).FindStringSubmatch(b.String())
		require.Equal(t, want, m[1:])
		require.Regexp(t, `^# OSU MPI Init Test v5`, b.String())
		require.Contains(t, b.String(), "\n# Init alone, min: 10.00 ms, max: 300.00 ms, avg: 100.00 ms\n# first "+
			"barrier, min: 1.00 ms,")
	}
}

func TestWindowsGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/osu-mbw_mr-windows.txt")
	require.NoError(t, err)
	var b strings.Builder
	tab := OSUWindows{W: &b, Pairs: 2, Windows: []int{1, 64}, Decimals: 2, Rate: true}
	require.NoError(t, tab.Header())
	require.NoError(t, tab.Row(8, []float64{1e-6, .25e-6}))
	require.NoError(t, tab.Row(1<<20, []float64{1e-3, .5e-3}))
	bandwidth := b.String()
	require.NoError(t, tab.End())
	require.Equal(t, string(want), b.String())
	b.Reset()
	tab.Rate = false
	require.NoError(t, tab.End())
	require.Empty(t, b.String())
	require.Equal(t, 2, strings.Count(bandwidth, "\n8 ")+strings.Count(bandwidth, "\n1048576"))
}

func TestUnknownTable(t *testing.T) {
	require.EqualError(t, (&OSUTable{W: io.Discard, Name: "hello"}).Header(), `report: OSU has no table "hello"`)
}
