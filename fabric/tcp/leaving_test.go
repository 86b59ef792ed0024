package tcp

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A peer that reads no more may have sent something before: that is read, and then the connection
// counts as broken, which reading alone would not show.
func TestConnectionThatCannotBeWrittenTo(t *testing.T) {
	tp := newTap(t, Config{})
	_, errno := sendBytes(tp.fd, wire(header{kind: kind(fabric.ClassTest)}, []byte("said before")))
	require.Zero(t, errno)
	require.NoError(t, unix.Shutdown(tp.fd, unix.SHUT_RD))
	require.True(t, tp.conn.TrySend(fabric.ClassTest, 0, []byte("in vain")))
	require.Equal(t, up, tp.conn.state, "what it has sent is not read yet")
	require.True(t, tp.Ready(), "it would sleep")
	tp.Poll(&tp.sink.Sink)
	require.Equal(t, [][]byte{[]byte("said before")}, tp.sink.got)
	require.NotEqual(t, up, tp.conn.state)
	require.ErrorIs(t, tp.conn.lastError, unix.EPIPE)
	require.True(t, tp.conn.out.kept(), "it goes over the next")
}

// A departing process gets an acknowledgement of its last frame: otherwise it would call a peer
// that may have ended as well.
func TestByeIsAcknowledged(t *testing.T) {
	tp := newTap(t, Config{})
	tp.write(wire(header{kind: kindBye}, nil))
	tp.taken(1)
	tp.Poll(&tp.sink.Sink)
	require.Equal(t, []proc.Cause{{Kind: proc.Departed}}, tp.sink.ended)
}

// The rest of a frame for a peer that does not read is in the kernel before Close ends.
func TestCloseLeavesNoPartialFrame(t *testing.T) {
	p, c := pair(t, Config{Unix: true, Linger: 100 * time.Millisecond})
	sent := 0
	for c[0].TrySend(fabric.ClassTest, 0, noise(1, 60_000)) {
		sent++
	}
	require.True(t, c[0].out.unsent())
	p[0].Depart()
	require.NoError(t, p[0].Close())
	s := newCollector()
	for start := time.Now(); len(s.ended) == 0; {
		p[1].Poll(&s.Sink)
		require.Less(t, time.Since(start), stall)
	}
	require.Equal(t, []proc.Cause{{Kind: proc.Departed}}, s.ended)
	require.Len(t, s.got, sent)
}

// Data that only this machine's kernel has are not delivered: the peer's next frame to a closed
// socket would discard them.
func TestUndeliveredInTheKernel(t *testing.T) {
	p, c := pair(t, Config{Inet: true, Networks: []string{"127.0.0.0/8"}})
	require.NoError(t, unix.SetsockoptInt(c[0].fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 200_000))
	const frames = 10 // more than the receive window of a peer that has not read
	for range frames {
		require.True(t, c[0].TrySend(fabric.ClassTest, 0, noise(1, 30_000)))
	}
	require.False(t, c[0].out.unsent())
	busy, full := p[0].unacknowledged()
	require.True(t, busy)
	require.False(t, full)
	s := [2]*collector{newCollector(), newCollector()}
	until(t, p, s, func() bool { busy, _ := p[0].unacknowledged(); return !busy })
	until(t, p, s, func() bool { return len(s[1].got) == frames })
}

