package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// OSUKind is which of the OSU benchmarks a table is of.
type OSUKind int

// The tables that exist.
const (
	OSULatency   OSUKind = iota // µs, one way
	OSUBandwidth                // MB/s, 10⁶ bytes
)

// The widths of OSU's fields, in characters.
const (
	osuSizeWidth  = 10
	osuValueWidth = 18
)

// osuTitles begin with the words and the version that parsers look for: theirs
// is "# OSU.*Test (?P<ver>v[0-9\.]+)". What follows says whose numbers they are.
var osuTitles = map[OSUKind]struct{ title, column, tail string }{
	OSULatency:   {"# OSU MPI Latency Test v5.9 (its format; measured by Banyan)", "Latency (us)", "P%d Tail Lat(us)"},
	OSUBandwidth: {"# OSU MPI Bandwidth Test v5.9 (its format; measured by Banyan)", "Bandwidth (MB/s)", "P%d Tail BW(MB/s)"},
}

// OSUTable prints rows in the format of the OSU micro-benchmarks.
type OSUTable struct {
	W    io.Writer
	Kind OSUKind
	// Decimals is the number of digits after the point; OSU prints 2.
	Decimals int
	// Validated adds the column of option -c.
	Validated bool
	// Percentiles adds a column for each, in percent, as option -z.
	Percentiles []int
}

// OSURow is one line. Value and Tail are in the unit of the table.
type OSURow struct {
	Size   int // bytes
	Value  float64
	Errors int       // bytes that arrived wrong; printed with Validated only
	Tail   []float64 // one for each of Percentiles
}

// Header prints the title and the line of column names.
func (t *OSUTable) Header() error {
	words := osuTitles[t.Kind]
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%-*s%*s", words.title, osuSizeWidth, "# Size", osuValueWidth, words.column)
	if t.Validated {
		fmt.Fprintf(&b, "%*s", osuValueWidth, "Validation")
	}
	for _, p := range t.Percentiles {
		fmt.Fprintf(&b, "%*s", osuValueWidth, fmt.Sprintf(words.tail, p))
	}
	return t.line(&b)
}

// Row prints one line.
func (t *OSUTable) Row(r OSURow) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-*d%*s", osuSizeWidth, r.Size, osuValueWidth, t.number(r.Value))
	if t.Validated {
		verdict := "Pass"
		if r.Errors > 0 {
			verdict = "Fail"
		}
		fmt.Fprintf(&b, "%*s", osuValueWidth, verdict)
	}
	for _, v := range r.Tail {
		fmt.Fprintf(&b, "%*s", osuValueWidth, t.number(v))
	}
	return t.line(&b)
}

func (t *OSUTable) number(v float64) string { return strconv.FormatFloat(v, 'f', t.Decimals, 64) }

func (t *OSUTable) line(b *strings.Builder) error {
	b.WriteByte('\n')
	if _, err := io.WriteString(t.W, b.String()); err != nil {
		return fmt.Errorf("report: print the table: %w", err)
	}
	return nil
}
