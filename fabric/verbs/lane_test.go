//go:build cgo

package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// peer is one of two endpoints in this process, with the frames that it has received.
type peer struct {
	*Provider
	t      *testing.T
	sink   fabric.Sink
	got    []uint64
	downs  []proc.Cause
	leaves int
}

func newPeers(t *testing.T) (p [2]*peer) { return newPeersWith(t, mostRails) }

// newPeersWith is newPeers with so many ports at most.
func newPeersWith(t *testing.T, most int) (p [2]*peer) {
	ports, err := ChooseAll("", nil)
	require.NoError(t, err)
	ports = ports[:min(most, len(ports))]
	timeout := time.Duration(0)
	if ports[0].Kind == IWARP { // a machine that others slow down answers late, and nothing here waits for it
		timeout = 10 * time.Second
	}
	for i := range p {
		q, err := Open(Config{Ports: ports, Timeout: timeout, Sockets: tcp.Config{
			Self: proc.ID(i), MaxProcs: 2, Secret: []byte("sixteen bytes or more"), Inet: true,
		}})
		require.NoError(t, err)
		p[i] = &peer{Provider: q, t: t}
		q.pause = longest // however long a test takes: those with lanes that come back change it
		p[i].sink.Deliver[fabric.ClassTest] = func(_ proc.ID, imm uint64, payload []byte) {
			require.Equal(t, imm, binary.LittleEndian.Uint64(payload))
			p[i].got = append(p[i].got, imm)
		}
		p[i].sink.Down = func(_ proc.ID, cause proc.Cause) { p[i].downs = append(p[i].downs, cause) }
		p[i].sink.Departed = func(proc.ID) { p[i].leaves++ }
		t.Cleanup(func() { require.NoError(t, q.Close()) })
	}
	return p
}

func poll(p [2]*peer) {
	for _, q := range p {
		q.Poll(&q.sink)
	}
}

// lanes connects the two and polls until both send over the lane.
func lanes(t *testing.T, p [2]*peer) (c [2]*Conn) {
	for i, q := range p {
		made, err := q.Connect(fabric.ConnectSpec{Peer: proc.ID(1 - i), Address: p[1-i].Address()})
		require.NoError(t, err)
		c[i] = made.(*Conn)
	}
	for !c[0].sending || !c[1].sending {
		poll(p)
	}
	return c
}

func noAdapter(t *testing.T) bool {
	_, err := os.Stat(adapters)
	if err != nil {
		t.Log("NOT TESTED: no adapter here: make test-verbs has a virtual machine with one")
	}
	return err != nil
}

// sendNumbered sends frames in the order of their numbers, both ways, until each has accepted so many.
func sendNumbered(p [2]*peer, c [2]*Conn, sent *[2]uint64, n uint64, each func()) {
	payload := make([]byte, 3000)
	for sent[0] < n || sent[1] < n {
		for i := range c {
			if binary.LittleEndian.PutUint64(payload, sent[i]); sent[i] < n && c[i].TrySend(fabric.ClassTest, sent[i], payload) {
				sent[i]++
			}
		}
		each()
	}
}

// inOrder checks that each has received the numbers below n, each once.
func inOrder(t *testing.T, p [2]*peer, n int) {
	for len(p[0].got) < n || len(p[1].got) < n {
		poll(p)
	}
	for _, q := range p {
		require.Empty(t, q.downs)
		require.Len(t, q.got, n)
		for i, imm := range q.got {
			require.EqualValues(t, i, imm)
		}
	}
}

// A queue pair that fails in the middle of traffic loses and repeats nothing: the frames go on over the sockets. At
// the end that finds it broken they have been acknowledged, or the acknowledgements have been lost.
func TestLaneThatFails(t *testing.T) {
	if noAdapter(t) {
		return
	}
	for _, lost := range []bool{false, true} {
		p := newPeersWith(t, 1)
		c := lanes(t, p)
		var sent [2]uint64
		sendNumbered(p, c, &sent, 500, func() { poll(p) })
		inOrder(t, p, 500)
		if lost {
			payload := make([]byte, 8)
			for ; sent[0] < 500+leastCredit; sent[0]++ {
				binary.LittleEndian.PutUint64(payload, sent[0])
				require.True(t, c[0].TrySend(fabric.ClassTest, sent[0], payload))
			}
			for len(p[1].got) < 500+leastCredit {
				p[1].Poll(&p[1].sink)
			}
			require.NotEmpty(t, c[0].out)
			c[0].fails(errors.New("no acknowledgement"))
		} else {
			c[1].pair.fail()
		}
		sendNumbered(p, c, &sent, 1500, func() { poll(p) })
		inOrder(t, p, 1500)
		for i := range c {
			require.False(t, c[i].sending)
			require.EqualValues(t, 1, c[i].Traffic().Broken)
			require.Contains(t, c[i].Describe(), "tcp")
			require.Zero(t, p[i].lanes)
			require.Zero(t, p[i].onWay)
		}
	}
}

