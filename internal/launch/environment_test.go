package launch

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInitTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{"": time.Minute, "90s": 90 * time.Second, "1.5": 1500 * time.Millisecond} {
		d, err := initTimeout(text)
		require.NoError(t, err)
		require.Equal(t, want, d)
	}
	for _, bad := range []string{"0", "-1s", "soon", "NaN", "1e300"} {
		_, err := initTimeout(bad)
		require.ErrorContains(t, err, strconv.Quote(bad))
	}
}
