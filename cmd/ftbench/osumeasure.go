package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/report"
)

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
