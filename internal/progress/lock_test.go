package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// busyHost frees a lock after some pauses and counts what its contender does.
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
