package tcp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
)

// Await steps over recentPolls, so Poll never gives the unwatched connection back to epoll.
func TestAwaitStepsOver(t *testing.T) {
	p, c := pair(t, Config{Inet: true})
	s := [2]*collector{newCollector(), newCollector()}
	sent := 0
	until(t, p, s, func() bool { return c[0].TrySend(fabric.ClassTest, 0, nil) })
	sent++
	until(t, p, s, func() bool { return len(s[1].got) == sent })
	require.Equal(t, c[1], p[1].recent)
	for range 3 * unwatchAfter {
		require.True(t, c[0].TrySend(fabric.ClassTest, 0, nil))
		p[0].EndBurst()
		sent++
		for len(s[1].got) < sent {
			p[1].Poll(&s[1].Sink)
		}
	}
	require.NotNil(t, p[1].unwatched)
	for p[1].idlePolls < recentPolls-16 {
		require.NotNil(t, p[1].unwatched)
		p[1].Poll(&s[1].Sink)
	}
	buf := make([]byte, 8)
	for range 8 {
		c[1].Await(fabric.ClassTest, 0, buf, 4)
	}
	require.True(t, c[0].TrySend(fabric.ClassTest, 0, nil))
	for range 1_000_000 {
		p[1].Poll(&s[1].Sink)
	}
	require.Len(t, s[1].got, sent+1, "unwatched %v idle %d", p[1].unwatched != nil, p[1].idlePolls)
}

// The proof of a call that the other side's call has superseded.
func TestLateProof(t *testing.T) {
	p, c := pair(t, Config{Inet: true, Networks: []string{"127.0.0.0/8"}})
	s := [2]*collector{newCollector(), newCollector()}
	// process 1 had called as well, and its proof is late
	tk := dialToChallenge(t, p[0], hello{version: handshakeVersion, from: 1, to: 0, toBorn: p[0].self.born,
		address: p[1].blob},
		func(cond func() bool) { until(t, p, s, cond) })
	defer unix.Close(tk.fd)
	st := statement{taken: c[1].got, outbox: uint32(p[1].cfg.Outbox)}
	proof := st.seal(p[1].cfg.Secret, roleDialler, tk.transcript)
	for range 3 {
		until(t, p, s, func() bool { return c[0].TrySend(fabric.ClassTest, 0, nil) })
		until(t, p, s, func() bool { return c[1].TrySend(fabric.ClassTest, 0, nil) })
	}
	until(t, p, s, func() bool {
		return len(s[1].got) == 3 && !c[0].out.kept() || c[1].TrySend(fabric.ClassTest, 0, nil) && !c[0].out.kept()
	})
	require.NoError(t, tk.writeMessage(proof))
	for range 100_000 {
		p[0].Poll(&s[0].Sink)
		p[1].Poll(&s[1].Sink)
	}
	require.Empty(t, s[0].ended, "the peer lives")
}

// The verdict cannot be sent after the old connection was drained.
func TestVerdictFails(t *testing.T) {
	p, c := pair(t, Config{Inet: true, Networks: []string{"127.0.0.0/8"}})
	s := [2]*collector{newCollector(), newCollector()}
	// half a frame has arrived
	f := wire(header{length: 100, kind: kind(fabric.ClassTest)}, make([]byte, 100))
	_, errno := sendBytes(c[1].fd, f[:60])
	require.Zero(t, errno)
	for c[0].in.w-c[0].in.r != 60 {
		p[0].Poll(&s[0].Sink)
	}
	tk := dialToChallenge(t, p[0], hello{version: handshakeVersion, from: 1, to: 0, toBorn: p[0].self.born,
		address: p[1].blob},
		func(cond func() bool) { until(t, p, s, cond) })
	defer unix.Close(tk.fd)
	st := statement{taken: c[1].got, outbox: uint32(p[1].cfg.Outbox)}
	require.NoError(t, tk.writeMessage(st.seal(p[1].cfg.Secret, roleDialler, tk.transcript)))
	require.Len(t, p[0].handshakes, 1)
	require.NoError(t, unix.Shutdown(p[0].handshakes[0].fd, unix.SHUT_WR)) // stands for any failure of writeMessage
	until(t, p, s, func() bool { return len(p[0].handshakes) == 0 })
	require.Equal(t, up, c[0].state)
	_, errno = sendBytes(c[1].fd, f[60:])
	require.Zero(t, errno)
	c[1].out.next++ // as if it had been sent the usual way
	for range 100_000 {
		p[0].Poll(&s[0].Sink)
	}
	require.Empty(t, s[0].ended)
	require.Len(t, s[0].got, 1)
}

