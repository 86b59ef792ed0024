package main

import (
	"cmp"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/osu"
)

// maxTime is how long a size may take by default: more than OSU's iterations take on networks of
// some Gbit/s.
const maxTime = 10 * time.Second

// apply sets the common options that were given.
func (c *osuOptions) apply(o *osu.Options) error {
	if err := parseSizes(c.Sizes, &o.Min, &o.Max); err != nil {
		return err
	}
	if c.Iterations != nil {
		o.Iterations, o.IterationsLarge = *c.Iterations, *c.Iterations
	}
	if c.Warmup != nil {
		o.Warmup, o.WarmupLarge = *c.Warmup, *c.Warmup
	}
	o.ValidateWarmup = c.ValidateWarmup
	o.Validate, o.MinTime, o.Budget = c.Validate, c.MinTime, budget.Shared()
	switch {
	case c.MaxTime != nil:
		o.MaxTime = *c.MaxTime
	case c.Iterations == nil && !c.simulated():
		o.MaxTime = maxTime
	}
	if c.Tail {
		o.Percentiles = []int{50, 90, 99}
	}
	if c.Quick {
		o.Iterations, o.IterationsLarge = (o.Iterations+9)/10, (o.IterationsLarge+9)/10
		o.MinTime = min(o.MinTime, 20*time.Millisecond)
		if !c.simulated() {
			o.MaxTime = min(cmp.Or(o.MaxTime, time.Second), time.Second)
		}
	}
	return nil
}

// time is about how long the sizes take: the passes and the warm-up of each.
func (c *osuOptions) time(o osu.Options) (all time.Duration) {
	passes := 1.1
	if c.Tail {
		passes++
	}
	if c.Validate {
		passes++
	}
	for size := max(1, o.Min); size <= max(1, o.Max); size *= 2 {
		n := o.Iterations
		if size > osu.LargeAbove {
			n = o.IterationsLarge
		}
		messages := max(1, o.Window) * max(1, len(o.Windows)) * c.N
		each := time.Duration(messages) * (300*time.Nanosecond + time.Duration(size)/8)
		mean := max(time.Duration(n)*each, o.MinTime*5/4)
		if o.MaxTime > 0 {
			mean = min(mean, o.MaxTime)
		}
		all += time.Duration(passes * float64(mean))
	}
	return all
}
