package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// wide is a terminal of a number of columns.
type wide struct {
	strings.Builder
	columns int
}

func (w *wide) Columns() int { return w.columns }

func TestWriteTable(t *testing.T) {
	r := &Result{
		Title: "8-byte latency", Kept: 20, Dropped: 2, Rounds: make([]Round, 11),
		Failed: map[string]string{"mpich": "it left", "b": "no", "a": "no", "z": "no"},
		Rows: []Row{
			{Bound: Bound{ID: "B2-1", Over: "ucx", Ratio: OfTimes, Limit: 0.9}, Distance: Near, Subject: 0.084e-6,
				Other: 0.097e-6,
				Ratio: estimate(0.8659, 0.851, 0.8802, 14), Verdict: Met},
			{Bound: Bound{Over: "mpich", Ratio: OfRates}, Distance: Far, Subject: 0.3e-6, Other: 0.5e-6,
				Ratio: stats.MedianInterval([]float64{1.5, 1.6}), Verdict: Info},
			{Bound: Bound{Over: "ucx", Ratio: OfRates, Limit: 0.95}, Distance: Far, Subject: 1234.5e-6, Other: 1e-6,
				Ratio: estimate(1, 0.9, 1.1, 9), Verdict: Undecided, Why: "half-width 10 % > 3 %"},
			{Bound: Bound{ID: "B2-9", Over: "ucx", Ratio: OfRates, Limit: 0.95}, Verdict: Undecided,
				Why: "0 of 9 pairs"},
		},
	}
	b := wide{columns: 132}
	require.NoError(t, WriteTable(&b, r))
	require.Equal(t, `8-byte latency (11 rounds, 20 samples kept, 2 dropped: the control changed)
  id   over  cores  pairs  ours µs  theirs µs  ratio  95 % interval        bound  verdict
B2-1    ucx   near     14    0.084      0.097  0.866  0.851 … 0.880        ≤ 0.9  met
      mpich    far      2      0.3        0.5  1.550        too few         rate  -
        ucx    far      9     1234          1  1.000  0.900 … 1.100  ≥ 0.95 rate  undecided (half-width 10 % > 3 %)
B2-9    ucx      -      0        -          -      -              -  ≥ 0.95 rate  undecided (0 of 9 pairs)
  a could not be measured: no
  b could not be measured: no
  mpich could not be measured: it left
  z could not be measured: no

`, b.String())
}
