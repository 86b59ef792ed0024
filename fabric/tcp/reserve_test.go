package tcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// exhaust leaves this process without descriptors until give is called, or the test ends.
func exhaust(t *testing.T) (give func()) {
	t.Helper()
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	few := unix.Rlimit{Cur: 512, Max: old.Max}
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &few, nil))
	var held []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_CLOEXEC, 0)
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			break
		}
		held = append(held, fd)
	}
	give = func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
		held = nil
		require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil))
	}
	t.Cleanup(give)
	return give
}

// An authenticated peer takes the descriptor of an unauthenticated handshake.
func TestPeerEvictsUnauthenticated(t *testing.T) {
	c := newTarget(t, Config{})
	unproven, peer := c.dial(), c.dialToProof()
	c.pollUntil(func() bool { return len(c.handshakes) == 2 })
	c.dial() // is let in by the reserve
	exhaust(t)
	c.pollUntil(func() bool { return len(c.handshakes) == 3 })
	require.Negative(t, c.reserve)
	s := statement{outbox: minOutbox}
	peer.sendRecorded(s.seal(secret, roleDialler, peer.transcript))
	require.True(t, s.open(secret, roleAcceptor, peer.transcript, peer.receive(verdictBytes)))
	require.Equal(t, accepted, s.outcome)
	require.Equal(t, up, c.conns[1].state)
	require.GreaterOrEqual(t, c.reserve, 0)
	unproven.requireClosed()
	require.Len(t, c.handshakes, 1, "one was enough: the other may stay")
}

// A peer that calls again frees the descriptor of its last connection.
func TestReplacedWithoutDescriptors(t *testing.T) {
	c := newTarget(t, Config{})
	_, ok := c.dial().shakeHands(credentials{})
	require.True(t, ok)
	again := c.dial()
	h := again.newHello()
	exhaust(t)
	s, ok := again.shakeHandsAs(h, credentials{})
	require.True(t, ok)
	require.Equal(t, accepted, s.outcome)
	require.GreaterOrEqual(t, c.reserve, 0)
	require.Empty(t, c.sink.ended)
}

// No connection is accepted while the reserve is in use; it is restored at the moment when a
// handshake ends, and this process accepts again.
func TestAcceptResumesAfterAHandshake(t *testing.T) {
	c := newTarget(t, Config{})
	first, _ := c.dial(), c.dial()
	exhaust(t)
	l := c.listeners[0]
	c.pollUntil(func() bool { return l.paused })
	require.Len(t, c.handshakes, 1)
	require.Negative(t, c.reserve)
	g := c.handshakes[0]
	require.NoError(t, unix.Shutdown(first.fd, unix.SHUT_RDWR)) // gives no descriptor of the test's back
	c.pollUntil(func() bool { return g.fd < 0 })
	require.False(t, l.paused, "it would wait for the next tick")
}

// After a shortage that ends by itself the reserve is restored at the next tick.
func TestReserveIsRestored(t *testing.T) {
	c := newTarget(t, Config{})
	c.dial()
	c.dial()
	give := exhaust(t)
	l := c.listeners[0]
	c.pollUntil(func() bool { return l.paused })
	give()
	c.pollUntil(func() bool { return !l.paused })
	require.GreaterOrEqual(t, c.reserve, 0)
}

// Where epoll refuses the listeners for a while, the tick tries again.
func TestListenersAreTriedAgain(t *testing.T) {
	c := newTarget(t, Config{})
	l := c.listeners[0]
	c.pauseAccept(l)
	fd := c.handshakeSet.fd
	c.handshakeSet.fd = -1
	c.resumeAccept(time.Now())
	c.handshakeSet.fd = fd
	require.True(t, l.paused)
	require.False(t, c.timer.due.IsZero())
	c.timerFired()
	require.False(t, l.paused)
	c.requireUnharmed()
}

// A process that cannot be accepted for lack of a descriptor, and that cannot be dialled, is
// reported with the shortage as the cause.
func TestShortageOfAPeerThatOnlyDials(t *testing.T) {
	c := newTarget(t, Config{Heal: 50 * time.Millisecond})
	peer := c.dial()
	h := peer.newHello()
	c.self.net++ // the peer's loopback address is not of this machine
	exhaust(t)
	s, ok := peer.shakeHandsAs(h, credentials{})
	require.True(t, ok)
	require.Equal(t, noResources, s.outcome)
	require.Equal(t, unix.EMFILE, s.shortage)
	c.pollUntil(func() bool { return len(c.sink.ended) > 0 })
	require.Equal(t, []proc.Cause{{Kind: proc.Unreachable, Code: int32(unix.EMFILE)}}, c.sink.ended)
}