// The same for the death of this process: the engine sleeps until the kernel has sent all of it.
func TestUnsentByTheKernel(t *testing.T) {
	p, c := pair(t, Config{Inet: true, Networks: []string{"127.0.0.0/8"}})
	require.NoError(t, unix.SetsockoptInt(c[0].fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 200_000))
	const frames = 10 // more than the receive window of a peer that has not read
	require.True(t, p[0].EndBurst())
	for range frames {
		require.True(t, c[0].TrySend(fabric.ClassTest, 0, noise(1, 30_000)))
	}
	require.False(t, c[0].out.unsent())
	require.False(t, p[0].EndBurst())
	require.True(t, c[0].Unsent())
	s := [2]*collector{newCollector(), newCollector()}
	for turns := 0; p[0].Ready(); turns++ {
		require.Less(t, turns, 1000, "the peer's window is full, and nothing waits for it")
		p[0].Poll(&s[0].Sink)
	}
	require.Equal(t, c[:1], p[0].blocked)
	for turns := 0; !p[0].Ready(); turns++ {
		require.Less(t, turns, 1_000_000, "the peer reads, and nothing wakes this process")
		p[1].Poll(&s[1].Sink)
	}
	until(t, p, s, func() bool { return !c[0].Unsent() && p[0].EndBurst() })
	require.Empty(t, p[0].blocked)
	until(t, p, s, func() bool { return len(s[1].got) == frames })
	// The following data take as much as the kernel has room for.
	lowat, err := unix.GetsockoptInt(c[0].fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	require.NoError(t, err)
	require.NotEqual(t, 1, lowat)
}

// A peer that has died is not among those whose connection is to be made, for which accepted frames wait.
func TestDeadPeerIsNotReconnected(t *testing.T) {
	p, _ := pair(t, Config{Unix: true})
	require.NoError(t, p[1].Close())
	s := newCollector()
	for len(s.ended) == 0 {
		p[0].Poll(&s.Sink)
	}
	require.True(t, p[0].EndBurst())
}

// Over a Unix socket they are: unread data stay there for the peer, so Close waits no longer than a
// peer may be silent, and ends though they are never read.
func TestUndeliveredToASilentPeer(t *testing.T) {
	t.Parallel() // it waits
	p, c := pair(t, Config{Unix: true, Linger: time.Hour})
	require.True(t, c[0].TrySend(fabric.ClassTest, 0, noise(1, 30_000)))
	busy, full := p[0].unacknowledged()
	require.True(t, busy)
	require.True(t, full)
	p[0].Depart()
	require.NoError(t, p[0].Close())
	s := newCollector()
	for start := time.Now(); len(s.ended) == 0; {
		p[1].Poll(&s.Sink)
		require.Less(t, time.Since(start), stall)
	}
	require.Len(t, s.got, 1)
	require.Equal(t, []proc.Cause{{Kind: proc.Departed}}, s.ended)
}

// Over TCP it waits longer, but not forever.
func TestLingerEnds(t *testing.T) {
	const linger = 50 * time.Millisecond
	p, c := pair(t, Config{Inet: true, Networks: []string{"127.0.0.0/8"}, Linger: linger})
	for range 10 { // more than the receive window of a peer that has not read
		require.True(t, c[0].TrySend(fabric.ClassTest, 0, noise(1, 30_000)))
	}
	p[0].Depart()
	start := time.Now()
	require.NoError(t, p[0].Close())
	require.Greater(t, time.Since(start), linger)
}

// A peer that is authenticated by the time of Close learns that this process has departed, also
// where nothing could answer since Depart.
func TestDepartedAnswersAtClose(t *testing.T) {
	gone := newTarget(t, Config{})
	gone.Depart()
	gone.acceptor.close()
	gone.acceptor = nil // as where there was no descriptor for it
	in := gone.dialToProof()
	s := statement{outbox: minOutbox}
	in.sendRecorded(s.seal(secret, roleDialler, in.transcript))
	require.NoError(t, gone.Close())
	var verdict []byte
	for verdict == nil {
		var err error
		verdict, err = in.readMessage(verdictBytes)
		require.NoError(t, err)
	}
	require.True(t, s.open(secret, roleAcceptor, in.transcript, verdict))
	require.Equal(t, departed, s.outcome)
}

// A process that has departed and polls no more closes slow handshakes, too.
func TestDepartedAcceptsNobody(t *testing.T) {
	gone := newTarget(t, Config{})
	gone.Depart()
	postponed := func() int {
		gone.mu.Lock()
		defer gone.mu.Unlock()
		return len(gone.handshakes)
	}
	slow := gone.dial()
	for postponed() == 0 {
		runtime.Gosched()
	}
	gone.mu.Lock()
	gone.handshakes[0].due = time.Now()
	gone.mu.Unlock()
	gone.dial() // wakes the acceptor
	for {
		b, err := slow.readMessage(1)
		if err != nil {
			break
		}
		require.Nil(t, b)
		runtime.Gosched()
	}
}

// A process that has departed and polls no more answers newcomers, and peers that have lost the
// connection.
func TestDepartedAnswersUnpolled(t *testing.T) {
	leavesNothing(t)
	gone, here := unanswered(t, 0), unanswered(t, 1)
	gone.Depart()
	_, err := here.Connect(fabric.ConnectSpec{Peer: 0, Address: gone.Address()})
	require.NoError(t, err)
	s := newCollector()
	for start := time.Now(); len(s.ended) == 0; {
		here.Poll(&s.Sink)
		require.Less(t, time.Since(start), stall)
	}
	require.Equal(t, []proc.Cause{{Kind: proc.Departed}}, s.ended)
}
