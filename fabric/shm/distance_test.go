package shm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Copies of a far core's memory go past the caches only if those into the cache have taken longer than such a
// copy can take, and not when it turns out that they take longer still.
func TestFarCopiesAreJudged(t *testing.T) {
	const n = 1 << 20
	mib := time.Duration(streamCost())
	times := func(c *copyPace, took time.Duration) {
		for range enoughCopies {
			c.note(n, took)
		}
	}
	for name, tc := range map[string]struct {
		plain, streamed time.Duration // of a copy of 1 MiB; 0: none was made
		want            bool
	}{
		"unknown":        {0, 0, false},
		"fast caches":    {mib, 0, false},
		"slow caches":    {3 * mib, 0, true},
		"it has helped":  {3 * mib, 2 * mib, true},
		"it has not":     {3 * mib, 4 * mib, false},
		"hardly a third": {mib * 5 / 4, 0, false},
	} {
		var d distance
		if tc.plain != 0 {
			times(&d.plain, tc.plain)
		}
		if tc.streamed != 0 {
			times(&d.streamed, tc.streamed)
		}
		require.Equal(t, tc.want, d.streams(), name)
		for range barredCopies {
			require.Equal(t, tc.want, d.streams(), name)
		}
		if tc.streamed > tc.plain {
			require.True(t, d.streams(), "it is tried again")
		}
	}
	var d distance
	d.plain.note(n, time.Second) // maps the pages
	times(&d.plain, mib)
	require.InDelta(t, int64(mib), d.plain.cost.Load(), 1)
}
