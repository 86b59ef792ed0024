package osu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// possible are the synchronizations that a benchmark has.
func possible(b *Benchmark) []Synchronization {
	if b.active {
		return []Synchronization{SyncPSCW, SyncFence}
	}
	return Synchronizations
}

// remoteNames are the one-sided benchmarks.
func remoteNames() (names []string) {
	for _, b := range All {
		if b.OneSided {
			names = append(names, b.Name)
		}
	}
	return names
}

// Each benchmark on windows, with each synchronization and both ways to make them, moves the right bytes.
func TestWindows(t *testing.T) {
	require.Len(t, remoteNames(), 9)
	for _, name := range remoteNames() {
		b := Find(name)
		for i, sync := range possible(b) {
			o := small(b)
			o.Sync, o.Creation = sync, []Creation{CreateWindow, AllocateWindow}[i%2]
			o.Min, o.Validate, o.Percentiles = 1, true, []int{50, 99}
			rows := 15
			if b.access.fixed > 0 {
				o.Min, o.Max, rows = word, word, 1
			}
			got := points(t, name, 2, o)
			require.Len(t, got, rows, name)
			require.Equal(t, rows, b.Rows(o))
			for _, p := range got {
				require.Positive(t, p.Seconds, "%s %s, %d bytes", name, sync, p.Size)
				require.Len(t, p.Percentiles, 2)
				require.Zero(t, p.Errors, "%s %s, %d bytes", name, sync, p.Size)
			}
		}
	}
}

// An operation that does nothing is noticed, for each kind of operation.
func TestWindowsNoticeWrongBytes(t *testing.T) {
	for _, name := range remoteNames() {
		b := Find(name)
		for _, sync := range possible(b) {
			inSim(t, 2, func(w *banyan.World) error {
				o := small(b)
				o.Sync, o.Min, o.Max = sync, word, word
				lazy := *b.access
				lazy.call = func(*remote, int, int) error { return nil }
				p, err := openRemote(w, &o, &lazy)
				require.NoError(t, err)
				wrong, err := b.pass(&o).check(p, word, 3)
				require.NoError(t, err)
				all, err := p.sum(int64(wrong))
				require.NoError(t, err)
				require.Positive(t, all, "%s %s", name, sync)
				return p.closeRemote(nil)
			})
		}
	}
}

// The time of a latency with both ranks as origins is half of both: a fence each in place of a flush.
func TestTurnsAreHalved(t *testing.T) {
	seconds := func(sync Synchronization) float64 {
		o := small(Find("put_latency"))
		o.Min, o.Max, o.Iterations, o.Sync = 8, 8, 1000, sync
		return points(t, "put_latency", 2, o)[0].Seconds
	}
	flush, fence, lock := seconds(SyncFlush), seconds(SyncFence), seconds(SyncLock)
	require.Less(t, flush, lock, "the lock is taken once")
	require.Less(t, fence, 3*flush)
	require.Greater(t, fence, flush/2)
}

// Windows in flight: more of them do not cost a flush each.
func TestWindowOfPuts(t *testing.T) {
	o := small(Find("put_bw"))
	o.Min, o.Max, o.Iterations = 8, 8, 100
	o.Window = 1
	one := points(t, "put_bw", 2, o)[0].Seconds
	o.Window = 16
	require.Less(t, points(t, "put_bw", 2, o)[0].Seconds, one)
}

// On command: one window serves all, and only rank 0 has a time.
func TestRemoteOnCommand(t *testing.T) {
	inSim(t, 2, func(w *banyan.World) error {
		r, err := NewRemote(w, 4096, 4)
		require.NoError(t, err)
		for _, name := range []string{"put_latency", "fop_latency", "get_latency", "put_bw", "fop_latency"} {
			d, err := r.Measure(name, word, 1, 3, 10)
			require.NoError(t, err, name)
			require.Equal(t, w.Comm().Rank() == 0, d > 0, name)
		}
		for range 2 {
			d, err := r.PingPong(70, 10)
			require.NoError(t, err)
			require.Equal(t, w.Comm().Rank() == 0, d > 0)
			require.EqualValues(t, 80, load(r.p.remote.memory), "the other's last number")
		}
		one, err := r.Measure("put_bw", 4096, 1, 0, 10)
		require.NoError(t, err)
		four, err := r.Measure("put_bw", 4096, 4, 0, 10)
		require.NoError(t, err)
		require.True(t, w.Comm().Rank() == 1 || four > one, "windows of four move more in one iteration")
		return nil
	})
	inSim(t, 3, func(w *banyan.World) error {
		_, err := NewRemote(w, 8, 1)
		require.ErrorContains(t, err, "exactly 2 are needed")
		return nil
	})
}

func TestMemoryOfWindows(t *testing.T) {
	require.Equal(t, 64*8, span(8, 64))
	require.Equal(t, 64<<20, span(1<<20, 64))
	require.Equal(t, 64<<20, span(4<<20, 64))
	require.Equal(t, 1<<30, span(1<<30, 64), "one message fits")
	require.Equal(t, 4<<20, span(4<<20, 1))
	r := &remote{memory: make([]byte, span(1024, 4))}
	require.Equal(t, 4, r.places(1024))
	require.Equal(t, 8, r.places(512))
	require.Positive(t, r.places(0))
	require.Equal(t, 0, points(t, "put_latency", 2, small(Find("put_latency")))[0].Size, "nothing is put")
}

func TestCheckOfWindows(t *testing.T) {
	for want, c := range map[string]struct {
		name   string
		change func(*Options)
	}{
		"kind dynamic are not built: use allocate or create":           {"put_latency", func(o *Options) { o.Creation = "dynamic" }},
		`"x" is no kind of window`:                                     {"get_bw", func(o *Options) { o.Creation = "x" }},
		`"" is no synchronization: use one of [flush flush_local lock`: {"acc_latency", func(o *Options) { o.Sync = "" }},
		"so pscw or fence is needed":                                   {"put_bibw", func(o *Options) { o.Sync = SyncFlush }},
		"it has one, 8 bytes":                                          {"fop_latency", func(o *Options) { o.Min = 4 }},
		"it has no window to make":                                     {"latency", func(o *Options) { o.Sync = SyncFlush }},
		"a window of 0":                                                {"put_bw", func(o *Options) { o.Window = 0 }},
	} {
		b := Find(c.name)
		o := b.Defaults
		require.NoError(t, b.Check(2, o))
		c.change(&o)
		require.ErrorContains(t, b.Check(2, o), want)
	}
	require.ErrorContains(t, Find("put_bw").Check(3, Find("put_bw").Defaults), "exactly 2 are needed")
}
