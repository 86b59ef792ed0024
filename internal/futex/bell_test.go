package futex

import (
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/banyan-hpc/banyan/internal/release"
)

func TestBellIsOneLine(t *testing.T) {
	if n := unsafe.Sizeof(Bell{}); n != 64 {
		t.Fatalf("a Bell takes %d bytes, want one cache line", n)
	}
}

func TestRingBeforeArmIsNotKept(t *testing.T) {
	var b Bell
	b.Ring()
	if b.count.Load() != 0 {
		t.Fatal("a ring without a sleeper made a system call")
	}
}

func TestRingBetweenArmAndSleep(t *testing.T) {
	var b Bell
	b.Arm()
	b.Ring()
	b.Sleep(-1) // would never end if the ring were lost
}

func TestSleepEndsAtTheDeadline(t *testing.T) {
	var b Bell
	b.Arm()
	b.Sleep(time.Microsecond)
	if b.Asleep() {
		t.Fatal("still armed after Sleep")
	}
}

// Two goroutines hand a token to and fro and sleep at every wait. The work is
// published with release order only: the sleeper's barrier must be enough.
func TestNoLostRing(t *testing.T) {
	rounds := uint64(20_000) // where others have the cores each may take milliseconds
	if os.Getenv("BANYAN_LONG") != "" {
		rounds = 1_000_000
	}
	var bells [2]Bell
	var words [2]uint64
	run := func(me int) {
		for i := uint64(1); i <= rounds; i++ {
			if me == 1 {
				await(&bells[1], &words[1], i)
			}
			release.Store64(&words[1-me], i)
			if !Registered() {
				var fence atomic.Uint32
				fence.Swap(1)
			}
			if bells[1-me].Asleep() {
				bells[1-me].Ring()
			}
			if me == 0 {
				await(&bells[0], &words[0], i)
			}
		}
	}
	done := make(chan struct{})
	go func() { run(1); close(done) }()
	run(0)
	<-done
}

// A Pull rings the bell until it is cut, and then sleeps on its own.
func TestPull(t *testing.T) {
	var b Bell
	p := NewPull(&b)
	b.Arm()
	p.Ring()
	if b.Asleep() {
		t.Fatal("the bell was not rung")
	}
	p.Cut()
	b.Arm()
	p.Ring()
	if !b.Asleep() {
		t.Fatal("the bell was rung after Cut")
	}
	p.Arm()
	p.Ring()
	p.Sleep(-1)
}

func await(b *Bell, w *uint64, want uint64) {
	for {
		b.Arm()
		if atomic.LoadUint64(w) >= want {
			b.Disarm()
			return
		}
		b.Sleep(-1)
	}
}