// The same where the old connection turns out to be broken as it is drained: the peer has no
// verdict, so the connection is made again.
func TestVerdictFailsAndOldIsBroken(t *testing.T) {
	p, c := pair(t, Config{Inet: true, Networks: []string{"127.0.0.0/8"}})
	s := [2]*collector{newCollector(), newCollector()}
	g := &handshake{hello: &hello{from: 1, to: 0, toBorn: p[0].self.born, address: p[1].blob},
		keyAtHello: p[0].connSet.last}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	defer unix.Close(ends[1])
	g.fd = ends[0]
	require.NoError(t, unix.Shutdown(ends[0], unix.SHUT_WR)) // stands for any failure of writeMessage
	require.NoError(t, unix.Shutdown(c[1].fd, unix.SHUT_WR))
	p[0].sink = &s[0].Sink
	p[0].admit(g, &statement{outbox: minOutbox})
	p[0].sink = nil
	require.Empty(t, s[0].ended)
	require.Contains(t, p[0].reconnecting, c[0], "left to its peer, which may not be able to call")
	until(t, p, s, func() bool { return c[0].state == up && c[1].state == up && c[0].TrySend(fabric.ClassTest, 0, nil) })
	until(t, p, s, func() bool { return len(s[1].got) == 1 })
}

// An attacker without the secret answers with another version.
func TestVersionOfAnAttacker(t *testing.T) {
	l, err := listenTCP(netip.MustParseAddr("127.0.0.1"))
	require.NoError(t, err)
	defer unix.Close(l.fd)
	p := unanswered(t, 0)
	s := newCollector()
	q := unanswered(t, 1)
	a := q.self
	a.addrs = append([]netip.AddrPort{l.addr}, a.addrs...) // for example, a bridge that both hosts have
	conn, err := p.Connect(fabric.ConnectSpec{Peer: 1, Address: a.encode()})
	require.NoError(t, err)
	c := conn.(*Conn)
	fd := -1
	for fd < 0 {
		p.Poll(&s.Sink)
		fd, _, _ = unix.Accept(l.fd)
	}
	defer unix.Close(fd)
	for c.dial == nil || c.dial.stage != helloSent {
		p.Poll(&s.Sink)
	}
	ch := challenge{version: handshakeVersion + 1}
	_, errno := sendBytes(fd, ch.encode())
	require.Zero(t, errno)
	var none fabric.Sink
	for start := time.Now(); c.state != up && len(s.ended) == 0 && time.Since(start) < 5*time.Second; {
		p.Poll(&s.Sink)
		q.Poll(&none)
	}
	require.Empty(t, s.ended)
	require.Equal(t, up, c.state)
}

// The process is stopped for longer than Heal, then one attempt fails.
func TestStoppedLongerThanHeal(t *testing.T) {
	p, c := pair(t, Config{Inet: true, Networks: []string{"127.0.0.0/8"}})
	s := [2]*collector{newCollector(), newCollector()}
	// The first of two paths does not work at the moment.
	c[0].paths = append([]path{{there: netip.MustParseAddrPort("127.0.0.1:1")}}, c[0].paths...)
	for i := range c[0].paths {
		c[0].paths[i].local = false
	}
	c[0].path.there = c[0].paths[1].there
	c[0].paths[0].there = closedOn(t, "127.0.0.2")
	c[1].paths = nil // only process 0 can dial
	disconnect(c[0].fd)
	for c[0].state == up {
		p[0].Poll(&s[0].Sink)
	}
	// the network is down: this attempt fails, and a pause follows
	c[0].attemptFailed(time.Now(), unix.EHOSTUNREACH)
	require.Equal(t, waiting, c[0].state)
	c[0].downSince = c[0].downSince.Add(-time.Minute) // computes for a minute; meanwhile the network is mended
	c[0].deadline = c[0].deadline.Add(-time.Minute)
	until(t, p, s, func() bool { return c[0].state == up || c[0].state == ended })
	require.Equal(t, up, c[0].state)
}

func closedOn(t *testing.T, ip string) netip.AddrPort {
	l, err := listenTCP(netip.MustParseAddr(ip))
	require.NoError(t, err)
	require.NoError(t, unix.Close(l.fd))
	return l.addr
}

// A process that Connect reported as ended is accepted.
func TestGoneThenConnects(t *testing.T) {
	p, q := unanswered(t, 0), unanswered(t, 1)
	s := newCollector()
	a := q.self
	a.unix = [unixBytes]byte{}
	a.addrs = []netip.AddrPort{closedOn(t, "127.0.0.1")} // a firewall that rejects this way round
	_, err := p.Connect(fabric.ConnectSpec{Peer: 1, Address: a.encode()})
	require.ErrorIs(t, err, fabric.ErrPeerGone)
	conn, err := q.Connect(fabric.ConnectSpec{Peer: 0, Address: p.Address()})
	require.NoError(t, err)
	var none fabric.Sink
	for range 100_000 {
		conn.TrySend(fabric.ClassTest, 0, nil)
		p.Poll(&s.Sink)
		q.Poll(&none)
		if len(s.got) > 0 || conn.(*Conn).state == ended {
			break
		}
	}
	require.Empty(t, s.got, "frames of a process that has gone")
}
