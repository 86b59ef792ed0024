package tcp

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A lender learns that its loan was received also if the frame ends exactly at the window of one
// read.
func TestAckWhenTheWindowIsFull(t *testing.T) {
	tp := newTap(t, Config{})
	tp.write(wire(header{kind: kind(fabric.ClassTest), flags: flagLent}, noise(1, window-headerBytes)))
	require.Len(t, tp.sink.got, 1)
	tp.taken(1)
}

// taken checks that the last frame acknowledges so many frames.
func (tp *tap) taken(n uint32) {
	said := tp.read()
	require.GreaterOrEqual(tp, len(said), headerBytes, "nothing is said")
	h, ok := parseHeader(said[len(said)-headerBytes:])
	require.True(tp, ok)
	require.Equal(tp, kindTaken, h.kind)
	require.Equal(tp, n, h.taken)
}

// An acknowledgement that a full socket does not take is sent later.
func TestAckAfterAFullSocket(t *testing.T) {
	tp := newTap(t, Config{})
	for errno := unix.Errno(0); errno == 0; { // behind the connection's back
		_, errno = sendBytes(tp.conn.fd, []byte{0})
	}
	tp.write(wire(header{kind: kind(fabric.ClassTest), flags: flagLent}, []byte("a loan")))
	require.True(t, tp.conn.out.unsent())
	tp.read()
	require.Positive(t, tp.Poll(&tp.sink.Sink))
	require.False(t, tp.conn.out.unsent())
	tp.taken(1)
}

// crowd sends until the socket is full.
func (tp *tap) crowd() {
	for tp.conn.TrySend(fabric.ClassTest, 0, noise(2, 30_000)) {
	}
	require.True(tp, tp.conn.out.unsent())
}

// An acknowledgement that was due while the socket was full is sent when it is not.
func TestAckAfterCrowding(t *testing.T) {
	tp := newTap(t, Config{})
	tp.crowd()
	tp.write(wire(header{kind: kind(fabric.ClassTest), flags: flagLent}, []byte("a loan")))
	require.Len(t, tp.sink.got, 1)
	for tp.conn.out.unsent() {
		tp.read()
		tp.Poll(&tp.sink.Sink)
	}
	tp.taken(1)
}

// A process that sleeps with data to write wakes when the socket takes them, also if epoll did not
// watch the connection meanwhile.
func TestCreditWakes(t *testing.T) {
	for _, unwatched := range []bool{false, true} {
		rung := make(chan struct{}, 100)
		tp := newTap(t, Config{Ring: func() { rung <- struct{}{} }})
		tp.crowd()
		for tp.Poll(&tp.sink.Sink) > 0 {
		}
		require.False(t, tp.Ready())
		if unwatched {
			tp.recentHits = unwatchAfter - 1
			tp.countRecent(tp.conn)
			require.Equal(t, tp.conn, tp.unwatched)
			require.False(t, tp.Ready())
		}
		tp.read()
		select {
		case <-rung:
		case <-time.After(stall):
			require.Fail(t, "nothing rings", "unwatched: %v", unwatched)
		}
	}
}

// The buffer of a frame is requested once, however many pieces it comes in.
func TestPlaceIsRequestedOnce(t *testing.T) {
	tp := newTap(t, Config{})
	asked := 0
	tp.sink.Place = func(proc.ID, fabric.Class, uint64, int) []byte { asked++; return nil }
	frame := wire(header{kind: kind(fabric.ClassTest)}, noise(3, 3*minPlaced))
	for ; len(frame) > 1000; frame = frame[1000:] {
		tp.write(frame[:1000])
	}
	tp.write(frame)
	require.Equal(t, 1, asked)
	require.Len(t, tp.sink.got, 1)
	tp.write(wire(header{kind: kind(fabric.ClassTest), number: 1}, noise(4, 2*minPlaced))[:minPlaced])
	require.Equal(t, 2, asked, "the next is another frame")
}

// Lent payloads and buffers of placed frames are not used after DetachBuffers.
func TestDetachBuffers(t *testing.T) {
	tp := newTap(t, Config{})
	loan, want := noise(5, maxLent), noise(5, maxLent)
	require.True(t, tp.conn.TryLend(fabric.ClassTest, 0, loan))
	frame := wire(header{kind: kind(fabric.ClassTest)}, noise(6, 2*maxAssembled))
	tp.write(frame[:maxAssembled])
	place := tp.sink.placing
	require.NotNil(t, place)
	tp.conn.DetachBuffers()
	clear(loan)
	clear(place)
	tp.write(frame[maxAssembled:])
	tp.write(wire(header{kind: kind(fabric.ClassTest), number: 1}, []byte("next")))
	require.Equal(t, [][]byte{[]byte("next")}, tp.sink.got)
	require.Equal(t, make([]byte, len(place)), place, "written after Forsake")
	got := tp.read()
	for tp.conn.out.unsent() {
		tp.Poll(&tp.sink.Sink)
		got = append(got, tp.read()...)
	}
	require.True(t, bytes.Equal(want, got[headerBytes:][:maxLent]))
	require.True(t, tp.conn.TryLend(fabric.ClassTest, 0, loan))
	tp.read()
	tp.write(wire(header{kind: kindTaken, taken: 1}, nil))
	tp.Poll(&tp.sink.Sink)
	require.Zero(t, tp.sink.returned, "no process is to be told")
	for tp.conn.out.unsent() {
		tp.Poll(&tp.sink.Sink)
		tp.read()
	}
	tp.write(wire(header{kind: kindTaken, taken: 2}, nil))
	tp.Poll(&tp.sink.Sink)
	require.Equal(t, 1, tp.sink.returned, "the next loan is one again")
}

