package intrusion

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// port listens and keeps the data of each connection until it ended.
type port struct {
	net.Listener
	mu    sync.Mutex
	said  [][]byte
	reset int // connections that were reset
	ended sync.WaitGroup
}

// listen serves each connection with serve, which may end it early.
func listen(t *testing.T, address string, serve func(c *net.TCPConn)) *port {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	p := &port{Listener: l}
	p.ended.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.ended.Go(func() { p.take(c.(*net.TCPConn), serve) })
		}
	})
	t.Cleanup(p.end)
	return p
}

func (p *port) take(c *net.TCPConn, serve func(c *net.TCPConn)) {
	defer c.Close()
	serve(c)
	b, err := io.ReadAll(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, b)
	if errors.Is(err, unix.ECONNRESET) {
		p.reset++
	}
}

// await returns when so many connections have been taken, and have left. The end of a port drops
// those that wait.
func (p *port) await(n int) {
	for taken := 0; taken < n; runtime.Gosched() {
		p.mu.Lock()
		taken = len(p.said)
		p.mu.Unlock()
	}
}

// end returns when all connections have.
func (p *port) end() {
	p.Close()
	p.ended.Wait()
}

func (p *port) addr() netip.AddrPort { return p.Addr().(*net.TCPAddr).AddrPort() }

func patient(*net.TCPConn) {}

// The port observes the same as the report, at both families.
func TestFlood(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		p := listen(t, address, patient)
		hellos := 0
		hello := func() []byte { hellos++; return []byte("open, sesame") }
		const total = 200
		r, err := Run(t.Context(), Config{To: p.addr(), Rate: 4000, Total: total, Hello: hello,
			Stay: 40 * time.Millisecond, ByteEvery: 10 * time.Millisecond})
		require.NoError(t, err)
		p.await(total)
		p.end() // all have left: this would wait for them
		require.Equal(t, map[string]int{"leaving": 40, "silent": 40, "noisy": 40, "forging": 40, "slow": 40}, r.Made)
		require.Equal(t, total, r.Connected)
		require.Equal(t, total, r.Total())
		require.Empty(t, r.Failed)
		require.Empty(t, r.Dropped, "the port was patient")
		require.Zero(t, r.Answered)
		require.Equal(t, 80, hellos)
		require.Len(t, p.said, total)
		require.Positive(t, p.reset)
		require.LessOrEqual(t, p.reset, 160, "those that leave at once leave in order")

		forged, silent, slow := 0, 0, 0
		for _, b := range p.said {
			switch {
			case len(b) == 0:
				silent++
			case string(b) == "open, sesame":
				forged++
			case bytes.HasPrefix([]byte("open, sesame"), b):
				slow++
			}
		}
		require.Equal(t, 40, forged, "all of it, and the slow ones never the last byte")
		require.GreaterOrEqual(t, silent, 80)
		require.Positive(t, slow)
		require.GreaterOrEqual(t, r.Elapsed, 50*time.Millisecond, "200 at 4000 a second")
		require.LessOrEqual(t, r.Rate(), 4000.0)
	}
}

// Without a protocol there is no forging; the port's answers and resets are reported.
func TestFloodOfAPortThatAnswers(t *testing.T) {
	p := listen(t, "127.0.0.1:0", func(c *net.TCPConn) {
		_, _ = c.Write([]byte("who?")) // fails when it has left already
		_ = c.SetReadDeadline(time.Unix(1, 0))
	})
	r, err := Run(t.Context(), Config{To: p.addr(), Rate: 1000, Total: 50, Stay: 2 * time.Second})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"leaving": 10, "silent": 10, "noisy": 20, "slow": 10}, r.Made)
	require.Equal(t, 50, r.Connected)
	require.Positive(t, r.Answered)
	require.Equal(t, 4, r.AnswerMax)
	require.Positive(t, r.Dropped["silent"])
	require.Zero(t, r.Dropped["leaving"])
	require.Contains(t, r.String(), "50 connections")
	require.Contains(t, r.String(), "got an answer, of at most 4 bytes")
}

