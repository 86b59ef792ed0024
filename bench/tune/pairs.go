package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// Bench carries out trials with pairs of real processes, one pair for each combination of settings.
// It is for one goroutine.
type Bench struct {
	CPUs [2]int
	// Busy is the share of the CPUs that other processes took before the start.
	Busy float64

	self    string
	control *peers.Control
	runner  compare.Runner
	sample  time.Duration
	budget  time.Duration // for one trial
	pairs   map[string]*peers.Server
}

// confirmRenewEvery is the number of rounds of a confirmation that share processes.
const confirmRenewEvery = 2

// usualSample is the default of --sample.
const usualSample = 15 * time.Millisecond

// OpenBench starts the control. A trial of shorter samples than usual takes as many of them and
// less time.
func OpenBench(ctx context.Context, quick bool, sample time.Duration) (*Bench, error) {
	b := &Bench{sample: sample, budget: 5 * time.Second, pairs: map[string]*peers.Server{}}
	b.runner.Limits = compare.Limits{MinPairs: 9, MaxDrift: suite.MaxDrift}
	if quick {
		b.budget, b.runner.Limits.MinPairs = time.Second, 6
	}
	b.budget = min(b.budget, time.Duration(float64(b.budget)*float64(sample)/float64(usualSample)))
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bench) open(ctx context.Context) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	if b.CPUs, err = peers.CPUs(); err != nil {
		return err
	}
	if b.control, err = suite.StartControl(ctx, b.self, b.CPUs); err != nil {
		return err
	}
	b.runner.Measure = b.control.Measure
	b.Busy, err = peers.Busy(ctx, b.CPUs)
	return err
}

// Measure is [Tuner]'s.
func (b *Bench) Measure(ctx context.Context, t Trial) ([]Row, error) {
	newKey, oldKey := name(t.New), name(t.Old)
	job := peers.Job{Test: t.Job.Test, Size: t.Job.Size, Window: t.Job.Window}
	if err := b.keep(newKey, oldKey); err != nil {
		return nil, err
	}
	plan := &compare.Plan{
		Name: "tune", Title: t.What, Precision: MinGain,
		Sources: []compare.Source{b.source(newKey, t.New, job), b.source(oldKey, t.Old, job)},
		Bounds:  []compare.Bound{{Over: oldKey, Ratio: compare.OfTimes, Limit: 1}},
	}
	b.runner.Limits.MaxTime = b.budget
	if t.Confirms {
		b.runner.Limits.MaxTime = 4 * b.budget
		plan.RenewEvery, plan.Renew = confirmRenewEvery, func(context.Context) error { return b.keep() }
	}
	res, err := b.runner.Run(ctx, plan)
	if err != nil {
		return nil, err
	}
	if why := res.Failed[oldKey]; why != "" {
		return nil, fmt.Errorf("tune: %s: %s", oldKey, why)
	}
	return rowsOf(res), nil
}

// rowsOf are the rows of a result by distance. Threads of one core count as near: the limits are
// the same.
func rowsOf(res *compare.Result) []Row {
	out := []Row{}
	for _, r := range res.Rows {
		if r.Ratio.N == 0 {
			continue
		}
		d := r.Distance
		if d == compare.Sibling {
			d = Near
		}
		row := Row{Distance: d, Pairs: r.Ratio.N, New: r.Subject, Old: r.Other, Ratio: r.Ratio.Median,
			Low: r.Ratio.Low, High: r.Ratio.High}
		if row.Low == 0 {
			row.High = 0 // infinite, which JSON does not have
		}
		out = append(out, row)
	}
	return out
}

// source samples a job with settings; the processes start when they are needed.
func (b *Bench) source(key string, v Values, job peers.Job) compare.Source {
	s := peers.Sampler{Runner: lazyPair{b, key, v}, Job: job, Target: b.sample}
	return compare.Source{Name: key, Sample: s.Sample}
}

// lazyPair is the pair of processes that has some settings now.
type lazyPair struct {
	of     *Bench
	key    string
	values Values
}

// Run implements peers.Runner.
func (p lazyPair) Run(ctx context.Context, j peers.Job) (time.Duration, error) {
	s, err := p.of.pair(ctx, p.key, p.values)
	if err != nil {
		return 0, err
	}
	return s.Run(ctx, j)
}

// pair returns the processes with these settings, which it starts at the first call.
func (b *Bench) pair(ctx context.Context, key string, v Values) (*peers.Server, error) {
	if s := b.pairs[key]; s != nil {
		return s, nil
	}
	set := settings.Defaults()
	for id, n := range v {
		if err := set.Override(id, n, "ftbench tune"); err != nil {
			return nil, err
		}
	}
	s, err := peers.Start(ctx, key, func(dir string) []peers.Command {
		c := suite.BanyanCommand(b.self, dir, b.CPUs, true)
		c.Env = set.Environ()
		return []peers.Command{c}
	})
	if err != nil {
		return nil, err
	}
	b.pairs[key] = s
	return s, nil
}

// keep ends the processes whose settings are not among these.
func (b *Bench) keep(keys ...string) error {
	var errs []error
	for key, s := range b.pairs {
		if !slices.Contains(keys, key) {
			delete(b.pairs, key)
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// Close ends all processes.
func (b *Bench) Close() error {
	err := b.keep()
	if b.control != nil {
		err = errors.Join(err, b.control.Close())
	}
	return err
}

// name lists the settings that differ from the defaults.
func name(v Values) string {
	var words []string
	for i, k := range settings.Knobs() {
		if n, ok := v[settings.ID(i)]; ok {
			words = append(words, k.Name+"="+k.Format(n))
		}
	}
	if len(words) == 0 {
		return "defaults"
	}
	return strings.Join(words, " ")
}
