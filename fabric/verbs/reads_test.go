//go:build cgo

package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// registered gives memory that an endpoint has registered, with random contents.
func registered(p *peer, n int) []byte {
	mem := randomBytes(n)
	p.Register(mem)
	return mem
}

func randomBytes(n int) []byte {
	mem := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(mem[i:], rand.Uint64())
	}
	return mem
}

// get reads as Conn.Get does elsewhere.
func (p *peer) get(c *Conn, local []byte, from fabric.Region) (err error) {
	ended := false
	p.sink.Fetched = func(_ proc.ID, token uint64, why error) {
		require.EqualValues(p.t, 7, token)
		require.False(p.t, ended, "it is reported twice")
		err, ended = why, true
	}
	if err := c.Fetch(local, from, 7); err != nil {
		return err
	}
	for !ended {
		p.Poll(&p.sink)
	}
	return err
}

// A message from registered memory is read into registered memory, and by way of buffers into other memory.
func TestReads(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const most = 5*stageBytes + 7
	p, c := steady(t)
	mem, into := registered(p[0], most), registered(p[1], most)
	for _, local := range [][]byte{into, make([]byte, most)} {
		for _, n := range []int{1, 8, 4097, stageBytes, stageBytes + 1, 4*stageBytes - 1, most - 1} {
			require.True(t, c[0].ReadInPlace(mem[1:][:n]))
			region, err := c[0].Expose(mem[1:][:n])
			require.NoError(t, err)
			clear(local)
			require.NoError(t, p[1].get(c[1], local[:n], region))
			require.Equal(t, mem[1:][:n], local[:n])
			require.Zero(t, local[n], "a byte behind the message")
			require.NoError(t, p[1].get(c[1], nil, region))
			require.Error(t, p[1].get(c[1], local[:n+1], region), "beyond the region")
		}
	}
	_, err := c[0].Expose(make([]byte, 8))
	require.ErrorIs(t, err, fabric.ErrUnsupported)
	require.ErrorIs(t, p[1].get(c[1], into[:1], fabric.Region{Addr: 1, Len: 1}), fabric.ErrUnsupported)
	require.ErrorIs(t, c[1].Get(into[:1], fabric.Region{Addr: 1, Len: 1}, 0), fabric.ErrUnsupported)
	p[0].Deregister(mem)
	require.False(t, c[0].ReadInPlace(mem[:1]))
}

// A read that fails, because the memory is not registered any more, is an error, and the next one is not tried. The
// lane goes on, and nothing is written after the error.
func TestReadThatFails(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	mem := registered(p[0], 8*stageBytes)
	region, err := c[0].Expose(mem)
	require.NoError(t, err)
	p[0].Deregister(mem)
	local := make([]byte, len(mem))
	err = p[1].get(c[1], local, region)
	require.ErrorContains(t, err, "reading")
	require.False(t, errors.Is(err, fabric.ErrPeerGone))
	require.Equal(t, make([]byte, len(mem)), local)
	require.Zero(t, p[1].ports[0].underWay, "a read is under way after the report")
	require.ErrorIs(t, c[1].Fetch(local, region, 0), fabric.ErrUnsupported)
	_, err = c[1].Expose(registered(p[1], 8))
	require.ErrorIs(t, err, fabric.ErrUnsupported, "the peer's end of a broken pair")

	var sent [2]uint64
	sendNumbered(p, c, &sent, 200, func() { poll(p) })
	inOrder(t, p, 200)
	require.True(t, c[0].sending && c[1].sending)
}

// Long messages are read over all ports. A port that fails is left, and the message is read over the others.
func TestRails(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	ours, theirs := c[1].reads, c[0].reads
	require.Greater(t, len(ours.rails), 1, "a machine with two devices is needed: rdma-vm -i 2")
	mem, into := registered(p[0], 8<<20), registered(p[1], 8<<20)
	region, err := c[0].Expose(mem)
	require.NoError(t, err)
	read := func(local []byte) error {
		clear(local)
		err := p[1].get(c[1], local, region)
		if err == nil {
			require.True(t, bytes.Equal(mem, local))
		}
		return err
	}
	for _, local := range [][]byte{into, make([]byte, len(mem))} {
		before := [2]uint64{ours.rails[0].bytes, ours.rails[1].bytes}
		require.NoError(t, read(local))
		for i := range before {
			require.Greater(t, ours.rails[i].bytes-before[i], uint64(len(mem)/8), "bytes over rail %d", i)
		}
	}
	require.NoError(t, c[1].Fetch(into, region, 7)) // it fails in the middle of a message
	theirs.rails[1].at.fail()
	ended := false
	p[1].sink.Fetched = func(_ proc.ID, _ uint64, why error) { require.NoError(t, why); ended = true }
	for !ended {
		p[1].Poll(&p[1].sink)
	}
	require.True(t, bytes.Equal(mem, into))
	for rounds := 0; ours.rails[1].joined; rounds++ {
		require.NoError(t, read([][]byte{into, make([]byte, len(mem))}[rounds%2]))
	}
	require.NoError(t, read(into))
	require.True(t, c[0].ReadInPlace(mem))
	theirs.rails[0].at.fail()
	require.ErrorContains(t, read(into), "reading")
	require.ErrorIs(t, read(into), fabric.ErrUnsupported)
	require.True(t, c[0].sending && c[1].sending, "the lane has a pair of its own")
}

