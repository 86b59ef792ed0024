package tcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A process whose peer is calling does not call it, too.
func TestCallsDoNotCross(t *testing.T) {
	both := [2]*Provider{unanswered(t, 0), unanswered(t, 1)}
	sinks := [2]*collector{newCollector(), newCollector()}
	var conns [2]*Conn
	for i, p := range both {
		conn, err := p.Connect(fabric.ConnectSpec{Peer: proc.ID(1 - i), Address: both[1-i].Address()})
		require.NoError(t, err)
		conns[i] = conn.(*Conn)
	}
	require.NotNil(t, conns[0].dial)
	require.Nil(t, conns[1].dial, "it knows of the call")
	until(t, both, sinks, func() bool { return conns[0].state == up && conns[1].state == up })
	require.Zero(t, both[0].Stats().Accepted)
	require.Equal(t, uint64(1), both[1].Stats().Accepted)
}

// A process that claims to be the peer, and proves nothing, delays the call to the peer by a moment.
func TestUnprovedCallDoesNotKeepFromCalling(t *testing.T) {
	c := newTarget(t, Config{})
	silent := c.dial()
	h := silent.newHello()
	silent.send(h.encode())
	require.Len(t, silent.receive(challengeBytes), challengeBytes)
	conn, err := c.Connect(fabric.ConnectSpec{Peer: 1, Address: h.address})
	require.NoError(t, err)
	require.Nil(t, conn.(*Conn).dial)
	c.pollUntil(func() bool { return len(c.sink.ended) > 0 }) // the port is closed
	require.Equal(t, []proc.Cause{{Kind: proc.Unknown}}, c.sink.ended)
	require.Len(t, c.handshakes, 1)
}

// Where ranks share cores, one turn of Poll serves many newcomers: until the next one all other
// ranks may have had their turns.
func TestPollServesManyNewcomers(t *testing.T) {
	c := newTarget(t, Config{Shared: true})
	const newcomers = acceptBatch / 2
	clients := make([]*rawClient, newcomers)
	for i := range clients {
		clients[i] = c.dial()
		require.NoError(t, clients[i].writeMessage(hello0.encode()))
	}
	c.Poll(&c.sink.Sink)
	c.Poll(&c.sink.Sink)
	for i, in := range clients {
		b, err := in.readMessage(challengeBytes)
		require.NoError(t, err)
		require.NotNil(t, b, "newcomer %d has no answer", i)
	}
}

// Two processes connect that poll so rarely that each limit of the handshake has passed before the next poll: what has
// arrived by then counts.
func TestLateProcessesConnect(t *testing.T) {
	var sink fabric.Sink
	p, other := unanswered(t, 0), unanswered(t, 1)
	c := p.newConn(1, &other.self)
	c.paths = []path{{there: other.self.addrs[0]}, {there: other.self.addrs[0]}}
	c.downSince = time.Now()
	for c.reconnect(c.downSince); c.dial.stage == connecting; p.Poll(&sink) {
		idle(p)
	}
	late := func(q *Provider) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(q.connSet.fd), Events: unix.POLLIN}}, int(stall.Milliseconds()))
		require.NoError(t, err)
		require.Equal(t, 1, n, "nothing comes")
		past := time.Now().Add(-time.Second)
		for _, hs := range q.handshakes {
			hs.due = past
		}
		for _, c := range q.reconnecting {
			c.deadline = past
		}
		q.timerFired()
		for range 2 * stride {
			q.Poll(&sink)
		}
	}
	for c.state != up {
		late(other)
		late(p)
		require.NoError(t, c.lastError)
		require.Zero(t, other.Stats().TimedOut)
		require.True(t, c.state == up || c.deadline.After(time.Now()), "for the next message")
	}
	require.Equal(t, uint64(1), other.Stats().Accepted)
}

// The memory of a connection is that of its last messages, and is given back while it is idle.
func TestMemoryFollowsUse(t *testing.T) {
	p, c := pair(t, Config{Inet: true})
	s := [2]*collector{newCollector(), newCollector()}
	send := func(n int) {
		for i := range 2 {
			until(t, p, s, func() bool { return c[i].TrySend(fabric.ClassTest, 0, noise(1, n)) })
		}
		until(t, p, s, func() bool { return c[0].got == c[1].got && c[0].got == c[0].out.next && c[1].got == c[1].out.next })
	}
	send(8)
	for i := range c {
		require.LessOrEqual(t, len(c[i].out.buf), firstRing)
		require.Empty(t, c[i].in.buf)
		require.False(t, c[i].grown)
	}
	for _, n := range []int{window, maxAssembled, maxFrame} {
		send(n)
		require.Zero(t, len(c[1].in.buf), "a buffer for nothing")
	}
	require.Greater(t, len(c[1].out.buf), maxFrame)
	send(8) // acknowledges the long one
	require.True(t, c[1].out.kept())
	now := time.Now()
	for range 2 {
		now = now.Add(2 * idleTime)
		p[1].shrinkIdle(now)
	}
	require.LessOrEqual(t, len(c[1].out.buf), firstRing)
	require.Empty(t, p[1].grown)
	send(maxFrame)
	require.Equal(t, c[0].received, c[1].received)
}