// The end of ctx ends it, and all connections are closed.
func TestFloodUntilCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var enough sync.Once
	p := listen(t, "127.0.0.1:0", func(*net.TCPConn) { enough.Do(cancel) })
	before := descriptors(t)
	r, err := Run(ctx, Config{To: p.addr(), Rate: 2000, Stay: 2 * time.Second})
	require.NoError(t, err)
	require.Positive(t, r.Connected)
	require.Positive(t, r.Elapsed)
	p.end()
	require.Less(t, descriptors(t), before, "its own are closed, and the listener")
	r, err = Run(ctx, Config{To: p.addr(), Rate: 2000})
	require.NoError(t, err)
	require.Zero(t, r.Total())
	require.Zero(t, (&Report{}).Rate())
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// A crowd stays, and comes back when it is dropped.
func TestCrowd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var came, talked atomic.Int32
	p := listen(t, "127.0.0.1:0", func(c *net.TCPConn) {
		if n := came.Add(1); n <= 5 {
			_ = c.SetReadDeadline(time.Unix(1, 0)) // it is dropped
			return
		}
		for n, err := c.Read(make([]byte, noiseMax)); err == nil; n, err = c.Read(make([]byte, noiseMax)) {
			if talked.Add(int32(n)) > 5*noiseMax && came.Load() >= 25 {
				cancel()
			}
		}
	})
	r, err := Run(ctx, Config{To: p.addr(), Rate: 1000, Held: 20, Kinds: []Kind{Silent, Babbling},
		ByteEvery: time.Millisecond})
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Connected, 25)
	require.Equal(t, 5, r.Dropped["silent"]+r.Dropped["babbling"])
	require.Greater(t, talked.Load(), int32(5*noiseMax))
}

// A port without a listener refuses all.
func TestFloodOfNobody(t *testing.T) {
	p := listen(t, "127.0.0.1:0", patient)
	p.end()
	r, err := Run(t.Context(), Config{To: p.addr(), Rate: 5000, Total: 25})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"connection refused": 25}, r.Failed)
	require.Zero(t, r.Connected)
	require.Contains(t, r.String(), "25 failed: connection refused")
}

// A port whose queue is full delays connections; the flood does not wait for them.
func TestFloodOfAFullQueue(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 1))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*unix.SockaddrInet4).Port))
	r, err := Run(t.Context(), Config{To: to, Rate: 5000, Total: 20, Stay: 20 * time.Millisecond})
	require.NoError(t, err)
	require.Positive(t, r.Failed[notInTime])
	require.Equal(t, 20, r.Connected+r.Failed[notInTime])
}

func TestReportAdd(t *testing.T) {
	var sum Report
	for range 2 {
		r := Report{Elapsed: time.Second, Processor: time.Millisecond, Made: map[string]int{"slow": 3}, Connected: 2,
			Failed: map[string]int{"x": 1}, Dropped: map[string]int{"slow": 1}, Answered: 1, AnswerMax: 7}
		sum.Add(r)
	}
	require.Equal(t, Report{Elapsed: 2 * time.Second, Processor: 2 * time.Millisecond, Made: map[string]int{"slow": 6},
		Connected: 4, Failed: map[string]int{"x": 2}, Dropped: map[string]int{"slow": 2}, Answered: 2, AnswerMax: 7},
		sum)
	require.Equal(t, 2.0, sum.Rate())
}

func TestConfig(t *testing.T) {
	good := Config{To: netip.MustParseAddrPort("127.0.0.1:9"), Rate: 1000}
	for words, spoil := range map[string]func(*Config){
		"no port":                func(c *Config) { c.To = netip.AddrPort{} },
		"127.0.0.1:0 is no port": func(c *Config) { c.To = netip.MustParseAddrPort("127.0.0.1:0") },
		"0 a second":             func(c *Config) { c.Rate = 0 },
		"at most 100000":         func(c *Config) { c.Rate = 1e6 },
		"cannot be negative":     func(c *Config) { c.ByteEvery = -1 },
		"more than 4096 at once": func(c *Config) { c.Stay = 5 * time.Second },
		"5000 held":              func(c *Config) { c.Held = 5000 },
		"cannot be leaving ones": func(c *Config) { c.Held = 5 },
	} {
		c := good
		spoil(&c)
		_, err := Run(t.Context(), c)
		require.ErrorContains(t, err, words)
	}
}

// BenchmarkConnection is the CPU time of one connection, without the side of the port.
func BenchmarkConnection(b *testing.B) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(b, err)
	defer unix.Close(fd)
	require.NoError(b, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(b, unix.Listen(fd, 4096))
	name, err := unix.Getsockname(fd)
	require.NoError(b, err)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*unix.SockaddrInet4).Port))
	done := make(chan struct{})
	go func() { // until the socket is shut down
		defer close(done)
		for {
			c, _, err := unix.Accept(fd)
			if err != nil {
				return
			}
			unix.Close(c)
		}
	}()
	var before, after unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &before))
	r, err := Run(b.Context(), Config{To: to, Rate: 1000, Total: b.N,
		Hello: func() []byte { return make([]byte, 64) }})
	require.NoError(b, err)
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &after))
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(cpu)/1e3/float64(b.N), "cpu-µs/connection")
	b.ReportMetric(float64(r.Processor)/1e3/float64(b.N), "flood-cpu-µs/connection")
	b.ReportMetric(r.Rate(), "connections/s")
	require.NoError(b, unix.Shutdown(fd, unix.SHUT_RDWR))
	<-done
}
