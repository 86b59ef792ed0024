package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
)

// The widths of OSU's fields, in characters.
const (
	osuSizeWidth  = 10
	osuValueWidth = 18
	osuCountWidth = 12
	osuOnlyWidth  = 17 // of the first column where there are no sizes
	// Of a time's percentiles, which OSU 5.9 does not have: three behind the size and one value take 79 columns.
	osuTailWidth = 17
	// Of a non-blocking collective's times, 20 in OSU: a size and four of them take 78 columns.
	osuOverlapWidth = 17
	// Where OSU's lines do not fit: of sizes, and of values before the digits behind the point.
	osuLeastSize, osuLeastValue = 7, 10
)

// OSUOverlap has the times of a non-blocking collective beside a computation, in seconds.
type OSUOverlap struct {
	Overall, Compute, Start, Test, Wait float64
	Percent                             float64
}

// OSUTable prints rows in the format of the OSU micro-benchmarks. Where several options make OSU's lines
// wider than the terminal, the columns stand closer, or in a further block that [OSUTable.End] prints.
type OSUTable struct {
	W io.Writer
	// Name is that of OSU's program without "osu_", such as "latency" or "put_bw".
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
	// Pairs and Window are in the lines of mbw_mr.
	Pairs, Window int
	// Senders and Receivers, numbers of threads, are in the lines of latency_mt.
	Senders, Receivers int
	// Datatype is that of option -T. Below: it is not the first of several, and has no title.
	Datatype string
	Below    bool
	// Creation and Sync are the options -w and -s of one-sided tables.
	Creation, Sync string

	fields []osuField
	narrow *table.Table // where OSU's lines do not fit
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
	// Overlap is for non-blocking collectives; the other times are then those of the communication alone.
	Overlap OSUOverlap
}

// Header prints the title and the line of column names. The text after the version names the source
// of the numbers.
func (t *OSUTable) Header() error {
	words, ok := osuTables[t.Name]
	if !ok {
		return fmt.Errorf("report: OSU has no table %q", t.Name)
	}
	var b strings.Builder
	if !t.Below {
		t.title(&b, words)
	}
	if kind := cmp.Or(t.Datatype, words.datatype); kind != "" {
		fmt.Fprintf(&b, "# Datatype: %s.\n", kind)
	}
	if t.Pairs > 0 {
		fmt.Fprintf(&b, "# [ pairs: %d ] [ window size: %d ]\n", t.Pairs, t.Window)
	}
	t.fields = t.fieldsOf(words)
	t.narrow = nil
	if sum := widths(t.fields); sum <= table.Width(t.W) {
		names := make([]string, len(t.fields))
		for i, f := range t.fields {
			names[i] = f.name
		}
		return t.line(&b, names)
	}
	if _, err := io.WriteString(t.W, b.String()); err != nil {
		return printed(err)
	}
	t.narrow = t.narrowTable()
	return printed(t.narrow.Begin())
}

// title has the lines above the columns that do not depend on a data type.
func (t *OSUTable) title(b *strings.Builder, words osuWords) {
	if words.collective {
		b.WriteByte('\n')
	}
	if t.Senders > 0 {
		fmt.Fprintf(b, "# Number of Sender threads: %d \n# Number of Receiver threads: %d\n", t.Senders, t.Receivers)
	}
	switch {
	case words.overlap:
		b.WriteString(osuTitleOf(words.title, "7.4") + "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n")
	case words.datatype == "":
		b.WriteString(osuTitle(words.title))
	default:
		fmt.Fprintf(b, "# OSU MPI_%s Test v7.4 (its format; by Banyan)\n# Window creation: %s\n# Synchronization: %s\n",
			words.title, osuCreations[t.Creation], osuSyncs[t.Sync])
	}
}

// osuField is a column.
type osuField struct {
	name string
	// width is that of OSU's lines, least that of the values.
	width, least int
	left, joined bool // see table.Column
}

func widths(fields []osuField) (sum int) {
	for _, f := range fields {
		sum += f.width
	}
	return sum
}

