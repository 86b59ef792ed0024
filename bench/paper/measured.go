package paper

import (
	"maps"
	"slices"

	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/stats"
)

// Measured contains the measurements of real processes on one machine. None of them is needed: the
// report names absent ones.
type Measured struct {
	// CPU is the processor's model, CPUs how many this command may use.
	CPU  string `json:"cpu"`
	CPUs int    `json:"cpus"`
	// Messages are of §4.1, Plans of §4.2.
	Messages []Message    `json:"messages,omitempty"`
	Plans    []fault.Plan `json:"plans,omitempty"`
	// Jobs are of §4.3, §4.4 and beyond, Deaths are unknown failures.
	Jobs   []*fault.CollectiveResult `json:"jobs,omitempty"`
	Deaths []Deaths                  `json:"deaths,omitempty"`
	// Absent has the reasons for absent measurements, by name.
	Absent map[string]string `json:"absent,omitempty"`
}

// Message is the time one way of a ping-pong over shared memory between two ranks, aware and
// unaware in turn.
type Message struct {
	Bytes   int     `json:"bytes"`
	Aware   float64 `json:"aware_us"`
	Unaware float64 `json:"unaware_us"`
	// Ratio is the median of aware over unaware, with its 95 % interval, of Pairs observations.
	// High is 0 where there are too few.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	Pairs int     `json:"pairs"`
}

// Deaths are those of one job.
type Deaths struct {
	Options fault.Collective `json:"options"`
	Number  int              `json:"number"` // of the job
	Deaths  []fault.Death    `json:"deaths"`
}

// Lacking are those of the experiments that have not been done, with any numbers of sets
// and operations.
func (m *Measured) Lacking(all []Experiment) []Experiment {
	return slices.DeleteFunc(slices.Clone(all), func(e Experiment) bool {
		if e.Unknown {
			return slices.ContainsFunc(m.Deaths,
				func(d Deaths) bool { return d.Number == e.Number && alike(d.Options, e.Collective) })
		}
		return slices.ContainsFunc(m.Jobs, func(r *fault.CollectiveResult) bool { return alike(r.Options, e.Collective) })
	})
}

// alike reports whether two jobs are of the same thing.
func alike(a, b fault.Collective) bool {
	return a.Op == b.Op && a.Ranks == b.Ranks && a.Failures == b.Failures && a.Kill == b.Kill && a.Size == b.Size &&
		slices.Equal(a.Designs, b.Designs) && slices.Equal(a.Trees, b.Trees)
}

// ranks are the numbers of ranks whose failures have been measured, in ascending order.
func (m *Measured) ranks() []int {
	found := map[int]bool{}
	for _, r := range m.Jobs {
		if r.Options.Failures > 0 {
			found[r.Options.Ranks] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// sets are the times of one operation in the sets of a line, in µs; nil where they have not been
// measured.
func (m *Measured) sets(k point) []float64 {
	for _, r := range m.Jobs {
		o := r.Options
		if string(o.Op) != k.op.String() || o.Ranks != k.ranks || o.Failures != k.failures || o.Size != k.bytes ||
			o.Failures > 0 && o.Kill != k.order {
			continue
		}
		for _, l := range r.Lines {
			if l.Design == k.design.String() && l.Tree == k.shape.String() {
				return scaled(l.Sets, 1e-3)
			}
		}
	}
	return nil
}

func scaled(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * by
	}
	return out
}

// time is the median of the sets of a line.
func (m *Measured) time(k point) stats.Interval { return estimate(m.sets(k)) }

// over is the median of the ratios of two lines, set by set: the sets of one job were measured in
// turn.
func (m *Measured) over(k, base point) stats.Interval { return m.paired(k, base, stats.Ratios) }

// beyond is the median of the differences of two lines, set by set.
func (m *Measured) beyond(k, base point) stats.Interval { return m.paired(k, base, stats.Differences) }

func (m *Measured) paired(k, base point, compare func(a, b []float64) []float64) stats.Interval {
	a, b := m.sets(k), m.sets(base)
	if len(a) != len(b) {
		return stats.Interval{}
	}
	return estimate(compare(a, b))
}

// message is that of a size.
func (m *Measured) message(bytes int) (Message, bool) {
	i := slices.IndexFunc(m.Messages, func(v Message) bool { return v.Bytes == bytes })
	if i < 0 {
		return Message{}, false
	}
	return m.Messages[i], true
}

// plan is the time to rebalance so many ranks.
func (m *Measured) plan(ranks, failures int) (fault.Plan, bool) {
	i := slices.IndexFunc(m.Plans, func(r fault.Plan) bool { return r.Ranks == ranks && r.Failures == failures })
	if i < 0 {
		return fault.Plan{}, false
	}
	return m.Plans[i], true
}
