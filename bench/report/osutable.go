package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// The widths of OSU's fields, in characters.
const (
	osuSizeWidth  = 10
	osuValueWidth = 18
	osuCountWidth = 12
	osuOnlyWidth  = 17 // of the first column where there are no sizes
	osuTailWidth  = 17 // of a time's percentiles: three behind the size and one value take 79 columns
)

// osuWords are what differs between the tables. The title begins with the words that parsers look
// for; theirs is "# OSU.*Test (?P<ver>v[0-9\.]+)".
type osuWords struct {
	title     string
	columns   []string
	bandwidth bool // MB/s, 10⁶ bytes per second; else µs, one way
	// collective: an empty line comes first, and there may be columns for the fastest and the
	// slowest rank. sizeless: there is no column of sizes.
	collective, sizeless bool
}

// osuTables has the tables by the names of OSU's programs without "osu_".
var osuTables = map[string]osuWords{
	"latency": {title: "Latency", columns: []string{"Latency (us)"}},
	"bw":      {title: "Bandwidth", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},
	"bibw":    {title: "Bi-Directional Bandwidth", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},
	"mbw_mr": {title: "Multiple Bandwidth / Message Rate", columns: []string{"MB/s", "Messages/s"},
		bandwidth: true},
	"multi_lat":  {title: "Multi Latency", columns: []string{"Latency (us)"}},
	"latency_mt": {title: "Multi-threaded Latency", columns: []string{"Latency (us)"}},
	"barrier":    {title: "Barrier Latency", columns: []string{"Avg Latency(us)"}, collective: true, sizeless: true},
	"bcast":      {title: "Broadcast Latency", columns: []string{"Avg Latency(us)"}, collective: true},
	"allreduce":  {title: "Allreduce Latency", columns: []string{"Avg Latency(us)"}, collective: true},
}

// OSUTable prints rows in the format of the OSU micro-benchmarks.
type OSUTable struct {
	W io.Writer
	// Name is that of OSU's program without "osu_": "latency", "bw", "bibw", "mbw_mr", "multi_lat",
	// "latency_mt", "barrier", "bcast" or "allreduce".
	Name string
	// Decimals is the number of digits after the point; OSU prints 2.
	Decimals int
	// Validated adds the column of option -c.
	Validated bool
	// Full adds the columns of option -f to a collective's: the shortest and the longest mean of a
	// rank, and the iterations.
	Full bool
	// WithoutRate leaves out mbw_mr's messages per second, as option -R 0.
	WithoutRate bool
	// Percentiles adds a column for each, in percent, as option -z.
	Percentiles []int
	// Pairs and Window stand in a line of mbw_mr's.
	Pairs, Window int
	// Senders and Receivers, numbers of threads, stand in lines of latency_mt's.
	Senders, Receivers int
}

// OSURow is one line. The times are seconds per message, for a bandwidth over all messages of all
// pairs; the table turns them into its unit.
type OSURow struct {
	Size    int // bytes
	Seconds float64
	Errors  int       // bytes that arrived wrong; printed with Validated only
	Tail    []float64 // seconds, one for each of Percentiles
	// Printed with Full only: seconds, and a number.
	Least, Most float64
	Iterations  int
}

// Header prints the title and the line of column names. The words behind the version say whose
// numbers they are.
func (t *OSUTable) Header() error {
	words, ok := osuTables[t.Name]
	if !ok {
		return fmt.Errorf("report: OSU has no table %q", t.Name)
	}
	var b strings.Builder
	if words.collective {
		b.WriteByte('\n')
	}
	if t.Senders > 0 {
		fmt.Fprintf(&b, "# Number of Sender threads: %d \n# Number of Receiver threads: %d\n", t.Senders, t.Receivers)
	}
	b.WriteString(osuTitle(words.title))
	if t.Pairs > 0 {
		fmt.Fprintf(&b, "# [ pairs: %d ] [ window size: %d ]\n", t.Pairs, t.Window)
	}
	if words.sizeless {
		b.WriteString("# " + words.columns[0])
	} else {
		fmt.Fprintf(&b, "%-*s", osuSizeWidth, "# Size")
		for _, c := range t.columns(words) {
			field(&b, c)
		}
	}
	if t.Full && words.collective {
		field(&b, "Min Latency(us)")
		field(&b, "Max Latency(us)")
		fmt.Fprintf(&b, "%*s", osuCountWidth, "Iterations")
	}
	if t.Validated {
		field(&b, "Validation")
	}
	for _, p := range t.Percentiles {
		if words.bandwidth {
			field(&b, fmt.Sprintf("P%d Tail BW(MB/s)", p))
		} else {
			tail(&b, fmt.Sprintf("P%d Tail Lat(us)", p))
		}
	}
	return t.line(&b)
}

// columns are those that are printed behind the size.
func (t *OSUTable) columns(words osuWords) []string {
	if t.WithoutRate {
		return words.columns[:1]
	}
	return words.columns
}

// osuTitle is the line by which parsers know whose table it is.
func osuTitle(name string) string {
	return fmt.Sprintf("# OSU MPI %s Test v5.9 (its format; by Banyan)\n", name)
}

// Row prints one line.
func (t *OSUTable) Row(r OSURow) error {
	words := osuTables[t.Name]
	value := func(seconds float64) string {
		if words.bandwidth {
			return t.number(float64(r.Size) / seconds / 1e6)
		}
		return t.number(1e6 * seconds)
	}
	var b strings.Builder
	if words.sizeless {
		fmt.Fprintf(&b, "%*s", osuOnlyWidth, value(r.Seconds))
	} else {
		fmt.Fprintf(&b, "%-*d", osuSizeWidth, r.Size)
		field(&b, value(r.Seconds))
	}
	if len(t.columns(words)) > 1 {
		field(&b, t.number(1/r.Seconds))
	}
	if t.Full && words.collective {
		field(&b, value(r.Least))
		field(&b, value(r.Most))
		fmt.Fprintf(&b, "%*d", osuCountWidth, r.Iterations)
	}
	if t.Validated {
		verdict := "Pass"
		if r.Errors > 0 {
			verdict = "Fail"
		}
		field(&b, verdict)
	}
	for _, seconds := range r.Tail {
		if words.bandwidth {
			field(&b, value(seconds))
		} else {
			tail(&b, value(seconds))
		}
	}
	return t.line(&b)
}

// field appends a right-aligned column.
func field(b *strings.Builder, text string) { fmt.Fprintf(b, "%*s", osuValueWidth, text) }

// tail appends a column of a time's percentile, which OSU 5.9 does not have.
func tail(b *strings.Builder, text string) { fmt.Fprintf(b, "%*s", osuTailWidth, text) }

func (t *OSUTable) number(v float64) string { return number(v, t.Decimals) }

// number formats a value of a table.
func number(v float64, decimals int) string { return stats.Text("%."+strconv.Itoa(decimals)+"f", v) }

func (t *OSUTable) line(b *strings.Builder) error {
	b.WriteByte('\n')
	if _, err := io.WriteString(t.W, b.String()); err != nil {
		return fmt.Errorf("report: print the table: %w", err)
	}
	return nil
}
