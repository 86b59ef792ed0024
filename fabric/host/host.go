package host

import (
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
)

// Polls and yields before the process sleeps, with a core per process and without. The polls take
// some 200 µs, the yields a millisecond or more: a peer that copies a megabyte takes as long, and a
// wake-up after it costs 30 µs. Other goroutines run at each yield.
//
// Without a core per process the length of a yield depends on the other processes, and yielding
// processes delay each other: 31 waiting processes on two cores took 40 ms for a thousand yields
// each. So a time limit ends the yields there: a millisecond, or some turns of all that share a core. A limit that is shorter
// than one turn has them all sleep in each wait, and all be woken.
const (
	dedicatedSpins  = 20_000
	dedicatedYields = 10_000
	sharedYields    = 1_000
	sharedMost      = fabric.Time(1_000_000)
	sharedTurns     = fabric.Time(40_000) // for each rank that shares the core
)

// Host implements fabric.Host on the real machine. Any goroutine may call Ring, one at a time Arm,
// Sleep and Disarm, any the rest.
type Host struct {
	bell          *futex.Pull
	origin        time.Time
	shared        bool
	processors    int // of Go's scheduler in New
	turns         atomic.Uint32
	spins, yields int
	most          fabric.Time   // time limit of the yields; Forever: their number decides
	nap           time.Duration // the part of a sleep that is a nap
}

// Config describes the surroundings of the process.
type Config struct {
	// Bell is the process's bell; nil makes a private one.
	Bell *futex.Pull
	// Shared: this node has more processes of the job than cores.
	Shared bool
	// Ranks is the number of them; it counts where they are Shared.
	Ranks int
	// Spins and Yields are the results of Patience; nil takes the values for Shared.
	Spins, Yields *int
}

// New makes the host of this process.
func New(cfg Config) *Host {
	if cfg.Bell == nil {
		cfg.Bell = futex.NewPull(nil)
	}
	h := &Host{bell: cfg.Bell, origin: time.Now(), shared: cfg.Shared, processors: runtime.GOMAXPROCS(0)}
	h.spins, h.yields, h.most = dedicatedSpins, dedicatedYields, fabric.Forever
	if h.shared {
		h.spins, h.yields = 0, sharedYields
		h.most = max(sharedMost, sharedTurns*fabric.Time(cfg.Ranks/runtime.NumCPU()))
	}
	if h.shared && h.processors > 1 && !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1") {
		h.nap = napMost
	}
	if cfg.Spins != nil {
		h.spins = *cfg.Spins
	}
	if cfg.Yields != nil {
		h.yields, h.most = *cfg.Yields, fabric.Forever
	}
	return h
}

// Now is the monotonic time since New.
func (h *Host) Now() fabric.Time { return fabric.Time(time.Since(h.origin)) }

// Go starts a goroutine.
func (h *Host) Go(fn func()) { go fn() }

// Pause implements fabric.Host.
func (h *Host) Pause(d fabric.Time) { time.Sleep(time.Duration(d)) }

// Patience implements fabric.Host.
func (h *Host) Patience() (spins, yields int, most fabric.Time) {
	return h.spins, h.yields, h.most
}

// Yield lets other goroutines and, where cores are shared, other processes run.
func (h *Host) Yield() {
	runtime.Gosched()
	if h.shared {
		schedYield()
	}
}

// schedYield is sched_yield without notice to Go's scheduler, which would take the processor from
// the waiting thread and hand it to another.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// relaxStride is the number of turns of a polling process between two in which it lets its own
// goroutines run that have no processor: about a millisecond if other processes use the core.
const relaxStride = 512

// Relax implements fabric.Host. Where the process has a second processor, Go's scheduler wakes a
// thread for it at every Gosched, for the goroutine that has just yielded: two system calls and two
// switches on cores that other processes wait for.
func (h *Host) Relax() {
	if h.shared && h.processors > 1 && h.turns.Add(1)%relaxStride != 0 {
		schedYield()
		return
	}
	h.Yield()
}

// longTurn is the time after which goroutines of the application count as computing.
const longTurn = 200 * time.Microsecond

// Wanted implements fabric.Host. A goroutine that blocks in a system call keeps its processor until
// the monitor of Go's runtime takes it away, which has been 10 ms after the last time that it looked.
func (h *Host) Wanted() bool {
	start := time.Now()
	runtime.Gosched()
	return time.Since(start) > longTurn
}

// Arm implements fabric.Host.
func (h *Host) Arm() { h.bell.Arm() }

// Disarm implements fabric.Host.
func (h *Host) Disarm() { h.bell.Disarm() }

// Ring implements fabric.Host.
func (h *Host) Ring() { h.bell.Ring() }

// napMost is how long a goroutine that sleeps keeps its processor of Go's scheduler, where other
// processes use the cores. Without it Go's monitor takes the processor, and then rests until the
// wake-up, after which it looks at least 50 times every 20 µs: on two cores half of the turns of 16
// ranks were their monitors'. Other goroutines lose one processor during a nap. The runtime ends it by
// a signal, after 10 ms or to stop the world.
const napMost = 10 * time.Millisecond

// Sleep implements fabric.Host.
func (h *Host) Sleep(until fabric.Time) {
	if left := time.Duration(until - h.Now()); min(left, h.nap) > 0 {
		h.bell.Nap(min(left, h.nap))
	}
	if until == fabric.Forever {
		h.bell.Sleep(-1)
		return
	}
	h.bell.Sleep(max(0, time.Duration(until-h.Now())))
}

// parker is a token that waits to be taken.
type parker struct {
	host  *Host
	token chan struct{}
	timer *time.Timer // made at the first park with a deadline
}

// NewParker implements fabric.Host.
func (h *Host) NewParker() fabric.Parker { return &parker{host: h, token: make(chan struct{}, 1)} }

// Park implements fabric.Parker.
func (p *parker) Park() { <-p.token }

// ParkUntil implements fabric.Parker.
func (p *parker) ParkUntil(deadline fabric.Time) {
	left := time.Duration(deadline - p.host.Now())
	if p.timer == nil {
		p.timer = time.NewTimer(left)
	} else {
		p.timer.Reset(left)
	}
	select {
	case <-p.token:
	case <-p.timer.C:
	}
	p.timer.Stop()
}

// Unpark implements fabric.Parker.
func (p *parker) Unpark() {
	select {
	case p.token <- struct{}{}:
	default:
	}
}

var _ fabric.Host = (*Host)(nil)
