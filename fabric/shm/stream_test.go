package shm

import (
	"runtime"
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// One goroutine sends as fast as credit allows, another polls: the rate of lines, without the
// engine.
func benchmarkStream(bench *testing.B, size int) {
	_, b, ab, _ := pair(bench, Config{})
	buf, mine := make([]byte, size), make([]byte, size)
	got := 0
	sink := new(fabric.Sink)
	sink.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, payload []byte) {
		copy(mine, payload)
		got++
	}
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for got < bench.N {
			b.Poll(sink)
		}
		close(done)
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bench.ResetTimer()
	for range bench.N {
		for !ab.TrySend(fabric.ClassTest, 1, buf) {
		}
	}
	<-done
	bench.SetBytes(int64(size))
}

func BenchmarkStream8(b *testing.B)   { benchmarkStream(b, 8) }
func BenchmarkStream1K(b *testing.B)  { benchmarkStream(b, 1<<10) }
func BenchmarkStream16K(b *testing.B) { benchmarkStream(b, 16<<10) }
