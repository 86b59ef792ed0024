package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// busyHost frees a lock after some pauses and counts the calls of its contender.
type busyHost struct {
	fabric.Host
	l                  *lock
	most               int
	yields, afterPause int
	pauses             []fabric.Time
}

func (h *busyHost) Yield() {
	if h.yields++; len(h.pauses) > 0 {
		h.afterPause++
	}
}

func (h *busyHost) Pause(d fabric.Time) {
	if h.pauses = append(h.pauses, d); len(h.pauses) == h.most {
		h.l.free()
	}
}

// A contender of a lock whose holder does not run leaves the cores to others.
func TestContenderPauses(t *testing.T) {
	l := new(lock)
	require.True(t, l.tryAcquire())
	h := &busyHost{l: l, most: 8}
	l.acquireSlow(h)
	require.False(t, l.tryAcquire(), "the contender holds it")
	require.Zero(t, l.contenders.Load())
	require.Equal(t, patientYields, h.yields-h.afterPause)
	require.Equal(t, (h.most-1)*briefYields, h.afterPause)
	require.IsIncreasing(t, h.pauses[:5])
	require.Equal(t, longestPause, h.pauses[7])
}

// A contender whose attempts fall between those at which the holder looks becomes starved. The
// holder then sees it at any time, and waits until it has had the lock.
func TestStarvedContender(t *testing.T) {
	l := new(lock)
	require.True(t, l.tryAcquire())
	looks := 0
	l.acquireSlow(&pausingHost{pause: func() {
		if looks++; l.contenders.Load() != 0 || looks > 100 {
			l.free()
		}
	}})
	require.LessOrEqual(t, looks, 100)
	require.Zero(t, l.contenders.Load()+l.starved.Load())

	l.starved.Add(1)
	pauses := 0
	l.cede(&pausingHost{pause: func() {
		if pauses++; pauses == 3 {
			require.True(t, l.tryAcquire(), "the holder keeps the lock")
			l.starved.Add(-1)
			l.free()
		}
	}})
	require.Equal(t, 3, pauses)
	require.False(t, l.tryAcquire(), "the holder has it again")
}

// pausingHost calls pause in each pause.
type pausingHost struct {
	fabric.Host
	pause func()
}

func (*pausingHost) Yield() {}

func (h *pausingHost) Pause(fabric.Time) { h.pause() }