// A refused sender learns of credit: not before the pending data are written, and once.
func TestCreditComesOnce(t *testing.T) {
	tp := newTap(t, Config{})
	tp.crowd()
	for tp.Poll(&tp.sink.Sink) > 0 {
	}
	require.False(t, tp.Ready())
	for tp.conn.out.unsent() {
		tp.read()
		tp.Poll(&tp.sink.Sink)
	}
	require.True(t, tp.creditReturned, "credit is back")
	require.True(t, tp.Ready())
	for range recentPolls + stride { // until it has looked at everything
		tp.Poll(&tp.sink.Sink)
	}
	require.False(t, tp.Ready(), "which has been said")

	tp = newTap(t, Config{Outbox: minOutbox}) // and the same for a full outbox
	for tp.conn.TrySend(fabric.ClassTest, 0, noise(2, 20_000)) {
		tp.read()
	}
	require.False(t, tp.conn.out.unsent())
	require.False(t, tp.Ready())
	tp.write(wire(header{kind: kindTaken, taken: tp.conn.out.next}, nil))
	require.True(t, tp.Ready())
	require.False(t, tp.Ready())
}

// A peer that sends much without an answer gets acknowledgements before its outbox is full.
func TestAckInTime(t *testing.T) {
	tp := newTap(t, Config{})
	sent := 0
	for number := uint32(0); sent < minOutbox/2; number++ {
		payload := noise(9, 3000)
		tp.write(wire(header{kind: kind(fabric.ClassTest), number: number}, payload))
		sent += headerBytes + len(payload)
	}
	tp.conn.receive(&tp.sink.Sink) // nothing more is there
	said := tp.read()
	require.GreaterOrEqual(t, len(said), headerBytes, "nothing is said")
	h, ok := parseHeader(said)
	require.True(t, ok)
	require.Equal(t, kindTaken, h.kind)
}

// Close continues a frame that has a buffer.
func TestCloseWithAPartialFrame(t *testing.T) {
	tp := newTap(t, Config{})
	frame := wire(header{kind: kind(fabric.ClassTest)}, noise(7, 2*maxAssembled))
	tp.write(frame[:maxAssembled])
	require.NotNil(t, tp.sink.placing)
	tp.Depart()
	for rest := frame[maxAssembled:]; len(rest) > 0; {
		n, errno := sendBytes(tp.fd, rest)
		require.Zero(t, errno)
		rest = rest[n:]
	}
	said := tp.read() // now nothing is left in the socket
	require.NotEmpty(t, said)
	var deaf fabric.Sink
	tp.Poll(&deaf)
	require.NoError(t, tp.Close())
}

// Ends that a function of the sink causes are reported in the same Poll, and count.
func TestEndsInsideCallbacks(t *testing.T) {
	tp := newTap(t, Config{})
	p := tp.Provider
	other := &Conn{p: p, peer: 0, fd: -1}
	told := 0
	tp.sink.Down = func(proc.ID, proc.Cause) {
		if told++; told == 1 {
			other.reportEnd(proc.Cause{Kind: proc.Connection})
		}
	}
	tp.conn.reportEnd(proc.Cause{Kind: proc.Connection})
	require.Equal(t, 2, p.report(&tp.sink.Sink))
	require.Equal(t, 2, told)
}

// blackHole is an address of this machine that neither accepts nor refuses connections: the queue
// of its listener is full.
func blackHole(t *testing.T) netip.AddrPort {
	t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	l := socket()
	require.NoError(t, unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(l, 0))
	name, err := unix.Getsockname(l)
	require.NoError(t, err)
	for { // until one is not connected within some time
		fd := socket()
		require.ErrorIs(t, unix.Connect(fd, name), unix.EINPROGRESS)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 50)
		require.NoError(t, err)
		if n == 0 {
			return addrPort(name)
		}
	}
}

// One address that does not answer does not keep a peer from being reached by another.
func TestNextAddressAfterABlackHole(t *testing.T) {
	leavesNothing(t)
	p := unanswered(t, 0)
	other := unanswered(t, 1)
	c := p.newConn(1, &other.self)
	c.paths = []path{{there: blackHole(t)}, {there: other.self.addrs[0]}}
	c.downSince = time.Now()
	c.reconnect(c.downSince)
	require.Equal(t, dialling, c.state)
	require.False(t, p.timer.due.IsZero(), "nothing will end the attempt")
	require.False(t, p.timer.due.After(c.deadline))
	var sink fabric.Sink
	for start := time.Now(); c.state != up; {
		idle(p)
		p.Poll(&sink)
		other.Poll(&sink)
		require.Less(t, time.Since(start), stall)
	}
	require.Equal(t, other.self.addrs[0], c.path.there)
}

