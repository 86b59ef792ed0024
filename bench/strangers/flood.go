package strangers

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
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
	f := &flood{Config: c, to: sockaddr(c.To), report: newReport(), random: rand.New(rand.NewPCG(c.Seed, 0))}
	f.run(ctx)
	return f.report, nil
}

// flood is the state of a Run.
type flood struct {
	Config
	to     unix.Sockaddr
	random *rand.Rand
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
	dozeMax = 5 * time.Millisecond
	// comingEvery is when those that are not connected are looked at again.
	comingEvery = time.Millisecond
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
		f.doze(begin)
	}
	if f.report.Elapsed == 0 {
		f.report.Elapsed = time.Since(begin)
	}
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

// doze sleeps until something is due.
func (f *flood) doze(begin time.Time) {
	next := time.Now().Add(dozeMax)
	if f.more() {
		next = earlier(next, f.due(begin))
	}
	if len(f.coming) > 0 {
		next = earlier(next, time.Now().Add(comingEvery))
	}
	for i, s := range f.guests {
		if i == 0 {
			next = earlier(next, s.leaves)
		}
		if len(s.rest) > 0 {
			next = earlier(next, s.speaks)
		}
	}
	if d := time.Until(next); d > 0 {
		t := unix.NsecToTimespec(d.Nanoseconds())
		_ = unix.Nanosleep(&t, nil) // a signal ends it early: then nothing is due
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// make lets one connect. It does not wait for the connection: some kernels make
// those of the loopback at once, others a little later, and none when the port's
// queue is full.
func (f *flood) make(now time.Time) {
	kind := Kind(f.made % int(kinds))
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
	f.coming = append(f.coming, &stranger{kind: kind, fd: fd, leaves: now.Add(f.Stay)})
}

// connect begins a connection.
func connect(to unix.Sockaddr) (int, error) {
	family := unix.AF_INET
	if _, six := to.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// greet lets those begin that have been connected.
func (f *flood) greet(now time.Time) {
	f.coming = slices.DeleteFunc(f.coming, func(s *stranger) bool {
		if _, err := unix.Getpeername(s.fd); err == nil {
			f.report.Connected++
			f.begin(s, now)
			return true
		}
		why := failure(s.fd)
		if why == "" && !now.Before(s.leaves) {
			why = notInTime
		}
		if why != "" {
			f.report.Failed[why]++
			unix.Close(s.fd)
		}
		return why != ""
	})
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
		f.say(s, f.noise(1+f.random.IntN(noiseMax)))
	case Forging:
		f.say(s, f.Hello())
	case Slow:
		s.rest, s.speaks = f.noise(noiseMax), now
		if f.Hello != nil {
			s.rest = f.Hello()
		}
	}
	f.guests = append(f.guests, s)
}

// sockaddr is a port in the system's words.
func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if a := to.Addr().Unmap(); a.Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

func (f *flood) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.random.Uint32())
	}
	return b
}

// say sends what the kernel takes; a port that has closed is found when leaving.
func (f *flood) say(s *stranger, b []byte) {
	_ = unix.Sendto(s.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}

// drip lets the slow ones say their next byte, but never the last.
func (f *flood) drip(now time.Time) {
	for _, s := range f.guests {
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
