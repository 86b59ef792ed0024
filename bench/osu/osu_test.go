package osu

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// inSim runs body as two simulated ranks.
func inSim(t *testing.T, body func(w *banyan.World) error) {
	t.Helper()
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, body))
}

func small(o Options) Options {
	o.Min, o.Max = 0, 16<<10
	o.Iterations, o.Warmup, o.IterationsLarge, o.WarmupLarge = 20, 2, 5, 1
	o.Window = min(o.Window, 8)
	return o
}

func TestSweeps(t *testing.T) {
	for name, c := range map[string]struct {
		run func(*banyan.World, Options, func(Point) error) error
		o   Options
	}{"latency": {Latency, LatencyDefaults()}, "bandwidth": {Bandwidth, BandwidthDefaults()}} {
		t.Run(name, func(t *testing.T) {
			o := small(c.o)
			o.Validate, o.Percentiles = true, []int{50, 99}
			var got []Point // written on rank 0 alone
			inSim(t, func(w *banyan.World) error {
				return c.run(w, o, func(p Point) error {
					require.Zero(t, w.Comm().Rank())
					got = append(got, p)
					return nil
				})
			})
			require.Len(t, got, 16, "0, 1, 2, … 16 KiB")
			for i, p := range got {
				require.Equal(t, []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}[i], p.Size)
				require.Positive(t, p.Seconds)
				require.Len(t, p.Percentiles, 2)
				require.LessOrEqual(t, p.Percentiles[0], p.Percentiles[1])
				require.Zero(t, p.Errors)
				require.Equal(t, map[bool]int{false: 20, true: 5}[p.Size > LargeAbove], p.Iterations)
			}
		})
	}
}

// Rank 0 decides how often, and both ranks do it.
func TestMinTime(t *testing.T) {
	o := small(LatencyDefaults())
	o.Max, o.MinTime = 8, 100*time.Microsecond
	inSim(t, func(w *banyan.World) error {
		return Latency(w, o, func(p Point) error {
			require.GreaterOrEqual(t, 2*p.Seconds*float64(p.Iterations), o.MinTime.Seconds())
			require.Greater(t, p.Iterations, 20)
			return nil
		})
	})
	require.Equal(t, 7, raised(7, time.Second, time.Second))
	require.Equal(t, 22, raised(10, time.Millisecond, 2*time.Millisecond))
	require.Equal(t, 20, raised(10, 99*time.Microsecond, 100*time.Microsecond))
	require.Equal(t, 10_000, raised(10, 0, time.Hour))
}

func TestEmitEndsTheSweep(t *testing.T) {
	stop := errors.New("enough")
	err := banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		o := small(LatencyDefaults())
		o.Max = 0
		return Latency(w, o, func(Point) error { return stop })
	})
	require.ErrorIs(t, err, stop)
}

func TestUnits(t *testing.T) {
	p := Point{Size: 1 << 20, Seconds: 50e-6, Percentiles: []float64{100e-6}}
	require.InDelta(t, 50, p.Micros(), 1e-9)
	require.InDelta(t, 20971.52, p.MBps(), 1e-6)
	require.InDelta(t, 10485.76, p.MBpsAt(0), 1e-6)
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"sizes -1:":               func(o *Options) { o.Min = -1 },
		"sizes 8:4":               func(o *Options) { o.Min, o.Max = 8, 4 },
		"at least 1 is needed":    func(o *Options) { o.IterationsLarge = 0 },
		"-1 warm-up":              func(o *Options) { o.Warmup = -1 },
		"a window of 0":           func(o *Options) { o.Window = 0 },
		"at least -1s per size":   func(o *Options) { o.MinTime = -time.Second },
		"percentile 101":          func(o *Options) { o.Percentiles = []int{101} },
		"largest ≤ 1073741824 is": func(o *Options) { o.Max = math.MaxInt },
	} {
		o := LatencyDefaults()
		require.NoError(t, o.Check())
		change(&o)
		require.ErrorContains(t, o.Check(), want)
	}
}

func TestPatternNotices(t *testing.T) {
	b := make([]byte, 300<<10)
	fill(b, 7)
	require.Zero(t, count(b, 7))
	require.Equal(t, len(b), count(b, 8))
	for _, shift := range []int{1, 64, 4096, 65536} {
		require.Positive(t, count(b[shift:], 7), "shifted by %d", shift)
	}
	b[1000] ^= 1
	require.Equal(t, 1, count(b, 7))
	require.EqualError(t, &CorruptError{Size: 8, Bytes: 3}, "osu: data validation: 3 bytes arrived wrong in messages of 8 bytes")
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
	inSim(t, func(w *banyan.World) error {
		p, err := NewPair(w, 1, 1)
		require.NoError(t, err)
		require.Zero(t, p.clockCost())
		return p.sync()
	})
}
