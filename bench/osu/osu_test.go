package osu

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// inSim runs body as n simulated ranks.
func inSim(t *testing.T, n int, body func(w *banyan.World) error) {
	t.Helper()
	require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, body))
}

func small(b *Benchmark) Options {
	o := b.Defaults
	o.Min, o.Max = 0, 16<<10
	o.Iterations, o.Warmup, o.IterationsLarge, o.WarmupLarge = 20, 2, 5, 1
	o.Window = min(o.Window, 8)
	return o
}

// points runs a benchmark as n simulated ranks and returns the points of rank 0.
func points(t *testing.T, name string, n int, o Options) []Point {
	t.Helper()
	var got []Point // written on rank 0 alone
	inSim(t, n, func(w *banyan.World) error {
		return Find(name).Run(w, o, func(p Point) error {
			require.Zero(t, w.Comm().Rank())
			got = append(got, p)
			return nil
		})
	})
	return got
}

// Threads need real processes: the command's tests run them.
func TestSweeps(t *testing.T) {
	for _, c := range []struct {
		name         string
		ranks, pairs int
	}{{"latency", 2, 0}, {"bw", 2, 0}, {"bibw", 2, 0}, {"mbw_mr", 2, 0}, {"mbw_mr", 6, 0}, {"mbw_mr", 7, 2},
		{"latency_persistent", 2, 0}, {"bw_persistent", 2, 0}, {"bibw_persistent", 2, 0}, {"bw_fan_in", 2, 0},
		{"bw_fan_in", 5, 0}, {"bw_fan_out", 4, 0}, {"multi_lat", 6, 0}, {"multi_lat", 5, 1}} {
		o := small(Find(c.name))
		o.Validate, o.Percentiles, o.Pairs = true, []int{50, 99}, c.pairs
		got := points(t, c.name, c.ranks, o)
		require.Len(t, got, 16, "0, 1, 2, … 16 KiB")
		require.Equal(t, 16, Find(c.name).Rows(o))
		for i, p := range got {
			require.Equal(t, []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}[i], p.Size)
			require.Positive(t, p.Seconds)
			require.Len(t, p.Percentiles, 2)
			require.LessOrEqual(t, p.Percentiles[0], p.Percentiles[1])
			require.Zero(t, p.Errors)
			require.Equal(t, map[bool]int{false: 20, true: 5}[p.Size > LargeAbove], p.Iterations)
		}
	}
}

// Loans take the place of messages, and of a broadcast.
func TestLoans(t *testing.T) {
	for name, ranks := range map[string]int{"latency": 2, "bw": 2, "multi_lat": 4, "bcast": 5} {
		o := small(Find(name))
		o.Registered, o.Lent, o.Validate, o.Percentiles = true, true, false, nil
		require.Len(t, points(t, name, ranks, o), Find(name).Rows(o), name)
		o.Validate = true
		require.ErrorContains(t, o.check(), "loans")
	}
}

// In the simulator a processor has nothing else to do: pairs do not disturb each other, so the
// exact numbers follow from those of one pair.
func TestPairsAddUp(t *testing.T) {
	o := func(name string) Options {
		o := small(Find(name))
		o.Min, o.Max, o.Iterations, o.Percentiles = 8, 8, 1000, []int{50}
		return o
	}
	one, three := points(t, "mbw_mr", 2, o("mbw_mr"))[0], points(t, "mbw_mr", 6, o("mbw_mr"))[0]
	require.InEpsilon(t, one.Seconds/3, three.Seconds, 0.02,
		"three pairs move three times as much; the last barrier is in the time")
	require.InEpsilon(t, one.Percentiles[0], three.Percentiles[0], 0.02, "a window is of one pair")
	require.Equal(t, one.Seconds, points(t, "bw", 2, o("bw"))[0].Seconds, "a single pair is osu_bw")
	alone, mean := points(t, "latency", 2, o("latency"))[0], points(t, "multi_lat", 6, o("multi_lat"))[0]
	require.InEpsilon(t, alone.Seconds, mean.Seconds, 0.02)
	both := points(t, "bibw", 2, o("bibw"))[0]
	require.Less(t, both.Seconds, one.Seconds, "both directions at once carry more than one")
}

