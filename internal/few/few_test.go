package few

import (
	"maps"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A Map behaves like a Go map, with few entries and with many.
func TestMapIsAMap(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		var m Map[uint32, int]
		want := make(map[uint32]int)
		keys := 4 + r.Uint32N(3*most)
		for i := range 400 {
			key := r.Uint32N(keys)
			switch r.IntN(5) {
			case 0:
				m.Delete(key)
				delete(want, key)
			case 1:
				if r.IntN(10) == 0 {
					odd := func(k uint32, v int) bool { return (k+uint32(v))%2 == 1 }
					m.DeleteFunc(odd)
					maps.DeleteFunc(want, odd)
				}
			default:
				m.Put(key, i)
				want[key] = i
			}
			require.Equal(t, want[key], m.Get(key), "seed %d", seed)
			require.Equal(t, len(want), m.Len(), "seed %d", seed)
		}
		require.Equal(t, want, maps.Collect(m.All()), "seed %d", seed)
		for range m.All() {
			break
		}
	}
}

// An empty Map takes no memory besides itself.
func TestMapIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Map[uint32, *int]{}), uintptr(32))
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var m Map[uint32, *int]
		m.Delete(1)
		_ = m.Get(1)
	}))
}
