package netns

import (
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// silence is the time in which nothing may arrive. Frames that are not dropped arrive within
// microseconds.
const silence = 100 * time.Millisecond

// posts is one UDP socket per host, to see single frames.
type posts struct {
	*testing.T
	conns []*net.UDPConn
	sent  byte
}

func newPosts(t *testing.T, n *Net, addr func(int) netip.Addr) *posts {
	t.Helper()
	p := &posts{T: t}
	for h := range n.Hosts() {
		require.NoError(t, n.Do(h, func() error {
			c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr(h), 0)))
			p.conns = append(p.conns, c)
			return err
		}))
		t.Cleanup(func() { _ = p.conns[h].Close() })
	}
	return p
}

// arrives reports whether a datagram gets from one host to another. Each is different, so one that
// comes late is not taken for the next.
func (p *posts) arrives(from, to int, limit time.Duration) bool {
	p.Helper()
	p.sent++
	_, err := p.conns[from].WriteTo([]byte{p.sent}, p.conns[to].LocalAddr())
	require.NoError(p, err) // also a cut is silent
	require.NoError(p, p.conns[to].SetReadDeadline(time.Now().Add(limit)))
	var got [2]byte
	size, _, err := p.conns[to].ReadFrom(got[:])
	if timedOut(err) {
		return false
	}
	require.NoError(p, err)
	require.Equal(p, []byte{p.sent}, got[:size])
	return true
}

// require checks all directions of which cut holds those that are cut.
func (p *posts) require(hosts int, cut map[pair]bool) {
	p.Helper()
	for from := range hosts {
		for to := range hosts {
			if from == to {
				continue
			}
			limit := patience
			if cut[pair{from, to}] {
				limit = silence
			}
			require.Equal(p, !cut[pair{from, to}], p.arrives(from, to, limit), "from %d to %d with %v cut", from, to, cut)
		}
	}
}

func TestCuts(t *testing.T) {
	t.Parallel()
	const hosts = 3
	n := open(t, Config{Hosts: hosts, IPv6: true})
	if n == nil {
		return
	}
	for _, addr := range []func(int) netip.Addr{n.Addr, n.Addr6} {
		p := newPosts(t, n, addr)
		p.require(hosts, nil)
		require.NoError(t, n.CutOneWay(0, 1))
		p.require(hosts, map[pair]bool{{0, 1}: true})
		require.NoError(t, n.Cut(2, 1)) // beside the first
		p.require(hosts, map[pair]bool{{0, 1}: true, {1, 2}: true, {2, 1}: true})
		require.NoError(t, n.Heal())
		p.require(hosts, nil)
		require.NoError(t, n.Isolate(1))
		require.NoError(t, n.Isolate(1)) // twice is once
		p.require(hosts, map[pair]bool{{0, 1}: true, {1, 0}: true, {1, 2}: true, {2, 1}: true})
		require.NoError(t, n.MendOneWay(2, 1))
		p.require(hosts, map[pair]bool{{0, 1}: true, {1, 0}: true, {1, 2}: true})
		require.NoError(t, n.Mend(1, 0))
		p.require(hosts, map[pair]bool{{1, 2}: true})
		require.NoError(t, n.Heal())
		require.NoError(t, n.Heal())
		p.require(hosts, nil)
	}
	require.ErrorContains(t, n.Cut(0, 0), "cannot be cut off itself")
	require.ErrorContains(t, n.CutOneWay(0, hosts), "host 3 is not within 0…2")
	require.ErrorContains(t, n.Isolate(-1), "host -1")
	require.ErrorContains(t, n.Mend(hosts, 0), "host 3 is not within 0…2")
}

