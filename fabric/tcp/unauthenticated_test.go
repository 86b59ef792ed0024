package tcp

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

var hello0 = hello{version: handshakeVersion, from: 1}

func TestNotPeers(t *testing.T) {
	tls := append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, noise(1, 600)...)
	for name, say := range map[string][]byte{
		"http":  append([]byte("GET / HTTP/1.1\r\nHost: here\r\nUser-Agent: one that is long enough\r\n"), noise(2, 400)...),
		"tls":   tls,
		"noise": noise(3, 4096),
		"zeros": make([]byte, 4096),
		"long address": func() []byte {
			b := hello0.encode()
			b[20], b[21] = 0xff, 0xff
			return b
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			c := newTarget(t, Config{})
			for i := range 3 {
				in := c.dial()
				in.send(say)
				in.requireClosed()
				require.Equal(t, uint64(i+1), c.Stats().NotPeer)
			}
			c.requireLoggedOnce("it does not speak this protocol")
			require.Equal(t, uint64(3), c.Stats().Refused())
			c.requireUnharmed()
		})
	}
	t.Run("closed at once", func(t *testing.T) {
		leavesNothing(t)
		c := newTarget(t, Config{})
		for range 3 {
			in := c.dial()
			in.send([]byte("B"))
			in.hangUp()
		}
		c.pollUntil(func() bool { return c.Stats().NotPeer == 3 })
		require.Empty(t, c.handshakes)
		c.requireUnharmed()
	})
}

// A silent or slow handshake is closed after a time; meanwhile others are accepted.
func TestSlowHandshakes(t *testing.T) {
	t.Parallel()
	c := newTarget(t, Config{})
	silent, slow, half := c.dial(), c.dial(), c.dial()
	half.send(hello0.encode())
	require.Len(t, half.receive(challengeBytes), challengeBytes)
	drop := hello0.encode()
	sent := 0
	c.pollUntil(func() bool {
		if sent < len(drop)-1 {
			slow.send(drop[sent : sent+1])
			sent++
		}
		return c.Stats().TimedOut == 3
	})
	for _, in := range []*rawClient{silent, slow, half} {
		in.requireClosed()
	}
	c.requireLoggedOnce("not ended its handshake")
	c.requireUnharmed()
}

// Many handshakes keep no authentic peer out, and cost a bounded number of descriptors.
func TestManyHandshakes(t *testing.T) {
	leavesNothing(t)
	c := newTarget(t, Config{})
	for range maxHandshakes + 20 {
		c.dial()
		c.Poll(&c.sink.Sink)
	}
	c.pollUntil(func() bool { return c.Stats().Evicted >= 20 })
	require.Len(t, c.handshakes, maxHandshakes)
	c.requireUnharmed()
}

func TestWrongProofs(t *testing.T) {
	for name, k := range map[string]credentials{
		"secret":    {secret: []byte("another secret, as long")},
		"role":      {role: roleAcceptor}, // the only proof that it could have from this process
		"no outbox": {state: func(s *statement) { s.outbox = 0 }},
		"outcome":   {state: func(s *statement) { s.outcome = 9 }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, Config{})
			for i := range 3 {
				_, ok := c.dial().shakeHands(k)
				require.False(t, ok)
				require.Equal(t, uint64(i+1), c.Stats().Unauthenticated)
			}
			c.requireLoggedOnce("does not know the job's secret")
			c.requireUnharmed()
		})
	}
}

// A replayed handshake is refused.
func TestReplay(t *testing.T) {
	c := newTarget(t, Config{})
	first := c.dial()
	_, ok := first.shakeHands(credentials{})
	require.True(t, ok)
	said := first.transcript
	again := c.dial()
	again.send(said[:helloBytes])
	require.Len(t, again.receive(challengeBytes), challengeBytes)
	again.send(said[helloBytes+challengeBytes:])
	again.requireClosed()
	require.Equal(t, uint64(1), c.Stats().Unauthenticated)
	require.Equal(t, uint64(1), c.Stats().Accepted)
	require.Empty(t, c.sink.ended)
}

