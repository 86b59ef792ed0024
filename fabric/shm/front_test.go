package shm

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// placesFor makes a node's file for two processes, and gives their places, each with a descriptor that Open takes over.
func placesFor(t *testing.T) (name string, place func(index int) nodemem.Place) {
	t.Helper()
	f, err := nodemem.Make(2, 2)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	name = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	return name, func(index int) nodemem.Place {
		p, err := placeOf(name, index)
		require.NoError(t, err)
		return p
	}
}

// placeOf opens the file of placesFor.
func placeOf(name string, index int) (nodemem.Place, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	return nodemem.At(fd, int64(index), 2*(nodemem.Head(2)+nodemem.Pages(2)), 2), err
}

// A place in the node's memory has one owner: a second endpoint there would overwrite the first one's header.
func TestPlaceIsTakenOnce(t *testing.T) {
	_, place := placesFor(t)
	first := open(t, Config{Self: 0, MaxProcs: 2, Node: place(0)})
	require.True(t, first.own.shared)
	var log bytes.Buffer
	second := open(t, Config{Self: 1, MaxProcs: 2, Node: place(0), Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.False(t, second.own.shared)
	require.Contains(t, log.String(), "the place has been used")
	_, err := second.Dial(fabric.ConnectSpec{Peer: 0, Address: first.Address()})
	require.NoError(t, err)
}

// The header of a process that has been killed stays in the node's memory. It is no peer.
func TestPlaceOfTheDead(t *testing.T) {
	name, place := placesFor(t)
	p := open(t, Config{Self: 0, MaxProcs: 2, Node: place(0)})
	v := spawn(t, role{Self: 1, MaxProcs: 2, Node: name})
	c, err := p.Dial(fabric.ConnectSpec{Peer: 1, Address: v.addresses[0]})
	require.NoError(t, err)
	require.True(t, c.segment.shared)
	require.Equal(t, -1, c.segment.fd)

	v.kill()
	require.Equal(t, unix.SIGKILL, v.signaled())
	a, err := decodeAddress(v.addresses[0])
	require.NoError(t, err)
	late := &segment{geometry: a.geometry, fd: -1}
	late.header = p.own.node[a.frontAt:]
	require.NoError(t, late.head().check(&a), "its header is there")
	require.False(t, late.findFront(&a, p.own, 0))
	other := open(t, Config{Self: 0, MaxProcs: 2})
	_, err = other.Dial(fabric.ConnectSpec{Peer: 1, Address: v.addresses[0]})
	require.ErrorIs(t, err, fabric.ErrPeerGone)
}

// The right to read one process of the node's memory shows that of the others. One that cannot be read all the
// same is found out by the first copy, which does not count as its end.
func TestOneOfTheNodeShowsThatAllCanBeRead(t *testing.T) {
	f, err := nodemem.Make(4, 4)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	var all []*Provider
	for i := range 4 {
		fd, err := unix.Dup(int(f.Fd()))
		require.NoError(t, err)
		place := nodemem.At(fd, int64(i), 4*(nodemem.Head(4)+nodemem.Pages(4)), 4)
		all = append(all, open(t, Config{Self: proc.ID(i), MaxProcs: 4, Node: place}))
	}
	dial := func(peer int, unreadable bool) *Conn {
		a, err := decodeAddress(all[peer].Address())
		require.NoError(t, err)
		if unreadable {
			a.probe = 8
		}
		c, err := all[0].Dial(fabric.ConnectSpec{Peer: proc.ID(peer), Address: a.encode()})
		require.NoError(t, err)
		require.True(t, c.segment.shared)
		return c
	}
	require.False(t, dial(1, true).Caps().Get, "nothing has been read yet")
	require.True(t, dial(2, false).Caps().Get)
	c := dial(3, true)
	require.True(t, c.Caps().Get)
	err = c.Get(make([]byte, 8), fabric.Region{Addr: 8, Len: 8}, 0)
	require.ErrorIs(t, err, unix.EFAULT)
	require.NotErrorIs(t, err, fabric.ErrPeerGone)
}
