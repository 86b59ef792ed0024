package tcp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// sealed authenticates a statement of any bytes.
func sealed(b []byte, role string, transcript []byte) []byte {
	b = append(make([]byte, 0, statementBytes), b...)[:statementBytes]
	return append(b, mac(secret, role, transcript, b)...)
}

// statements are seeds: statements of this version, and nearly that.
func statements(f *testing.F) {
	for _, s := range []statement{
		{outbox: minOutbox}, {outbox: minOutbox, outcome: rejected}, {outbox: maxOutbox, outcome: departed, taken: 7},
		{outbox: minOutbox, outcome: duplicate}, {outbox: minOutbox, outcome: noResources, shortage: unix.EMFILE},
		{outbox: minOutbox, outcome: noResources, shortage: 0xffffffff}, {outbox: 1}, {outbox: minOutbox,
			outcome: noResources + 1},
		// Found by fuzzing: it counted as the refusal of this side's own call, and so as the peer's end.
		{outbox: minOutbox, outcome: noResources, shortage: unix.ECONNREFUSED},
	} {
		f.Add(s.seal(secret, roleDialler, nil)[:statementBytes])
	}
}

// With any contents of the proof of a peer with the secret, the peer is accepted if this version
// may write it, or refused, and no other connection is harmed.
func FuzzProof(f *testing.F) {
	statements(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != statementBytes {
			return
		}
		c := newTarget(t, Config{})
		in := c.dialToProof()
		in.sendRecorded(sealed(b, roleDialler, in.transcript))
		verdict := in.receive(verdictBytes)
		var s statement
		if len(verdict) > 0 {
			require.True(t, s.open(secret, roleAcceptor, in.transcript, verdict))
			outbox := binary.LittleEndian.Uint32(b[4:])
			require.True(t, outbox >= minOutbox && outbox <= maxOutbox, "%d", outbox)
		}
		for range 3 {
			c.Poll(&c.sink.Sink)
		}
		for _, end := range c.sink.ended {
			require.Equal(t, proc.Corrupt, end.Kind)
		}
		require.Empty(t, c.sink.got)
	})
}

// The same for its verdict, by which a dialler learns that it is refused, and why.
func FuzzVerdict(f *testing.F) {
	statements(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != statementBytes {
			return
		}
		c := newTarget(t, Config{})
		l, port := host(t)
		a := address{born: 77, net: c.self.net, addrs: []netip.AddrPort{port}}
		conn, err := c.Connect(fabric.ConnectSpec{Peer: 1, Address: a.encode()})
		require.NoError(t, err)
		var tk exchange
		c.pollUntil(func() bool {
			tk.fd, _, err = unix.Accept4(l, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return err == nil
		})
		defer unix.Close(tk.fd)
		hear := func(n int) {
			var said []byte
			c.pollUntil(func() bool { said, err = tk.readMessage(n); return said != nil || err != nil })
			require.NoError(t, err)
			tk.record(said)
		}
		hear(helloBytes)
		ch := challenge{version: handshakeVersion}
		tk.record(ch.encode())
		require.NoError(t, tk.writeMessage(ch.encode()))
		hear(proofBytes)
		require.NoError(t, tk.writeMessage(sealed(b, roleAcceptor, tk.transcript)))
		d := conn.(*Conn)
		c.pollUntil(func() bool { return d.dial == nil || d.dial.fd < 0 || len(c.sink.ended) > 0 })
		outcome := outcome(binary.LittleEndian.Uint32(b[8:]))
		for _, end := range c.sink.ended {
			switch end.Kind {
			case proc.Refused:
				require.Equal(t, rejected, outcome)
			case proc.Departed:
				require.Equal(t, departed, outcome)
			default:
				require.Equal(t, proc.Corrupt, end.Kind)
			}
		}
		if d.state == up {
			require.Equal(t, accepted, outcome)
		}
	})
}

// host listens at a port of this machine.
func host(t *testing.T) (fd int, at netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 1))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return fd, addrPort(name)
}