// fieldsOf are the columns of a table, the first names a row.
func (t *OSUTable) fieldsOf(words osuWords) (fields []osuField) {
	add := func(name string, width, least int, joined bool) {
		fields = append(fields, osuField{name: name, width: width, least: least, joined: joined})
	}
	value := osuLeastValue + t.Decimals
	if !words.sizeless {
		fields = append(fields, osuField{name: "# Size", width: osuSizeWidth, least: osuLeastSize, left: true})
	}
	if words.overlap {
		for i, c := range t.overlapColumns(words) {
			width := osuOverlapWidth
			if i == 0 && words.sizeless {
				width = len(c) // it begins the line
			}
			add(c, width, value, i > 0 && !t.Full)
		}
	} else if words.sizeless {
		add("# "+words.columns[0], osuOnlyWidth, value, false)
	} else {
		for _, c := range t.columns(words) {
			add(c, osuValueWidth, value, false)
		}
	}
	if t.Full && words.collective && !words.overlap {
		add("Min Latency(us)", osuValueWidth, value, false)
		add("Max Latency(us)", osuValueWidth, value, true)
		add("Iterations", osuCountWidth, 0, true)
	}
	if t.Validated {
		add("Validation", osuValueWidth, 0, false)
	}
	for i, p := range t.Percentiles {
		if words.bandwidth {
			add(fmt.Sprintf("P%d Tail BW(MB/s)", p), osuValueWidth, value, i > 0)
		} else {
			add(fmt.Sprintf("P%d Tail Lat(us)", p), osuTailWidth, value, i > 0)
		}
	}
	return fields
}

// narrowTable is the table of columns that OSU's widths make too wide for a line.
func (t *OSUTable) narrowTable() *table.Table {
	narrow := &table.Table{W: t.W, Keys: 1}
	for _, f := range t.fields {
		narrow.Columns = append(narrow.Columns,
			table.Column{Name: f.name, Width: f.least, Left: f.left, Joined: f.joined})
	}
	return narrow
}

// overlapColumns are the columns of a non-blocking collective, after the size if there is one.
func (t *OSUTable) overlapColumns(words osuWords) []string {
	names := []string{"Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)"}
	if t.Full {
		names = []string{"Overall(us)", "Compute(us)", "Coll. Init(us)", "MPI_Test(us)", "MPI_Wait(us)",
			"Pure Comm.(us)", "Min Comm.(us)", "Max Comm.(us)", "Overlap(%)"}
	}
	if words.sizeless {
		names[0] = "# " + names[0]
	}
	return names
}

// overlapCells are the values in them.
func (t *OSUTable) overlapCells(r OSURow) (cells []string) {
	o := r.Overlap
	values := []float64{o.Overall, o.Compute, r.Seconds}
	if t.Full {
		values = []float64{o.Overall, o.Compute, o.Start, o.Test, o.Wait, r.Seconds, r.Least, r.Most}
	}
	for _, seconds := range values {
		cells = append(cells, t.number(1e6*seconds))
	}
	return append(cells, t.number(o.Percent))
}

// columns are the columns after the size.
func (t *OSUTable) columns(words osuWords) []string {
	if t.WithoutRate && len(words.columns) > 1 {
		return words.columns[:1]
	}
	return words.columns
}

// osuTitle is the line by which parsers recognize a table, in the form of OSU 5.9.
func osuTitle(name string) string { return osuTitleOf(name, "5.9") }

// osuTitleOf is that in the form of a version; if the line is too short for the source of the numbers, the
// source stands below.
func osuTitleOf(name, version string) string {
	title, whose := fmt.Sprintf("# OSU MPI %s Test v%s", name, version), "(its format; by Banyan)\n"
	if len(title)+len(whose) > table.Columns {
		return title + "\n# " + whose
	}
	return title + " " + whose
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
	var cells []string
	if !words.sizeless {
		cells = append(cells, strconv.Itoa(r.Size))
	}
	if words.overlap {
		cells = append(cells, t.overlapCells(r)...)
	} else {
		cells = append(cells, value(r.Seconds))
	}
	if len(t.columns(words)) > 1 {
		cells = append(cells, t.number(1/r.Seconds))
	}
	if t.Full && words.collective && !words.overlap {
		cells = append(cells, value(r.Least), value(r.Most), strconv.Itoa(r.Iterations))
	}
	if t.Validated {
		verdict := "Pass"
		if r.Errors > 0 {
			verdict = "Fail"
		}
		cells = append(cells, verdict)
	}
	for _, seconds := range r.Tail {
		cells = append(cells, value(seconds))
	}
	if t.narrow == nil {
		return t.line(&strings.Builder{}, cells)
	}
	row := make([]any, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return printed(t.narrow.Row(row...))
}

// End prints the columns that did not fit beside the others.
func (t *OSUTable) End() error {
	if t.narrow == nil {
		return nil
	}
	return printed(t.narrow.End())
}

func (t *OSUTable) number(v float64) string { return number(v, t.Decimals) }

// number formats a value of a table.
func number(v float64, decimals int) string { return stats.Text("%."+strconv.Itoa(decimals)+"f", v) }

// line prints text and a line of cells in OSU's widths.
func (t *OSUTable) line(b *strings.Builder, cells []string) error {
	for i, f := range t.fields {
		if f.left {
			fmt.Fprintf(b, "%-*s", f.width, cells[i])
		} else {
			fmt.Fprintf(b, "%*s", f.width, cells[i])
		}
	}
	b.WriteByte('\n')
	_, err := io.WriteString(t.W, b.String())
	return printed(err)
}
