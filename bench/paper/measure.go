package paper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/fault"
)

// Measurer measures the missing parts of a [Store] and keeps each part as soon as it is complete.
// The calling program is ftbench.
type Measurer struct {
	*Store
	Size Size
	// Start returns a function that starts the ranks of an experiment, which are ftbench with the
	// arguments; number is that of [Experiment].
	Start func(e Experiment, args []string) (func(number int) fault.Start, error)
	// Output gets the other output of the ranks.
	Output io.Writer
	// Note and Step report the progress: the present measurement, and the number of completed
	// Steps.
	Note func(what string)
	Step func(n int)

	lacking []Experiment
}

// Steps finds the experiments to be done and returns the number of steps.
func (m *Measurer) Steps() int {
	m.lacking = m.Measured.Lacking(Experiments(m.Size))
	return len(m.lacking) + len(messageSizes) + 1
}

// Run measures; [Measurer.Steps] was called before.
func (m *Measurer) Run(ctx context.Context) error {
	if err := m.plans(ctx); err != nil {
		return err
	}
	for _, e := range m.lacking {
		m.Note(e.String())
		if err := m.experiment(ctx, e); err != nil {
			return fmt.Errorf("ftbench %s: %w", strings.Join(e.args(), " "), err)
		}
		m.Step(1)
	}
	return m.messages(ctx)
}

// rebuildRounds is how often the plan of each rank is timed.
const rebuildRounds = 5

// plans is §4.2.
func (m *Measurer) plans(ctx context.Context) error {
	if len(m.Measured.Plans) > 0 {
		m.Step(1)
		return nil
	}
	m.Note("time to rebalance")
	var plans []fault.Plan
	for _, o := range Rebuilds(rebuildRounds) {
		if err := o.Measure(ctx, func(r fault.Plan) error { plans = append(plans, r); return nil }); err != nil {
			return err
		}
	}
	m.Measured.Plans = plans
	m.Step(1)
	return m.Keep()
}

// experiment is one job of §4.3, §4.4 or beyond: the same as ftbench fault.
func (m *Measurer) experiment(ctx context.Context, e Experiment) error {
	start, err := m.Start(e, e.args())
	if err != nil {
		return err
	}
	if !e.Unknown {
		r, err := e.Measure(ctx, start(0), m.Output, nil)
		if err != nil {
			return err
		}
		m.Measured.Jobs = append(m.Measured.Jobs, r)
		return m.Keep()
	}
	deaths, err := e.MeasureUnknown(ctx, e.Number, start(e.Number), m.Output, nil)
	if err != nil {
		return err
	}
	m.Measured.Deaths = append(m.Measured.Deaths, Deaths{Options: e.Collective, Number: e.Number, Deaths: deaths})
	return m.Keep()
}

// args are those of the ftbench command that measures an experiment alone.
func (e Experiment) args() []string {
	args := []string{
		"fault", string(e.Op), "-n", strconv.Itoa(e.Ranks), "--failures", strconv.Itoa(e.Failures), "--kill",
		e.Kill.String(),
		"--design", strings.Join(e.Designs, ","), "--tree", strings.Join(e.Trees, ","), "--sets", strconv.Itoa(e.Sets),
		"--fabric", "shm",
	}
	if e.Op != fault.Barrier {
		args = append(args, "--size", strconv.Itoa(e.Size))
	}
	if e.Unknown {
		return append(args, "--unknown")
	}
	return append(args, "--ops", strconv.Itoa(e.Calls))
}

// messageSizes are those of §4.1: one byte, and those of the largest throughput.
var messageSizes = []int{1, 64 << 10, 512 << 10}

const (
	// sampleTime is the length of a sample; each size has messageTime for each set of the
	// collectives.
	sampleTime  = 20 * time.Millisecond
	messageTime = 600 * time.Millisecond
	minPairs    = 9
	// renewEvery is the number of pairs that share processes; together they are one observation.
	renewEvery = 3
)

// messages is §4.1, with the pairs of ranks of ftbench compare.
func (m *Measurer) messages(ctx context.Context) error {
	lacking := slices.DeleteFunc(slices.Clone(messageSizes),
		func(size int) bool { _, ok := m.Measured.message(size); return ok })
	m.Step(len(messageSizes) - len(lacking))
	if len(lacking) == 0 {
		return nil
	}
	m.Note("messages, aware and unaware")
	all, err := suite.Open(ctx, suite.Options{Groups: []string{"aware"}, Sample: sampleTime})
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		m.Step(len(lacking))
		return m.absent(err.Error())
	}
	m.Measured.Absent = nil
	for _, size := range lacking {
		if err == nil {
			err = m.message(ctx, all, size)
		}
		m.Step(1)
	}
	return errors.Join(err, all.Close())
}

// absent keeps why messages could not be measured.
func (m *Measurer) absent(why string) error {
	m.Measured.Absent = map[string]string{AbsentMessages: why}
	return m.Keep()
}

func (m *Measurer) message(ctx context.Context, all *suite.Comparison, size int) error {
	limits := compare.Limits{MinPairs: minPairs, MaxTime: time.Duration(m.Size.Sets) * messageTime,
		MaxDrift: suite.MaxDrift}
	res, err := all.Awareness(ctx, size, renewEvery, limits)
	if err != nil {
		return err
	}
	row, found := mostPairs(res.Rows)
	if !found {
		return m.absent(fmt.Sprintf("of %d samples of %d bytes %d were dropped, since the machine changed while they "+
			"were taken",
			res.Kept+res.Dropped, size, res.Dropped))
	}
	v := Message{Bytes: size, Aware: 1e6 * row.Subject, Unaware: 1e6 * row.Other, Ratio: row.Ratio.Median,
		Pairs: row.Ratio.N}
	if !math.IsInf(row.Ratio.High, 1) {
		v.Low, v.High = row.Ratio.Low, row.Ratio.High
	}
	m.Measured.Messages = append(m.Measured.Messages, v)
	return m.Keep()
}

// mostPairs is the row of the core distance with the most pairs.
func mostPairs(rows []compare.Row) (best compare.Row, found bool) {
	for _, r := range rows {
		if r.Ratio.N > best.Ratio.N {
			best, found = r, true
		}
	}
	return best, found
}
