package strangers

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

// Run floods until ctx ends, or the total is made and has left. It returns what
// was done also when ctx ends, which is no error; the error is of the Config only.
func Run(ctx context.Context, c Config) (Report, error) {
	if err := c.check(); err != nil {
		return Report{}, err
	}
	// On a thread of its own it sleeps in the kernel; the runtime's timers cost
	// several times the processor that a stranger does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := &flood{Config: c, to: sockaddr(c), report: newReport(), random: rand.New(rand.NewPCG(c.Seed, 0))}
	for range 8 * noiseMax {
		f.noise = append(f.noise, byte(f.random.Uint32()))
	}
	before := processorTime()
	if c.Crowd > 0 {
		f.crowd(ctx)
	} else {
		f.run(ctx)
	}
	f.report.Processor = processorTime() - before
	return f.report, nil
}

// processorTime is what this thread has taken.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u) // fails only for a bad address
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// flood is the state of a Run.
type flood struct {
	Config
	to     unix.Sockaddr
	random *rand.Rand
	noise  []byte // random, never written to
	report Report
	made   int
	coming []*stranger // those that are not connected yet
	guests []*stranger // those that stay, in the order in which they leave
}

// stranger is one that stays.
type stranger struct {
	kind   Kind
	fd     int
	leaves time.Time
	speaks time.Time // when the next byte of rest is due
	rest   []byte
}

// notInTime is among the reasons of failures: the queue of the port was full.
const notInTime = "not connected in time"

const (
	// dozeMax bounds how long the end of ctx is not noticed.
	dozeMax = 20 * time.Millisecond
	// dozeMin makes strangers come in small groups above 250 a second. On a virtual
	// machine to sleep and to wake costs as much as a stranger; half of the flood's
	// own disturbance would be that.
	dozeMin = 4 * time.Millisecond
)

func (f *flood) run(ctx context.Context) {
	begin := time.Now()
	for ctx.Err() == nil && (f.more() || len(f.coming)+len(f.guests) > 0) {
		now := time.Now()
		f.greet(now)
		for f.more() && !now.Before(f.due(begin)) {
			f.make(now)
		}
		if !f.more() && f.report.Elapsed == 0 {
			f.report.Elapsed = max(time.Since(begin), f.due(begin).Sub(begin))
		}
		f.drip(now)
		f.leave(now)
		if f.more() || len(f.coming)+len(f.guests) > 0 {
			f.doze(begin)
		}
	}
	if f.report.Elapsed == 0 {
		f.report.Elapsed = time.Since(begin)
	}
	f.dismiss(begin)
}

// dismiss ends all that are there.
func (f *flood) dismiss(begin time.Time) {
	f.greet(begin.Add(math.MaxInt64)) // nobody waits any more
	for _, s := range f.guests {
		f.end(s)
	}
}

// more reports whether strangers are still to be made.
func (f *flood) more() bool { return f.Total == 0 || f.made < f.Total }

// due is when the next one is.
func (f *flood) due(begin time.Time) time.Time {
	return begin.Add(time.Duration(float64(f.made) / f.Rate * float64(time.Second)))
}

// doze sleeps until something is due, and not less than dozeMin.
func (f *flood) doze(begin time.Time) {
	now := time.Now()
	next := now.Add(dozeMax)
	if f.more() {
		next = earlier(next, f.due(begin))
	}
	if len(f.coming) > 0 {
		next = now // they are looked at again after the shortest time
	}
	for i, s := range f.guests {
		if i == 0 {
			next = earlier(next, s.leaves)
		}
		if len(s.rest) > 1 {
			next = earlier(next, s.speaks)
		}
	}
	sleep(max(dozeMin, next.Sub(now)))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// make lets one connect. On the loopback it is connected when the call returns,
// although the call says that it is not yet so; only where the port's queue is full
// it takes longer, and is not waited for.
func (f *flood) make(now time.Time) {
	kind := f.Kinds[f.made%len(f.Kinds)]
	if kind == Forging && f.Hello == nil {
		kind = Noisy
	}
	f.made++
	f.report.Made[kind.String()]++
	fd, err := connect(f.to)
	if err != nil {
		f.report.Failed[err.Error()]++
		return
	}
	if s := (&stranger{kind: kind, fd: fd, leaves: now.Add(f.Stay)}); !f.meet(s, now) {
		f.coming = append(f.coming, s)
	}
}

// connect begins a connection.
func connect(to unix.Sockaddr) (int, error) {
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

// greet looks again at those that were not connected.
func (f *flood) greet(now time.Time) {
	f.coming = slices.DeleteFunc(f.coming, func(s *stranger) bool { return f.meet(s, now) })
}

// meet lets a stranger begin if it is connected, and ends one that cannot be. It
// reports whether it is one of these.
func (f *flood) meet(s *stranger, now time.Time) bool {
	if _, err := unix.Getpeername(s.fd); err == nil {
		f.report.Connected++
		f.begin(s, now)
		return true
	}
	why := failure(s.fd)
	if why == "" && !now.Before(s.leaves) {
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

// begin does what a kind does once it is connected.
func (f *flood) begin(s *stranger, now time.Time) {
	switch s.kind {
	case Leaving:
		unix.Close(s.fd)
		return
	case Noisy:
		f.say(s, f.nonsense(1+f.random.IntN(noiseMax)))
	case Forging:
		f.say(s, f.Hello())
	case Slow:
		s.rest, s.speaks = f.nonsense(noiseMax), now
		if f.Hello != nil {
			s.rest = f.Hello()
		}
	case Babbling:
		s.speaks = now
	}
	f.guests = append(f.guests, s)
}

// sockaddr is a port in the system's words.
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

// nonsense is n random bytes, of which others may be talking already.
func (f *flood) nonsense(n int) []byte {
	from := f.random.IntN(len(f.noise) - n)
	return f.noise[from : from+n : from+n]
}

// say sends what the kernel takes; a port that has closed is found when leaving.
func (f *flood) say(s *stranger, b []byte) {
	_ = unix.Sendto(s.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}

// drip lets the slow ones say their next byte, but never the last, and the babbling ones
// some more.
func (f *flood) drip(now time.Time) {
	for _, s := range f.guests {
		if s.kind == Babbling && !now.Before(s.speaks) {
			f.say(s, f.nonsense(1+f.random.IntN(noiseMax)))
			s.speaks = now.Add(f.Drip)
		}
		if len(s.rest) > 1 && !now.Before(s.speaks) {
			f.say(s, s.rest[:1])
			s.rest, s.speaks = s.rest[1:], s.speaks.Add(f.Drip)
		}
	}
}

// leave ends those whose time is over.
func (f *flood) leave(now time.Time) {
	for len(f.guests) > 0 && !now.Before(f.guests[0].leaves) {
		f.end(f.guests[0])
		f.guests = f.guests[1:]
	}
}

// end looks at what has become of a connection and resets it: 1000 orderly ends a
// second would use up the machine's ports in half a minute.
func (f *flood) end(s *stranger) {
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

// receive takes what has come, and tells whether the other side has ended the
// connection.
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
