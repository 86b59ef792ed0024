package netpipe

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any file like np.out gives rows of numbers that can be drawn, or an error that names the line.
func FuzzRows(f *testing.F) {
	f.Add("       1 0.53    0.00001440\n# x\n\n 1048576 9123.9 0.00087 77\n")
	f.Add("1 inf 0.1\n")
	f.Add("1 NaN 1\n-1 2 3\n")
	f.Add(strings.Repeat("1", 1<<17))
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := ReadRows(strings.NewReader(text))
		if err != nil {
			require.Empty(t, rows)
			return
		}
		for _, r := range rows {
			require.Positive(t, r.Bytes)
			require.True(t, r.Mbps >= 0 && r.Seconds >= 0 && !math.IsInf(r.Mbps, 0) && !math.IsInf(r.Seconds, 0), "%v",
				r)
		}
	})
}
