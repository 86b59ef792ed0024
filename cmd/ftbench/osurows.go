package main

import (
	"strings"

	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/report"
)

// rows prints a table.
type rows interface {
	Header() error
	row(osu.Point) error
	end() error
}

// plainRows is a line for each point.
type plainRows struct{ report.OSUTable }

func (t *plainRows) row(p osu.Point) error {
	row := report.OSURow{
		Size: p.Size, Seconds: p.Seconds, Errors: p.Errors, Tail: p.Percentiles,
		Least: p.Least, Most: p.Most, Iterations: p.Iterations,
	}
	if o := p.Overlap; o != nil {
		row.Overlap = report.OSUOverlap{
			Overall: o.Overall, Compute: o.Compute, Start: o.Start, Test: o.Test, Wait: o.Wait, Percent: o.Percent,
		}
	}
	return t.Row(row)
}

func (t *plainRows) end() error { return t.End() }

// windowRows is a line for each size, when the points of all windows are there.
type windowRows struct {
	report.OSUWindows
	seconds []float64
}

func (t *windowRows) row(p osu.Point) error {
	t.seconds = append(t.seconds, p.Seconds)
	if len(t.seconds) < len(t.Windows) {
		return nil
	}
	defer func() { t.seconds = t.seconds[:0] }()
	return t.Row(p.Size, t.seconds)
}

func (t *windowRows) end() error { return t.End() }

// table makes the table of a run.
func (c *osuOptions) table(o *osu.Options, look osuTable, ranks int, to *call, below bool) rows {
	pairs := c.Bench.Pairs(ranks, *o)
	if len(o.Windows) > 0 {
		return &windowRows{OSUWindows: report.OSUWindows{
			W: to.out, Pairs: pairs, Windows: o.Windows, Decimals: c.Precision, Rate: !look.withoutRate,
		}}
	}
	t := report.OSUTable{
		W: to.out, Name: c.Bench.Name, Decimals: c.Precision, Validated: o.Validate, Percentiles: o.Percentiles,
		Senders: o.Senders, Receivers: o.Receivers, Full: look.full, WithoutRate: look.withoutRate,
	}
	if c.Bench.Multi && c.Bench.Windowed {
		t.Pairs, t.Window = pairs, o.Window
	}
	t.Datatype, t.Below = strings.ToUpper(string(o.Type)), below
	t.Creation, t.Sync = string(o.Creation), string(o.Sync)
	return &plainRows{t}
}