// Any number of ranks; the table begins with the first size that holds a number.
func TestCollectives(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks int
		sizes []int
	}{
		{"barrier", 2, []int{0}}, {"barrier", 7, []int{0}},
		{"bcast", 2, []int{0, 1, 2, 4, 8}}, {"bcast", 13, []int{0, 1, 2, 4, 8}},
		{"allreduce", 3, []int{4, 8}}, {"allreduce", 8, []int{4, 8}},
		{"reduce", 5, []int{4, 8}}, {"gather", 5, []int{0, 1, 2, 4, 8}}, {"scatter", 3, []int{0, 1, 2, 4, 8}},
		{"allgather", 6, []int{0, 1, 2, 4, 8}}, {"alltoallw", 3, []int{0, 1, 2, 4, 8}},
		{"alltoall", 5, []int{0, 1, 2, 4, 8}}, {"allgatherv", 5, []int{0, 1, 2, 4, 8}}, {"gatherv", 4, []int{0, 1, 2, 4, 8}},
		{"scatterv", 5, []int{0, 1, 2, 4, 8}}, {"alltoallv", 3, []int{0, 1, 2, 4, 8}}, {"reduce_scatter", 3, []int{4, 8}},
		{"reduce_scatter_block", 5, []int{4, 8}}, {"scan", 6, []int{4, 8}}, {"exscan", 6, []int{4, 8}},
		{"neighbor_allgather", 2, []int{0, 1, 2, 4, 8}}, {"neighbor_allgatherv", 3, []int{0, 1, 2, 4, 8}},
		{"neighbor_alltoall", 5, []int{0, 1, 2, 4, 8}}, {"neighbor_alltoallv", 6, []int{0, 1, 2, 4, 8}},
	} {
		b := Find(c.name)
		o := small(b)
		o.Max, o.Validate, o.Percentiles = 8, true, []int{0, 50, 100}
		require.Equal(t, len(c.sizes), b.Rows(o))
		got := points(t, c.name, c.ranks, o)
		require.Len(t, got, len(c.sizes), c.name)
		for i, p := range got {
			require.Equal(t, c.sizes[i], p.Size)
			require.Equal(t, 20, p.Iterations)
			require.Zero(t, p.Errors)
			require.LessOrEqual(t, p.Least, p.Seconds)
			require.LessOrEqual(t, p.Seconds, p.Most)
			require.Positive(t, p.Most)
			require.Len(t, p.Percentiles, 3)
			require.LessOrEqual(t, p.Percentiles[0], 1.001*p.Most, "the shortest call of all")
			require.GreaterOrEqual(t, p.Percentiles[2], 0.999*p.Least, "the longest, to the histogram's three digits")
		}
	}
	o := small(Find("bcast"))
	o.Min, o.Max, o.MinTime = 8, 8, 100*time.Microsecond
	p := points(t, "bcast", 4, o)[0]
	require.GreaterOrEqual(t, p.Most*float64(p.Iterations), 0.999*o.MinTime.Seconds())
}

// A broadcast that leaves a rank out, and a sum in which one is missing or counts twice, are
// noticed.
func TestCollectivesNoticeWrongBytes(t *testing.T) {
	inSim(t, 3, func(w *banyan.World) error {
		o := Options{Max: 64}
		g := newGroup(w, &o, bcastOp)
		wrong, err := g.validate(64, 3, 0)
		require.NoError(t, err)
		require.Zero(t, wrong)
		g.op.call = func(*group, int) error { return nil }
		wrong, err = g.validate(64, 3, 0)
		require.NoError(t, err)
		require.Equal(t, 2*3*64, wrong, "all but the root's, each time")

		g = newGroup(w, &o, allreduceOp)
		g.op.call = func(g *group, size int) error {
			if g.c.Rank() == 1 {
				clear(g.buf)
			}
			return allreduceOp.call(g, size)
		}
		wrong, err = g.validate(64, 2, 1)
		require.NoError(t, err)
		require.Equal(t, 3*2*64, wrong)
		return nil
	})
}

// An exchange that leaves a rank out, and sums in which one is missing, are noticed.
func TestExchangesNoticeWrongBytes(t *testing.T) {
	for _, b := range All {
		if b.op.fill == nil {
			continue
		}
		inSim(t, 3, func(w *banyan.World) error {
			o := Options{Max: 60, Grid: Grid{1, 1}}
			g := newGroup(w, &o, b.op)
			require.NoError(t, g.open(&o))
			wrong, err := g.validate(60, 3, 1)
			require.NoError(t, err)
			require.Zero(t, wrong, b.Name)
			spoil := func(g *group) {
				if g.c.Rank() == 0 { // the root, of those that have one
					clear(g.buf)
				}
			}
			g.op.call = func(g *group, size int) error { spoil(g); return b.op.call(g, size) }
			if b.op.start != nil {
				g.op.start = func(g *group, size int) banyan.Request { spoil(g); return b.op.start(g, size) }
			}
			wrong, err = g.validate(60, 3, 1)
			require.NoError(t, err)
			require.Positive(t, wrong, b.Name)
			return nil
		})
	}
}