// Every byte of the transcript counts.
func TestTranscript(t *testing.T) {
	c := newTarget(t, Config{})
	for _, at := range []int{12, 24, 32, 32 + nonceBytes + 8, helloBytes - 1} {
		in := c.dial()
		h := hello{version: handshakeVersion, from: 1, toBorn: c.self.born, address: c.blob}
		b := h.encode()
		in.send(b)
		b[at] ^= 1 // changed on the way
		in.record(b)
		in.record(in.receive(challengeBytes))
		s := statement{outbox: minOutbox}
		in.send(s.seal(secret, roleDialler, in.transcript))
		in.requireClosed()
	}
	require.Equal(t, uint64(5), c.Stats().Unauthenticated)
	c.requireUnharmed()
}

func TestMisdirected(t *testing.T) {
	for name, change := range map[string]func(h *hello){
		"id out of range": func(h *hello) { h.from = 4 },
		"largest id":      func(h *hello) { h.from = proc.None },
		"own id":          func(h *hello) { h.from = 0 },
		"for another":     func(h *hello) { h.to = 2 },
		"another job":     func(h *hello) { h.toBorn++ },
		"no address":      func(h *hello) { h.address = nil },
		"bad address":     func(h *hello) { h.address = noise(4, addressBytes) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, Config{})
			for i := range 3 {
				_, ok := c.dial().shakeHands(credentials{hello: change})
				require.False(t, ok)
				require.Equal(t, uint64(i+1), c.Stats().Misdirected)
			}
			c.requireLoggedOnce("another")
			c.requireUnharmed()
		})
	}
}

func TestVersions(t *testing.T) {
	c := newTarget(t, Config{})
	for i := range 3 {
		in := c.dial()
		h := hello{version: handshakeVersion + 1, from: 1}
		in.send(h.encode())
		ch, ok := decodeChallenge(in.receive(challengeBytes)) // so that it can report the mismatch
		require.True(t, ok)
		require.Equal(t, uint32(handshakeVersion), ch.version)
		in.requireClosed()
		require.Equal(t, uint64(i+1), c.Stats().OtherVersion)
	}
	c.requireLoggedOnce(fmt.Sprint("speaks version ", handshakeVersion+1))
	c.requireUnharmed()
}

// A peer that was invalidated, or has ended, is rejected.
func TestEndedPeersAreRejected(t *testing.T) {
	for name, end := range map[string]func(c *Conn){
		"cut off":  (*Conn).Invalidate,
		"reported": func(c *Conn) { c.reportEnd(proc.Cause{Kind: proc.Connection}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, Config{})
			in := c.dial()
			_, ok := in.shakeHands(credentials{})
			require.True(t, ok)
			end(c.conns[1])
			in.requireClosed()
			s, ok := c.dial().shakeHands(credentials{})
			require.True(t, ok)
			require.Equal(t, rejected, s.outcome)
			require.Equal(t, uint64(1), c.Stats().Accepted)
			require.Equal(t, ended, c.conns[1].state)
			require.LessOrEqual(t, len(c.sink.ended), 1)
		})
	}
	t.Run("born again", func(t *testing.T) {
		c := newTarget(t, Config{})
		_, ok := c.dial().shakeHands(credentials{})
		require.True(t, ok)
		s, ok := c.dial().shakeHands(credentials{hello: func(h *hello) {
			a := address{born: 78, net: 1, addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}}
			h.address = a.encode()
		}})
		require.True(t, ok)
		require.Equal(t, rejected, s.outcome)
		require.Equal(t, up, c.conns[1].state, "the first is still there")
	})
}

var goodHeader = header{kind: kind(fabric.ClassTest)}

