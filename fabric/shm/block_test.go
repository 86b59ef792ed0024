package shm

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
)

// used counts the descriptors and mappings of segments in this process.
func used(t *testing.T) (descriptors, mappings int) {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, f := range list {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(to, memfdName) {
			descriptors++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return descriptors, strings.Count(string(maps), memfdName)
}

// A block leaves nothing behind, and one that is missing is an error that keeps nothing.
func TestBlocksLeaveNothing(t *testing.T) {
	a, b, _, _ := pair(t, Config{})
	descriptors, mappings := used(t)
	mem, name, err := a.MakeBlock(10_000)
	require.NoError(t, err)
	theirs, err := b.OpenBlock(0, name, 10_000)
	require.NoError(t, err)
	mem[9999] = 7
	require.EqualValues(t, 7, theirs[9999])
	for _, n := range []int{1, 4096, 20_000, 1 << 50} {
		_, err = b.OpenBlock(0, name, n)
		require.Error(t, err, n)
	}
	_, err = b.OpenBlock(1, name, 10_000)
	require.ErrorIs(t, err, fabric.ErrPeerGone)
	require.NoError(t, a.CloseBlock(mem))
	require.Error(t, a.CloseBlock(theirs[1:]))
	_, err = b.OpenBlock(0, name, 10_000)
	require.ErrorIs(t, err, fabric.ErrPeerGone)
	require.EqualValues(t, 7, theirs[9999], "it stays for its users")
	require.NoError(t, b.CloseBlock(theirs))
	d, m := used(t)
	require.Equal(t, []int{descriptors, mappings}, []int{d, m})
}

// A block for which there is no memory is ErrNoSpace, and nothing is left.
func TestBlockWithoutMemory(t *testing.T) {
	a, _, _, _ := pair(t, Config{})
	descriptors, mappings := used(t)
	_, _, err := a.MakeBlock(1 << 45)
	require.ErrorIs(t, err, ErrNoSpace)
	d, m := used(t)
	require.Equal(t, []int{descriptors, mappings}, []int{d, m})
}

// Memory of a block is read from its mapping, also if the kernel does not copy. A block that the owner has
// closed is unmapped when another block is opened, and at the end.
func TestReadsOfBlocks(t *testing.T) {
	a, _, ab, ba := pair(t, Config{NoGet: true})
	require.False(t, ba.Caps().Get)
	_, mappings := used(t)
	read := func(n, from, to int) error {
		mem, _, err := a.MakeBlock(n)
		require.NoError(t, err)
		for i := range mem {
			mem[i] = byte(i % 251)
		}
		r, err := ab.Expose(mem[from:to])
		require.NoError(t, err)
		require.Len(t, r.Key, len(fabric.BlockName{}))
		got := make([]byte, to-from)
		require.NoError(t, ba.Get(got, r, 0))
		require.Equal(t, mem[from:to], got)
		at := len(got) / 2
		require.NoError(t, ba.Get(got[at:at+1], r, uint64(to-from-1)))
		require.Equal(t, mem[to-1], got[at])
		r.Len *= 2
		require.Error(t, ba.Get(make([]byte, 2), r, uint64(n)-r.Addr+8192), "beyond the block")
		return a.CloseBlock(mem)
	}
	for _, n := range []int{1, 5000, 5 << 20} {
		require.NoError(t, read(n, 0, n))
		require.NoError(t, read(n, n/2, n))
	}
	_, m := used(t)
	require.LessOrEqual(t, m, mappings+1, "those that were closed stay mapped")
	r, err := ab.Expose(make([]byte, 10))
	require.NoError(t, err)
	require.Empty(t, r.Key)
	require.ErrorIs(t, ba.Get(make([]byte, 10), r, 0), fabric.ErrUnsupported)
	r.Key = make([]byte, 3)
	require.Error(t, ba.Get(make([]byte, 10), r, 0))
	r.Key = make([]byte, len(fabric.BlockName{}))
	require.Error(t, ba.Get(make([]byte, 10), r, 0))
}

// A view stays until its end, which may come after that of the block, of its owner and of the connection. One that is
// alone has a mapping of its own.
func TestViews(t *testing.T) {
	a, b, ab, ba := pair(t, Config{})
	_, mappings := used(t)
	mem, _, err := a.MakeBlock(100_000)
	require.NoError(t, err)
	mem[70_000] = 9
	r, err := ab.Expose(mem[70_000:70_100])
	require.NoError(t, err)
	one, endOne, err := ba.View(r, false)
	require.NoError(t, err)
	two, endTwo, err := ba.View(r, false)
	require.NoError(t, err)
	alone, endAlone, err := ba.View(r, true)
	require.NoError(t, err)
	require.Same(t, &one[0], &two[0])
	require.NotSame(t, &one[0], &alone[0])
	for _, view := range [][]byte{one, alone} {
		require.Len(t, view, 100)
		require.EqualValues(t, 9, view[0])
	}
	_, m := used(t)
	require.Equal(t, mappings+3, m)
	require.NoError(t, endTwo())

	other := r
	other.Len = 1 << 40
	_, _, err = ba.View(other, false)
	require.Error(t, err, "beyond the block")
	other.Key = nil
	_, _, err = ba.View(other, false)
	require.ErrorIs(t, err, fabric.ErrUnsupported)

	require.NoError(t, a.CloseBlock(mem))
	require.NoError(t, b.Close())
	require.EqualValues(t, 9, one[0])
	require.EqualValues(t, 9, alone[0])
	require.NoError(t, errors.Join(endOne(), endAlone()))
	_, _, err = ba.View(r, false)
	require.ErrorIs(t, err, fabric.ErrPeerGone)
	_, m = used(t)
	require.LessOrEqual(t, m, mappings)
}

// With any name and length from a peer, an opened block has that length.
func FuzzBlock(f *testing.F) {
	a, b, _, ba := pair(f, Config{})
	mem, name, err := a.MakeBlock(10_000)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, a.CloseBlock(mem)) })
	f.Add(name[:], 10_000)
	f.Add(name[:], 8192)
	f.Add(make([]byte, len(name)), -1)
	f.Fuzz(func(t *testing.T, from []byte, n int) {
		var other fabric.BlockName
		copy(other[:], from)
		local := make([]byte, uint8(n))
		if err := ba.Get(local, fabric.Region{Addr: uint64(n), Len: 256, Key: from}, 1); err == nil && len(local) > 0 {
			require.Equal(t, name[:], from)
			require.Less(t, uint64(n), uint64(12_288), "beyond the block's pages")
		}
		if len(local) > 0 && ba.ReadNow(local, fabric.Region{Addr: uint64(n), Len: 256, Key: from}) {
			require.Equal(t, name[:], from)
			require.LessOrEqual(t, uint64(n), uint64(12_288-len(local)))
		}
		if view, end, err := ba.View(fabric.Region{Addr: uint64(n), Len: uint64(len(local)), Key: from}, n&1 == 0); err == nil {
			require.Equal(t, name[:], from)
			require.Len(t, view, len(local))
			for _, c := range view {
				local[0] = c // it is there
			}
			require.NoError(t, end())
		}
		got, err := b.OpenBlock(0, other, n)
		if err != nil {
			return
		}
		require.Equal(t, name, other)
		require.Len(t, got, n)
		got[n-1] = 1
		require.NoError(t, b.CloseBlock(got))
	})
}

