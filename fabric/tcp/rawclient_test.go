package tcp

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// target is an endpoint under attack. It is process 0 of 4.
type target struct {
	*testing.T
	*Provider
	sink *collector
	log  bytes.Buffer
}

var secret = []byte("the secret of the target")

func newTarget(t *testing.T, cfg Config) *target {
	t.Helper()
	c := &target{T: t, sink: newCollector()}
	cfg.MaxProcs, cfg.Secret = 4, secret
	cfg.Inet, cfg.Networks = true, []string{"127.0.0.0/8"}
	cfg.Log = slog.New(slog.NewTextHandler(&c.log, nil))
	p, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	c.Provider = p
	return c
}

// pollUntil polls until cond holds.
func (c *target) pollUntil(cond func() bool) {
	c.Helper()
	for start := time.Now(); !cond(); {
		if c.Poll(&c.sink.Sink) == 0 {
			idle(c.Provider)
		}
		require.Less(c, time.Since(start), stall, "nothing happens any more: %+v %v %v", c.Stats(), c.sink.ended, &c.log)
	}
}

// rawClient is a socket that is connected to a target.
type rawClient struct {
	exchange
	*target
	closed bool
}

func (c *target) dial() *rawClient {
	c.Helper()
	domain, sa := sockaddr(c.self.addrs[0])
	fd, err := connectTo(domain, sa)
	require.NoError(c, err)
	in := &rawClient{target: c, exchange: exchange{fd: fd}}
	c.Cleanup(in.hangUp)
	return in
}

// dialToChallenge dials p, sends a hello and reads the challenge, for which wait polls.
func dialToChallenge(t *testing.T, p *Provider, h hello, wait func(cond func() bool)) exchange {
	t.Helper()
	domain, sa := sockaddr(p.self.addrs[0])
	fd, err := connectTo(domain, sa)
	require.NoError(t, err)
	tk := exchange{fd: fd}
	b := h.encode()
	require.NoError(t, tk.writeMessage(b))
	tk.record(b)
	var ch []byte
	wait(func() bool { ch, err = tk.readMessage(challengeBytes); return ch != nil || err != nil })
	require.NoError(t, err)
	tk.record(ch)
	return tk
}

// dialToProof is a handshake of process 1 before its proof.
func (c *target) dialToProof() *rawClient {
	c.Helper()
	in := &rawClient{target: c}
	in.exchange = dialToChallenge(c.T, c.Provider, in.newHello(), c.pollUntil)
	c.Cleanup(in.hangUp)
	return in
}

func (in *rawClient) hangUp() {
	if !in.closed {
		in.closed = true
		_ = unix.Close(in.fd)
	}
}

// send writes as much as the target accepts.
func (in *rawClient) send(b []byte) {
	for len(b) > 0 {
		n, errno := sendBytes(in.fd, b)
		if errno == unix.EAGAIN || errno == unix.ENOTCONN {
			in.Poll(&in.sink.Sink)
			n = 0
		} else if errno != 0 {
			return
		}
		b = b[n:]
	}
}

// receive waits for n bytes; nil: the target has closed.
func (in *rawClient) receive(n int) (b []byte) {
	in.Helper()
	var err error
	in.pollUntil(func() bool { b, err = in.readMessage(n); return b != nil || err != nil })
	return append([]byte(nil), b...)
}

// requireClosed waits until the target has closed, without more bytes.
func (in *rawClient) requireClosed() {
	in.Helper()
	require.Empty(in, in.receive(1), "the target sends more")
}

// credentials are the parameters of a handshake, with mistakes.
type credentials struct {
	hello  func(h *hello)
	state  func(s *statement)
	secret []byte
	role   string
}

// newHello is the hello of process 1.
func (in *rawClient) newHello() (h hello) {
	h = hello{version: handshakeVersion, from: 1, to: 0, toBorn: in.self.born}
	a := address{born: 77, net: in.self.net, addrs: []netip.AddrPort{closedPort(in.T)}}
	h.address = a.encode()
	_, _ = rand.Read(h.nonce[:])
	return h
}

// shakeHands does a handshake as process 1; false: the target closed it.
func (in *rawClient) shakeHands(k credentials) (s statement, ok bool) {
	in.Helper()
	h := in.newHello()
	if k.hello != nil {
		k.hello(&h)
	}
	return in.shakeHandsAs(h, k)
}

// shakeHandsAs is shakeHands with a given hello.
func (in *rawClient) shakeHandsAs(h hello, k credentials) (s statement, ok bool) {
	in.Helper()
	if k.secret == nil {
		k.secret = secret
	}
	if k.role == "" {
		k.role = roleDialler
	}
	in.sendRecorded(h.encode())
	b := in.receive(challengeBytes)
	if len(b) == 0 {
		return s, false
	}
	ch, ok := decodeChallenge(b)
	require.True(in, ok)
	require.Equal(in, uint32(handshakeVersion), ch.version)
	in.record(b)
	mine := statement{outbox: minOutbox}
	if k.state != nil {
		k.state(&mine)
	}
	in.sendRecorded(mine.seal(k.secret, k.role, in.transcript))
	if b = in.receive(verdictBytes); len(b) == 0 {
		return s, false
	}
	require.True(in, s.open(secret, roleAcceptor, in.transcript, b), "the target cannot prove that it knows the secret")
	return s, true
}

// sendRecorded sends a part of a handshake.
func (in *rawClient) sendRecorded(b []byte) {
	in.record(b)
	in.send(b)
}

// closedPort is a port without a listener.
func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return addrPort(name)
}

// requireUnharmed checks that no connection was accepted and no end reported, and that a peer can
// still connect.
func (c *target) requireUnharmed() {
	c.Helper()
	require.Empty(c, c.sink.ended)
	require.Empty(c, c.sink.got)
	require.Zero(c, c.Stats().Accepted)
	s, ok := c.dial().shakeHands(credentials{})
	require.True(c, ok)
	require.Equal(c, accepted, s.outcome)
	require.Equal(c, uint64(1), c.Stats().Accepted)
}

// requireLoggedOnce: only the first message of each kind is logged.
func (c *target) requireLoggedOnce(part string) {
	c.Helper()
	require.Equal(c, 1, strings.Count(c.log.String(), part), "%q in %q", part, &c.log)
}
