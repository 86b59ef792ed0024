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

// A peer that proves who it is takes the descriptor of somebody who has proved nothing.
func TestPeerBeforeStrangers(t *testing.T) {
	c := newCastle(t, Config{})
	stranger, peer := c.approach(), c.challenged()
	c.watch(func() bool { return len(c.handshakes) == 2 })
	c.approach() // is let in by the reserve
	exhaust(t)
	c.watch(func() bool { return len(c.handshakes) == 3 })
	require.Negative(t, c.reserve)
	s := statement{outbox: minOutbox}
	peer.tell(s.seal(secret, roleDialler, peer.transcript))
	require.True(t, s.open(secret, roleAcceptor, peer.transcript, peer.reply(verdictBytes)))
	require.Equal(t, accepted, s.outcome)
	require.Equal(t, up, c.conns[1].state)
	require.GreaterOrEqual(t, c.reserve, 0)
	stranger.shownOut()
	require.Len(t, c.handshakes, 1, "one was enough: the other may stay")
}

// Who calls again brings the descriptor along that its last connection had.
func TestReplacedWithoutDescriptors(t *testing.T) {
	c := newCastle(t, Config{})
	_, ok := c.approach().enter(claim{})
	require.True(t, ok)
	again := c.approach()
	h := again.greeting()
	exhaust(t)
	s, ok := again.enterAs(h, claim{})
	require.True(t, ok)
	require.Equal(t, accepted, s.outcome)
	require.GreaterOrEqual(t, c.reserve, 0)
	require.Empty(t, c.sink.ended)
}

// Nobody is let in while the reserve is spent; the moment that a guest goes it is
// restored, and this process listens again.
func TestHeardAgainWhenAGuestGoes(t *testing.T) {
	c := newCastle(t, Config{})
	first, _ := c.approach(), c.approach()
	exhaust(t)
	l := c.listeners[0]
	c.watch(func() bool { return l.paused })
	require.Len(t, c.handshakes, 1)
	require.Negative(t, c.reserve)
	g := c.handshakes[0]
	require.NoError(t, unix.Shutdown(first.fd, unix.SHUT_RDWR)) // gives no descriptor of the test's back
	c.watch(func() bool { return g.fd < 0 })
	require.False(t, l.paused, "it would wait for the next tick")
}

// After a shortage that ends by itself the reserve is there again, with the next tick.
func TestReserveIsRestored(t *testing.T) {
	c := newCastle(t, Config{})
	c.approach()
	c.approach()
	give := exhaust(t)
	l := c.listeners[0]
	c.watch(func() bool { return l.paused })
	give()
	c.watch(func() bool { return !l.paused })
	require.GreaterOrEqual(t, c.reserve, 0)
}

// Where epoll refuses the listeners for a while, the tick asks again.
func TestListenersAreTriedAgain(t *testing.T) {
	c := newCastle(t, Config{})
	l := c.listeners[0]
	c.pauseAccept(l)
	lobby := c.handshakeSet.fd
	c.handshakeSet.fd = -1
	c.resumeAccept(time.Now())
	c.handshakeSet.fd = lobby
	require.True(t, l.paused)
	require.False(t, c.timer.due.IsZero())
	c.timerFired()
	require.False(t, l.paused)
	c.unharmed()
}

// A process that cannot be let in for want of a descriptor, and that cannot be dialled, is
// reported with what was wanting.
func TestLackingForAPeerThatOnlyDials(t *testing.T) {
	c := newCastle(t, Config{Heal: 50 * time.Millisecond})
	peer := c.approach()
	h := peer.greeting()
	c.self.net++ // the peer's loopback address is not of this machine
	exhaust(t)
	s, ok := peer.enterAs(h, claim{})
	require.True(t, ok)
	require.Equal(t, noResources, s.outcome)
	require.Equal(t, unix.EMFILE, s.shortage)
	c.watch(func() bool { return len(c.sink.ended) > 0 })
	require.Equal(t, []proc.Cause{{Kind: proc.Unreachable, Code: int32(unix.EMFILE)}}, c.sink.ended)
}
