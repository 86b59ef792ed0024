package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// makeSegment makes one and returns the number of its piece of memory.
func makeSegment(t *testing.T, p *Provider, members ...proc.ID) uint64 {
	t.Helper()
	name, ok := p.Boards().MakeSegment(members)
	require.True(t, ok)
	return name
}

// leave has a member that lives leave a segment.
func leave(p *Provider, name uint64, members, member int) {
	p.Boards().OpenSegment(p.cfg.Self, name, members).Leave(member, false)
}

// Memory of a segment in which a process has died serves others once that process has ended. A verdict
// before the end does not suffice: a stopped process might still write.
func TestCollSegmentsOfTheDead(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	c := v.connect(p)
	require.NoError(t, v.cmd.Process.Signal(unix.SIGSTOP))
	c.Invalidate()
	first := makeSegment(t, p, 0, 1)
	leave(p, first, 2, 0)
	p.Boards().DropSegment(first)
	second := makeSegment(t, p, 0, 1)
	require.NotEqual(t, first, second, "the other one has not left, and its process is there")
	v.kill()
	require.Equal(t, unix.SIGKILL, v.signaled())
	newObserver().end(p)
	p.Poll(&newObserver().Sink) // frees its memory
	require.Equal(t, first, makeSegment(t, p, 0, 1))
	require.NotContains(t, []uint64{first, second}, makeSegment(t, p, 0), "these are in use")
	for range 1000 {
		name := makeSegment(t, p, 0, 1)
		leave(p, name, 2, 0)
		p.Boards().DropSegment(name)
	}
}

// A living member that has not left keeps its segment, also if others have left.
func TestCollSegmentsOfTheLiving(t *testing.T) {
	a, b, _, _ := pair(t, Config{})
	require.True(t, b.Boards().Reach(a.cfg.Self))
	members := []proc.ID{a.cfg.Self, b.cfg.Self}
	first := makeSegment(t, a, members...)
	theirs := b.Boards().OpenSegment(a.cfg.Self, first, 2)
	leave(a, first, 2, 0)
	a.Boards().DropSegment(first)
	require.NotEqual(t, first, makeSegment(t, a, members...))
	theirs.Leave(1, false)
	require.Equal(t, first, makeSegment(t, a, members...))
	require.False(t, theirs.Left(1), "it is new")
}

// Segments of all sizes lie beside each other, and each has memory: parts and slots of the last one can be written to its end.
func TestCollSegmentsEnd(t *testing.T) {
	a, _, _, _ := pair(t, Config{})
	boards := a.Boards()
	_, ok := boards.Make(4, 1) // so that pieces of segments straddle the parts that get memory at once
	require.True(t, ok)
	names := map[uint64]bool{}
	for _, members := range []int{board.MaxMembers, board.GroupSize + 1, board.GroupSize, 3} {
		for {
			name, ok := boards.MakeSegment(make([]proc.ID, members))
			if !ok {
				break
			}
			require.False(t, names[name])
			names[name] = true
			writeSegment(t, boards.OpenSegment(a.cfg.Self, name, members), members)
			if members > 3 {
				break
			}
		}
	}
	require.Len(t, names, boardArea/(512<<10)-1+2, "two take a quarter")
	_, ok = boards.MakeSegment(make([]proc.ID, board.MaxMembers+1))
	require.False(t, ok)
}

// writeSegment writes all memory of the members of a segment, and reads it.
func writeSegment(t *testing.T, h *board.Segment, members int) {
	room, most := board.Wide(members), board.MaxLaid
	for member := range members {
		part := make([]byte, max(room, most))
		part[room-1], part[most-1] = byte(member), byte(member)
		h.Bring(member, 1, 1, 1, part[:room])
		h.Lay(member, uint64(member), part[:most])
	}
	for member := range members {
		part, n := h.Brought(member, 1)
		require.Equal(t, room, n)
		require.EqualValues(t, byte(member), part[room-1])
		laid, _, ok := h.Laid(member, uint64(member))
		if require.Equal(t, member+board.Buffers >= members, ok, "later ones have taken its place"); ok {
			require.EqualValues(t, byte(member), laid[most-1])
		}
	}
}
