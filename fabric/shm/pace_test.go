package shm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// paced makes a connection with lines of so many nanoseconds each, long enough to count.
func paced(get bool, line int) *Conn {
	c := &Conn{get: get}
	c.out.pace.near, c.out.pace.far = defaultEagerNear, defaultEagerFar
	for range 20 {
		c.out.pace.sample(time.Duration(line*4096/lineBytes), 4096)
	}
	return c
}

func TestEagerFollowsTheDistance(t *testing.T) {
	for _, tc := range []struct {
		name string
		get  bool
		line int
		n    int
		want bool
	}{
		{"short, far", true, 25, 4 << 10, true},
		{"medium, near", true, 6, defaultEagerNear, true},
		{"medium, far", true, 25, defaultEagerFar + 1, false},
		{"up to the far limit, far", true, 25, defaultEagerFar, true},
		{"medium, far, no kernel copy", false, 25, defaultEagerNear, true},
		{"large, near", true, 6, defaultEagerNear + 1, false},
		{"large, no kernel copy", false, 6, defaultEagerNear + 1, false},
		{"nothing known", true, 0, defaultEagerNear, true},
	} {
		require.Equal(t, tc.want, paced(tc.get, tc.line).Eager(tc.n), tc.name)
	}
}

// A process that was preempted once during a copy is not far.
func TestOnePreemptionChangesNothing(t *testing.T) {
	c := paced(true, 6)
	c.out.pace.sample(time.Second, 4096)
	require.True(t, c.Eager(defaultEagerNear))
}

// While lines are slow some messages pass, and their times restore the limit when the peer has
// moved nearer.
func TestEagerComesBack(t *testing.T) {
	c := paced(true, 25)
	let := 0
	for range 10 * paceRetry {
		if c.Eager(defaultEagerNear) {
			let++
			c.out.pace.sample(6*defaultEagerNear/lineBytes, defaultEagerNear)
		}
	}
	require.Greater(t, let, 5*paceRetry, "the limit stayed low")
}

// Large frames are timed: the copy itself feeds the pace.
func TestCopiesAreTimed(t *testing.T) {
	var p pace
	src, dst := make([]byte, 64<<10), make([]byte, 64<<10)
	for range 4 * paceStride {
		p.copy(dst, src)
	}
	require.NotZero(t, p.frames)
	p = pace{line: worstLine}
	for range 100 {
		p.copy(dst, src)
	}
	require.Less(t, p.line, worstLine, "copies in one's own cache are fast")
}
