package rendezvous

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// nameServer knows one name. Each question for addresses of IPv4 takes the
// next of its answers, and the last one for ever; for IPv6 it gives those of the
// same turn.
type nameServer struct {
	net.PacketConn
	name    string
	mu      sync.Mutex
	answers [][]string // none: there is no such name
	asked   int        // for IPv4
}

// serveName starts a name server that ends with the test.
func serveName(t *testing.T, conn net.PacketConn, name string, answers ...[]string) *nameServer {
	s := &nameServer{PacketConn: conn, name: name, answers: answers}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 512)
		for {
			n, from, err := s.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = s.WriteTo(s.reply(b[:n]), from)
		}
	}()
	t.Cleanup(func() { s.Close(); <-ended })
	return s
}

func (s *nameServer) turns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// reply answers one question (RFC 1035 4.1): a header of 12 bytes, the labels of
// the name up to an empty one, type and class.
func (s *nameServer) reply(q []byte) []byte {
	end, name := 12, ""
	for q[end] != 0 {
		next := end + 1 + int(q[end])
		name += string(q[end+1:next]) + "."
		end = next
	}
	end += 5
	four := binary.BigEndian.Uint16(q[end-4:]) == 1
	var addrs []string
	if name == s.name {
		s.mu.Lock()
		addrs = s.answers[min(s.asked, len(s.answers)-1)]
		if four {
			s.asked++
		}
		s.mu.Unlock()
	}
	r := append([]byte{q[0], q[1], 0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	if len(addrs) == 0 {
		r[3] |= 3 // no such name
		return r
	}
	for _, text := range addrs {
		a := netip.MustParseAddr(text)
		if a.Is4() != four {
			continue
		}
		r[7]++
		r = append(r, 0xc0, 12) // the name of the question
		r = append(r, q[end-4:end]...)
		r = append(r, 0, 0, 0, 1)
		r = binary.BigEndian.AppendUint16(r, uint16(a.BitLen()/8))
		r = append(r, a.AsSlice()...)
	}
	return r
}

// byName describes a rank whose MASTER_ADDR is a name with these answers.
func byName(t *testing.T, rank, size int, port string, answers ...[]string) (*Config, *nameServer) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	const name = "rank0.banyan.test."
	s := serveName(t, conn, name, answers...)
	p := at(port, rank, size, time.Minute)
	p.Addr = name + ":" + port
	p.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	return p, s
}

var nobody []string

// serverAt starts rank 0. Its clients find it by name.
func serverAt(t *testing.T, p *Config) *Server {
	h, conn, err := newServer(t.Context(), p)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(); h.Close() })
	return h
}

func TestNamesThatResolveLate(t *testing.T) {
	for name, answers := range map[string][][]string{
		"not yet":               {nobody, nobody, nobody, {"127.0.0.1"}},
		"another address first": {{"127.0.0.9"}, {"127.0.0.9"}, {"127.0.0.1"}},
		"gone for a while":      {{"127.0.0.9"}, nobody, {"127.0.0.1"}},
		"several":               {{"127.0.0.9", "127.0.0.1", "127.0.0.8"}},
		"both families":         {{"::1", "127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			serverAt(t, at(port, 0, 2, time.Minute)) // at 127.0.0.1 alone
			p, dns := byName(t, 1, 2, port, answers...)
			conn, _, err := dial(t.Context(), p)
			require.NoError(t, err)
			require.GreaterOrEqual(t, dns.turns(), len(answers))
			conn.Close()
		})
	}
}

// Rank 0 too may not resolve its own name yet, or still to the address of a pod that has ended.
func TestRankZeroWhoseNameResolvesLate(t *testing.T) {
	port := freePort(t)
	p, dns := byName(t, 0, 2, port, nobody, []string{"192.0.2.1"}, []string{"192.0.2.1", "127.0.0.1"})
	h := serverAt(t, p)
	require.Equal(t, 3, dns.turns())
	require.Len(t, h.ports, 1, "the address that is this machine's")
	require.Contains(t, onlyHere(p.Addr, h.ports), "127.0.0.1:"+port+" where rank 0 runs, which other machines do not reach")
	conn, _, err := dial(t.Context(), at(port, 1, 2, time.Minute))
	require.NoError(t, err)
	conn.Close()

	for answer, want := range map[string]string{"": "MASTER_ADDR does not resolve where RANK=0 runs", "192.0.2.1": "MASTER_ADDR is no address of the machine where RANK=0 runs"} {
		p, _ := byName(t, 0, 2, port, strings.Fields(answer))
		p.timeout = time.Second // it reports its wait, once a name has been resolved
		_, _, err := newServer(t.Context(), p)
		require.ErrorIs(t, err, pmi.ErrEnvironment)
		require.ErrorContains(t, err, want)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err = newServer(gone, p)
		require.ErrorIs(t, err, context.Canceled)
	}
}

// Rank 0 listens at all of its addresses, of both families.
func TestListensAtAllAddresses(t *testing.T) {
	port := freePort(t)
	l, err := net.Listen("tcp", "[::1]:"+port)
	if err != nil {
		return // without IPv6
	}
	require.NoError(t, l.Close())
	p, _ := byName(t, 0, 2, port, []string{"::1", "127.0.0.1", "::1"})
	require.Len(t, serverAt(t, p).ports, 2, "it listens at all of its addresses")
	for _, addr := range []string{"[::1]:", "127.0.0.1:"} {
		q := at(port, 7, 99, time.Minute)
		q.Addr = addr + port
		_, _, err := dial(t.Context(), q)
		require.ErrorIs(t, err, pmi.ErrRefused)
	}
}

// Both ends of a connection between ranks detect within ten seconds that the other machine has
// disappeared.
func TestProbes(t *testing.T) {
	port := freePort(t)
	ports, err := listenAt(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:" + port)})
	require.NoError(t, err)
	defer ports[0].Close()
	theirs, err := at(port, 1, 2, time.Minute).dialAny(t.Context())
	require.NoError(t, err)
	ours, err := ports[0].Accept()
	require.NoError(t, err)
	for _, conn := range []net.Conn{ours, theirs} {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		option := func(level, name int) (value int) {
			require.NoError(t, raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }))
			require.NoError(t, err)
			return value
		}
		require.Equal(t, 1, option(unix.SOL_SOCKET, unix.SO_KEEPALIVE))
		require.LessOrEqual(t, option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)+
			option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)*option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT), 10)
		require.Equal(t, 10_000, option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)) // no probe is sent beside data
		require.NoError(t, conn.Close())
	}
}

// swallow makes an address that takes no connection and refuses none: its queue
// is full.
func swallow(t *testing.T, port string) (addr string) {
	var to uint16
	_, err := fmt.Sscan(port, &to)
	require.NoError(t, err)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Port: int(to), Addr: [4]byte{127, 0, 0, 9}}))
	require.NoError(t, unix.Listen(fd, 0))
	conn, err := net.Dial("tcp", "127.0.0.9:"+port) // one fits
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return "127.0.0.9"
}

// An address that swallows everything holds up neither the other addresses of
// the name nor the next ones.
func TestSilentAddress(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]func(dead string) [][]string{
		"beside another": func(dead string) [][]string { return [][]string{{dead, "127.0.0.1"}} },
		"before another": func(dead string) [][]string { return [][]string{{dead}, {"127.0.0.1"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			serverAt(t, at(port, 0, 2, time.Minute))
			p, _ := byName(t, 1, 2, port, answers(swallow(t, port))...)
			conn, _, err := dial(t.Context(), p)
			require.NoError(t, err)
			conn.Close()
		})
	}
}
