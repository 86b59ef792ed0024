package progress

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

func TestTimers(t *testing.T) {
	e := engines(t, false)[0]
	var order []int
	var done Completion
	e.Lock()
	defer e.Unlock()
	e.After(300e6, func() { order = append(order, 3); done.Finish() })
	e.After(100e6, func() { order = append(order, 1) })
	stopped := e.After(100e6, func() { order = append(order, 9) })
	e.After(200e6, func() { order = append(order, 2) })
	e.Stop(stopped)
	e.Stop(stopped)
	e.Wait(&done)
	require.Equal(t, []int{1, 2, 3}, order)
}

// TestTimersInOrder: timers run in order of time, except stopped ones.
func TestTimersInOrder(t *testing.T) {
	e := engines(t, false)[0]
	r := rand.New(rand.NewPCG(1, 2))
	var done Completion
	var last fabric.Time
	live := map[*Timer]bool{}
	e.Lock()
	defer e.Unlock()
	for range 2000 {
		if r.IntN(3) > 0 {
			var tm *Timer
			tm = e.After(fabric.Time(r.IntN(1_000_000)), func() {
				require.GreaterOrEqual(t, tm.at, last)
				last = tm.at
				require.True(t, live[tm])
				delete(live, tm)
			})
			live[tm] = true
			continue
		}
		for tm := range live {
			e.Stop(tm)
			delete(live, tm)
			break
		}
	}
	e.After(1_000_000, done.Finish)
	e.Wait(&done)
	require.Empty(t, live)
}