// bothRead is two endpoints that read a message of each other.
type bothRead struct {
	p         [2]*peer
	c         [2]*Conn
	mem, into [2][]byte
	region    [2]fabric.Region
	ended     [2]bool
	why       [2]error
}

func newBothRead(t *testing.T, n int) *bothRead {
	p, c := steady(t)
	b := &bothRead{p: p, c: c}
	for i := range p {
		b.mem[i], b.into[i] = registered(p[i], n), registered(p[i], n)
		var err error
		b.region[i], err = c[i].Expose(b.mem[i])
		require.NoError(t, err)
		p[i].sink.Fetched = func(_ proc.ID, _ uint64, err error) {
			require.False(t, b.ended[i], "it is reported twice")
			b.ended[i], b.why[i] = true, err
		}
	}
	return b
}

// read returns the number of messages that have come; others are reported with an error.
func (b *bothRead) read(t *testing.T, during func()) (good int) {
	for i := range b.c {
		clear(b.into[i])
		b.why[i] = b.c[i].Fetch(b.into[i], b.region[1-i], 7)
		b.ended[i] = b.why[i] != nil
	}
	during()
	for !b.ended[0] || !b.ended[1] {
		poll(b.p)
	}
	for i := range b.why {
		if b.why[i] == nil {
			require.True(t, bytes.Equal(b.mem[1-i], b.into[i]))
			good++
		}
	}
	return good
}

// broken reports whether a rail is.
func (b *bothRead) broken() bool {
	return slices.ContainsFunc(slices.Concat(b.c[0].reads.rails, b.c[1].reads.rails), func(x *rail) bool { return !x.joined })
}

// A rail that fails comes back, on whichever side it fails and while messages are read both ways, though no other rail is left. Each message
// is reported once, with good data or an error; the lane goes on.
func TestRailsComeBack(t *testing.T) {
	if noAdapter(t) {
		return
	}
	b := newBothRead(t, 1<<20)
	p, c := b.p, b.c
	p[0].pause, p[1].pause = time.Millisecond, time.Millisecond
	for round := range 12 {
		side := round % 2
		b.read(t, func() {
			for k, x := range c[side].reads.rails {
				if round/2%3 != k { // one alone, the other one, both
					x.at.fail()
				}
			}
			for _, x := range c[1-side].reads.rails {
				if round > 6 { // both sides find it at once
					x.breaks(p[1-side].Provider, errors.New("broken"))
				}
			}
		})
		for b.broken() || b.read(t, func() {}) < 2 {
			poll(p)
		}
		for i := range c {
			require.Equal(t, len(c[i].reads.rails), len(p[i].ports[0].rails)+len(p[i].ports[1].rails))
			require.True(t, c[i].ReadInPlace(b.mem[i]))
		}
	}
	require.True(t, c[0].sending && c[1].sending && c[0].breaks+c[1].breaks == 0)
}

// A rail whose ends cannot be joined is made again.
func TestRailWhoseJoinFails(t *testing.T) {
	if noAdapter(t) {
		return
	}
	b := newBothRead(t, 1<<20)
	p := b.p[0]
	p.pause, b.p[1].pause = time.Millisecond, time.Millisecond
	for _, x := range b.c[0].reads.rails {
		number, other := x.number, end{qp: 1, mtu: 1, kind: IWARP}
		if x.mine.kind == IWARP {
			other.kind = RoCE
		}
		x.withdraw(p.Provider, errReadsEnd)
		require.True(t, x.open(p.Provider))
		x.join(p.Provider, &other)
		require.False(t, x.joined)
		for x.number == number || b.broken() || b.read(t, func() {}) < 2 {
			poll(b.p)
		}
	}
	require.True(t, b.c[0].sending && b.c[1].sending)
}

