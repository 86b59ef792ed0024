package table

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// screen is a terminal of a number of columns.
type screen struct {
	bytes.Buffer
	columns int
}

func (s *screen) Columns() int { return s.columns }

func TestWidth(t *testing.T) {
	require.Equal(t, Columns, Width(&bytes.Buffer{}))
	require.Equal(t, 132, Width(&screen{columns: 132}))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.Equal(t, Columns, Width(w), "a pipe")
}

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"short\n":                           "short\n",
		"":                                  "",
		"\n":                                "\n",
		"0123456789 123456789 x\n":          "0123456789 123456789\n  x\n",
		"0123456789 12345678 µ\n":           "0123456789 12345678 µ\n",
		"# 23456789 123456789 x":            "# 23456789 123456789\n#   x",
		"#  a 56789 123456789  xy\nnext\n":  "#  a 56789 123456789\n#    xy\nnext\n",
		"  a long/path/that/does/not/fit\n": "  a\n    long/path/that/does/not/fit\n",
		"long/path/that/does/not/fit b\n":   "long/path/that/does/not/fit\n  b\n",
	} {
		require.Equal(t, want, Wrap(text, 21), text)
	}
	require.Equal(t, "ok  eins zwei\n    drei", Hang("ok  ", "eins zwei drei", 14))
}

// abc is a table with two columns that name a row.
func abc(w *screen, keys int) Table {
	return Table{W: w, Title: "# A title of words", Keys: keys, Columns: []Column{
		{Name: "# A", Width: 4}, {Name: "B", Width: 6, Left: true}, {Name: "C", Width: 6, Format: "%.1f"},
		{Name: "D", Width: 6, Format: "%.2f"}, {Name: "E", Joined: true}, {Name: "Words", Left: true},
	}}
}

func fill(t *testing.T, x Table) {
	require.NoError(t, x.Begin())
	require.NoError(t, x.Row(1, "b", 1.25, 2.0, 3, "one two three four five six"))
	require.NoError(t, x.Row(12345, "bb", math.NaN(), math.Inf(1), 3, ""))
	require.NoError(t, x.End())
}

// A wide terminal has all columns in one block; the text of the last one wraps.
func TestOneBlock(t *testing.T) {
	w := &screen{columns: 60}
	fill(t, abc(w, 2))
	require.Equal(t, `# A title of words
 # A  B            C       D  E  Words
   1  b          1.2    2.00  3  one two three four five six
12345 bb           -       -  3
`, w.String())
	w = &screen{columns: 53}
	fill(t, abc(w, 2))
	require.Contains(t, w.String(), `
   1  b          1.2    2.00  3  one two three four
                                 five six
`)
}

// Less space between the columns, where that makes them fit.
func TestTight(t *testing.T) {
	w := &screen{columns: 35}
	x := abc(w, 2)
	x.Columns = x.Columns[:5]
	require.NoError(t, x.Begin())
	require.Equal(t, "# A title of words\n # A  B            C       D  E\n", w.String())
	w.Reset()
	w.columns = 28
	require.NoError(t, x.Begin())
	require.Equal(t, "# A title of words\n # A B           C      D E\n", w.String())
}

// Columns that do not fit are printed in blocks that name their rows; joined columns stay side by
// side.
func TestBlocks(t *testing.T) {
	w := &screen{columns: 26}
	fill(t, abc(w, 2))
	require.Equal(t, `# A title of words
 # A  B            C
   1  b          1.2
12345 bb           -

 # A  B            D  E
   1  b         2.00  3
12345 bb           -  3

 # A  B       Words
   1  b       one two
          three four five
          six
12345 bb
`, w.String())
}

// Joined columns that no line can hold are separated.
func TestTooNarrowToJoin(t *testing.T) {
	w := &screen{columns: 21}
	x := abc(w, 2)
	x.Columns[4].Width = 6
	fill(t, x)
	for line := range strings.Lines(w.String()) {
		require.LessOrEqual(t, columns(strings.TrimRight(line, "\n")), 21, line)
	}
}

// Without keys a row goes on below.
func TestFolded(t *testing.T) {
	w := &screen{columns: 24}
	fill(t, abc(w, 0))
	require.Equal(t, `# A title of words
 # A  B            C
         D  E  Words
   1  b          1.2
      2.00  3  one two
        three four five
        six
12345 bb           -
         -  3
`, w.String())
	for line := range strings.Lines(w.String()) {
		require.LessOrEqual(t, columns(strings.TrimRight(line, "\n")), 24, line)
	}
}

// Known rows make the columns.
func TestKnownRows(t *testing.T) {
	w := &screen{columns: 40}
	x := Table{W: w, Columns: []Column{{Name: "a"}, {Name: "b", Left: true}}}
	require.NoError(t, x.Write([][]any{{1, "x"}, {"long", "µ y"}}))
	require.Equal(t, "   a  b\n   1  x\nlong  µ y\n", w.String())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestErrors(t *testing.T) {
	x := Table{W: broken{}, Keys: 1, Columns: []Column{{Name: "a"}, {Name: "b", Width: 50}, {Name: "c", Width: 50}}}
	require.EqualError(t, x.Begin(), "full")
	require.EqualError(t, x.Row(1, 2, 3), "full")
	require.EqualError(t, x.End(), "full")
	require.EqualError(t, Printf(broken{}, "x"), "full")
}

func TestNoInfinity(t *testing.T) {
	require.Equal(t, "+1.5 %", stats.Text("%+.1f %%", 1.5))
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.Equal(t, stats.None, stats.Text("%+.1f %%", v))
	}
}
