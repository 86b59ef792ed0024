package suite

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/many"
)

// manyRepeats is how many all-to-alls of a size follow the second one.
const manyRepeats = 10

// manySweeps compare the first contact of many ranks, later messages among them, and the shared memory.
func (c *Comparison) manySweeps() []*compare.Sweep {
	o := many.Options{Sizes: c.ManySizes, Repeats: manyRepeats}
	var out []*compare.Sweep
	for _, n := range c.ManyRanks {
		var part compare.Part
		var bounds []compare.Bound
		for _, run := range c.jobs[messages] {
			part.Sources = append(part.Sources, compare.SweepSource{Name: run.name,
				Sample: func(ctx context.Context) ([]float64, error) {
					s, err := many.Measure(ctx, n, o, run.command)
					if err != nil {
						return nil, err
					}
					return manyValues(s), nil
				}})
			if run.name != ours {
				bounds = append(bounds, compare.Bound{Over: run.name, Ratio: compare.OfTimes})
			}
		}
		for i, label := range manyLabels(c.ManySizes) {
			part.Points = append(part.Points, compare.Point{X: float64(i + 1), Label: label, Bounds: bounds})
		}
		out = append(out, &compare.Sweep{Name: fmt.Sprintf("many/%d", n), Label: "all-to-all:bytes",
			Title: fmt.Sprintf("messages among %d ranks; shared: memory of the node in MiB, not µs", n), Precision: precisionStart,
			Parts: []compare.Part{part}})
	}
	return out
}

// manyLabels name the values of [manyValues].
func manyLabels(sizes []int) (out []string) {
	for _, size := range sizes {
		for _, what := range []string{"first", "second", "steady"} {
			out = append(out, fmt.Sprintf("%s:%d", what, size))
		}
	}
	return append(out, "shared")
}

// leastShared is the shared memory that counts where none is seen: ratios need a number above 0.
const leastShared = 4096

// manyValues are the seconds of a sample, and MiB of shared memory as if they were microseconds.
func manyValues(s *many.Sample) (out []float64) {
	for _, t := range s.Times {
		out = append(out, t.First, t.Second, t.Steady)
	}
	return append(out, max(leastShared, s.Shared)/(1<<20)/1e6)
}