// Each size with each window, in the time of one pair's windows.
func TestVaryWindow(t *testing.T) {
	o := small(Find("mbw_mr"))
	o.Min, o.Max, o.Validate, o.Windows = 8, 16, true, []int{1, 4, 16}
	require.Equal(t, 6, Find("mbw_mr").Rows(o))
	got := points(t, "mbw_mr", 4, o)
	require.Len(t, got, 6)
	for i, p := range got {
		require.Equal(t, []int{8, 8, 8, 16, 16, 16}[i], p.Size)
		require.Equal(t, o.Windows[i%3], p.Window)
	}
	require.Greater(t, got[0].Seconds, got[1].Seconds, "a longer window hides the answer")
	require.Greater(t, got[1].Seconds, got[2].Seconds)

	o = small(Find("bibw"))
	o.Min, o.Max, o.Windows = 8, 8, []int{1, 16}
	both := points(t, "bibw", 2, o)
	for i, window := range o.Windows {
		o := o
		o.Window, o.Windows = window, nil
		require.InEpsilon(t, points(t, "bibw", 2, o)[0].Seconds, both[i].Seconds, 0.02, "window %d", window)
	}
}

// All threads that send do as many round trips, so that none is alone at the end of the time.
func TestSendersDoTheSame(t *testing.T) {
	o := small(Find("latency_mt"))
	o.Senders, o.Iterations = 8, 20
	s := sweep{Pair: &Pair{pairs: 1}, o: &o, bound: bound{o: &o}, pass: threadPass(&o)}
	s.run = func(_ *Pair, _, n int) (time.Duration, error) {
		most := (n + o.Senders - 1) / o.Senders // of a sender
		return time.Duration(most) * 2 * time.Microsecond, nil
	}
	pt, err := s.point(8)
	require.NoError(t, err)
	require.Equal(t, 24, pt.Iterations)
	require.InDelta(t, 1e-6, pt.Seconds, 1e-12)
}

// Rank 0 decides how often, and all ranks do it.
func TestMinTime(t *testing.T) {
	for name, ranks := range map[string]int{"latency": 2, "multi_lat": 4} {
		o := small(Find(name))
		o.Max, o.MinTime = 8, 100*time.Microsecond
		for _, p := range points(t, name, ranks, o) {
			require.GreaterOrEqual(t, 2*p.Seconds*float64(p.Iterations), 0.999*o.MinTime.Seconds(),
				"the mean is rounded to 1 ns")
			require.Greater(t, p.Iterations, 20)
		}
	}
	require.Equal(t, 7, raised(7, time.Second, time.Second))
	require.Equal(t, 22, raised(10, time.Millisecond, 2*time.Millisecond))
	require.Equal(t, 20, raised(10, 99*time.Microsecond, 100*time.Microsecond))
	require.Equal(t, 10_000, raised(10, 0, time.Hour))
}

func TestEmitEndsTheSweep(t *testing.T) {
	stop := errors.New("enough")
	err := banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		o := small(Find("latency"))
		o.Max = 0
		return Find("latency").Run(w, o, func(Point) error { return stop })
	})
	require.ErrorIs(t, err, stop)
}

// Messages of ranks outside the timed loops arrive, for any number of ranks.
func TestRanksTellEachOther(t *testing.T) {
	for pairs := 1; pairs <= 5; pairs++ {
		inSim(t, 2*pairs, func(w *banyan.World) error {
			p, err := newPair(w, pairs, &Options{Max: 1, Window: 1})
			require.NoError(t, err)
			rank, n := w.Comm().Rank(), 2*pairs
			require.Equal(t, rank, (p.peer+pairs)%n, "the peer's peer")
			require.NoError(t, p.sync())
			total, err := p.sum(int64(rank + 1))
			require.NoError(t, err)
			require.EqualValues(t, n*(n+1)/2, total)
			mine := []time.Duration{time.Duration(rank), time.Duration(10 * rank)}
			if !p.first {
				mine = nil
			}
			all, err := p.collect(mine)
			require.NoError(t, err)
			if rank == 0 {
				require.Len(t, all, 2*pairs)
				require.Equal(t, time.Duration(10*(pairs-1)), all[2*pairs-1])
			}
			longest, err := p.combine(time.Duration(rank)*min(1, time.Duration(len(mine))), true)
			require.NoError(t, err)
			if rank == 0 {
				require.Equal(t, time.Duration(pairs-1), longest)
			}
			return nil
		})
	}
}

