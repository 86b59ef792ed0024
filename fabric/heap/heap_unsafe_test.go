package heap

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// adapter registers areas, by their first bytes.
type adapter struct {
	fabric.Provider
	areas map[*byte]int
}

func (a adapter) Register(mem []byte)   { a.areas[&mem[0]] = len(mem) }
func (a adapter) Deregister(mem []byte) { delete(a.areas, &mem[0]) }

// All memory that is given lies in registered areas, and an area is not registered once it is given up.
func TestAreasAreRegistered(t *testing.T) {
	h, a := New(nil, constant(1<<62)), adapter{areas: make(map[*byte]int)}
	h.RegisterWith(a)
	small, err := h.Alloc(100)
	require.NoError(t, err)
	long, err := h.Alloc(3 * large)
	require.NoError(t, err)
	require.Len(t, a.areas, 2)
	require.Equal(t, 3*large, a.areas[&long[0]])
	require.NoError(t, h.Free(long))
	require.Len(t, a.areas, 1)
	require.NotZero(t, a.areas[&small[0]])
}

// Allocated memory is zero, aligned, and not shared; freed memory is joined again.
func TestRandomAllocations(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := New(nil, constant(1<<62))
		var all [][]byte
		for step := range 2000 {
			if len(all) > 0 && (rng.IntN(2) == 0 || len(all) > 100) {
				i := rng.IntN(len(all))
				b := all[i]
				require.Equal(t, len(b), bytes.Count(b, b[:1]), "another process has written to it")
				require.NoError(t, h.Free(b))
				require.ErrorIs(t, h.Free(b), ErrForeign)
				all[i] = all[len(all)-1]
				all = all[:len(all)-1]
				continue
			}
			n := 1 + rng.IntN(1<<rng.IntN(21))
			b, err := h.Alloc(n)
			require.NoError(t, err)
			require.Len(t, b, n)
			require.Equal(t, n, cap(b))
			unit := uintptr(line)
			if n >= page {
				unit = page
			}
			require.Zero(t, uintptr(unsafe.Pointer(&b[0]))%unit)
			require.Equal(t, n, bytes.Count(b, []byte{0}))
			copy(b, bytes.Repeat([]byte{byte(step)}, n))
			all = append(all, b)
		}
		require.Equal(t, len(all), h.Report().Pieces)
		for _, b := range all {
			require.NoError(t, h.Free(b))
		}
		r := h.Report()
		require.Zero(t, r.Used)
		require.LessOrEqual(t, r.Held, firstArea)
		for _, a := range h.areas {
			require.Equal(t, []extent{{0, len(a.mem)}}, a.free)
		}
	}
}

func TestWrongLengths(t *testing.T) {
	h := New(nil, constant(1<<62))
	for _, n := range []int{0, -1, 1<<63 - 1} {
		_, err := h.Alloc(n)
		require.Error(t, err)
	}
	require.ErrorIs(t, h.Free(nil), ErrForeign)
	b, err := h.Alloc(100)
	require.NoError(t, err)
	require.ErrorIs(t, h.Free(b[1:]), ErrForeign)
	require.NoError(t, h.Free(b[:0]))
}

func constant(n int64) func() int64 { return func() int64 { return n } }

// The limit is an error that names the numbers and the cure, and takes nothing.
func TestLimit(t *testing.T) {
	h := New(nil, constant(3<<20))
	b, err := h.Alloc(2 << 20)
	require.NoError(t, err)
	_, err = h.Alloc(1<<20 + 1)
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "exceed 3072 KiB, of which 2048 are in use")
	require.ErrorContains(t, err, "BANYAN_MEMORY_LIMIT")
	require.NoError(t, h.Free(b))
	_, err = h.Alloc(3 << 20)
	require.NoError(t, err)
	require.Equal(t, Report{Used: 3 << 20, Peak: 3 << 20, Held: 3 << 20, Pieces: 1, Limit: 3 << 20}, h.Report())
}
