package tcp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// Two processes that dial each other at once, and have both sent their proofs, agree on the dial of
// the lower id.
func TestTie(t *testing.T) {
	both := [2]*Provider{unanswered(t, 0), unanswered(t, 1)}
	sinks := [2]*collector{newCollector(), newCollector()}
	var conns [2]*Conn
	now := time.Now()
	for i, p := range both {
		conns[i] = p.newConn(both[1-i].cfg.Self, &both[1-i].self)
		conns[i].downSince = now
		conns[i].reconnect(now)
	}
	for conns[0].dial.stage < proofSent || conns[1].dial.stage < proofSent {
		for i, p := range both {
			if conns[i].dial.stage < proofSent {
				conns[i].advance(now)
			}
			if g := p.handshakes; len(g) == 0 || g[0].hello == nil { // the hello only
				p.acceptRound()
			}
		}
	}
	until(t, both, sinks, func() bool { return conns[0].state == up && conns[1].state == up })
	until(t, both, sinks, func() bool { return conns[0].TrySend(fabric.ClassTest, 0, []byte("there")) })
	until(t, both, sinks, func() bool { return conns[1].TrySend(fabric.ClassTest, 0, []byte("back")) })
	until(t, both, sinks, func() bool { return len(sinks[0].got)+len(sinks[1].got) == 2 })
	require.Zero(t, both[0].Stats().Accepted)
	require.Equal(t, uint64(1), both[1].Stats().Accepted)
	require.Zero(t, both[0].Stats().Reconnects+both[1].Stats().Reconnects)
}

// A peer that accepts this process's dial closes its own. Its earlier proof may arrive late: then
// the existing connection stays.
func TestSupersededProof(t *testing.T) {
	c := newTarget(t, Config{})
	im := newAuthenticatedAttacker(c)
	late := c.dialToProof()
	a := address{born: 77, net: c.self.net, addrs: []netip.AddrPort{im.addr}}
	_, err := c.Connect(fabric.ConnectSpec{Peer: 1, Address: a.encode()})
	require.NoError(t, err)
	in := im.connect()
	in.record(in.challenge(handshakeVersion))
	s := statement{outbox: minOutbox}
	in.send(s.seal(secret, roleAcceptor, in.transcript))
	c.pollUntil(func() bool { return c.conns[1].state == up })
	late.send(s.seal(secret, roleDialler, late.transcript))
	late.requireClosed()
	require.Equal(t, up, c.conns[1].state)
	require.Zero(t, c.Stats().Accepted+c.Stats().Reconnects)
	in.send(wire(header{kind: kind(fabric.ClassTest)}, []byte("over the one that both have")))
	c.pollUntil(func() bool { return len(c.sink.got) == 1 })
	require.Empty(t, c.sink.ended)
}

// Frames that have arrived over a connection count when its peer replaces it.
func TestReplacedConnectionIsDrained(t *testing.T) {
	c := newTarget(t, Config{})
	first := c.dial()
	_, ok := first.shakeHands(credentials{})
	require.True(t, ok)
	second := c.dialToProof()
	first.send(wire(header{kind: kind(fabric.ClassTest)}, []byte("the last over the first")))
	s := statement{outbox: minOutbox}
	second.sendRecorded(s.seal(secret, roleDialler, second.transcript))
	var verdict []byte
	for verdict == nil {
		c.Provider.sink = &c.sink.Sink // as in Poll, which happens to look here first
		c.acceptRound()
		c.Provider.sink = nil
		var err error
		verdict, err = second.readMessage(verdictBytes)
		require.NoError(t, err)
	}
	require.True(t, s.open(secret, roleAcceptor, second.transcript, verdict))
	require.Equal(t, accepted, s.outcome)
	require.Equal(t, uint32(1), s.taken)
	require.Len(t, c.sink.got, 1)
}
