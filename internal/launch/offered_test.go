package launch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzOffered(f *testing.F) {
	f.Add("0\n")
	f.Add("-1000\n")
	f.Add("900")
	f.Fuzz(func(t *testing.T, own string) {
		if n, ok := offeredOf(own); ok {
			require.True(t, n >= -1000+offered && n <= 1000, "%d", n)
		}
	})
}