// unanswered is an endpoint that listens on the loopback.
func unanswered(t *testing.T, id proc.ID) *Provider {
	t.Helper()
	p, err := Open(Config{Self: id, MaxProcs: 4, Secret: []byte("a secret of the tests"), Inet: true,
		Networks: []string{"127.0.0.0/8"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// idle waits for an event, a hundredth of a second at most.
func idle(p *Provider) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(p.connSet.fd), Events: unix.POLLIN}}, 10)
}

// A peer without a reachable address may dial; when its connection breaks, this process waits for
// it.
func TestPeerThatOnlyDials(t *testing.T) {
	p, other := unanswered(t, 0), unanswered(t, 1)
	p.self.net = 1 // the other's loopback addresses are not of this machine
	sinks := [2]*collector{newCollector(), newCollector()}
	blob := p.blob
	conn, err := other.Connect(fabric.ConnectSpec{Peer: 0, Address: blob})
	require.NoError(t, err)
	both := [2]*Provider{p, other}
	until(t, both, sinks, func() bool { return conn.(*Conn).state == up && p.Lookup(1) != nil })
	c := p.Lookup(1).(*Conn)
	require.Empty(t, c.paths)
	disconnect(c.fd)
	for start := time.Now(); p.Stats().Accepted < 2; {
		p.Poll(&sinks[0].Sink)
		other.Poll(&sinks[1].Sink)
		require.Less(t, time.Since(start), stall)
	}
	sent := false
	until(t, both, sinks, func() bool {
		sent = sent || c.TrySend(fabric.ClassTest, 0, []byte("again"))
		return len(sinks[1].got) == 1
	})
}

// Each of several peers with full outboxes gets an acknowledgement, also when all are read in one
// turn.
func TestAckToEach(t *testing.T) {
	c := newTarget(t, Config{})
	var peers []*rawClient
	for id := proc.ID(1); id <= 3; id++ {
		in := c.dial()
		_, ok := in.shakeHands(credentials{hello: func(h *hello) { h.from = id }})
		require.True(t, ok)
		peers = append(peers, in)
	}
	for range recentPolls + stride { // until it looks at all in each turn
		c.Poll(&c.sink.Sink)
	}
	for _, in := range peers {
		number := uint32(0)
		for sent := 0; sent < minOutbox/4; number++ {
			b := wire(header{kind: kind(fabric.ClassTest), number: number}, noise(9, 3000))
			n, errno := sendBytes(in.fd, b)
			require.Zero(t, errno)
			require.Len(t, b, n)
			sent += n
		}
	}
	for _, in := range peers {
		h, ok := parseHeader(in.receive(headerBytes))
		require.True(t, ok)
		require.Equal(t, kindTaken, h.kind)
	}
}

// Where ranks share cores the process yields between two polls, for a long time: each poll finds
// the data of all connections. Elsewhere the first poll does that was preceded by Ready.
func TestPollsAll(t *testing.T) {
	for _, shared := range []bool{true, false} {
		c := newTarget(t, Config{Shared: shared})
		var peers []*rawClient
		for id := proc.ID(1); id <= 3; id++ {
			in := c.dial()
			_, ok := in.shakeHands(credentials{hello: func(h *hello) { h.from = id }})
			require.True(t, ok)
			peers = append(peers, in)
		}
		for number := range uint32(stride) {
			for i, in := range peers {
				_, errno := sendBytes(in.fd, wire(header{kind: kind(fabric.ClassTest), number: number}, []byte{7}))
				require.Zero(t, errno)
				fds := []unix.PollFd{{Fd: int32(c.Lookup(proc.ID(i + 1)).(*Conn).fd), Events: unix.POLLIN}}
				n, err := unix.Poll(fds, -1)
				require.NoError(t, err)
				require.Equal(t, 1, n)
				before := len(c.sink.got)
				require.True(t, shared || c.Ready())
				c.Poll(&c.sink.Sink)
				require.Len(t, c.sink.got, before+1, "frame %d of peer %d", number, i+1)
			}
		}
	}
}

// A frame is one event, however it is found: a heartbeat that wakes a process counts as background alone.
func TestAFrameIsOneEvent(t *testing.T) {
	tp := newTap(t, Config{Shared: true}) // each Poll looks at all
	for number, recent := range []*Conn{nil, tp.conn} {
		tp.recent = recent
		_, errno := sendBytes(tp.fd, wire(header{kind: kind(fabric.ClassTest), number: uint32(number)}, nil))
		require.Zero(t, errno)
		require.Equal(t, 1, tp.Poll(&tp.sink.Sink))
		require.Len(t, tp.sink.got, number+1)
	}
}
