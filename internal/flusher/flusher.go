package flusher

import (
	"runtime"
	"sync/atomic"
	"time"

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
)

// Flusher is the goroutine, and its state shared with the goroutine that calls the provider. The latter calls the
// methods.
type Flusher struct {
	bell  *futex.Pull
	done  chan struct{}
	stop  atomic.Bool
	flush func()
	// series counts the beginnings and ends of times in which something waits: it is odd while it does. The
	// provider's caller writes it, the flusher reads it.
	series atomic.Uint64
	// held guards the waiting frames while series is odd.
	held atomic.Uint32
}

// New starts a flusher. flush sends the waiting frames; errors are left to the provider's caller. If Go has one
// processor, on which the application may compute, a flusher is of no use.
func New(sharedCores bool, flush func()) *Flusher {
	f := &Flusher{bell: futex.NewPull(nil), done: make(chan struct{}), flush: flush}
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
	f.Unlock()
}

// Lock keeps the flusher from sending, so that the waiting frames may be changed.
func (f *Flusher) Lock() {
	for tries := 1; !f.held.CompareAndSwap(0, 1); tries++ {
		release.Pause()
		if tries%64 == 0 { // the other has lost its processor
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			runtime.Gosched()
		}
	}
}

// Unlock undoes Lock.
func (f *Flusher) Unlock() { f.held.Store(0) }

func (f *Flusher) run(between time.Duration) {
	runtime.LockOSThread() // for the timer's precision
	defer runtime.UnlockOSThread()
	defer close(f.done)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	pause := unix.NsecToTimespec(int64(between))
	for !f.stop.Load() {
		f.bell.Arm()
		if !f.Waits() && !f.stop.Load() {
			f.bell.Sleep(-1)
		}
		f.bell.Disarm()
		last := f.series.Load()
		for idle := 0; idle < turns && !f.stop.Load(); {
			_ = unix.Nanosleep(&pause, nil)
			now := f.series.Load()
			switch {
			case now%2 == 0:
				idle++
			case now == last:
				f.send(now)
				fallthrough
			default:
				idle = 0
			}
			last = now
		}
	}
}

func (f *Flusher) send(series uint64) {
	f.Lock()
	if f.series.Load() == series {
		f.flush()
	}
	f.Unlock()
}
