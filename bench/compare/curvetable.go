package compare

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/banyan-hpc/banyan/bench/table"
)

// WriteCurve prints a curve for people: for each point, bound and distance the time of the subject
// and, for each of the others, its time and the ratio to it with the interval. The verdict is on
// the ratio to the better of the others, which is on all of them: not beaten by the better is not
// beaten by any. Where it is known, the longest call is beside each time.
func WriteCurve(w io.Writer, c *Curve) error {
	kept, dropped := 0, 0
	for _, p := range c.Points {
		kept, dropped = kept+p.Kept, dropped+p.Dropped
	}
	others := c.others()
	t := table.Table{
		W: w, Keys: 3, Title: fmt.Sprintf("%s (%d rounds%s, %d values kept, %d dropped: the control changed)", c.Title,
			len(c.Points[0].Rounds), cutWord(c.Points[0].Result), kept, dropped),
		Columns: []table.Column{{Name: "id"}, {Name: c.sweep.Label}, {Name: "cores"}, {Name: "pairs"}, {Name: "ours µs"}},
	}
	pauses := slices.ContainsFunc(c.Rows(), func(row Row) bool { return row.SubjectLongest > 0 })
	if pauses {
		t.Columns = append(t.Columns, table.Column{Name: "longest"})
	}
	for _, o := range others {
		t.Columns = append(t.Columns, table.Column{Name: o + " µs"})
		if pauses {
			t.Columns = append(t.Columns, table.Column{Name: "longest", Joined: true})
		}
		t.Columns = append(t.Columns, table.Column{Name: "ratio", Joined: true},
			table.Column{Name: "95 % interval", Joined: true})
	}
	t.Columns = append(t.Columns, judged...)
	var lines [][]any
	for _, p := range c.Points {
		for _, rows := range p.lines() {
			lines = append(lines, lineOf(p.Label, others, rows, pauses))
		}
	}
	err := t.Write(lines)
	for _, row := range c.Middle {
		err = cmp.Or(err, table.Printf(w, "%s, median of the points over the better of the others, %s cores: %s, interval "+
			"%s of %d rounds, bound %s: %s\n",
			row.Bound.ID, row.Distance, median(row.Ratio), interval(row.Ratio), row.Ratio.N, row.Bound, row.verdict()))
	}
	if err = cmp.Or(err, c.writeFailed(w)); err != nil {
		return fmt.Errorf("compare: print the table: %w", err)
	}
	return nil
}

// writeFailed names the failed measurements, each source and reason once.
func (c *Curve) writeFailed(w io.Writer) error {
	var said []string
	for _, p := range c.Points {
		for _, name := range slices.Sorted(maps.Keys(p.Failed)) {
			if slices.Contains(said, name) {
				continue
			}
			said = append(said, name)
			err := table.Printf(w, "  %s could not be measured any more from %s on: %s\n", name, p.Label, p.Failed[name])
			if err != nil {
				return err
			}
		}
	}
	return table.Printf(w, "\n")
}

// others are the names that the rows compare with, in their order.
func (c *Curve) others() []string {
	var out []string
	for _, row := range c.Rows() {
		if o := row.Bound.Over; o != c.sweep.Middle.Over && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// lines are a point's rows put together by bound and distance.
func (r *Result) lines() [][]Row {
	var out [][]Row
	for _, row := range r.Rows {
		i := slices.IndexFunc(out, func(l []Row) bool {
			return l[0].Bound.ID == row.Bound.ID &&
				l[0].Distance == row.Distance
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], row)
	}
	return out
}

// lineOf is a line of the table. With pauses each time has that of the longest call after it.
func lineOf(label string, others []string, rows []Row, pauses bool) []any {
	pairs := rows[0].Ratio.N
	for _, row := range rows {
		pairs = min(pairs, row.Ratio.N)
	}
	line := []any{rows[0].Bound.ID, label, rows[0].Distance.label(), pairs, micro(rows[0].Subject)}
	longest := func(seconds float64) {
		if pauses {
			line = append(line, micro(seconds))
		}
	}
	longest(rows[0].SubjectLongest)
	for _, o := range others {
		i := slices.IndexFunc(rows, func(row Row) bool { return row.Bound.Over == o })
		if i < 0 {
			line = append(line, none)
			longest(0)
			line = append(line, none, none)
			continue
		}
		line = append(line, micro(rows[i].Other))
		longest(rows[i].OtherLongest)
		line = append(line, median(rows[i].Ratio), interval(rows[i].Ratio))
	}
	bounded := rows[0]
	for _, row := range rows {
		if bounded.Bound.Limit == 0 {
			bounded = row
		}
	}
	return append(line, bounded.Bound, together(rows))
}

// together is the verdict on several ratios of one bound: missed if one is, else undecided if one
// is.
func together(rows []Row) string {
	for _, v := range []Verdict{Missed, Undecided, Met} {
		if i := slices.IndexFunc(rows, func(row Row) bool { return row.Verdict == v }); i >= 0 {
			return rows[i].verdict()
		}
	}
	return string(Info)
}
