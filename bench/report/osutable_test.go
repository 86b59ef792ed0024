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
	"mbw_mr-tail": {OSUTable{Name: "mbw_mr", Decimals: 2, Pairs: 4, Window: 64, Validated: true, Percentiles: []int{50, 90, 99}},
		[]OSURow{{Size: 1, Seconds: 1e-7, Tail: []float64{1e-7, 2e-7, 4e-7}}}},
	"multi_lat":  {OSUTable{Name: "multi_lat", Decimals: 2}, []OSURow{{Size: 1, Seconds: 0.23e-6}}},
	"latency_mt": {OSUTable{Name: "latency_mt", Decimals: 2, Senders: 1, Receivers: 2}, []OSURow{{Size: 1, Seconds: 3.05e-6}}},
}

func TestOSUTableGolden(t *testing.T) {
	for name, c := range tables {
		want, err := os.ReadFile("testdata/osu-" + name + ".txt")
		require.NoError(t, err)
		require.Equal(t, string(want), print(t, c.tab, c.rows...), name)
	}
}

// The expressions are those of GoogleCloudPlatform/ramble, application
// osu-micro-benchmarks: it decides by the line of the columns and then matches
// each row.
func TestRambleReadsIt(t *testing.T) {
	for name, c := range map[string]struct{ header, row string }{
		"latency": {`^#\s+Size\s+Latency \(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"latency-tail": {`^# Size\s+Latency \(us\)\s+P50 Tail Lat\(us\)\s+P90 Tail Lat\(us\)\s+P99 Tail Lat\(us\)$`,
			`^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s+(?P<p50_lat>[0-9\.]+)\s+(?P<p90_lat>[0-9\.]+)\s+(?P<p99_lat>[0-9\.]+)\s*$`},
		"bw":         {`^# Size\s+Bandwidth \(MB/s\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s*$`},
		"bibw":       {`^# Size\s+Bandwidth \(MB/s\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s*$`},
		"multi_lat":  {`^#\s+Size\s+Latency \(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"latency_mt": {`^#\s+Size\s+Latency \(us\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$`},
		"mbw_mr":     {`^# Size\s+MB/s\s+Messages/s\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s+(?P<msg_rate>[0-9\.]+)\s*$`},
		"bw-tail": {`^# Size\s+Bandwidth \(MB/s\) P50 Tail BW\(MB/s\) P90 Tail BW\(MB/s\) P99 Tail BW\(MB/s\)\s*$`,
			`^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s+(?P<p50_bw>[0-9\.]+)\s+(?P<p90_bw>[0-9\.]+)\s+(?P<p99_bw>[0-9\.]+)\s*$`},
	} {
		lines := strings.Split(strings.TrimSuffix(print(t, tables[name].tab, tables[name].rows...), "\n"), "\n")
		var title, header, rows int
		for _, line := range lines {
			switch {
			case regexp.MustCompile(`^# OSU.*Test (?P<ver>v[0-9\.]+)`).MatchString(line):
				title++
			case regexp.MustCompile(c.header).MatchString(line):
				header++
			case !strings.HasPrefix(line, "#"):
				require.Regexp(t, c.row, line, name)
				rows++
			}
		}
		require.Equal(t, []int{1, 1, len(tables[name].rows)}, []int{title, header, rows}, name)
	}
}

// ReFrame's hpctestlib extracts '^8\s+(\S+)' and checks that '^8' is there;
// others check for the words of the title.
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

// PerfKitBenchmarker takes the numbers of pairs, of messages in flight and of
// threads from lines that begin like these, and from rows exactly as many
// columns as the benchmark has.
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
	for name, columns := range map[string]int{"latency": 2, "bw": 2, "bibw": 2, "mbw_mr": 3, "multi_lat": 2, "latency_mt": 2} {
		lines := strings.Split(strings.TrimSpace(print(t, tables[name].tab, tables[name].rows...)), "\n")
		require.Len(t, strings.Fields(lines[len(lines)-1]), columns, name)
	}
}

func TestUnknownTable(t *testing.T) {
	require.EqualError(t, (&OSUTable{W: io.Discard, Name: "hello"}).Header(), `report: OSU has no table "hello"`)
}
