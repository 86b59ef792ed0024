package match

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// In the simulator the times mean nothing, but every message is checked.
func TestRun(t *testing.T) {
	o := Options{Lengths: []int{10, 37, 1000}, Rounds: 3}
	var got []Result
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		return Run(w, o, func(r Result) error {
			require.Zero(t, w.Comm().Rank())
			got = append(got, r)
			return nil
		})
	}))
	require.Len(t, got, len(All))
	for i, r := range got {
		require.Equal(t, All[i], r.Series)
		require.Len(t, r.Points, 3)
		for j, p := range r.Points {
			require.Equal(t, o.Lengths[j], p.Length)
			require.Len(t, p.Rounds, 3)
		}
	}
	require.Positive(t, got[0].Points[0].Seconds, "the messages of the posted series travel in the time")
}

func TestEmitEndsTheRun(t *testing.T) {
	stop := errors.New("enough")
	err := banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		return Run(w, Options{Lengths: []int{10}, Rounds: 1}, func(Result) error { return stop })
	})
	require.ErrorIs(t, err, stop)
}

func TestNumberOfRanks(t *testing.T) {
	err := banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		return Run(w, Defaults(), func(Result) error { return nil })
	})
	require.ErrorContains(t, err, "3 ranks, exactly 2 are needed")
}

// The ratio is taken round by round: a slow round slows both.
func TestRatio(t *testing.T) {
	r := Result{Points: []Point{
		{Length: 10, Rounds: []float64{1, 10, 2}},
		{Length: 100, Rounds: []float64{2, 20, 3}},
	}}
	ratio, ok := r.Ratio(100, 10)
	require.True(t, ok)
	require.InDelta(t, 2, ratio, 1e-12)
	_, ok = r.Ratio(1000, 10)
	require.False(t, ok)
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"no length":                   func(o *Options) { o.Lengths = nil },
		"a queue of 9 entries: 10 to": func(o *Options) { o.Lengths = []int{10, 9} },
		"0 rounds":                    func(o *Options) { o.Rounds = 0 },
		"at least -1s":                func(o *Options) { o.MinTime = -time.Second },
	} {
		o := Defaults()
		require.NoError(t, o.Check())
		change(&o)
		require.ErrorContains(t, o.Check(), want)
	}
	require.EqualError(t, check([]byte{7, 0, 0, 0, 0, 0, 0, 0}, 8), "the receive for tag 8 got the message of tag 7")
}

// Tags of batches repeat late and never meet those that wait.
func TestTags(t *testing.T) {
	s := &side{}
	seen := map[int]bool{}
	for range batchTags / Batch {
		tag := s.nextTags()
		require.False(t, seen[tag])
		seen[tag] = true
		require.GreaterOrEqual(t, tag, tagWaiting+MaxLength)
	}
	require.True(t, seen[s.nextTags()])
}

// On command: both ranks have the iterations, and rank 0 has the time. Waiting entries are received
// in the end, so the next measurement begins with an empty queue.
func TestPair(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		p, err := NewPair(w, 500)
		require.NoError(t, err)
		for range 2 {
			for _, series := range All {
				for _, entries := range []int{Batch, 500} {
					d, err := p.Measure(series, entries, entries%7, 4)
					if err != nil {
						return err
					}
					if series == Posted { // whose messages travel in the time
						require.Equal(t, w.Comm().Rank() == 0, d > 0)
					}
				}
			}
		}
		for _, bad := range []int{Batch - 1, 501} {
			_, err = p.Measure(Posted, bad, 0, 1)
			require.ErrorContains(t, err, "10 to 500 are possible")
		}
		_, err = p.Measure("dance", Batch, 0, 1)
		require.ErrorContains(t, err, `no series "dance"`)
		return nil
	}))
}
