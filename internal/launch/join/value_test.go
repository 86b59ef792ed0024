package join

import (
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
)

func TestSplitAndJoin(t *testing.T) {
	for _, length := range []int{0, 1, 18, 19, 20, 21, 22, 100, 1000, MaxValue} {
		for _, room := range []int{minRoom, 33, 100, 900} {
			want := bytesOf(3, length)
			pieces := split(want, room)
			for _, p := range pieces {
				require.LessOrEqual(t, len(p), room)
				require.NotEmpty(t, p)
			}
			got, err := join(func(i int) (string, error) { return pieces[i], nil })
			require.NoError(t, err)
			require.Equal(t, want, append([]byte{}, got...))
		}
	}
}

func TestJoinRefuses(t *testing.T) {
	for _, first := range []string{"", "0001", "1.", "0000.", "-001.", "+001.", "0001.A", "0001.!!", "0002.AAAA"} {
		_, err := join(func(i int) (string, error) {
			if i == 0 {
				return first, nil
			}
			return "", pmi.ErrNotFound
		})
		require.Error(t, err, first)
	}
	calls := 0
	_, err := join(func(i int) (string, error) {
		calls++
		if i == 0 {
			return "9999.", nil
		}
		return strings.Repeat("A", 1000), nil
	})
	require.ErrorContains(t, err, "longer than")
	require.Less(t, calls, 100, "it stops reading in time")
}

func TestWireKeysFit(t *testing.T) {
	require.LessOrEqual(t, len(wireKey(1<<20, strings.Repeat("k", MaxKey), piecesMax)), wireKeyMax)
	require.Less(t, wireKeyMax, 64, "keylen_max of Hydra")
	for _, bad := range []string{"", "a-b", "a b", "é", strings.Repeat("k", MaxKey+1)} {
		require.Error(t, checkKey(bad), bad)
	}
	require.NoError(t, checkKey("az.AZ_09"))
}

func FuzzJoinValue(f *testing.F) {
	f.Add("0002.AAAA", "AAAA")
	f.Add("0001.", "")
	f.Fuzz(func(t *testing.T, first, next string) {
		value, err := join(func(i int) (string, error) {
			if i == 0 {
				return first, nil
			}
			return next, nil
		})
		if err == nil && len(value) > MaxValue {
			t.Fatal(len(value))
		}
	})
}

func bytesOf(rank int, length int) []byte {
	v := make([]byte, length)
	for i := range v {
		v[i] = byte(rank*31 + i)
	}
	return v
}

// The same holds for a value that is not encoded as it should be.
func TestValueErrorsQuoteNoValue(t *testing.T) {
	const value = "0001.c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I"
	_, err := join(func(int) (string, error) { return value[2:], nil })
	require.ErrorContains(t, err, "number of pieces")
	require.NotContains(t, err.Error(), value[5:10])
	_, err = join(func(int) (string, error) { return value + "!", nil })
	require.Error(t, err)
	require.NotContains(t, err.Error(), value[5:10])
}
