package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
)

// TryLock gives up where the lock is kept, and leaves no contender behind.
func TestTryLockGivesUp(t *testing.T) {
	e := New(Config{Host: host.New(host.Config{})})
	e.Lock()
	require.False(t, e.TryLock(2))
	require.False(t, e.Contended())
	e.Unlock()
	require.True(t, e.TryLock(2))
	e.Unlock()
}

// The time of a wait counts from the first sleep on, over wake-ups that it does not end with.
func TestWaitedCountsFromTheFirstSleep(t *testing.T) {
	h := &sharedHost{Host: host.New(host.Config{}), now: 5}
	e := New(Config{Host: h})
	var done Completion
	var waited []fabric.Time
	h.slept = func() {
		e.Lock()
		defer e.Unlock()
		h.now += 1000
		w, sleeps := e.Waited(&done)
		require.True(t, sleeps)
		if waited = append(waited, w); len(waited) == 2 {
			done.Finish()
		}
	}
	e.Lock()
	e.Wait(&done)
	_, sleeps := e.Waited(&done)
	require.False(t, sleeps)
	done.Reset()
	require.Zero(t, done.since)
	e.Unlock()
	require.Len(t, waited, 2)
	require.Equal(t, fabric.Time(1000), waited[0])
	require.Greater(t, waited[1], waited[0])
}