// A lane that fails comes back, again and again, on whichever side it fails and also while the peer still returns to the
// sockets; each frame comes once and in order.
func TestLaneComesBack(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const times = 8
	p := newPeers(t)
	p[0].pause, p[1].pause = time.Millisecond, time.Millisecond
	c := lanes(t, p)
	var sent [2]uint64
	n := uint64(0)
	for i := range times {
		n += 300
		sendNumbered(p, c, &sent, n, func() { poll(p) })
		payload := make([]byte, 8)
		for binary.LittleEndian.PutUint64(payload, sent[0]); c[0].TrySend(fabric.ClassTest, sent[0], payload); sent[0]++ {
			binary.LittleEndian.PutUint64(payload, sent[0]+1)
		}
		before := c[0].generation
		switch i % 4 {
		case 0:
			c[1].pair.fail()
		case 1:
			c[0].fails(errors.New("ours"))
		case 2: // both at once
			c[0].fails(errors.New("ours"))
			c[1].fails(errors.New("theirs"))
		default: // as soon as one of them sends again
			c[0].fails(errors.New("ours"))
			for c[1].generation == before || !c[1].sending {
				poll(p)
			}
			c[1].fails(errors.New("theirs"))
		}
		for c[0].generation == before || !c[0].sending || !c[1].sending || !c[0].receiving || !c[1].receiving {
			n = max(n, sent[0], sent[1]) + 1
			sendNumbered(p, c, &sent, n, func() { poll(p) })
		}
	}
	n += 300
	sendNumbered(p, c, &sent, n, func() { poll(p) })
	inOrder(t, p, int(n))
	for i := range c {
		require.GreaterOrEqual(t, c[i].Traffic().Broken, uint64(times))
		require.NotZero(t, c[i].Traffic().Healed)
		require.Contains(t, c[i].Describe(), "verbs ")
		require.Equal(t, 1, p[i].lanes)
		require.Equal(t, c[i].generation, c[1-i].generation)
	}
	for !p[0].EndBurst() || c[0].Unsent() {
		poll(p)
	}
	p[0].Depart()
	require.NoError(t, p[0].Close())
	for p[1].leaves == 0 {
		p[1].Poll(&p[1].sink)
	}
	require.Empty(t, p[1].downs)
}

// A lane that fails goes to the next port at once, and back after a pause; past one over which it cannot be made. Each frame comes once
// and in order, and operations on shared memory go on over the next lane.
func TestLaneGoesToTheNextPort(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	require.Greater(t, len(p[0].ports), 1, "a machine with two devices is needed: rdma-vm -i 2")
	m := countMoves(p[0])
	shared := make([]byte, 1<<20)
	r, err := p[1].Share(shared)
	require.NoError(t, err)
	local := registered(p[0], len(shared))
	var sent [2]uint64
	n := uint64(0)
	over := func(generation uint32, port int) {
		for i := range c {
			for c[i].generation < generation || !c[i].Moves() {
				n = max(n, sent[0], sent[1]) + 1
				sendNumbered(p, c, &sent, n, func() { poll(p) })
			}
			require.Equal(t, generation, c[i].generation)
			require.Equal(t, port, c[i].port.n)
			require.Contains(t, c[i].Describe(), "verbs "+p[i].ports[port].String())
			require.Len(t, p[i].ports[port].lanes, 1)
			require.Empty(t, p[i].ports[1-port].lanes)
		}
		n += 300
		sendNumbered(p, c, &sent, n, func() { poll(p) })
		rand.NewChaCha8([32]byte{byte(generation)}).Read(local)
		for _, try := range []func([]byte, fabric.Region, uint64) int{c[0].TryPut, c[0].TryGet} {
			require.True(t, m.all(p, try, local, r, 0))
			for !m.ended() {
				poll(p)
			}
			require.True(t, bytes.Equal(local, shared))
			clear(local)
		}
	}
	over(0, 0)
	c[1].pair.fail()
	over(1, 1)
	pauseEnds := func() {
		for i := range c {
			c[i].renewals[0].at = time.Time{}
		}
	}
	pauseEnds()
	c[0].pair.fail()
	over(2, 0)
	c[0].pair.fail()
	for c[0].generation < 3 || c[1].generation < 3 {
		n++
		sendNumbered(p, c, &sent, n, func() { poll(p) })
	}
	pauseEnds()
	c[0].cannotBegin(errors.New("no pair")) // over the second port: it is the turn of the first one again
	over(4, 0)
	inOrder(t, p, int(n))
	require.Zero(t, m.lost)
	p[1].Unshare(r)
}

