package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/match"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

type matchCmd struct {
	Entries []int         `default:"10,100,1000,10000,100000" placeholder:"N" help:"Lengths of the queue. Default: ${default}."`
	Rounds  int           `default:"5" help:"How often each length is measured; the median counts. Default: ${default}."`
	MinTime time.Duration `default:"50ms" help:"How long each time at least. Default: ${default}."`
	Aware   bool          `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline."`
	paceFlags
	JSON string `placeholder:"FILE" help:"Store all rounds and the environment; -: print them, and the table on standard error."`
}

func (matchCmd) Help() string {
	return `How long it takes to match a message with its receive, when other receives (posted)
or other messages (unexpected) wait before it: the match is always with the last
one, so a queue that is a list shows. In posted+wild one in ten of those that wait is
a wildcard; in unexpected+wild the receive is for any source. Two ranks over shared
memory. Exit code 3: without wildcards, 10000 entries cost more than three times
what 10 do.

Examples:
  ftbench match
  ftbench match --entries 10,10000 --rounds 21 --json results/match.json
  ftbench run -n 2 --bind core -- bin/ftbench match --aware=false`
}

// matchBounds are B3-5 and B3-6 of docs/status.md.
var matchBounds = []struct{ id, series string }{{"B3-5", match.Posted}, {"B3-6", match.Unexpected}}

// matchBound is a bound and its result, in the JSON file.
type matchBound struct {
	ID     string  `json:"id"`
	Series string  `json:"series"`
	Ratio  float64 `json:"ratio"`
	Limit  float64 `json:"limit"`
	Met    bool    `json:"met"`
}

// matchResults are the results in the JSON file.
type matchResults struct {
	Aware   bool           `json:"aware"`
	Options match.Options  `json:"options"`
	Series  []match.Result `json:"series"`
	Bounds  []matchBound   `json:"bounds,omitempty"`
	Cut     *budget.Cut    `json:"cut,omitempty"` // of --max-time
}

// unexpectedRoom lets the longest queue of unexpected messages form: by default senders are held
// back long before.
const unexpectedRoom = 1 << 30

func (c *matchCmd) Run(to *call) error {
	c.atMost(&c.Rounds, 2)
	c.shorter(&c.MinTime, 10*time.Millisecond)
	o := match.Options{Lengths: c.Entries, Rounds: c.Rounds, MinTime: c.MinTime, Budget: c.budget()}
	if err := cmp.Or(c.checkTime(), o.Check()); err != nil {
		return usage(err)
	}
	if join.Started() {
		var missed bool
		err := inJob(c.Aware, func(w *banyan.World) (err error) {
			missed, err = c.measure(w, o, to)
			return err
		}, banyan.WithUnexpectedLimit(unexpectedRoom))
		if err == nil && missed {
			return exitCode(exitMissed)
		}
		return err
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	bar := progressbar.Start(to.err, "match", len(match.All)*len(o.Lengths))
	defer bar.Stop()
	announce(to.err, "match", matchTime(o), c.MaxTime)
	return startSelf(2, watched(to, bar, c.JSON), o.Budget.Export()...)
}

// matchTime is about how long a run takes: each queue is built and taken down, and the last step of a
// measurement may double its time.
func matchTime(o match.Options) (all time.Duration) {
	for _, n := range o.Lengths {
		all += 3*o.MinTime/2 + time.Duration(n)*time.Microsecond
	}
	return time.Duration(len(match.All)*o.Rounds) * all
}

// measure prints the table on rank 0, writes the file, and reports whether a bound is missed.
func (c *matchCmd) measure(w *banyan.World, o match.Options, to *call) (missed bool, err error) {
	file := report.Begin("match")
	results := matchResults{Aware: c.Aware, Options: o, Series: []match.Result{}}
	first := w.Comm().Rank() == 0
	out := to.words(c.JSON).out
	rows := table.Table{W: out, Keys: 2, Columns: []table.Column{{Name: "# Queue", Width: 16, Left: true},
		{Name: "Entries", Width: 8}, {Name: "Match (ns)", Width: 14, Format: "%.1f"},
		{Name: "over shortest", Width: 14, Format: "%.2f"}}}
	if first {
		if err := checkFiles(c.JSON); err != nil {
			return false, err
		}
		rows.Title = fmt.Sprintf("# Banyan match time, the last entry of a queue, median of %d", o.Rounds)
		if err := rows.Begin(); err != nil {
			return false, err
		}
	}
	err = match.Run(w, o, func(r match.Result) error {
		results.Series = append(results.Series, r)
		for _, p := range r.Points {
			ratio, _ := r.Ratio(p.Length, r.Points[0].Length) // both were measured
			if err := rows.Row(r.Series, p.Length, 1e9*p.Seconds, ratio); err != nil {
				return err
			}
		}
		return nil
	})
	if results.Cut, err = cutOf(err); err != nil || !first {
		return false, err
	}
	if err := cmp.Or(rows.End(), printCut(out, results.Cut)); err != nil {
		return false, err
	}
	if results.Cut == nil { // a few rounds are no verdict
		results.Bounds = judge(results.Series)
	}
	for _, b := range results.Bounds {
		verdict := "met"
		if !b.Met {
			verdict, missed = "missed", true
		}
		if err := table.Printf(out, "# %s: %s, %d entries over %d: %s, bound %g: %s\n", b.ID, b.Series, suite.MatchLong,
			suite.MatchShort, stats.Text("%.2f", b.Ratio), b.Limit, verdict); err != nil {
			return false, err
		}
	}
	return missed, to.store(file, c.JSON, results)
}

// judge compares with the bounds whose lengths were measured.
func judge(series []match.Result) []matchBound {
	var out []matchBound
	for _, b := range matchBounds {
		for _, r := range series {
			if ratio, ok := r.Ratio(suite.MatchLong, suite.MatchShort); ok && r.Series == b.series {
				out = append(out, matchBound{ID: b.id, Series: b.series, Ratio: ratio, Limit: suite.MatchLimit,
					Met: ratio <= suite.MatchLimit})
			}
		}
	}
	return out
}
