package pmi

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInitTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{"": time.Minute, "90s": 90 * time.Second, "1.5": 1500 * time.Millisecond} {
		d, err := ParseInitTimeout(text)
		require.NoError(t, err)
		require.Equal(t, want, d)
	}
	for _, bad := range []string{"0", "-1s", "soon", "NaN", "1e300"} {
		_, err := ParseInitTimeout(bad)
		require.ErrorContains(t, err, strconv.Quote(bad))
	}
}

// Any value of a variable is a number in its bounds and a time above 0, or an error.
func FuzzEnvironment(f *testing.F) {
	f.Add("90s")
	f.Add("1e300")
	f.Add("-3")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := Number("X", text, -2, 7); err == nil {
			require.True(t, -2 <= n && n <= 7)
		} else {
			require.ErrorIs(t, err, ErrEnvironment)
		}
		if d, err := ParseInitTimeout(text); err == nil {
			require.Positive(t, d)
		}
	})
}