// A lane whose ends cannot be joined comes back.
func TestLaneWhoseJoinFails(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steadyWith(t, 1)
	if p[0].ports[0].d.links != nil {
		return // iWARP connects later
	}
	c[0].fails(errors.New("broken"))
	for c[0].generation < 1 || c[1].generation < 1 {
		poll(p)
	}
	c[0].begin()
	nowhere := end{qp: 1, mtu: 1, kind: c[0].mine.kind, gid: netip.MustParseAddr("::ffff:10.99.0.1").As16()}
	c[0].join(&note{word: offer, credit: 4, ports: 1, end: nowhere})
	require.True(t, c[0].off)
	for c[0].generation < 2 || c[1].generation < 2 {
		poll(p)
	}
	c[0].renewals[0].at, c[1].renewals[0].at = time.Time{}, time.Time{}
	for !c[0].sending || !c[1].sending {
		poll(p)
	}
	var sent [2]uint64
	sendNumbered(p, c, &sent, 100, func() { poll(p) })
	inOrder(t, p, 100)
}

// The note over comes after all frames of the last lane, which go over the sockets.
func TestFramesOfLastLaneComeFirst(t *testing.T) {
	c := &Conn{p: new(Provider), joined: true, heard: true, resend: make([]onWay, 1)}
	c.change()
	require.False(t, c.wantsTo)
}

// While the path is broken no frame waits for a new lane: it fails its test.
func TestLaneThatStaysBroken(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p := newPeers(t)
	p[0].pause, p[1].pause = time.Millisecond, time.Millisecond
	c := lanes(t, p)
	var sent [2]uint64
	sendNumbered(p, c, &sent, 100, func() { poll(p) })
	c[0].fails(errors.New("broken"))
	n, most := uint64(100), c[0].carried
	for c[0].breaks < 3 {
		for i := range c {
			if c[i].joined && !c[i].off && c[i].generation > 0 {
				c[i].pair.fail() // before the peer's test
			}
		}
		n++
		sendNumbered(p, c, &sent, n, func() { poll(p) })
		require.False(t, c[0].sending)
		require.Equal(t, most, c[0].carried)
	}
	for !c[0].sending || !c[1].sending {
		poll(p)
	}
	n += 300
	sendNumbered(p, c, &sent, n, func() { poll(p) })
	inOrder(t, p, int(n))
}

// Frames that go over the sockets first and then over the lane come in order, and go over the lane in the end.
func TestLaneTakesOver(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p := newPeers(t)
	var c [2]*Conn
	for i, q := range p {
		made, err := q.Connect(fabric.ConnectSpec{Peer: proc.ID(1 - i), Address: p[1-i].Address()})
		require.NoError(t, err)
		c[i] = made.(*Conn)
	}
	var sent [2]uint64
	n := uint64(0)
	for !c[0].sending || !c[1].sending || n < 2000 {
		n += 100
		sendNumbered(p, c, &sent, n, func() { poll(p) })
	}
	inOrder(t, p, int(n))
	for i := range c {
		require.Contains(t, c[i].Describe(), "verbs ")
		require.NotZero(t, c[i].carried)
		require.Zero(t, c[i].Traffic().Broken)
	}
	for !p[0].EndBurst() || c[0].Unsent() {
		poll(p)
	}
	p[0].Depart()
	require.NoError(t, p[0].Close())
	for p[1].leaves == 0 {
		p[1].Poll(&p[1].sink)
	}
	require.Empty(t, p[1].downs)
}

// A peer that has adapters and sends a message that no process of this version writes is cut off.
func TestCorruptMessages(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p := newPeers(t)
	c := lanes(t, p)
	slot, err := p[0].ports[0].outgoing.take()
	require.NoError(t, err)
	at, m := p[0].ports[0].outgoing.at(slot)
	(&header{length: 9, class: fabric.ClassTest}).put(at) // more than there is
	p[0].ports[0].d.send(c[0].pair, &work{at: at[:headerBytes], m: m, signal: true})
	_, _, err = p[0].ports[0].d.round(0)
	require.NoError(t, err)
	for len(p[1].downs) == 0 {
		p[1].Poll(&p[1].sink)
	}
	require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, p[1].downs)
	p[0].ports[0].outgoing.give(slot)
}
