package flusher

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/release"
)

const (
	// dedicated is the time between two looks, shared the same where ranks share cores, and each look delays one
	// of them. turns is the number of looks without frames after which the flusher sleeps.
	dedicated = 20 * time.Microsecond
	shared    = 100 * time.Microsecond
	turns     = 8
	// slower is the factor by which looks at a process that goes on calling become rarer: each takes a core from a
	// rank for a moment.
	slower = 32
	// hold is how long the flusher keeps a processor of Go's scheduler before it asks whether others want it.
	hold = 500 * time.Microsecond
)

// Flusher is the goroutine, and its state shared with the goroutine that calls the provider. The latter calls the
// methods.
type Flusher struct {
	bell  *futex.Pull
	done  chan struct{}
	stop  atomic.Bool
	flush func() bool
	// series counts the beginnings and ends of times in which something waits: it is odd while it does. The
	// provider's caller writes it, the flusher reads it.
	series atomic.Uint64
	// locked guards the waiting frames while series is odd, and flushed: the flusher has sent those of this series.
	locked  atomic.Uint32
	flushed bool

	// Of the flusher:
	sent     uint64        // the last series that it has sent
	held     time.Duration // that it has kept its processor without a question
	runnable [1]metrics.Sample
}

// New starts a flusher. flush sends the waiting frames and reports whether none waits any more; errors are left to the
// provider's caller. If Go has one processor, on which the application may compute, a flusher is of no use.
func New(sharedCores bool, flush func() bool) *Flusher {
	f := &Flusher{bell: futex.NewPull(nil), done: make(chan struct{}), flush: flush}
	f.runnable[0].Name = "/sched/goroutines/runnable:goroutines"
	metrics.Read(f.runnable[:]) // the first allocates
	pause := dedicated
	if sharedCores {
		pause = shared
	}
	go f.run(pause)
	return f
}

// Close ends the goroutine. Frames that wait then, and later, are left to the provider's caller.
func (f *Flusher) Close() {
	f.stop.Store(true)
	f.bell.Ring()
	<-f.done
}

// Begin reports that frames wait. Precondition: none did.
func (f *Flusher) Begin() {
	f.series.Add(1)
	f.bell.Ring()
}

// Waits reports whether something waits: there was a Begin since the last End.
func (f *Flusher) Waits() bool { return f.series.Load()%2 == 1 }

// End reports that no frames wait any more, or that the caller sends them. Precondition: Waits.
func (f *Flusher) End() {
	f.Lock()
	f.series.Add(1)
	f.flushed = false
	f.Unlock()
}

// Lock keeps the flusher from sending, so that the waiting frames may be changed.
func (f *Flusher) Lock() {
	for tries := 1; !f.locked.CompareAndSwap(0, 1); tries++ {
		release.Pause()
		if tries%64 == 0 { // the other has lost its processor
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			runtime.Gosched()
		}
	}
}

// Unlock undoes Lock.
func (f *Flusher) Unlock() { f.locked.Store(0) }

// Joined is Unlock after frames have joined those that wait.
func (f *Flusher) Joined() {
	again := f.flushed
	f.flushed = false
	f.Unlock()
	if again {
		f.series.Add(2)
		f.bell.Ring()
	}
}

func (f *Flusher) run(between time.Duration) {
	runtime.LockOSThread() // for the timer's precision
	defer runtime.UnlockOSThread()
	defer close(f.done)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for !f.stop.Load() {
		f.bell.Arm()
		if !f.unsent(f.series.Load()) && !f.stop.Load() {
			f.bell.Sleep(-1)
		}
		f.bell.Disarm()
		f.watch(between)
	}
}

// unsent reports whether something waits in a series that the flusher has not sent.
func (f *Flusher) unsent(series uint64) bool { return series%2 != 0 && series != f.sent }

// watch looks until nothing has waited for some turns.
func (f *Flusher) watch(between time.Duration) {
	last := f.series.Load()
	pace, pause := between, between
	for idle := 0; idle < turns && !f.stop.Load(); {
		f.rest(pause)
		now := f.series.Load()
		if idle++; f.unsent(now) {
			idle = 0
		}
		switch {
		case now == last && f.unsent(now) && f.send(now):
			f.sent, pause = now, between
		case now == f.sent: // it has not called since: it computes
			pace, pause = between, between
		case f.unsent(now) && pause == pace && pace > between:
			pause = between // to see soon whether it still waits
		default:
			pace = min(2*pace, slower*between)
			pause = pace
		}
		last = now
	}
}

// rest sleeps for d. Go's monitor takes the processor of a thread that sleeps in a system call of which the scheduler
// knows, and then looks every 20 µs for the next one. So the scheduler does not learn of it, and other goroutines that
// wait for a processor get this one now and then.
func (f *Flusher) rest(d time.Duration) {
	if f.held += d; f.held >= hold {
		f.held = 0
		if metrics.Read(f.runnable[:]); f.runnable[0].Value.Uint64() > 0 {
			runtime.Gosched()
		}
	}
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// send flushes, unless a call has come since. It reports whether nothing of the series waits any more.
func (f *Flusher) send(series uint64) bool {
	f.Lock()
	defer f.Unlock()
	if f.series.Load() != series {
		return false
	}
	f.flushed = f.flush()
	return f.flushed
}