// The largest set of cuts is taken, and taken away.
func TestEverybodyCut(t *testing.T) {
	t.Parallel()
	const hosts = 40 // 1560 directions, more than one message holds
	n := open(t, Config{Hosts: hosts})
	if n == nil {
		return
	}
	for h := range hosts {
		require.NoError(t, n.Isolate(h))
	}
	p := newPosts(t, n, n.Addr)
	for h := range hosts {
		require.False(t, p.arrives(h, (h+1)%hosts, silence/10))
	}
	require.NoError(t, n.Heal())
	p.require(hosts, nil)
}

// A connection outlives a cut, and data sent meanwhile arrive.
func TestConnectionOutlivesCut(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Hosts: 2})
	if n == nil {
		return
	}
	here, there := connectTo(t, n, 0, 1, n.Addr(1))
	talk(t, here, there)
	require.NoError(t, n.Cut(0, 1))
	_, err := io.WriteString(here, "late")
	require.NoError(t, err)
	require.NoError(t, there.SetReadDeadline(time.Now().Add(silence)))
	_, err = there.Read(make([]byte, 1))
	require.True(t, timedOut(err), "read: %v", err)
	require.NoError(t, there.SetReadDeadline(time.Now().Add(patience)))
	require.NoError(t, n.Heal())
	got := make([]byte, 4)
	_, err = io.ReadFull(there, got)
	require.NoError(t, err)
	require.Equal(t, "late", string(got))
}

// No process gets an error that a host cannot be reached, not even after the three seconds after
// which ARP would give up.
func TestCutIsSilent(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Hosts: 2, IPv6: true})
	if n == nil {
		return
	}
	require.NoError(t, n.Isolate(1))
	for _, addr := range []netip.Addr{n.Addr(1), n.Addr6(1)} {
		t.Run(addr.String(), func(t *testing.T) {
			t.Parallel()
			l := listen(t, n, 1, addr)
			_, err := dialFor(n, 0, l.Addr(), 4*time.Second)
			require.True(t, timedOut(err), "dial: %v", err)
		})
	}
}

func TestLinkDownAndUp(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Hosts: 3, IPv6: true})
	if n == nil {
		return
	}
	for name, up := range map[string]func() error{"LinkUp": func() error { return n.LinkUp(1) }, "Heal": n.Heal} {
		t.Run(name, func(t *testing.T) {
			l4, l6 := listen(t, n, 0, n.Addr(0)), listen(t, n, 0, n.Addr6(0))
			here, there := connectTo(t, n, 1, 0, n.Addr(0))
			talk(t, here, there)
			require.NoError(t, n.LinkDown(1))
			require.NoError(t, n.LinkDown(1))
			for _, l := range []net.Listener{l4, l6} {
				_, err := dialFor(n, 1, l.Addr(), patience)
				require.ErrorIs(t, err, syscall.ENETUNREACH)
				_, err = dialFor(n, 0, &net.TCPAddr{IP: n.Addr(1).AsSlice(), Port: 1}, silence)
				require.True(t, timedOut(err), "dial: %v", err)
			}
			require.NoError(t, up())
			talk(t, here, there)
			for _, to := range []netip.Addr{n.Addr(1), n.Addr6(1), n.Addr(2), n.Addr6(2)} {
				host := 1
				if to == n.Addr(2) || to == n.Addr6(2) {
					host = 2
				}
				here, there := connectTo(t, n, 3-host, host, to)
				talk(t, here, there)
			}
		})
	}
}

// Open, LinkUp and Heal return when frames flow: not even the first is lost.
func TestFirstFrameArrives(t *testing.T) {
	const hosts, last = 3, 2
	for range 20 {
		n := open(t, Config{Hosts: hosts})
		if n == nil {
			return
		}
		p := newPosts(t, n, n.Addr)
		require.True(t, p.arrives(last, 0, patience))
		for _, up := range []func() error{func() error { return n.LinkUp(last) }, n.Heal} {
			require.NoError(t, n.LinkDown(last))
			require.NoError(t, up())
			require.True(t, p.arrives(0, last, patience))
		}
		require.NoError(t, n.Close())
	}
}