// The next frame is seen where it lies, if it is short and the expected one, and taken by Advance. Memory of a block is read
// at once when it is mapped.
func TestNextFrame(t *testing.T) {
	a, b, ab, ba := pair(t, Config{})
	sink := new(fabric.Sink)
	require.Nil(t, ba.Next(fabric.ClassTest, 7), "there is no connection")
	require.True(t, ab.TrySend(fabric.ClassTest, 7, []byte("first")))
	require.True(t, ab.TrySend(fabric.ClassTest, 7, make([]byte, inlineBytes+1)))
	b.Poll(sink) // finds the connection, and drops both
	require.True(t, ab.TrySend(fabric.ClassTest, 7, []byte("second")))
	require.True(t, ab.TrySend(fabric.ClassTest, 7, make([]byte, inlineBytes+1)))
	require.Nil(t, ba.Next(fabric.ClassTest, 8))
	require.Nil(t, ba.Next(fabric.ClassRTS, 7))
	_, is := ba.NextIs(fabric.ClassRTS)
	require.False(t, is)
	imm, is := ba.NextIs(fabric.ClassTest)
	require.True(t, is)
	require.EqualValues(t, 7, imm)
	received := ba.Received()
	require.Equal(t, "second", string(ba.Next(fabric.ClassTest, 7)))
	require.Equal(t, "second", string(ba.Next(fabric.ClassTest, 7)), "it is still there")
	ba.Advance()
	require.Equal(t, received+1, ba.Received())
	require.Nil(t, ba.Next(fabric.ClassTest, 7), "it is longer than a line")
	_, is = ba.NextIs(fabric.ClassTest)
	require.False(t, is, "it is longer than a line")
	taken := 0
	for range 2 * shortLines { // credit comes back
		require.True(t, ab.TrySend(fabric.ClassTest, 7, nil))
		if ba.Next(fabric.ClassTest, 7) != nil {
			ba.Advance()
			taken++
		} else {
			b.Poll(sink) // a frame before it, or the way to the long ring
		}
	}
	require.Greater(t, taken, shortLines)
	require.True(t, ab.TrySend(fabric.ClassTest, 7, nil))
	ba.Invalidate()
	require.Nil(t, ba.Next(fabric.ClassTest, 7), "the peer has been cut off")
	_, is = ba.NextIs(fabric.ClassTest)
	require.False(t, is, "the peer has been cut off")

	mem, _, err := a.MakeBlock(10_000)
	require.NoError(t, err)
	mem[5001] = 9
	r, err := ab.Expose(mem[5000:])
	require.NoError(t, err)
	got := make([]byte, 2)
	require.False(t, ba.ReadNow(got, r), "it is not mapped")
	require.NoError(t, ba.Get(got, r, 0))
	clear(got)
	require.True(t, ba.ReadNow(got, r))
	require.Equal(t, []byte{0, 9}, got)
	require.False(t, ba.ReadNow(make([]byte, 8192), r), "beyond the block")
	require.NoError(t, a.CloseBlock(mem))
}

// A block that has been dropped gets no new view, and its last view unmaps it.
func TestDroppedBlock(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, pageBytes, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	b := &theirBlock{segment: &segment{fd: -1, header: mem}}
	require.True(t, b.hold())
	require.True(t, b.hold())
	require.NoError(t, b.drop())
	require.False(t, b.hold())
	require.NoError(t, b.release())
	require.NotNil(t, b.header)
	require.NoError(t, b.release())
	require.Nil(t, b.header)
}
