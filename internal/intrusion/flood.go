package intrusion

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Run floods until ctx ends, or the total is made and has left. It returns its report also when ctx
// ends, which is no error; the error is of the Config only.
func Run(ctx context.Context, c Config) (Report, error) {
	if err := c.check(); err != nil {
		return Report{}, err
	}
	// On a thread of its own it sleeps in the kernel; the runtime's timers cost several times the
	// processor time of a connection.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := &flood{Config: c, to: sockaddr(c), report: newReport(), rng: rand.New(rand.NewPCG(c.Seed, 0))}
	for range 8 * noiseMax {
		f.noise = append(f.noise, byte(f.rng.Uint32()))
	}
	before := processorTime()
	if c.Held > 0 {
		f.hold(ctx)
	} else {
		f.run(ctx)
	}
	f.report.Processor = processorTime() - before
	return f.report, nil
}

// processorTime is the CPU time of this thread.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u) // fails only for a bad address
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// flood is the state of a Run.
type flood struct {
	Config
	to      unix.Sockaddr
	rng     *rand.Rand
	noise   []byte // random, never written to
	report  Report
	opened  int
	pending []*conn // not connected yet
	open    []*conn // in the order in which they close
}

// conn is a connection that stays open.
type conn struct {
	kind     Kind
	fd       int
	closes   time.Time
	nextByte time.Time // when the next byte of rest is due
	rest     []byte
}

// notInTime is among the reasons of failures: the queue of the port was full.
const notInTime = "not connected in time"

const (
	// pauseMax bounds how long the end of ctx is not noticed.
	pauseMax = 20 * time.Millisecond
	// pauseMin groups connections above 250 a second. On a virtual machine to sleep and to wake
	// costs as much as a connection, so half of the disturbance would be that.
	pauseMin = 4 * time.Millisecond
)

func (f *flood) run(ctx context.Context) {
	begin := time.Now()
	for ctx.Err() == nil && (f.more() || len(f.pending)+len(f.open) > 0) {
		now := time.Now()
		f.checkPending(now)
		for f.more() && !now.Before(f.due(begin)) {
			f.connect(now)
		}
		if !f.more() && f.report.Elapsed == 0 {
			f.report.Elapsed = max(time.Since(begin), f.due(begin).Sub(begin))
		}
		f.trickle(now)
		f.expire(now)
		if f.more() || len(f.pending)+len(f.open) > 0 {
			f.pause(begin)
		}
	}
	if f.report.Elapsed == 0 {
		f.report.Elapsed = time.Since(begin)
	}
	f.closeAll(begin)
}

// closeAll closes all connections.
func (f *flood) closeAll(begin time.Time) {
	f.checkPending(begin.Add(math.MaxInt64)) // the pending ones fail now
	for _, s := range f.open {
		f.reset(s)
	}
}

// more reports whether connections are still to be opened.
func (f *flood) more() bool { return f.Total == 0 || f.opened < f.Total }

// due is when the next one is opened.
func (f *flood) due(begin time.Time) time.Time {
	return begin.Add(time.Duration(float64(f.opened) / f.Rate * float64(time.Second)))
}

