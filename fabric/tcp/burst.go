package tcp

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/release"
)

// A burst is a series of short frames to one peer, with no other call of this provider in between.
// Its first frame is written at once. The others stay in the outbox until the next call that polls,
// prepares to sleep or sends to another peer, or until there are burstBytes of them: one system call
// writes them all. If the process computes instead, the flusher, a goroutine, writes them.
//
// Inside Poll the rest is written when it ends.

const (
	// burstFrame is the length from which a payload does not wait for others.
	burstFrame = directSend
	// burstBytes bounds what waits.
	burstBytes = 32 << 10
	// flushPause is the time between two looks of the flusher, which writes what is there in two of
	// them; sharedPause the same where ranks share cores, and each look delays one of them.
	// flushTurns is the number of looks without frames after which it sleeps.
	flushPause  = 20 * time.Microsecond
	sharedPause = 100 * time.Microsecond
	flushTurns  = 8
)

// flusher is the goroutine, and what it shares with the one that calls the provider.
type flusher struct {
	bell *futex.Pull
	done chan struct{}
	stop atomic.Bool
	out  vector
	// series counts the beginnings and ends of bursts with frames that wait: it is odd while there
	// are some. The provider's caller writes it, the flusher reads it.
	series atomic.Uint64
	// held guards conn and its outbox while series is odd.
	held atomic.Uint32
	conn *Conn
}

// newFlusher starts it; nil where Go has one processor, which the application may compute on.
func newFlusher(pause time.Duration) *flusher {
	if runtime.GOMAXPROCS(0) < 2 {
		return nil
	}
	f := &flusher{bell: futex.NewPull(nil), done: make(chan struct{})}
	go f.run(pause)
	return f
}

func (f *flusher) close() {
	f.stop.Store(true)
	f.bell.Ring()
	<-f.done
}

func (f *flusher) lock() {
	for tries := 1; !f.held.CompareAndSwap(0, 1); tries++ {
		release.Pause()
		if tries%64 == 0 { // the other has lost its processor
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			runtime.Gosched()
		}
	}
}

func (f *flusher) unlock() { f.held.Store(0) }

func (f *flusher) run(between time.Duration) {
	runtime.LockOSThread() // for the timer's precision
	defer runtime.UnlockOSThread()
	defer close(f.done)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	pause := unix.NsecToTimespec(int64(between))
	for !f.stop.Load() {
		f.bell.Arm()
		if f.series.Load()%2 == 0 && !f.stop.Load() {
			f.bell.Sleep(-1)
		}
		f.bell.Disarm()
		last := f.series.Load()
		for idle := 0; idle < flushTurns && !f.stop.Load(); {
			_ = unix.Nanosleep(&pause, nil)
			now := f.series.Load()
			switch {
			case now%2 == 0:
				idle++
			case now == last:
				f.flush(now)
				fallthrough
			default:
				idle = 0
			}
			last = now
		}
	}
}

// flush writes the frames of a burst. What the socket does not take, and errors, are left to the
// provider's caller.
func (f *flusher) flush(series uint64) {
	f.lock()
	defer f.unlock()
	if f.series.Load() != series {
		return
	}
	c := f.conn
	for c.out.unsent() {
		n := c.out.gather(f.out.pieces[:])
		sent, errno := f.out.send(c.fd, n)
		c.out.wrote(sent)
		if errno != 0 {
			return
		}
	}
}

// joinBurst adds a frame to the burst of the last one; false: it must be written at once.
func (c *Conn) joinBurst(h *header, payload []byte) bool {
	p, f := c.p, c.p.flush
	if f == nil || c.state != up || p.departing || !c.out.room(len(payload)) {
		return false
	}
	switch {
	case p.corked == c:
		if p.sink == nil {
			f.lock()
			c.addShort(h, payload)
			f.unlock()
		} else {
			c.addShort(h, payload)
		}
		if p.waiting += headerBytes + len(payload); p.waiting >= burstBytes {
			p.uncork()
			p.sent = c
		}
		return true
	case c.out.unsent():
		return false
	}
	c.addShort(h, payload)
	p.corked, p.waiting = c, headerBytes+len(payload)
	if p.sink == nil {
		f.conn = c
		f.series.Add(1)
		f.bell.Ring()
	}
	return true
}

func (c *Conn) addShort(h *header, payload []byte) {
	h.taken = c.ack()
	c.add(h, len(payload))
	c.out.append(payload)
}

// endBurst writes the frames that wait. Every call that polls, or changes a connection, makes it first.
func (p *Provider) endBurst() {
	p.sent = nil
	if p.corked != nil {
		p.uncork()
	}
}

func (p *Provider) uncork() {
	c := p.corked
	p.corked = nil
	if f := p.flush; f.series.Load()%2 == 1 {
		f.lock()
		f.series.Add(1)
		f.unlock()
		f.conn = nil
	}
	if c.state == up {
		c.flush()
		c.credit()
	}
}
