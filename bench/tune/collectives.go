package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/coll/choose"
)

// CollectiveOptions are those of Collectives.
type CollectiveOptions struct {
	Ops []choose.Op `json:"-"`
	// Sizes in bytes, as OSU's programs count them.
	Sizes []int `json:"sizes"`
	// Rounds is how often the algorithms are measured in turn.
	Rounds int `json:"rounds"`
	// Sample is how long one measurement of an algorithm lasts at least.
	Sample time.Duration `json:"sample_ns"`
	// Budget bounds the whole measurement, which ends between two sizes then.
	Budget budget.Budget `json:"-"`
}

// Way is an algorithm at one size.
type Way struct {
	Algorithm string `json:"algorithm"`
	// Seconds is the median of the times of a call: the mean of a sample at the rank where it took longest.
	Seconds float64 `json:"seconds"`
	// Ratio is the median of the rounds' ratios of this time over the default's, Low and High its 95 % interval; Low is 0
	// where there are too few rounds for one. Of the fastest algorithm all are from the rounds that confirm it.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// better reports whether it is faster than the default, and worse the opposite.
func (y *Way) better() bool { return y.Low > 0 && y.High < 1 && y.Ratio <= 1-MinGain }
func (y *Way) worse() bool  { return y.Low > 1 && y.Ratio >= 1+MinGain }

// CollectivePoint is the outcome for an operation and a size.
type CollectivePoint struct {
	Op choose.Op `json:"-"`
	// Name is that of Op.
	Name string `json:"operation"`
	// Size is in bytes as OSU's programs count them, Bytes as a table does.
	Size  int `json:"size"`
	Bytes int `json:"bytes"`
	// Default is the algorithm without a table, Chosen the fastest one, or the default where none is significantly faster,
	// and once more on new communicators.
	Default string `json:"default"`
	Chosen  string `json:"chosen"`
	Ways    []Way  `json:"ways"`
}

// Way gives one of Ways.
func (p *CollectivePoint) Way(algorithm string) *Way {
	i := slices.IndexFunc(p.Ways, func(y Way) bool { return y.Algorithm == algorithm })
	if i < 0 {
		return &Way{Algorithm: algorithm, Seconds: math.NaN(), Ratio: math.NaN()}
	}
	return &p.Ways[i]
}

// Bytes is the length of an operation as a table counts it, of an OSU program's size.
func Bytes(op choose.Op, size, ranks int) int {
	if op == choose.Alltoall || op == choose.ReduceScatterBlock {
		return size * ranks
	}
	return size
}

// Collectives measures the algorithms of each operation that the place of the job's communicator has, in turn, at
// each size. All ranks call it with the same options. It returns the points, and calls emit with each, on rank 0
// alone. Cut reports that the time was over before all were measured, at all ranks.
func Collectives(w *banyan.World, o CollectiveOptions, emit func(CollectivePoint) error) (points []CollectivePoint, cut bool,
	err error) {
	for _, op := range o.Ops {
		m := &measuring{w: w, o: &o, op: op}
		if err = m.open(); err == nil {
			cut, err = m.sizes(func(p CollectivePoint) error {
				points = append(points, p)
				return emit(p)
			})
		}
		if err != nil || cut {
			return points, cut, err
		}
		if err = m.free(); err != nil {
			return points, false, err
		}
	}
	return points, false, nil
}

// measuring is the measurement of one operation.
type measuring struct {
	w    *banyan.World
	o    *CollectiveOptions
	op   choose.Op
	base *banyan.Comm // by the default
	ways []forced
	// times is rounds, but in tests.
	times func(trial *osu.Trial, fit []forced) ([][]float64, error)
}

// forced is a communicator that goes by an algorithm.
type forced struct {
	by   string
	rule choose.Rule
	c    *banyan.Comm
}

// open makes a communicator for each algorithm.
func (m *measuring) open() (err error) {
	m.times = m.rounds
	if m.base, err = m.under(""); err != nil {
		return err
	}
	for _, by := range m.op.Algorithms() {
		rule := choose.Force(m.op, by)
		c, err := m.under(rule.String())
		if err != nil {
			return err
		}
		m.ways = append(m.ways, forced{by.String(), rule, c})
	}
	return nil
}

// under makes a communicator with a table, which has found out about the memory of its ranks.
func (m *measuring) under(table string) (*banyan.Comm, error) {
	c, err := m.w.Comm().Dup()
	if err != nil {
		return nil, err
	}
	err = errors.Join(c.SetTree(banyan.AutoTree), c.SetDesign(banyan.Rebalance), c.SetAlgorithms(table))
	one := []int64{1}
	for range 2 {
		if err == nil {
			err = c.Barrier()
		}
		if err == nil {
			err = banyan.Allreduce(c, one, one, banyan.Max)
		}
	}
	return c, err
}

func (m *measuring) free() error {
	err := m.base.Free()
	for _, y := range m.ways {
		err = cmp.Or(err, y.c.Free())
	}
	return err
}

// sizes measures one size after the other.
func (m *measuring) sizes(emit func(CollectivePoint) error) (cut bool, err error) {
	bench, sizes := osu.Find(m.op.String()), m.o.Sizes
	if !m.op.Sized() {
		sizes = []int{0}
	}
	for _, size := range sizes {
		if !bench.Holds(size) {
			continue
		}
		if over, err := m.o.Budget.Agree(m.w.Comm()); err != nil || over {
			return over, err
		}
		p, err := m.point(bench, size)
		if err != nil {
			return false, fmt.Errorf("%v of %d bytes: %w", m.op, size, err)
		}
		if m.w.Comm().Rank() == 0 {
			err = emit(p)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// fitting returns the choices that use their algorithm at a length. They act as in a table that has it for this
// length alone: after a length header, or a step in memory, if shorter lengths use another algorithm. Only an
// algorithm that would replace memory does without.
func (m *measuring) fitting(bytes int) (fit []forced, usual string, err error) {
	if usual, err = m.base.Algorithm(m.op.String(), bytes); err != nil {
		return nil, "", err
	}
	for _, y := range m.ways {
		if m.op.Switches() {
			if y.rule.Bytes = choose.All; !shared(usual) && !shared(y.by) {
				y.rule.Bytes = choose.Range{From: bytes, To: bytes}
			}
			if err := y.c.SetAlgorithms(y.rule.String()); err != nil {
				return nil, "", err
			}
		}
		by, err := y.c.Algorithm(m.op.String(), bytes)
		if err != nil {
			return nil, "", err
		}
		if by == y.by {
			fit = append(fit, y)
		}
	}
	return fit, usual, nil
}

// point measures a size.
func (m *measuring) point(bench *osu.Benchmark, size int) (CollectivePoint, error) {
	p := CollectivePoint{Op: m.op, Name: m.op.String(), Size: size, Bytes: Bytes(m.op, size, m.w.Comm().Size())}
	fit, usual, err := m.fitting(p.Bytes)
	if err != nil {
		return p, err
	}
	p.Default, p.Chosen = usual, usual
	trial, err := bench.Trial(m.w, size)
	if err != nil {
		return p, err
	}
	times, err := m.times(trial, fit)
	if err == nil {
		p.judge(fit, times)
		err = m.confirm(&p, trial, fit)
	}
	return p, cmp.Or(err, trial.Free())
}

// confirm measures a choice that is not the default against it once more, on new communicators with the tables that a
// program would have. The choice is the best of several, and communicators differ by the place of their memory.
func (m *measuring) confirm(p *CollectivePoint, trial *osu.Trial, fit []forced) (err error) {
	if p.Chosen == p.Default {
		return nil
	}
	fastest := fit[slices.IndexFunc(fit, func(y forced) bool { return y.by == p.Chosen })]
	both := []forced{{by: p.Default}, fastest}
	for i, table := range []string{"", fastest.rule.String()} {
		if both[i].c, err = m.under(table); err != nil {
			return err
		}
	}
	times, err := m.times(trial, both)
	if err != nil {
		return err
	}
	again := CollectivePoint{Default: p.Default, Chosen: p.Default}
	again.judge(both, times)
	p.Chosen = again.Chosen
	*p.Way(fastest.by) = again.Ways[1]
	return cmp.Or(both[0].c.Free(), both[1].c.Free())
}

// judge evaluates the times of a round for each of the algorithms.
func (p *CollectivePoint) judge(fit []forced, times [][]float64) {
	reference := slices.IndexFunc(fit, func(y forced) bool { return y.by == p.Default })
	least := 1.0
	for i, y := range fit {
		way := Way{Algorithm: y.by, Seconds: stats.Median(times[i])}
		if reference >= 0 {
			ratios := make([]float64, len(times[i]))
			for k := range ratios {
				ratios[k] = times[i][k] / times[reference][k]
			}
			v := stats.MedianInterval(ratios)
			if way.Ratio = v.Median; v.Low > 0 {
				way.Low, way.High = v.Low, v.High
			}
		}
		if way.better() && way.Ratio < least {
			least, p.Chosen = way.Ratio, y.by
		}
		p.Ways = append(p.Ways, way)
	}
}

// rounds gives the time of a call in each round, for each algorithm. A round begins with another one each time.
func (m *measuring) rounds(trial *osu.Trial, fit []forced) ([][]float64, error) {
	times, calls := make([][]float64, len(fit)), make([]int, len(fit))
	for i, y := range fit {
		calls[i] = 2 // the first ones make connections
		for range 3 {
			took, err := m.sample(trial, y.c, calls[i])
			if err != nil {
				return nil, err
			}
			calls[i] = int(max(1, min(1e5, m.o.Sample.Seconds()/max(took, 1e-9))))
		}
	}
	for round := range m.o.Rounds {
		for k := range fit {
			i := (round + k) % len(fit)
			took, err := m.sample(trial, fit[i].c, calls[i])
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	return times, nil
}

// sample gives the mean time of so many calls at the slowest rank, in seconds, the same at all ranks. With the mean of all
// ranks an algorithm would be better in which some leave early.
func (m *measuring) sample(trial *osu.Trial, on *banyan.Comm, calls int) (float64, error) {
	took, err := trial.Time(on, calls)
	if err != nil {
		return 0, err
	}
	most := []float64{took.Seconds()}
	err = banyan.Allreduce(m.w.Comm(), most, most, banyan.Max)
	return max(1e-12, most[0]/float64(calls)), err
}
