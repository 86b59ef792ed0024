package table

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// Column is one column of a table.
type Column struct {
	Name string
	// Width is the least number of characters; a name that is longer takes more.
	Width int
	// Left aligns text on the left; numbers are on the right.
	Left bool
	// Format is that of a value, for package fmt, "" for %v. A number that is not finite is
	// [stats.None].
	Format string
	// Joined columns are in the block of the previous one.
	Joined bool
}

// Table prints rows below the names of columns. [Table.Begin] comes first, [Table.End] last.
type Table struct {
	W io.Writer
	// Title is printed above, wrapped; "" for none.
	Title string
	// Keys is how many columns, the first, name a row and begin each block. With 0 a row that does
	// not fit goes on in further lines.
	Keys    int
	Columns []Column

	width, gap int
	blocks     [][]int    // the columns of each
	later      [][]string // rows of which End prints further blocks
}

const (
	// wide is the number of spaces between columns. Where all columns fit with fewer there are narrow.
	wide, narrow = 2, 1
	// folded is how far right further lines of a row begin.
	folded = 4
	// prose is how many columns the further lines of a last column's text have at least.
	prose = 16
)

// Begin prints the title and the names of the columns.
func (t *Table) Begin() error {
	t.width, t.gap = Width(t.W), wide
	t.blocks = t.split()
	if len(t.blocks) > 1 {
		t.gap = narrow
		if tight := t.split(); len(tight) == 1 {
			t.blocks = tight
		} else {
			t.gap = wide
		}
	}
	title := ""
	if t.Title != "" {
		title = Wrap(t.Title+"\n", t.width)
	}
	return t.print(title + t.now(t.names()))
}

// Row prints a row: a value for each column; "" leaves one empty.
//
// Precondition: there are as many values as columns.
func (t *Table) Row(values ...any) error {
	cells := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		cells[i] = c.text(values[i])
	}
	if t.Keys > 0 && len(t.blocks) > 1 {
		t.later = append(t.later, cells)
	}
	return t.print(t.now(cells))
}

// End prints the blocks that did not fit beside the first.
func (t *Table) End() error {
	if len(t.later) == 0 {
		return nil
	}
	text := ""
	for _, block := range t.blocks[1:] {
		text += "\n" + t.line(block, t.names(), 0)
		for _, cells := range t.later {
			text += t.line(block, cells, 0)
		}
	}
	return t.print(text)
}

// Write prints a table whose rows are known: a column is as wide as the longest of its values, and the
// text of a last column wraps.
func (t *Table) Write(rows [][]any) error {
	for i := range t.Columns {
		c := &t.Columns[i]
		for _, values := range rows {
			if i < len(t.Columns)-1 || !c.Left {
				c.Width = max(c.Width, columns(c.text(values[i])))
			}
		}
	}
	if err := t.Begin(); err != nil {
		return err
	}
	for _, values := range rows {
		if err := t.Row(values...); err != nil {
			return err
		}
	}
	return t.End()
}

// split puts the columns into blocks.
func (t *Table) split() [][]int {
	var keys []int
	for i := range t.Keys {
		keys = append(keys, i)
	}
	at := t.span(0, t.Keys)
	blocks := [][]int{keys}
	start, n := at, 0 // n columns of the last block are no keys
	for i := t.Keys; i < len(t.Columns); {
		group := 1
		for i+group < len(t.Columns) && t.Columns[i+group].Joined {
			group++
		}
		wants := t.span(i, group)
		if start+wants-t.gap > t.width { // not even in a block of their own
			group, wants = 1, t.span(i, 1)
		}
		if n > 0 && at+wants-t.gap > t.width {
			blocks, at, n = append(blocks, append([]int(nil), keys...)), start, 0
			if t.Keys == 0 {
				at = folded
			}
		}
		last := len(blocks) - 1
		for range group {
			blocks[last] = append(blocks[last], i)
			i++
		}
		at, n = at+wants, n+group
	}
	return blocks
}

// span is the width of so many columns from one on, with the space behind each.
func (t *Table) span(from, n int) (sum int) {
	for _, c := range t.Columns[from : from+n] {
		sum += c.width() + t.gap
	}
	return sum
}

// now are the lines that are printed at once: the first block's, or all where a row goes on.
func (t *Table) now(cells []string) string {
	text := t.line(t.blocks[0], cells, 0)
	if t.Keys == 0 {
		for _, block := range t.blocks[1:] {
			text += t.line(block, cells, folded)
		}
	}
	return text
}

// line is the line of a block. A value that is too long takes from the spaces behind it.
func (t *Table) line(block []int, cells []string, indent int) string {
	line := strings.Repeat(" ", indent)
	start := indent // of the column
	for n, i := range block {
		c, cell := t.Columns[i], cells[i]
		place := start
		if !c.Left {
			place = start + c.width() - columns(cell)
		}
		least := columns(line)
		if n > 0 {
			least++
		}
		line += strings.Repeat(" ", max(place, least)-columns(line))
		if i == len(t.Columns)-1 && c.Left {
			line = hang(line, strings.Repeat(" ", min(columns(line), max(folded, t.width-prose))), cell, t.width)
		} else {
			line += cell
		}
		start += c.width() + t.gap
	}
	return strings.TrimRight(line, " ") + "\n"
}

func (t *Table) names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

func (t *Table) print(text string) error {
	_, err := io.WriteString(t.W, text)
	return err
}

func (c Column) width() int { return max(c.Width, columns(c.Name)) }

// text formats a value.
func (c Column) text(value any) string {
	format := cmp.Or(c.Format, "%v")
	switch v := value.(type) {
	case float64:
		return stats.Text(format, v)
	case string: // in place of a number
		return v
	}
	return fmt.Sprintf(format, value)
}