// invalidStreams are bytes that no peer sends.
func invalidStreams() map[string][]byte {
	raw := func(at int, b ...byte) []byte {
		w := wire(goodHeader, nil)
		copy(w[at:], b)
		return w
	}
	long := func(h header, n uint32) []byte {
		h.length = n
		b := make([]byte, headerBytes)
		h.put(b)
		return b
	}
	return map[string][]byte{
		"too long":      long(goodHeader, maxFrame+1),
		"longest":       long(goodHeader, ^uint32(0)),
		"loan too long": long(header{kind: kind(fabric.ClassTest), flags: flagLent}, maxLent+1),
		"kind 0":        raw(4, 0),
		"kind 32":       raw(4, fabric.NumClasses),
		"kind 63":       raw(4, 63),
		"kind 66":       raw(4, 66),
		"kind 255":      raw(4, 255),
		"flags":         raw(5, 2),
		"reserved":      raw(6, 1),
		"reserved too":  raw(7, 1),
		"skipped":       wire(header{kind: kind(fabric.ClassTest), number: 1}, nil),
		"doubled":       append(wire(goodHeader, nil), wire(goodHeader, nil)...),
		"negative":      wire(header{kind: kind(fabric.ClassTest), number: ^uint32(0)}, nil),
		"taken unsent":  wire(header{kind: kind(fabric.ClassTest), taken: 2}, nil),
		"taken backwards": append(wire(header{kind: kind(fabric.ClassTest), taken: 1}, nil),
			wire(header{kind: kind(fabric.ClassTest), number: 1}, nil)...),
		"taken far":        wire(header{kind: kindTaken, taken: 1 << 31}, nil),
		"taken with data":  long(header{kind: kindTaken}, 1),
		"farewell, length": long(header{kind: kindBye}, 1),
		"farewell, number": wire(header{kind: kindBye, number: 3}, nil),
		"farewell, lent":   wire(header{kind: kindBye, flags: flagLent}, nil),
		"noise":            noise(5, 100_000),
	}
}

// An authentic peer that writes an invalid stream is down with cause Corrupt, and nothing else
// happens.
func TestInvalidStreams(t *testing.T) {
	for name, say := range invalidStreams() {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			c := newTarget(t, Config{})
			in := c.dial()
			_, ok := in.shakeHands(credentials{})
			require.True(t, ok)
			require.True(t, c.conns[1].TrySend(fabric.ClassTest, 0, []byte("to be taken")))
			in.send(say)
			c.pollUntil(func() bool { return len(c.sink.ended) > 0 })
			s, ok := c.dial().shakeHands(credentials{})
			require.True(t, ok)
			require.Equal(t, rejected, s.outcome)
			require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, c.sink.ended)
			require.LessOrEqual(t, len(c.sink.got), 1)
		})
	}
	t.Run("taken in a proof", func(t *testing.T) {
		c := newTarget(t, Config{})
		_, ok := c.dial().shakeHands(credentials{state: func(s *statement) { s.taken = 1 }})
		require.True(t, ok)
		c.pollUntil(func() bool { return len(c.sink.ended) > 0 })
		require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, c.sink.ended)
	})
	t.Run("another frame in the place", func(t *testing.T) {
		tp := newTap(t, Config{})
		tp.write(wire(goodHeader, noise(6, 3*maxAssembled))[:maxAssembled])
		tp.join(0)
		tp.write(wire(goodHeader, noise(6, 3*maxAssembled-1))[:maxAssembled])
		tp.Poll(&tp.sink.Sink)
		require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, tp.sink.ended)
	})
}

// A handshake that its peer has given up for another, over which it has received more, is no
// connection, whenever its proof arrives.
func TestOutdatedHandshake(t *testing.T) {
	c := newTarget(t, Config{})
	late := c.dialToProof()
	in := c.dial()
	_, ok := in.shakeHands(credentials{})
	require.True(t, ok)
	conn := c.conns[1]
	require.True(t, conn.TrySend(fabric.ClassTest, 0, []byte("a frame")))
	in.send(wire(header{kind: kindTaken, taken: 1}, nil))
	c.pollUntil(func() bool { return !conn.out.kept() })
	s := statement{outbox: minOutbox}
	late.send(s.seal(secret, roleDialler, late.transcript))
	late.requireClosed()
	require.Empty(t, c.sink.ended)
	require.Equal(t, up, conn.state)
	require.Equal(t, uint64(1), c.Stats().Accepted)
}
