package release

import (
	"sync/atomic"
	"testing"
)

// A consumer that sees the flag sees the writes before it.
func TestStore64Publishes(t *testing.T) {
	type line struct{ flag, data uint64 }
	var l line
	rounds := uint64(200_000)
	if testing.Short() { // the race detector needs few, and each takes a hundred times as long
		rounds = 2000
	}
	done := make(chan int)
	go func() {
		bad := 0
		for i := uint64(1); i <= rounds; i++ {
			for atomic.LoadUint64(&l.flag) < 2*i-1 {
			}
			if atomic.LoadUint64(&l.data) != i {
				bad++
			}
			Store64(&l.flag, 2*i)
		}
		done <- bad
	}()
	for i := uint64(1); i <= rounds; i++ {
		atomic.StoreUint64(&l.data, i)
		Store64(&l.flag, 2*i-1)
		for atomic.LoadUint64(&l.flag) < 2*i {
		}
	}
	if bad := <-done; bad != 0 {
		t.Fatalf("%d of %d rounds saw the flag before the data", bad, rounds)
	}
}

func BenchmarkStore64(b *testing.B) {
	var x uint64
	for i := range b.N {
		Store64(&x, uint64(i))
	}
}

func BenchmarkAtomicStore64(b *testing.B) {
	var x uint64
	for i := range b.N {
		atomic.StoreUint64(&x, uint64(i))
	}
}

var sink uint64

func BenchmarkPlainStore(b *testing.B) {
	for i := range b.N {
		sink = uint64(i)
	}
}

func BenchmarkCAS(b *testing.B) {
	var x uint32
	for range b.N {
		atomic.CompareAndSwapUint32(&x, 0, 1)
		atomic.StoreUint32(&x, 0)
	}
}
