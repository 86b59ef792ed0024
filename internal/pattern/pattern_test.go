package pattern

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrong(t *testing.T) {
	b := make([]byte, 300<<10)
	Fill(b, 7)
	require.Zero(t, Wrong(b, 7))
	for seed := range byte(255) {
		if seed != 7 {
			require.Equal(t, 1000, Wrong(b[:1000], seed), "of message %d", seed)
		}
	}
	for _, shift := range []int{1, 64, 4096, 65536} {
		require.Positive(t, Wrong(b[shift:], 7), "shifted by %d", shift)
	}
	require.Positive(t, Wrong(b[1:1000], 8), "the next message, a byte early")
	b[1000] ^= 1
	require.Equal(t, 1, Wrong(b, 7))
	Spoil(b, 7)
	require.Equal(t, len(b), Wrong(b, 7), "a byte that is not written is noticed")
}
