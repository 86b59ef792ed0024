package compare

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
)

// WriteTable prints the results for people. Times are in µs per message; for each bound and
// distance it gives the ratio, its interval and the verdict.
func WriteTable(w io.Writer, results ...*Result) error {
	for _, r := range results {
		t := table.Table{
			W: w, Keys: 3, Title: fmt.Sprintf("%s (%d rounds%s, %d samples kept, %d dropped: the control changed)", r.Title,
				len(r.Rounds), cutWord(r), r.Kept, r.Dropped),
			Columns: append([]table.Column{{Name: "id"}, {Name: "over"}, {Name: "cores"}, {Name: "pairs"}, {Name: "ours µs"},
				{Name: "theirs µs"}, {Name: "ratio"}, {Name: "95 % interval", Joined: true}}, judged...),
		}
		var rows [][]any
		for _, row := range r.Rows {
			rows = append(rows, []any{row.Bound.ID, row.Bound.Over, row.Distance.label(), row.Ratio.N, micro(row.Subject),
				micro(row.Other), median(row.Ratio), interval(row.Ratio), row.Bound, row.verdict()})
		}
		err := t.Write(rows)
		for _, name := range slices.Sorted(maps.Keys(r.Failed)) {
			err = cmp.Or(err, table.Printf(w, "  %s could not be measured: %s\n", name, r.Failed[name]))
		}
		if err = cmp.Or(err, table.Printf(w, "\n")); err != nil {
			return fmt.Errorf("compare: print the table: %w", err)
		}
	}
	return nil
}

// judged are the last columns of a table.
var judged = []table.Column{{Name: "bound"}, {Name: "verdict", Left: true, Joined: true}}

// cutWord reports that the end of the time has ended a round.
func cutWord(r *Result) string {
	if r.Cut {
		return " and one cut by --max-time"
	}
	return ""
}

// none is the text of an absent value in a table.
const none = stats.None

// micro formats seconds as µs with four significant digits.
func micro(seconds float64) string {
	if seconds == 0 {
		return none
	}
	return stats.Text("%.4g", 1e6*seconds)
}

// median is that of the interval, for tables.
func median(v stats.Interval) string {
	if v.N == 0 {
		return none
	}
	return stats.Text("%.3f", v.Median)
}

// label is the distance, for tables.
func (m Distance) label() string {
	if m == "" {
		return none
	}
	return string(m)
}

// interval writes "0.851 … 0.880", "too few" where there is no interval, or "-" where there are no
// observations.
func interval(v stats.Interval) string {
	if v.N == 0 {
		return none
	}
	if v.Low == 0 {
		return "too few"
	}
	return fmt.Sprintf("%.3f … %.3f", v.Low, v.High)
}

// String gives "≤ 0.9", or "≥ 0.95 rate" for a ratio of rates.
func (b Bound) String() string {
	switch {
	case b.Limit == 0 && b.Ratio == OfRates:
		return "rate"
	case b.Limit == 0:
		return none
	case b.Ratio == OfRates:
		return fmt.Sprintf("≥ %g rate", b.Limit)
	}
	return fmt.Sprintf("≤ %g", b.Limit)
}

func (r Row) verdict() string {
	if r.Why == "" {
		return string(r.Verdict)
	}
	return fmt.Sprintf("%s (%s)", r.Verdict, r.Why)
}
