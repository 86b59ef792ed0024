package tcp

import (
	"crypto/rand"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// authenticatedAttacker accepts connections as process 1 would.
type authenticatedAttacker struct {
	*target
	fd   int
	addr netip.AddrPort
	met  int
}

func newAuthenticatedAttacker(c *target) *authenticatedAttacker {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(c, err)
	c.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(c, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(c, unix.Listen(fd, 10))
	name, err := unix.Getsockname(fd)
	require.NoError(c, err)
	return &authenticatedAttacker{target: c, fd: fd, addr: addrPort(name)}
}

// connect takes the next connection and reads its hello; nil: the target has given up.
func (im *authenticatedAttacker) connect() *rawClient {
	in := &rawClient{target: im.target}
	im.pollUntil(func() bool {
		fd, _, err := unix.Accept4(im.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		in.fd = fd
		return err == nil || len(im.sink.ended) > 0
	})
	if in.fd < 0 {
		return nil
	}
	im.met++
	im.Cleanup(in.hangUp)
	b := in.receive(helloBytes)
	h, ok := decodeHello(b)
	require.True(im, ok)
	require.Equal(im, proc.ID(1), h.to)
	in.record(b)
	return in
}

// challenge answers the hello, and returns the proof.
func (in *rawClient) challenge(version uint32) []byte {
	c := challenge{version: version}
	_, _ = rand.Read(c.nonce[:])
	in.sendRecorded(c.encode())
	b := in.receive(proofBytes)
	return b
}

// A dialling process is not deceived either: the other side must use the protocol and prove that it
// knows the secret. The process tries again as long as a connection may take to be made, and then
// reports it.
func TestAuthenticatedAttackers(t *testing.T) {
	for name, play := range map[string]func(in *rawClient){
		"hangs up": func(*rawClient) {},
		"http":     func(in *rawClient) { in.send([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) },
		"reflects": func(in *rawClient) { in.send(in.challenge(handshakeVersion)) },
		"other secret": func(in *rawClient) {
			in.record(in.challenge(handshakeVersion))
			s := statement{outbox: minOutbox}
			in.send(s.seal([]byte("another secret, as long"), roleAcceptor, in.transcript))
		},
		"other role": func(in *rawClient) {
			in.record(in.challenge(handshakeVersion))
			s := statement{outbox: minOutbox}
			in.send(s.seal(secret, roleDialler, in.transcript))
		},
		"ignores the proof": func(in *rawClient) {
			in.challenge(handshakeVersion)
			s := statement{outbox: minOutbox}
			in.send(s.seal(secret, roleAcceptor, in.transcript))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTarget(t, Config{})
			im := newAuthenticatedAttacker(c)
			a := address{born: 5, net: c.self.net, addrs: []netip.AddrPort{im.addr}}
			_, err := c.Connect(fabric.ConnectSpec{Peer: 1, Address: a.encode()})
			require.NoError(t, err)
			for in := im.connect(); in != nil; in = im.connect() {
				play(in)
				in.hangUp()
				if im.met == 2 { // it has tried again, and may give up
					c.cfg.Heal = 300 * time.Millisecond
				}
			}
			require.Greater(t, im.met, 1, "tried once only")
			require.Equal(t, []proc.Cause{{Kind: proc.Heartbeat}}, c.sink.ended)
			require.False(t, c.conns[1].wasUp)
		})
	}
}

// Without descriptors to accept, and to dial, both are tried again when there are some.
func TestNoDescriptors(t *testing.T) {
	leavesNothing(t)
	a, b := unanswered(t, 0), unanswered(t, 1)
	sinks := [2]*collector{newCollector(), newCollector()}
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	limit := func(n uint64) {
		require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}, nil))
	}
	t.Cleanup(func() { limit(old.Cur) })

	limit(3) // no number below is free
	conn, err := a.Connect(fabric.ConnectSpec{Peer: 1, Address: b.Address()})
	require.NoError(t, err)
	c := conn.(*Conn)
	require.Equal(t, waiting, c.state)
	require.ErrorIs(t, c.lastError, unix.EMFILE)

	// One descriptor to dial, none to accept.
	limit(old.Cur)
	for c.state != dialling {
		idle(a)
		a.Poll(&sinks[0].Sink)
	}
	limit(3)
	for l := b.listeners[0]; !l.paused; {
		idle(b)
		b.Poll(&sinks[1].Sink)
	}
	require.False(t, b.Ready(), "it would not sleep")
	limit(old.Cur)
	for start := time.Now(); c.state != up; {
		idle(b)
		a.Poll(&sinks[0].Sink)
		b.Poll(&sinks[1].Sink)
		require.Less(t, time.Since(start), stall)
	}
	require.Empty(t, sinks[0].ended)
	require.Empty(t, sinks[1].ended)
}

// A lasting shortage of descriptors is reported as the cause.
func TestNoDescriptorsForTooLong(t *testing.T) {
	c := newTarget(t, Config{Heal: 50 * time.Millisecond})
	other := unanswered(t, 1)
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	few := old
	few.Cur = 3
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
	_, err := c.Connect(fabric.ConnectSpec{Peer: 1, Address: other.Address()})
	require.NoError(t, err)
	c.pollUntil(func() bool { return len(c.sink.ended) > 0 })
	require.Equal(t, []proc.Cause{{Kind: proc.Unreachable, Code: int32(unix.EMFILE)}}, c.sink.ended)
	c.requireLoggedOnce("could not be reached")
}
