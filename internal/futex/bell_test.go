package futex

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

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
	p.Arm()
	p.Ring()
	if b.Asleep() {
		t.Fatal("the bell was not rung")
	}
	p.Cut()
	b.Arm()
	p.Arm()
	p.Ring()
	if !b.Asleep() {
		t.Fatal("the bell was rung after Cut")
	}
	p.Sleep(-1)
}

// dyingRing is the part of Ring before the system call.
func dyingRing(b *Bell) {
	if b.asleep.CompareAndSwap(1, 0) {
		b.count.Add(1)
	}
}

// A process that was killed while it rang does not keep the owner from the rings of its own process, such as that of
// the goroutine that sees the death.
func TestRingAfterADyingRing(t *testing.T) {
	var b Bell
	p := NewPull(&b)
	for _, ring := range []func(){p.Ring, p.Call} {
		p.Arm()
		woken := asleep(t, p.Sleep)
		dyingRing(&b)
		woken(ring)
	}
}

// A ring that is late by a sleep ends the next one.
func TestLateRing(t *testing.T) {
	var b Bell
	b.Arm()
	b.asleep.CompareAndSwap(1, 0)
	b.Sleep(-1)
	b.Arm()
	woken := asleep(t, b.Sleep)
	woken(func() {
		b.count.Add(1)
		wake(&b.count)
	})
}

// A process that was killed while it summoned the owner does not keep it from the rings of others.
func TestRingAfterADyingSummons(t *testing.T) {
	var b Bell
	for _, ring := range []func(){b.Ring, b.Summon} {
		b.Arm()
		woken := asleep(t, b.Sleep)
		b.count.Add(1) // and no wake
		woken(ring)
	}
}

// asleep calls sleep and returns when that sleeps. It gives a function that rings and waits for the end of the sleep.
func asleep(t *testing.T, sleep func(d time.Duration)) (woken func(ring func())) {
	t.Helper()
	usual := lostRing
	lostRing = time.Hour
	t.Cleanup(func() { lostRing = usual })
	var thread atomic.Int32
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and the thread ends with this
		thread.Store(int32(unix.Gettid()))
		sleep(-1)
		close(done)
	}()
	awaitSleep(t, &thread)
	return func(ring func()) {
		ring()
		<-done
	}
}

// awaitSleep waits until a thread sleeps in the kernel.
func awaitSleep(t *testing.T, thread *atomic.Int32) {
	t.Helper()
	for {
		id := thread.Load()
		if id == 0 {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", id))
		if err != nil {
			t.Fatal(err)
		}
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "S") {
			return
		}
	}
}

// A sleep without a limit finds a ring that nobody has completed.
func TestDyingRingIsFound(t *testing.T) {
	var b Bell
	b.Arm()
	time.AfterFunc(lostRing/4, func() { dyingRing(&b) }) // in the middle of the wait, or else it ends at once
	b.Sleep(-1)
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
