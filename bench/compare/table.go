package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// WriteTable prints the results for people. Times are in µs per message; for each bound and
// distance it gives the ratio, its interval and the verdict.
func WriteTable(w io.Writer, results ...*Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range results {
		fmt.Fprintf(w, "%s (%d rounds%s, %d samples kept, %d dropped: the control changed)\n",
			r.Title, len(r.Rounds), cutWord(r), r.Kept, r.Dropped)
		fmt.Fprint(t, "id\tover\tcores\tpairs\tours µs\ttheirs µs\tratio\t95 % interval\tbound\tverdict\t\n")
		for _, row := range r.Rows {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.Bound.ID, row.Bound.Over,
				row.Distance.label(),
				row.Ratio.N, micro(row.Subject), micro(row.Other), median(row.Ratio), interval(row.Ratio), row.Bound,
				row.verdict())
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("compare: print the table: %w", err)
		}
		for _, name := range slices.Sorted(maps.Keys(r.Failed)) {
			fmt.Fprintf(w, "  %s could not be measured: %s\n", name, r.Failed[name])
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return fmt.Errorf("compare: print the table: %w", err)
		}
	}
	return nil
}

// cutWord says that a round was ended by the end of the time.
func cutWord(r *Result) string {
	if r.Cut {
		return " and one cut by --max-time"
	}
	return ""
}

// none is the text of an absent value in a table.
const none = "-"

// micro formats seconds as µs with four significant digits.
func micro(seconds float64) string {
	if seconds == 0 {
		return none
	}
	return fmt.Sprintf("%.4g", 1e6*seconds)
}

// median is that of the interval, for tables.
func median(v stats.Interval) string {
	if v.N == 0 {
		return none
	}
	return fmt.Sprintf("%.3f", v.Median)
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
