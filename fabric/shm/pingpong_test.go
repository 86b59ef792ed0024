package shm

import (
	"runtime"
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// pair opens two endpoints in this process and connects them.
func pair(t testing.TB, cfg Config) (a, b *Provider, ab, ba *Conn) {
	t.Helper()
	var p [2]*Provider
	for i := range p {
		c := cfg
		c.Self, c.MaxProcs = proc.ID(i), 2
		var err error
		if p[i], err = Open(c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p[i].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	dial := func(from, to int) *Conn {
		c, err := p[from].Dial(fabric.ConnectSpec{Peer: proc.ID(to), Address: p[to].Address()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return p[0], p[1], dial(0, 1), dial(1, 0)
}

func TestSendDoesNotAllocate(t *testing.T) {
	_, b, ab, _ := pair(t, Config{})
	sink := new(fabric.Sink)
	got := 0
	sink.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, payload []byte) { got += len(payload) }
	small, large := make([]byte, 8), make([]byte, 5000)
	n := testing.AllocsPerRun(1000, func() {
		ab.TrySend(fabric.ClassTest, 1, small)
		ab.TrySend(fabric.ClassTest, 1, large)
		b.Poll(sink)
	})
	if n != 0 || got == 0 {
		t.Fatalf("%v allocations per frame, %d bytes arrived", n, got)
	}
}

func benchmarkPingPong(bench *testing.B, size int) {
	a, b, ab, ba := pair(bench, Config{})
	if most := ab.Caps().MaxFrame; size > most {
		bench.Fatalf("a frame holds %d bytes at most", most)
	}
	buf := make([]byte, size)
	play := func(p *Provider, c *Conn, first bool, n int) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		got := 0
		sink := new(fabric.Sink)
		mine := make([]byte, size)
		sink.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, payload []byte) {
			copy(mine, payload)
			got++
		}
		if first {
			c.TrySend(fabric.ClassTest, 1, buf)
		}
		for i := range n {
			for got == i {
				p.Poll(sink)
			}
			if !first || i < n-1 {
				c.TrySend(fabric.ClassTest, 1, buf)
			}
		}
	}
	done := make(chan struct{})
	go func() { play(b, ba, false, bench.N); close(done) }()
	play(a, ab, true, bench.N)
	<-done
	bench.ReportMetric(float64(bench.Elapsed().Nanoseconds())/float64(2*bench.N), "ns/oneway")
	bench.SetBytes(int64(size))
}

func BenchmarkPingPong8(b *testing.B)   { benchmarkPingPong(b, 8) }
func BenchmarkPingPong1K(b *testing.B)  { benchmarkPingPong(b, 1<<10) }
func BenchmarkPingPong8K(b *testing.B)  { benchmarkPingPong(b, 8<<10) }
func BenchmarkPingPong32K(b *testing.B) { benchmarkPingPong(b, 32<<10) }
