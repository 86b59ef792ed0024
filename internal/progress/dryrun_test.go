package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// A process that polls in vain calls the function of OnLongWait, at first after dryRunFirst checks for deaths; one that
// gets a frame earlier does not.
func TestLongWait(t *testing.T) {
	e := engines(t, true)
	ep, err := e[1].Endpoint(0)
	require.NoError(t, err)
	count(e[0])
	calls := 0
	e[0].OnLongWait(func() { calls++ })
	poll := func(checks int) {
		e[0].Lock()
		for range checks * deathStride {
			e[0].Progress()
		}
		e[0].Unlock()
	}
	for range 4 {
		poll(dryRunFirst - 2)
		require.Zero(t, calls)
		e[1].Lock()
		require.True(t, ep.TrySend(fabric.ClassTest, 0, nil))
		e[1].Unlock()
		for e[0].vain > 1 {
			poll(1)
		}
	}
	poll(dryRunFirst)
	require.Equal(t, 1, calls)
	poll(dryRunGap)
	require.Equal(t, 1, calls)
	poll(dryRunFirst)
	require.Equal(t, 2, calls)
}

// A process that has polled for long is interrupted by no death, until it sleeps or computes.
func TestPollsNoLonger(t *testing.T) {
	e := engines(t, true)[0]
	e.OnLongWait(func() {})
	for name, stop := range map[string]func(){
		"sleeps":   e.sleepOnce,
		"computes": func() { e.ProgressUntilIdle(maxIdleTime); e.ProgressUntilIdle(maxIdleTime) },
	} {
		t.Run(name, func(t *testing.T) {
			e.Lock()
			defer e.Unlock()
			e.vain = 0
			for range 2 * dryRunFirst * deathStride {
				e.Progress()
			}
			require.True(t, e.pollsLong)
			e.ProgressUntilIdle(maxIdleTime)
			for range deathStride {
				e.Progress()
			}
			e.ProgressUntilIdle(maxIdleTime)
			require.True(t, e.pollsLong, "it has polled since")
			stop()
			require.False(t, e.pollsLong)
		})
	}
}

// sleepOnce is about to sleep when another goroutine wants the lock.
func (e *Engine) sleepOnce() {
	e.contenders.Add(1)
	e.sleep()
	e.contenders.Add(-1)
}