// Many messages are read at once, over all rails, by more than one connection's share of buffers; each is reported once.
func TestManyReads(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const n, length = 200, 70_001
	p, c := steady(t)
	mem, into, other := registered(p[0], n*length), registered(p[1], n/2*length), make([]byte, n/2*length)
	clear(into)
	place := func(i uint64) []byte { return [][]byte{into, other}[i%2][i/2*length:][:length] }
	reported, most := make([]int, n), 0
	p[1].sink.Fetched = func(from proc.ID, token uint64, why error) {
		require.NoError(t, why)
		require.EqualValues(t, 0, from)
		reported[token]++
		require.True(t, bytes.Equal(mem[token*length:][:length], place(token)), "message %d", token)
	}
	p[1].up = &p[1].sink // as in Poll: they start together
	for i := range uint64(n) {
		region, err := c[0].Expose(mem[i*length:][:length])
		require.NoError(t, err)
		require.NoError(t, c[1].Fetch(place(i), region, i))
		most = max(most, len(c[1].reads.list))
	}
	p[1].up = nil
	require.Equal(t, n, most)
	for len(c[1].reads.list)+len(p[1].reading.fetched) > 0 {
		p[1].Poll(&p[1].sink)
	}
	for i := range reported {
		require.Equal(t, 1, reported[i], "message %d", i)
	}
	for _, port := range p[1].ports {
		require.Zero(t, port.underWay)
		require.Len(t, port.buffers, port.made)
	}
}

// Reads from a peer that is cut off write nothing any more, and are not reported; nor are those that this process ends. The lane goes
// on where the peer is not cut off.
func TestReadsThatAreEnded(t *testing.T) {
	if noAdapter(t) {
		return
	}
	for _, end := range []func(*Conn){(*Conn).EndFetches, (*Conn).Invalidate} {
		p, c := steady(t)
		mem, into := registered(p[0], 8<<20), registered(p[1], 8<<20)
		region, err := c[0].Expose(mem)
		require.NoError(t, err)
		for _, local := range [][]byte{into, make([]byte, len(mem))} {
			clear(local)
			p[1].sink.Fetched = func(proc.ID, uint64, error) { require.Fail(t, "it is reported") }
			require.NoError(t, c[1].Fetch(local[:len(mem)/2], region, 7))
		}
		end(c[1])
		before := append([]byte(nil), into...)
		clear(mem)
		for range 1000 {
			p[1].Poll(&p[1].sink)
		}
		require.True(t, bytes.Equal(before, into), "reads go on")
		require.Zero(t, p[1].ports[0].underWay+p[1].ports[1].underWay)
		require.Len(t, p[1].ports[0].buffers, p[1].ports[0].made)
		if !c[1].cut {
			var sent [2]uint64
			sendNumbered(p, c, &sent, 200, func() { poll(p) })
			inOrder(t, p, 200)
			require.True(t, c[0].sending && c[1].sending)
		}
	}
}

// A process that sleeps is woken when a read ends.
func TestReadsWake(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	require.Greater(t, len(c[1].reads.rails), 1, "a machine with two devices is needed: rdma-vm -i 2")
	mem, into := registered(p[0], 8<<20), registered(p[1], 8<<20)
	region, err := c[0].Expose(mem)
	require.NoError(t, err)
	for i := range c[1].reads.rails {
		for k, x := range c[1].reads.rails {
			x.joined = k == i // over this port alone
		}
		ended := false
		p[1].sink.Fetched = func(_ proc.ID, _ uint64, why error) { require.NoError(t, why); ended = true }
		require.NoError(t, c[1].Fetch(into, region, 7))
		for !ended {
			if !p[1].Ready() {
				require.True(t, readable(t, p[1].ports[i].d.fd()), "nothing wakes it")
			}
			p[1].Poll(&p[1].sink)
		}
		require.True(t, bytes.Equal(mem, into))
		clear(into)
	}
}

// readable waits until a descriptor is; false: it is not after ten seconds.
func readable(t *testing.T, fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	require.NoError(t, err)
	return n > 0
}

// A message for memory that is not registered is not read where no buffer can be made, and does not wait for one.
func TestReadsWithoutBuffers(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	mem, into := registered(p[0], stageBytes), registered(p[1], stageBytes)
	local := make([]byte, stageBytes)
	region, err := c[0].Expose(mem)
	require.NoError(t, err)
	require.NoError(t, p[1].get(c[1], into, region))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 20, Max: before.Max}))
	err = p[1].get(c[1], local, region)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before))
	require.ErrorContains(t, err, "ibv_reg_mr")
	require.Zero(t, p[1].ports[0].made)
	require.ErrorIs(t, c[1].Fetch(local, region, 0), fabric.ErrUnsupported)
}
