package tcp

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// hosts makes a network; nil if the user has permitted to skip it.
func hosts(t *testing.T, n int) *netns.Net {
	t.Helper()
	if err := netns.Check(); err != nil {
		require.Equal(t, "1", os.Getenv("BANYAN_NO_NETNS"), "%v (BANYAN_NO_NETNS=1 leaves this test out)", err)
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: BANYAN_NO_NETNS=1 and %v\n", t.Name(), err)
		return nil
	}
	net, err := netns.Open(netns.Config{Hosts: n, Prefix: "banyantest"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, net.Close()) })
	return net
}

// A cut causes retransmissions within a second, though the connection is up, and they end when the
// link is back; nothing is lost.
func TestHealthOfACutLink(t *testing.T) {
	net := hosts(t, 2)
	if net == nil {
		return
	}
	var p [2]*Provider
	for i := range p {
		require.NoError(t, net.Do(i, func() (err error) {
			p[i], err = Open(Config{Self: proc.ID(i), MaxProcs: 2, Secret: []byte("the secret of these two"), Inet: true})
			return err
		}))
		t.Cleanup(func() { require.NoError(t, p[i].Close()) })
	}
	var c *Conn
	require.NoError(t, net.Do(0, func() error { // the socket is made there
		conn, err := p[0].Connect(fabric.ConnectSpec{Peer: 1, Address: p[1].Address()})
		c, _ = conn.(*Conn)
		return err
	}))
	s := [2]*collector{newCollector(), newCollector()}
	until(t, p, s, func() bool { return c.state == up })
	sent := 0
	send := func() {
		until(t, p, s, func() bool { return c.TrySend(fabric.ClassTest, 0, []byte("something to acknowledge")) })
		sent++
		until(t, p, s, func() bool { return len(s[1].got) == sent })
	}
	send()
	until(t, p, s, func() bool { return c.Health().Unacked == 0 })
	h := c.Health()
	require.Equal(t, Up, h.Condition)
	require.True(t, h.Kernel)
	require.Equal(t, uint8(unix.BPF_TCP_ESTABLISHED), h.State)
	require.Zero(t, h.Retransmits)
	require.Zero(t, h.Overdue)
	require.Zero(t, h.Down)
	require.NoError(t, h.Why)
	require.Positive(t, h.RTT)
	rto := h.RTO

	for _, cut := range [][2]int{{0, 1}, {1, 0}} { // the data, and their acknowledgement
		require.NoError(t, net.CutOneWay(cut[0], cut[1]))
		loseFrame(t, p, s, c, rto, net.Heal)
		sent++
		send()
	}
	require.Zero(t, p[0].Stats().Reconnects, "the connection has stayed the same")
}

// loseFrame sends a frame over a link that is cut, and checks the kernel's data until the link is
// back.
func loseFrame(t *testing.T, p [2]*Provider, s [2]*collector, c *Conn, rto time.Duration, heal func() error) {
	t.Helper()
	start := time.Now()
	require.True(t, c.TrySend(fabric.ClassTest, 0, []byte("lost at first")))
	if early := c.Health().Retransmits; time.Since(start) < rto {
		require.Zero(t, early, "before the first timeout")
	}
	for start := time.Now(); c.Health().Retransmits < 2; {
		p[0].Poll(&s[0].Sink)
		require.Less(t, time.Since(start), time.Minute, "%+v", c.Health())
	}
	h := c.Health()
	require.Equal(t, Up, h.Condition)
	require.Positive(t, h.Unacked)
	require.GreaterOrEqual(t, h.Overdue, rto)
	require.GreaterOrEqual(t, h.Silence, rto)
	require.Greater(t, h.RTO, rto)

	require.NoError(t, heal())
	for start := time.Now(); c.Health().Unacked > 0; {
		p[0].Poll(&s[0].Sink)
		p[1].Poll(&s[1].Sink)
		require.Less(t, time.Since(start), time.Minute, "%+v", c.Health())
	}
	h = c.Health()
	require.Zero(t, h.Retransmits)
	require.Zero(t, h.Overdue)
}

// A broken connection has a time and a reason, and an ended one its state; a Unix socket has no
// packet data.
func TestHealthOfBrokenConnections(t *testing.T) {
	p, c := pair(t, Config{Unix: true})
	require.Equal(t, Health{Condition: Up}, c[0].Health())
	require.NoError(t, unix.Shutdown(c[0].fd, unix.SHUT_RDWR))
	s := [2]*collector{newCollector(), newCollector()}
	for c[0].state == up {
		p[0].Poll(&s[0].Sink)
	}
	h := c[0].Health()
	require.Equal(t, Broken, h.Condition)
	require.Positive(t, h.Down)
	require.Error(t, h.Why)
	until(t, p, s, func() bool { return c[0].state == up })
	require.Equal(t, Health{Condition: Up}, c[0].Health())

	c[0].Invalidate()
	require.Equal(t, Ended, c[0].Health().Condition)
	require.Zero(t, c[0].Health().Down)
}

func TestConditionsHaveNames(t *testing.T) {
	for c, name := range map[Condition]string{Connecting: "connecting", Up: "up", Broken: "broken", Ended: "ended"} {
		require.Equal(t, name, c.String())
	}
}
