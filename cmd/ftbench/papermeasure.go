package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/paper"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/progressbar"
)

// measure does what the store lacks, and keeps each part as soon as it is there.
func (c *paperCmd) measure(s *paperStore, to *call) error {
	jobs := s.measured.Lacking(paper.Experiments(c.size()))
	ctx, stop := interruptible()
	defer stop()
	bar := progressbar.Start(to.err, "paper: measurements", len(jobs)+len(paperMessages)+1)
	defer bar.Stop()
	err := c.measurePlans(ctx, s, bar)
	for _, e := range jobs {
		if err != nil {
			break
		}
		bar.Note(e.String())
		err = c.measureJob(ctx, s, e, bar, to)
		bar.Step(1)
	}
	if err == nil {
		err = c.measureMessages(ctx, s, bar)
	}
	if err = orInterrupt(ctx, err); err != nil && s.stored {
		bar.Stop()
		fmt.Fprintf(to.err, "ftbench: what has been measured is in %s; go on with --measured %s\n", s.path, s.path)
	}
	return err
}

// measurePlans is §4.2.
func (c *paperCmd) measurePlans(ctx context.Context, s *paperStore, bar *progressbar.Bar) error {
	defer bar.Step(1)
	if len(s.measured.Plans) > 0 {
		return nil
	}
	bar.Note("time to rebalance")
	var plans []fault.Plan
	for _, o := range paper.Rebuilds(paperRebuilds) {
		if err := o.Measure(ctx, func(r fault.Plan) error { plans = append(plans, r); return nil }); err != nil {
			return err
		}
	}
	s.measured.Plans = plans
	return s.keep()
}

// paperRebuilds is how often each rank's plan is timed.
const paperRebuilds = 5

// measureJob is one of §4.3, §4.4 or beyond: what ftbench fault does.
func (c *paperCmd) measureJob(ctx context.Context, s *paperStore, e paper.Experiment, bar *progressbar.Bar, to *call) error {
	o := collectiveOptions{Op: e.Op, N: e.Ranks, exitsFlag: c.exitsFlag, Fabric: "shm"}
	args := faultArgs(e)
	start, err := o.startJobs(&call{args, to.out, to.err}, bar)
	if err != nil {
		return err
	}
	if !e.Unknown {
		r, err := e.Measure(ctx, start(0), bar.Over(to.err), nil)
		if err != nil {
			return fmt.Errorf("ftbench %s: %w", strings.Join(args, " "), err)
		}
		s.measured.Jobs = append(s.measured.Jobs, r)
		return s.keep()
	}
	deaths, err := e.MeasureUnknown(ctx, e.Number, start(e.Number), bar.Over(to.err), nil)
	if err != nil {
		return fmt.Errorf("ftbench %s: %w", strings.Join(args, " "), err)
	}
	s.measured.Deaths = append(s.measured.Deaths, paper.Deaths{Options: e.Collective, Number: e.Number, Deaths: deaths})
	return s.keep()
}

// faultArgs is the command that measures an experiment alone; the ranks are started with it.
func faultArgs(e paper.Experiment) []string {
	args := []string{"fault", string(e.Op), "-n", strconv.Itoa(e.Ranks), "--failures", strconv.Itoa(e.Failures), "--kill", e.Kill.String(),
		"--design", strings.Join(e.Designs, ","), "--tree", strings.Join(e.Trees, ","), "--sets", strconv.Itoa(e.Sets), "--fabric", "shm"}
	if e.Op != fault.Barrier {
		args = append(args, "--size", strconv.Itoa(e.Size))
	}
	if e.Unknown {
		return append(args, "--unknown")
	}
	return append(args, "--ops", strconv.Itoa(e.Calls))
}

// paperMessages are the sizes of §4.1: one byte, and those at which the throughput may be greatest.
var paperMessages = []int{1, 64 << 10, 512 << 10}

// measureMessages is §4.1, with the pairs of ranks of ftbench compare.
func (c *paperCmd) measureMessages(ctx context.Context, s *paperStore, bar *progressbar.Bar) error {
	have := map[int]bool{}
	for _, m := range s.measured.Messages {
		have[m.Bytes] = true
	}
	if len(have) == len(paperMessages) {
		bar.Step(len(paperMessages))
		return nil
	}
	bar.Note("messages, aware and unaware")
	all, err := openContest(ctx, []string{ours, unaware}, paperSample, "")
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		bar.Step(len(paperMessages))
		s.measured.Absent = map[string]string{paper.AbsentMessages: err.Error()}
		return s.keep()
	}
	s.measured.Absent = nil
	for _, size := range paperMessages {
		if !have[size] && err == nil {
			err = c.measureMessage(ctx, all, s, size)
		}
		bar.Step(1)
	}
	return errors.Join(err, all.close())
}

const (
	// paperSample is the length of a sample; each size is given so much time for each set of the collectives.
	paperSample = 20 * time.Millisecond
	paperPairs  = 9
	paperTime   = 600 * time.Millisecond
)

func (c *paperCmd) measureMessage(ctx context.Context, all *contest, s *paperStore, size int) error {
	limits := compare.Limits{MinPairs: paperPairs, MaxTime: time.Duration(c.size().Sets) * paperTime, MaxDrift: maxDrift}
	r := compare.Runner{Measure: all.control.Measure, Limits: limits}
	res, err := r.Run(ctx, &compare.Plan{
		Name: fmt.Sprintf("paper/%d", size), Precision: precisionAware,
		Sources: all.sources(peers.Job{Test: peers.Latency, Size: size, Window: 1}, ours, unaware), RenewEvery: paperRenew, Renew: all.alternate(ours, unaware),
		Bounds: []compare.Bound{{Over: unaware, Ratio: compare.OfTimes}},
	})
	if err != nil {
		return err
	}
	row, found := mostPairs(res.Rows)
	if !found {
		s.measured.Absent = map[string]string{paper.AbsentMessages: fmt.Sprintf("of %d samples of %d bytes %d were dropped, since the machine changed while they were taken", res.Kept+res.Dropped, size, res.Dropped)}
		return s.keep()
	}
	m := paper.Message{Bytes: size, Aware: 1e6 * row.Subject, Unaware: 1e6 * row.Other, Ratio: row.Ratio.Median, Pairs: row.Ratio.N}
	if !math.IsInf(row.Ratio.High, 1) {
		m.Low, m.High = row.Ratio.Low, row.Ratio.High
	}
	s.measured.Messages = append(s.measured.Messages, m)
	return s.keep()
}

// paperRenew is the number of pairs that share processes; all of them make one observation.
const paperRenew = 3

// mostPairs is the row of the machine's mood that was seen most.
func mostPairs(rows []compare.Row) (compare.Row, bool) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r compare.Row) bool { return r.Ratio.N == 0 })
	if len(rows) == 0 {
		return compare.Row{}, false
	}
	return slices.MaxFunc(rows, func(a, b compare.Row) int { return a.Ratio.N - b.Ratio.N }), true
}