// pause sleeps until something is due, and not less than pauseMin.
func (f *flood) pause(begin time.Time) {
	now := time.Now()
	next := now.Add(pauseMax)
	if f.more() {
		next = earlier(next, f.due(begin))
	}
	if len(f.pending) > 0 {
		next = now // they are looked at again after the shortest time
	}
	for i, s := range f.open {
		if i == 0 {
			next = earlier(next, s.closes)
		}
		if len(s.rest) > 1 {
			next = earlier(next, s.nextByte)
		}
	}
	sleep(max(pauseMin, next.Sub(now)))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// connect opens the next one. On the loopback it is connected when the call returns, although the
// call reports EINPROGRESS; it takes longer only where the port's queue is full, and is not
// awaited.
func (f *flood) connect(now time.Time) {
	kind := f.Kinds[f.opened%len(f.Kinds)]
	if kind == Forging && f.Hello == nil {
		kind = Noisy
	}
	f.opened++
	f.report.Made[kind.String()]++
	fd, err := dial(f.to)
	if err != nil {
		f.report.Failed[err.Error()]++
		return
	}
	if s := (&conn{kind: kind, fd: fd, closes: now.Add(f.Stay)}); !f.settle(s, now) {
		f.pending = append(f.pending, s)
	}
}

// dial starts a connection.
func dial(to unix.Sockaddr) (int, error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	switch to.(type) {
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	case *unix.SockaddrUnix:
		family, kind = unix.AF_UNIX, unix.SOCK_SEQPACKET
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkPending settles the pending connections.
func (f *flood) checkPending(now time.Time) {
	f.pending = slices.DeleteFunc(f.pending, func(s *conn) bool { return f.settle(s, now) })
}

// settle starts a connection that is established and drops one that cannot be. It reports whether
// it is one of these.
func (f *flood) settle(s *conn, now time.Time) bool {
	if _, err := unix.Getpeername(s.fd); err == nil {
		f.report.Connected++
		f.start(s, now)
		return true
	}
	why := failure(s.fd)
	if why == "" && !now.Before(s.closes) {
		why = notInTime
	}
	if why == "" {
		return false
	}
	f.report.Failed[why]++
	unix.Close(s.fd)
	return true
}

// failure is the error of a socket, or nothing.
func failure(fd int) string {
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// start runs the behaviour of a kind on an established connection.
func (f *flood) start(s *conn, now time.Time) {
	switch s.kind {
	case Leaving:
		unix.Close(s.fd)
		return
	case Noisy:
		f.send(s, f.random(1+f.rng.IntN(noiseMax)))
	case Forging:
		f.send(s, f.Hello())
	case Slow:
		s.rest, s.nextByte = f.random(noiseMax), now
		if f.Hello != nil {
			s.rest = f.Hello()
		}
	case Babbling:
		s.nextByte = now
	}
	f.open = append(f.open, s)
}

// sockaddr is the address of the port or socket.
func sockaddr(c Config) unix.Sockaddr {
	if c.Path != "" {
		return &unix.SockaddrUnix{Name: c.Path}
	}
	to := c.To
	if a := to.Addr().Unmap(); a.Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

// random returns n random bytes; connections may share them.
func (f *flood) random(n int) []byte {
	from := f.rng.IntN(len(f.noise) - n)
	return f.noise[from : from+n : from+n]
}

// send sends as many bytes as the kernel takes; a closed port is noticed at the end.
func (f *flood) send(s *conn, b []byte) {
	_ = unix.Sendto(s.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}

// trickle sends the next byte of the slow ones, but never the last, and more of the babbling ones.
func (f *flood) trickle(now time.Time) {
	for _, s := range f.open {
		if s.kind == Babbling && !now.Before(s.nextByte) {
			f.send(s, f.random(1+f.rng.IntN(noiseMax)))
			s.nextByte = now.Add(f.ByteEvery)
		}
		if len(s.rest) > 1 && !now.Before(s.nextByte) {
			f.send(s, s.rest[:1])
			s.rest, s.nextByte = s.rest[1:], s.nextByte.Add(f.ByteEvery)
		}
	}
}

// expire closes the connections that have timed out.
func (f *flood) expire(now time.Time) {
	for len(f.open) > 0 && !now.Before(f.open[0].closes) {
		f.reset(f.open[0])
		f.open = f.open[1:]
	}
}

// reset records the state of a connection and resets it: 1000 orderly ends a second would use up
// the machine's ports in half a minute.
func (f *flood) reset(s *conn) {
	defer unix.Close(s.fd)
	answer, dropped := receive(s.fd)
	if dropped {
		f.report.Dropped[s.kind.String()]++
	}
	if answer > 0 {
		f.report.Answered++
		f.report.AnswerMax = max(f.report.AnswerMax, answer)
	}
	_ = unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // else it ends in order
}

// receive drains a connection and reports whether the server has closed it.
func receive(fd int) (bytes int, ended bool) {
	var buf [4096]byte
	for {
		n, _, err := unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT)
		if n <= 0 || err != nil {
			return bytes, !errors.Is(err, unix.EAGAIN)
		}
		bytes += n
	}
}

// hold keeps Config.Held connections open until ctx ends.
func (f *flood) hold(ctx context.Context) {
	begin := time.Now()
	last, owed := begin, 0.0 // replacements that Rate allows
	for ctx.Err() == nil {
		now := time.Now()
		owed = min(owed+f.Rate*now.Sub(last).Seconds(), float64(f.Held))
		last = now
		f.checkPending(now)
		for len(f.pending)+len(f.open) < f.Held && (f.opened < f.Held || owed >= 1) && ctx.Err() == nil {
			if f.opened >= f.Held {
				owed--
			}
			f.connect(now)
		}
		f.trickle(now)
		f.dropEnded()
		sleep(pauseMin)
	}
	f.report.Elapsed = time.Since(begin)
	f.closeAll(begin)
}

// dropEnded resets the connections that the server has closed.
func (f *flood) dropEnded() {
	polls := make([]unix.PollFd, len(f.open))
	for i, s := range f.open {
		polls[i] = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLRDHUP}
	}
	if n, err := unix.Poll(polls, 0); n <= 0 || err != nil {
		return
	}
	i := 0
	f.open = slices.DeleteFunc(f.open, func(s *conn) bool {
		ended := polls[i].Revents != 0
		i++
		if ended {
			f.reset(s)
		}
		return ended
	})
}