func TestCheck(t *testing.T) {
	for want, c := range map[string]struct {
		name   string
		change func(*Options)
	}{
		"sizes -1:":                         {"latency", func(o *Options) { o.Min = -1 }},
		"sizes 8:4":                         {"bibw", func(o *Options) { o.Min, o.Max = 8, 4 }},
		"at least 1 is needed":              {"latency", func(o *Options) { o.IterationsLarge = 0 }},
		"-1 warm-up":                        {"latency", func(o *Options) { o.Warmup = -1 }},
		"a window of 0":                     {"mbw_mr", func(o *Options) { o.Window = 0 }},
		"at least -1s per size":             {"latency", func(o *Options) { o.MinTime = -time.Second }},
		"percentile 101":                    {"latency", func(o *Options) { o.Percentiles = []int{101} }},
		"largest ≤ 1073741824 is":           {"latency", func(o *Options) { o.Max = math.MaxInt }},
		"-2 pairs":                          {"multi_lat", func(o *Options) { o.Pairs = -2 }},
		"0 receiving and 1":                 {"latency_mt", func(o *Options) { o.Receivers = 0 }},
		"2 receiving and 129":               {"latency_mt", func(o *Options) { o.Senders = 129 }},
		"a window of 65537":                 {"mbw_mr", func(o *Options) { o.Windows = []int{1, 65537} }},
		"it has none":                       {"bcast", func(o *Options) { o.Windows = []int{1} }},
		"whole numbers of 4":                {"allreduce", func(o *Options) { o.Min = 3 }},
		"6:1048576: whole":                  {"allreduce", func(o *Options) { o.Min = 6 }},
		"11 warm-up iterations before each": {"bcast", func(o *Options) { o.ValidateWarmup = 11 }},
		"a memory limit of -1":              {"bcast", func(o *Options) { o.MemoryLimit = -1 }},
		"no data type: use one":             {"allreduce", func(o *Options) { o.Type = "mpi_long" }},
		"have no data type":                 {"put_bw", func(o *Options) { o.Type = Int }},
		"-1 tests during":                   {"ibcast", func(o *Options) { o.Tests = -1 }},
		"3 tests during":                    {"bcast", func(o *Options) { o.Tests = 3 }},
		"a number has 4 bytes":              {"allreduce", func(o *Options) { o.Min, o.Max = 1, 2 }},
	} {
		b := Find(c.name)
		o := b.Defaults
		require.NoError(t, b.Check(2, o))
		c.change(&o)
		require.ErrorContains(t, b.Check(2, o), want)
		require.ErrorContains(t, b.Check(2, o), "osu "+c.name+": ")
	}
}

func TestNumbersOfRanks(t *testing.T) {
	for _, b := range All {
		require.NoError(t, b.Check(2, b.Defaults), b.Name)
		require.Equal(t, b.Multi || b.Collective || b.Fan, b.Check(4, b.Defaults) == nil, b.Name)
		require.Equal(t, b.Collective || b.Fan, b.Check(3, b.Defaults) == nil, b.Name)
		require.Error(t, b.Check(1, b.Defaults), b.Name)
	}
	b := Find("mbw_mr")
	o := b.Defaults
	require.ErrorContains(t, b.Check(5, o), "5 ranks, an even number is needed for pairs: start it with -n 6")
	o.Pairs = 2
	require.NoError(t, b.Check(5, o))
	require.ErrorContains(t, b.Check(3, o), "4 are needed for 2 pairs: start it with -n 4")
	require.ErrorContains(t, Find("bibw").Check(3, Find("bibw").Defaults), "exactly 2 are needed")
	require.Nil(t, Find("osu_bw"))
}

func TestCorruptError(t *testing.T) {
	require.EqualError(t, &CorruptError{Size: 8, Bytes: 3},
		"osu: data validation: 3 bytes arrived wrong in messages of 8 bytes")
}

func TestPagesAreAligned(t *testing.T) {
	for _, n := range []int{0, 1, 8, 4096, 100000} {
		b := pages(n)
		require.Len(t, b, n)
		require.Zero(t, address(b)%4096)
	}
}

// A virtual clock stands still between two reads: nothing is taken off.
func TestClockCost(t *testing.T) {
	inSim(t, 2, func(w *banyan.World) error {
		p, err := NewPair(w, 1, 1, false)
		require.NoError(t, err)
		require.Zero(t, clockCost(w))
		return p.sync()
	})
}
