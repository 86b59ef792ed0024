package tune

import (
	"context"
	"fmt"
	"maps"

	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// Values are settings that differ from the defaults.
type Values map[settings.ID]int

// Job is a measurement: round trips of blocking messages, or windows of non-blocking ones.
type Job struct {
	Test   peers.Test `json:"test"`
	Size   int        `json:"size"` // bytes
	Window int        `json:"window"`
}

// Trial compares two settings in one job.
type Trial struct {
	// Knob is the setting.
	Knob settings.ID
	// What names the compared values: "eager over announced".
	What     string
	Job      Job
	New, Old Values
	// Confirms: with fresh processes, several times.
	Confirms bool
}

// Tried is a trial with its result, a row for each distance that was met.
type Tried struct {
	Trial
	Rows []Row
}

// Finding is the decision about a knob.
type Finding struct {
	Knob    settings.ID
	Default int
	// Value is the default where nothing better was found.
	Value int
	// Why is the reason, in a line.
	Why string
}

// Changed reports whether the value is not the default.
func (f *Finding) Changed() bool { return f.Value != f.Default }

// Tuner carries out trials and decides.
type Tuner struct {
	// Measure carries out a trial: sources new and old, with one bound of new over old.
	Measure func(ctx context.Context, t Trial) ([]Row, error)
	// Quick tries fewer sizes.
	Quick bool
	// Progress is called after each trial.
	Progress func(Tried)
}

// both is for knobs that do not depend on the distance.
var both = []Distance{Near, Far}

// window is that of the bandwidth tests.
const window = 64

// sizes at which eager and announced messages are compared, in bytes. The limits of today lie among
// them.
func (t *Tuner) sizes() []int {
	if t.Quick {
		return []int{4 << 10, 8 << 10, 16 << 10, 32 << 10}
	}
	return []int{2 << 10, 4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10}
}

// ring is a knob of the rings: values beside the default, in the order in which they are tried, and
// the jobs that show a difference.
type ring struct {
	id     settings.ID
	values []int
	jobs   []Job
}

// burst is a window that fills the rings: a smaller ring that is faster with the usual window may
// make bursts wait.
const burst = 1024

func (t *Tuner) rings() []ring {
	lines, bytes := settings.Of(settings.RingLines).Default, settings.Of(settings.RingBytes).Default
	if t.Quick {
		return []ring{{settings.RingBytes, []int{2 * bytes}, []Job{{peers.Bandwidth, 4 << 10, window}}}}
	}
	return []ring{
		{settings.RingLines, []int{lines / 2, 2 * lines, 4 * lines},
			[]Job{{peers.Bandwidth, 8, window}, {peers.Bandwidth, 8, burst}}},
		{settings.RingBytes, []int{bytes / 2, 2 * bytes, 4 * bytes},
			[]Job{{peers.Bandwidth, 4 << 10, window}, {peers.Bandwidth, 1 << 10, burst}}},
	}
}

// Trials is the number of trials, confirmations left out.
func (t *Tuner) Trials() int {
	n := 2 * len(t.sizes())
	for _, r := range t.rings() {
		n += len(r.values) * len(r.jobs)
	}
	return n
}

// Knobs are the knobs that Run tunes.
func (t *Tuner) Knobs() []settings.ID {
	out := []settings.ID{settings.EagerNear, settings.EagerFar}
	for _, r := range t.rings() {
		out = append(out, r.id)
	}
	return out
}

// Run decides about each of Knobs.
func (t *Tuner) Run(ctx context.Context) ([]Finding, error) {
	out, err := t.limits(ctx)
	if err != nil {
		return out, err
	}
	for _, r := range t.rings() {
		f, err := t.ring(ctx, r)
		if err != nil {
			return out, err
		}
		out = append(out, f)
	}
	return out, nil
}

// try carries out one trial.
func (t *Tuner) try(ctx context.Context, trial Trial) ([]Row, error) {
	rows, err := t.Measure(ctx, trial)
	if err == nil && t.Progress != nil {
		t.Progress(Tried{trial, rows})
	}
	return rows, err
}

// jobs are the latency and the bandwidth of a size.
func jobs(size int) []Job {
	return []Job{{Test: peers.Latency, Size: size, Window: 1}, {Test: peers.Bandwidth, Size: size, Window: window}}
}

// limits finds the two eager limits.
func (t *Tuner) limits(ctx context.Context) ([]Finding, error) {
	rows := map[int][]Row{}
	for _, size := range t.sizes() {
		for _, job := range jobs(size) {
			got, err := t.try(ctx, Trial{
				Knob: settings.Eager, What: "eager over announced", Job: job,
				New: Values{settings.Eager: settings.Of(settings.Eager).Max}, Old: Values{settings.Eager: 1},
			})
			if err != nil {
				return nil, err
			}
			rows[size] = append(rows[size], got...)
		}
	}
	n, err := t.limit(ctx, settings.EagerNear, Near, rows, nil)
	if err != nil {
		return nil, err
	}
	f, err := t.limit(ctx, settings.EagerFar, Far, rows, Values{settings.EagerNear: n.Value})
	return []Finding{n, f}, err
}

// limit finds one of them; decided contains the settled values. The far limit is no more than the
// near one.
func (t *Tuner) limit(ctx context.Context, id settings.ID, d Distance, rows map[int][]Row, decided Values) (Finding,
	error) {
	k := settings.Of(id)
	f := Finding{Knob: id, Default: k.Default, Value: k.Default}
	at := []Distance{d}
	value, where := crossing(t.sizes(), rows, at, k.Default)
	if highest, ok := decided[settings.EagerNear]; ok {
		value = min(value, highest)
	}
	switch {
	case !wasSeen(rows, at):
		f.Why = fmt.Sprintf("default kept: the cores were not %s long enough", d)
		return f, nil
	case value == k.Default || where == 0:
		f.Why = "default kept: neither eager above it nor announced below it is significantly faster"
		return f, nil
	}
	return t.confirm(ctx, f, value, jobs(where), at, decided)
}

// ring tries the values of one of the rings' knobs.
func (t *Tuner) ring(ctx context.Context, r ring) (Finding, error) {
	k := settings.Of(r.id)
	f := Finding{Knob: r.id, Default: k.Default, Value: k.Default,
		Why: "default kept: no other value is significantly better"}
	best, bestRatio := 0, 1.0
	for _, v := range r.values {
		var all []Row
		for _, job := range r.jobs {
			rows, err := t.try(ctx, Trial{
				Knob: r.id, What: k.Format(v) + " over " + k.Format(k.Default), Job: job, New: Values{r.id: v},
			})
			if err != nil {
				return f, err
			}
			all = append(all, rows...)
		}
		row, ok := strongest(all, both, Better)
		if ok && combine(all, both) == Better && row.Ratio < bestRatio {
			best, bestRatio = v, row.Ratio
		}
	}
	if best == 0 {
		return f, nil
	}
	return t.confirm(ctx, f, best, r.jobs, both, nil)
}

// confirm compares a value that has won with the default, as a program would use them, both beside
// the decided values.
func (t *Tuner) confirm(ctx context.Context, f Finding, value int, in []Job, at []Distance, decided Values) (Finding,
	error) {
	k := settings.Of(f.Knob)
	with := maps.Clone(decided)
	if with == nil {
		with = Values{}
	}
	with[f.Knob] = value
	var all []Row
	said := ""
	for _, job := range in {
		rows, err := t.try(ctx, Trial{
			Knob: f.Knob, What: k.Format(value) + " over " + k.Format(k.Default), Job: job,
			New: with, Old: decided, Confirms: true,
		})
		if err != nil {
			return f, err
		}
		if r, ok := strongest(rows, at, Better); ok {
			said += fmt.Sprintf(", %s of %d bytes, window %d: time %.3f (%s), %s", job.Test, job.Size, job.Window,
				r.Ratio, r.Interval(), r.Distance)
		}
		all = append(all, rows...)
	}
	if got := combine(all, at); got != Better {
		f.Why = fmt.Sprintf("default kept: %s seemed better; with fresh processes: %s", k.Format(value), got)
		return f, nil
	}
	f.Value = value
	f.Why = fmt.Sprintf("%s over %s%s", k.Format(value), k.Format(k.Default), said)
	return f, nil
}
