//go:build cgo

package verbs

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
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

// A message from registered memory is read into registered memory, and by way of buffers into other memory.
func TestReads(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const most = 5*stageBytes + 7
	p, c := steady(t)
	mem, into := registered(p[0], most), registered(p[1], most)
	for _, local := range [][]byte{into, make([]byte, most)} {
		for _, n := range []int{1, 8, 4097, stageBytes, stageBytes + 1, readsAtOnce*stageBytes - 1, most - 1} {
			require.True(t, c[0].ReadInPlace(mem[1:][:n]))
			region, err := c[0].Expose(mem[1:][:n])
			require.NoError(t, err)
			clear(local)
			require.NoError(t, c[1].Get(local[:n], region, 0))
			require.Equal(t, mem[1:][:n], local[:n])
			require.Zero(t, local[n], "a byte behind the message")
			require.NoError(t, c[1].Get(local[:1], region, uint64(n-1)))
			require.Equal(t, mem[n], local[0])
			require.Error(t, c[1].Get(local[:2], region, uint64(n-1)), "beyond the region")
		}
	}
	_, err := c[0].Expose(make([]byte, 8))
	require.ErrorIs(t, err, fabric.ErrUnsupported)
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
	err = c[1].Get(local, region, 0)
	require.ErrorContains(t, err, "reading")
	require.False(t, errors.Is(err, fabric.ErrPeerGone))
	require.Equal(t, make([]byte, len(mem)), local)
	_, _, ended, err := waitRead(p[1].reading.rails, 0)
	require.NoError(t, err)
	require.False(t, ended, "a read was under way after the Get")
	require.ErrorIs(t, c[1].Get(local, region, 0), fabric.ErrUnsupported)
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
	ours, theirs := c[1].reads.Load(), c[0].reads.Load()
	require.Greater(t, len(ours.rails), 1, "a machine with two devices is needed: rdma-vm -i 2")
	mem, into := registered(p[0], 8<<20), registered(p[1], 8<<20)
	region, err := c[0].Expose(mem)
	require.NoError(t, err)
	read := func(local []byte) error {
		clear(local)
		err := c[1].Get(local, region, 0)
		if err == nil {
			require.Equal(t, mem, local)
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
	go func() { // in the middle of a message
		for p[1].reading.mu.TryLock() {
			p[1].reading.mu.Unlock()
		}
		theirs.rails[1].at.fail()
	}()
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

// A Get from a peer that is cut off while it runs ends with an error, and none of its reads is under way then.
func TestReadFromAPeerThatIsCutOff(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	mem, into := registered(p[0], 8<<20), registered(p[1], 8<<20)
	region, err := c[0].Expose(mem)
	require.NoError(t, err)
	clear(into)
	done := make(chan error)
	go func() { done <- c[1].Get(into, region, 0) }()
	for p[1].reading.mu.TryLock() {
		p[1].reading.mu.Unlock()
	}
	c[1].Invalidate()
	p[1].Poll(&p[1].sink)
	require.Error(t, <-done)
	before := append([]byte(nil), into...)
	p[1].Poll(&p[1].sink)
	require.Empty(t, p[1].reading.used)
	require.Equal(t, before, into)
}
