package rma

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Atomic updates give the results of updates of memory that no other process changes, for every type and operation, at
// any place and of any length, and change nothing beside it.
func TestUpdatesAreAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for elem := range Elem(len(sizes)) {
		size := elem.size()
		if size == 0 {
			continue
		}
		for acc := range accs {
			if !acc.applies(elem) {
				continue
			}
			for range 50 {
				mem, data := Memory(96), make([]byte, 96)
				for i := range mem {
					mem[i], data[i] = byte(rng.IntN(4)), byte(rng.IntN(4)) // no NaN, which has many forms
				}
				from := rng.IntN(64/size) * size
				to := from + (1+rng.IntN(32/size))*size
				plain, was := Memory(96), make([]byte, to-from)
				copy(plain, mem)
				apply(acc, elem, plain[from:to], data[from:to])
				before := append([]byte(nil), mem...)
				accumulate(true, acc, elem, mem[from:to], data[from:to], was)
				assert.Equal(t, plain, mem, "operation %d on type %d", acc, elem)
				assert.Equal(t, before[from:to], was)
			}
		}
	}
}

func TestAtomicCompareAndSwap(t *testing.T) {
	for _, size := range []int{1, 2, 4, 8, 16} {
		for at := 0; at < 32; at += size {
			t.Run(fmt.Sprint(size, at), func(t *testing.T) {
				mem, old := Memory(32), make([]byte, size)
				one, two := make([]byte, size), make([]byte, size)
				one[0], two[0] = 1, 2
				compareAndSwap(true, mem[at:at+size], two, one, old) // differs
				assert.Equal(t, make([]byte, 32), mem)
				compareAndSwap(true, mem[at:at+size], old, one, old)
				assert.Equal(t, make([]byte, size), old)
				compareAndSwap(true, mem[at:at+size], one, two, old)
				assert.Equal(t, one, old)
				want := make([]byte, 32)
				want[at] = 2
				assert.Equal(t, want, mem)
			})
		}
	}
}
