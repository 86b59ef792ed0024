package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// WriteCurve prints a curve for people: for each point, bound and distance the time of the subject
// and, for each of the others, its time and the ratio to it with the interval. The verdict is on
// the ratio to the better of the others, which is on all of them: not beaten by the better is not
// beaten by any.
func WriteCurve(w io.Writer, c *Curve) error {
	kept, dropped := 0, 0
	for _, p := range c.Points {
		kept, dropped = kept+p.Kept, dropped+p.Dropped
	}
	others := c.others()
	fmt.Fprintf(w, "%s (%d rounds%s, %d values kept, %d dropped: the control changed)\n", c.Title,
		len(c.Points[0].Rounds), cutWord(c.Points[0].Result), kept, dropped)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "id\t%s\tcores\tpairs\tours µs\t", c.sweep.Label)
	for _, o := range others {
		fmt.Fprintf(t, "%s µs\tratio\t95 %% interval\t", o)
	}
	fmt.Fprint(t, "bound\tverdict\t\n")
	for _, p := range c.Points {
		for _, rows := range p.lines() {
			writeLine(t, p.Label, others, rows)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("compare: print the table: %w", err)
	}
	for _, row := range c.Middle {
		fmt.Fprintf(w, "%s, median of the points over the better of the others, %s cores: %.3f, interval %s of %d "+
			"rounds, bound %s: %s\n",
			row.Bound.ID, row.Distance, row.Ratio.Median, interval(row.Ratio), row.Ratio.N, row.Bound, row.verdict())
	}
	return c.writeFailed(w)
}

// writeFailed names what could not be measured, each source and reason once.
func (c *Curve) writeFailed(w io.Writer) error {
	var said []string
	for _, p := range c.Points {
		for _, name := range slices.Sorted(maps.Keys(p.Failed)) {
			if slices.Contains(said, name) {
				continue
			}
			said = append(said, name)
			fmt.Fprintf(w, "  %s could not be measured any more from %s on: %s\n", name, p.Label, p.Failed[name])
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("compare: print the table: %w", err)
	}
	return nil
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

func writeLine(w io.Writer, label string, others []string, rows []Row) {
	pairs := rows[0].Ratio.N
	for _, row := range rows {
		pairs = min(pairs, row.Ratio.N)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t", rows[0].Bound.ID, label, rows[0].Distance.label(), pairs,
		micro(rows[0].Subject))
	for _, o := range others {
		i := slices.IndexFunc(rows, func(row Row) bool { return row.Bound.Over == o })
		if i < 0 {
			fmt.Fprint(w, "-\t-\t-\t")
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t", micro(rows[i].Other), median(rows[i].Ratio), interval(rows[i].Ratio))
	}
	bounded := rows[0]
	for _, row := range rows {
		if bounded.Bound.Limit == 0 {
			bounded = row
		}
	}
	fmt.Fprintf(w, "%s\t%s\t\n", bounded.Bound, together(rows))
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
