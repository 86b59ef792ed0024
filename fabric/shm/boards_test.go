package shm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/board"
)

// Posts of one process on a board of another one are seen there, and remain when the owner of the memory has
// closed.
func TestBoardsAreShared(t *testing.T) {
	a, b, _, _ := pair(t, Config{})
	require.False(t, b.Boards().Reach(7), "there is no connection")
	require.True(t, b.Boards().Reach(a.cfg.Self))
	name, ok := a.Boards().Make(3, 5)
	require.True(t, ok)
	mine, theirs := a.Boards().Open(a.cfg.Self, name, 3), b.Boards().Open(a.cfg.Self, name, 3)
	require.NotNil(t, mine)
	require.NotNil(t, theirs)
	require.Equal(t, board.Posted, theirs.Post(1, 5, []byte("here")))
	require.Equal(t, board.Posted, mine.Look(1, 5))
	require.Equal(t, "here", string(mine.Part(1, 5)))
	require.Equal(t, board.Closed, mine.Close(2, 5))
	require.NoError(t, a.Close())
	require.Equal(t, board.Closed, theirs.Look(2, 5))
	require.True(t, b.Boards().Reach(a.cfg.Self), "what has been mapped stays so")
	require.Equal(t, board.Posted, theirs.Look(1, 5))
}

// Freed memory is used again, under another name; an open board detects that.
func TestBoardsAreUsedAgain(t *testing.T) {
	a, _, _, _ := pair(t, Config{})
	boards := a.Boards()
	first, ok := boards.Make(4, 1)
	require.True(t, ok)
	old := boards.Open(a.cfg.Self, first, 4)
	require.Equal(t, board.Posted, old.Post(0, 1, nil))
	boards.Drop(first)
	boards.Drop(first) // a second time: nothing
	second, ok := boards.Make(5, 1)
	require.True(t, ok)
	require.NotEqual(t, first, second)
	require.Equal(t, uint32(first), uint32(second), "the same cells")
	require.Equal(t, board.Lost, old.Look(0, 1))
	other, ok := boards.Make(4, 1)
	require.True(t, ok)
	require.NotEqual(t, uint32(second), uint32(other))
	for range 2000 {
		name, ok := boards.Make(64, 1)
		require.True(t, ok)
		boards.Drop(name)
	}
}

// The memory for boards ends, and comes back.
func TestBoardsEnd(t *testing.T) {
	a, _, _, _ := pair(t, Config{})
	boards := a.Boards()
	var names []uint64
	for {
		name, ok := boards.Make(64, 1)
		if !ok {
			break
		}
		names = append(names, name)
	}
	require.Equal(t, boardArea/(512*64), len(names), "512 cells each")
	boards.Drop(names[3])
	_, ok := boards.Make(64, 1)
	require.True(t, ok)
	_, ok = boards.Make(1<<20, 1)
	require.False(t, ok)
}

// Names of no board are refused.
func TestBoardsOfNoName(t *testing.T) {
	a, b, _, _ := pair(t, Config{})
	require.True(t, b.Boards().Reach(a.cfg.Self))
	for _, name := range []uint64{0, 1, 1 << 32 * 0, 1<<56 | 1, 1<<32 | boardArea/64, 1<<32 | (boardArea/64 - 1), 1<<32 | 0xffffffff} {
		require.Nil(t, b.Boards().Open(a.cfg.Self, name, 2), "%#x", name)
		require.Nil(t, a.Boards().Open(a.cfg.Self, name, 2), "%#x", name)
	}
	require.Nil(t, b.Boards().Open(9, 1<<32, 2), "of a process whose memory is not mapped")
	_, ok := b.Boards().Make(2, 1)
	require.True(t, ok)
	b.Depart()
	_, ok = b.Boards().Make(2, 1)
	require.False(t, ok, "a departed process makes none")
}
