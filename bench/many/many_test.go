package many

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// In the simulator the memory means nothing, but every message is checked.
func TestRun(t *testing.T) {
	o := Options{Sizes: []int{8, 4096}, Repeats: 3}
	var got *Sample
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{}, func(w *banyan.World) error {
		s, err := Run(w, o)
		require.Equal(t, err == nil && w.Comm().Rank() == 0, s != nil)
		if s != nil {
			got = s
		}
		return err
	}))
	require.Equal(t, 5, got.Ranks)
	require.Len(t, got.Times, 2)
	for i, times := range got.Times {
		require.Equal(t, o.Sizes[i], times.Size)
		require.Positive(t, times.First)
		require.Positive(t, times.Second)
		require.Positive(t, times.Steady)
	}
	require.Positive(t, got.Before)
	require.GreaterOrEqual(t, got.Peak, got.After)
	file := filepath.Join(t.TempDir(), "sample")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, got.Write(file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	again, err := parse(string(text), 5, o.Sizes)
	require.NoError(t, err)
	require.Equal(t, got, again)
}

func TestOneRank(t *testing.T) {
	err := banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		_, err := Run(w, Options{Sizes: []int{8}, Repeats: 1})
		return err
	})
	require.ErrorContains(t, err, "at least 2 are needed")
}

func TestCheck(t *testing.T) {
	for want, o := range map[string]Options{
		"no size":                {Repeats: 1},
		"0 bytes: 1 to":          {Sizes: []int{8, 0}, Repeats: 1},
		"0 repetitions: 1 to":    {Sizes: []int{8}},
		"1048577 bytes: 1 to 10": {Sizes: []int{MaxSize + 1}, Repeats: 1},
	} {
		require.ErrorContains(t, o.Check(), want)
	}
}

func TestParseKilobytes(t *testing.T) {
	require.Equal(t, 2048., parseKilobytes("VmRSSx: 1 kB\nVmRSS:\t 2 kB\n", "VmRSS"))
	require.Zero(t, parseKilobytes("VmRSS: -2 kB\n", "VmRSS"))
}

// Any output of a program is a sample that can be compared, or an error.
func FuzzSample(f *testing.F) {
	s := Sample{Times: []Times{{8, 1, 2, 3}}, Shared: 4096}
	f.Add(s.text())
	f.Add("first:8 inf\nsecond:8 nan\nsteady:8 -1\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text, 2, []int{8})
		if err != nil {
			return
		}
		again, err := parse(s.text(), 2, []int{8})
		require.NoError(t, err)
		require.Equal(t, s, again)
		require.Positive(t, s.Times[0].First)
		require.GreaterOrEqual(t, parseKilobytes(text, "shared"), 0.)
	})
}

// The buffers do not count for Go's collector.
func TestBuffersAreNotOfTheHeap(t *testing.T) {
	const size = 1 << 20
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e, err := newExchange(w, size)
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size))
		require.Len(t, e.out, 2*size)
		require.Len(t, e.in, 2*size)
		require.NoError(t, e.free())
		require.Error(t, e.free())
		return nil
	}))
}
