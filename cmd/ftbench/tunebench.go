package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/tune"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// tuneBench carries out trials with pairs of real processes, one pair for each
// combination of settings. It is for one goroutine.
type tuneBench struct {
	cpus    [2]int
	self    string
	control *peers.Control
	runner  compare.Runner
	sample  time.Duration
	budget  time.Duration // for one trial
	pairs   map[string]*peers.Server
	busy    float64
}

// Confirmations renew their processes after so many rounds.
const tuneRenewEvery = 2

// usualSample is the default of --sample.
const usualSample = 15 * time.Millisecond

// openTuneBench starts the control. A trial of shorter samples than usual takes as
// many of them and less time.
func openTuneBench(ctx context.Context, quick bool, sample time.Duration) (*tuneBench, error) {
	b := &tuneBench{sample: sample, budget: 5 * time.Second, pairs: map[string]*peers.Server{}}
	b.runner.Limits = compare.Limits{MinPairs: 9, MaxDrift: maxDrift}
	if quick {
		b.budget, b.runner.Limits.MinPairs = time.Second, 6
	}
	b.budget = min(b.budget, time.Duration(float64(b.budget)*float64(sample)/float64(usualSample)))
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *tuneBench) open(ctx context.Context) (err error) {
	if b.self, err = selfPath(); err != nil {
		return err
	}
	if b.cpus, err = peers.CPUs(); err != nil {
		return err
	}
	b.control, err = peers.StartControl(ctx, b.cpus, func(dir string, side int) []string {
		return []string{b.self, "control", dir, strconv.Itoa(side)}
	})
	if err != nil {
		return err
	}
	b.runner.Measure = b.control.Measure
	b.busy, err = peers.Busy(ctx, b.cpus)
	return err
}

// measure is tune.Tuner's.
func (b *tuneBench) measure(ctx context.Context, t tune.Trial) ([]tune.Row, error) {
	newKey, oldKey := name(t.New), name(t.Old)
	job := peers.Job{Test: peers.Test(t.Job.Test), Size: t.Job.Size, Window: t.Job.Window}
	if err := b.keep(newKey, oldKey); err != nil {
		return nil, err
	}
	plan := &compare.Plan{
		Name: "tune", Title: t.What, Precision: tune.MinGain,
		Sources: []compare.Source{b.source(newKey, t.New, job), b.source(oldKey, t.Old, job)},
		Bounds:  []compare.Bound{{Over: oldKey, Ratio: compare.OfTimes, Limit: 1}},
	}
	b.runner.Limits.MaxTime = b.budget
	if t.Confirms {
		b.runner.Limits.MaxTime = 4 * b.budget
		plan.RenewEvery, plan.Renew = tuneRenewEvery, func(context.Context) error { return b.keep() }
	}
	res, err := b.runner.Run(ctx, plan)
	if err != nil {
		return nil, err
	}
	if why := res.Failed[oldKey]; why != "" {
		return nil, fmt.Errorf("tune: %s: %s", oldKey, why)
	}
	return tuneRows(res), nil
}

// tuneRows are a result's rows by distance. Threads of one core are nearer than
// near, which makes no difference to the limits.
func tuneRows(res *compare.Result) []tune.Row {
	out := []tune.Row{}
	for _, r := range res.Rows {
		if r.Ratio.N == 0 {
			continue
		}
		d := tune.Near
		if r.Distance == compare.Far {
			d = tune.Far
		}
		row := tune.Row{Distance: d, Pairs: r.Ratio.N, New: r.Subject, Old: r.Other, Ratio: r.Ratio.Median, Low: r.Ratio.Low, High: r.Ratio.High}
		if row.Low == 0 {
			row.High = 0 // infinite, which JSON does not have
		}
		out = append(out, row)
	}
	return out
}

// source samples a job with settings; the processes start when they are needed.
func (b *tuneBench) source(key string, v tune.Values, job peers.Job) compare.Source {
	s := peers.Sampler{Runner: lazyPair{b, key, v}, Job: job, Target: b.sample}
	return compare.Source{Name: key, Sample: s.Sample}
}

// lazyPair is the pair of processes that has some settings now.
type lazyPair struct {
	of     *tuneBench
	key    string
	values tune.Values
}

// Run implements peers.Runner.
func (p lazyPair) Run(ctx context.Context, j peers.Job) (time.Duration, error) {
	s, err := p.of.pair(ctx, p.key, p.values)
	if err != nil {
		return 0, err
	}
	return s.Run(ctx, j)
}

// pair returns the processes with these settings, which it starts at the first
// call.
func (b *tuneBench) pair(ctx context.Context, key string, v tune.Values) (*peers.Server, error) {
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
		c := banyanCommand(b.self, dir, b.cpus, true)
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
func (b *tuneBench) keep(keys ...string) error {
	var errs []error
	for key, s := range b.pairs {
		wanted := false
		for _, k := range keys {
			wanted = wanted || k == key
		}
		if !wanted {
			delete(b.pairs, key)
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// close ends all processes.
func (b *tuneBench) close() error {
	err := b.keep()
	if b.control != nil {
		err = errors.Join(err, b.control.Close())
	}
	return err
}

// name says which settings differ from the defaults.
func name(v tune.Values) string {
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
