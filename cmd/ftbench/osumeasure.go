package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// osuResults are the results in the JSON file.
type osuResults struct {
	Benchmark string      `json:"benchmark"`
	Fabric    string      `json:"fabric"`
	Aware     bool        `json:"aware"`
	Ranks     int         `json:"ranks"`
	Options   osu.Options `json:"options"`
	Points    []osu.Point `json:"points"`
	// Cut is set where sizes were left out, see --max-time.
	Cut *osu.CutError `json:"cut,omitempty"`
}

// osuTable are the options that concern the table alone.
type osuTable struct {
	full, withoutRate bool
	kinds             []osu.Datatype // that are measured, one after the other
}

// run measures with the options that only some commands have.
func (c *osuOptions) run(to *call, options ...osuOption) error {
	o, table := c.Bench.Defaults, osuTable{}
	for _, option := range options {
		if err := option.apply(&o, &table); err != nil {
			return err
		}
	}
	if err := c.common(&o); err != nil {
		return err
	}
	kinds, err := datatypes(c.Types)
	if err != nil {
		return err
	}
	table.kinds, o.Type = kinds, kinds[0]
	c.N = cmp.Or(c.N, max(2, 2*o.Pairs))
	simulated := c.simulated()
	if simulated {
		if err := alone("osu " + c.Bench.Name); err != nil {
			return err
		}
	} else if join.Started() { // the job has its number of ranks
		return inJob(c.Aware, func(w *banyan.World) error { return c.measure(w, o, table, to) }, c.options()...)
	}
	if err := c.check(c.N, o, kinds); err != nil {
		return err
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	o, _ = c.Bench.Bounded(c.N, o)
	announce(to.err, "osu "+c.Bench.Name, c.time(o), 0)
	bar := progressbar.Start(to.err, "osu "+c.Bench.Name, len(kinds)*c.Bench.Rows(o)/max(1, len(o.Windows)))
	defer bar.Stop()
	to = watched(to, bar, c.JSON)
	if simulated {
		return banyan.Simulate(c.N, banyan.Simulation{Options: []banyan.Option{banyan.WithAware(c.Aware)}},
			func(w *banyan.World) error { return c.measure(w, o, table, to) })
	}
	return startSelf(c.N, to)
}

// watched is the call with its output beside a bar; each row of a table is a step. The table is not
// where the file of results is.
func watched(to *call, bar *progressbar.Bar, file string) *call {
	isRow := func(line []byte) bool { return line[0] != '#' && line[0] != '\n' }
	if file == dash {
		return &call{to.args, bar.Over(to.out), bar.Lines(to.err, isRow)}
	}
	return &call{to.args, bar.Lines(to.out, isRow), bar.Over(to.err)}
}

// measure prints the table on rank 0 and writes the file.
func (c *osuOptions) measure(w *banyan.World, o osu.Options, look osuTable, to *call) error {
	first, ranks := w.Comm().Rank() == 0, w.Comm().Size()
	if err := c.check(ranks, o, look.kinds); err != nil {
		return err // before a header is printed
	}
	o, lowered := c.Bench.Bounded(ranks, o)
	if lowered && first {
		fmt.Fprintf(to.err, "ftbench: osu %s: sizes above %d bytes are left out: --mem-limit, -M, of %d bytes for %d ranks\n",
			c.Bench.Name, o.Max, o.MemoryLimit, ranks)
	}
	if first {
		if err := checkFiles(c.JSON); err != nil {
			return err
		}
	}
	file := report.Begin("osu")
	results := osuResults{Benchmark: c.Bench.Name, Aware: c.Aware, Ranks: ranks, Options: o, Points: []osu.Point{}}
	if len(look.kinds) > 1 {
		results.Options.Type = "" // the points have it
	}
	for i, kind := range look.kinds {
		o.Type = kind
		t := c.table(&o, look, ranks, to.words(c.JSON), i > 0)
		cut, err := c.sweep(w, o, t, &results)
		if err != nil {
			return err
		}
		if cut != nil && first {
			results.Cut = cut
			fmt.Fprintf(to.err, "ftbench: osu %s: %v\n", c.Bench.Name, cut)
		}
	}
	if !first {
		return nil
	}
	var err error
	if results.Fabric, err = c.used(w); err != nil {
		return err
	}
	return to.store(file, c.JSON, results)
}

// check reports the reason for which a run with one of the types is impossible.
func (c *osuOptions) check(ranks int, o osu.Options, kinds []osu.Datatype) error {
	for _, kind := range kinds {
		o.Type = kind
		if err := c.Bench.Check(ranks, o); err != nil {
			return usage(err)
		}
	}
	return nil
}

// sweep measures with one data type and prints the table on rank 0.
func (c *osuOptions) sweep(w *banyan.World, o osu.Options, t rows, results *osuResults) (*osu.CutError, error) {
	first := w.Comm().Rank() == 0
	if first {
		if err := t.Header(); err != nil {
			return nil, err
		}
	}
	err := c.Bench.Run(w, o, func(p osu.Point) error {
		p.Type = o.Type
		results.Points = append(results.Points, p)
		return t.row(p)
	})
	var cut *osu.CutError
	if errors.As(err, &cut) {
		err = nil // the results so far are right
	}
	if err != nil || !first {
		return nil, err
	}
	return cut, t.end()
}

// datatypes reads OSU's -T; without it there is one sweep without a type.
func datatypes(words []string) (kinds []osu.Datatype, err error) {
	for _, word := range words {
		if strings.EqualFold(word, "all") {
			kinds = append(kinds, osu.Datatypes...)
			continue
		}
		kind := osu.Datatype(strings.ToLower(word))
		if err := kind.Check(); err != nil {
			return nil, usagef("-T: %v, or all", err)
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		kinds = []osu.Datatype{""}
	}
	return kinds, nil
}
