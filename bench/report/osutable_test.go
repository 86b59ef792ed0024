package report

import (
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
	"latency": {OSUTable{Kind: OSULatency, Decimals: 2},
		[]OSURow{{Size: 0, Value: 0.0812}, {Size: 1, Value: 0.1}, {Size: 4194304, Value: 2230.567}}},
	"latency-tail": {OSUTable{Kind: OSULatency, Decimals: 2, Percentiles: []int{50, 90, 99}},
		[]OSURow{{Size: 8, Value: 19.09, Tail: []float64{18.77, 19.91, 24.81}}}},
	"bw": {OSUTable{Kind: OSUBandwidth, Decimals: 2},
		[]OSURow{{Size: 1, Value: 24.5}, {Size: 8192, Value: 48123.456}}},
	"bw-tail": {OSUTable{Kind: OSUBandwidth, Decimals: 2, Percentiles: []int{50, 90, 99}},
		[]OSURow{{Size: 1, Value: 24.5, Tail: []float64{1, 2, 3}}}},
	"latency-validated": {OSUTable{Kind: OSULatency, Decimals: 3, Validated: true},
		[]OSURow{{Size: 1, Value: 0.1}, {Size: 2, Value: 0.1, Errors: 1}}},
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
		"bw": {`^# Size\s+Bandwidth \(MB/s\)\s*$`, `^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s*$`},
		"bw-tail": {`^# Size\s+Bandwidth \(MB/s\) P50 Tail BW\(MB/s\) P90 Tail BW\(MB/s\) P99 Tail BW\(MB/s\)\s*$`,
			`^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_bw>[0-9\.]+)\s+(?P<p50_bw>[0-9\.]+)\s+(?P<p90_bw>[0-9\.]+)\s+(?P<p99_bw>[0-9\.]+)\s*$`},
	} {
		lines := strings.Split(strings.TrimSuffix(print(t, tables[name].tab, tables[name].rows...), "\n"), "\n")
		require.Regexp(t, `^# OSU.*Test (?P<ver>v[0-9\.]+)`, lines[0])
		require.Regexp(t, c.header, lines[1])
		for _, row := range lines[2:] {
			require.Regexp(t, c.row, row)
		}
	}
}

// ReFrame's hpctestlib extracts '^8\s+(\S+)' and checks that '^8' is there;
// others check for the words of the title.
func TestReFrameReadsIt(t *testing.T) {
	out := print(t, tables["latency"].tab, OSURow{Size: 8, Value: 0.0812})
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
