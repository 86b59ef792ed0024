package board

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func made(members int, generation, next uint32) []*Ballot {
	cells := make([]Cell, CellsOf(members, Section))
	Format(cells, generation, next)
	all := make([]*Ballot, members)
	for i := range all {
		all[i] = Use(cells, members, Section, generation)
	}
	return all
}

func TestCellIsALine(t *testing.T) { require.EqualValues(t, 64, unsafe.Sizeof(Cell{})) }

func TestStates(t *testing.T) {
	for _, next := range []uint32{1, 2, 1<<32 - 2} { // numbers wrap around
		b := made(3, 7, next)
		for step := next; step != next+6; step++ {
			require.Equal(t, Empty, b[1].Look(0, step))
			require.Equal(t, Posted, b[0].Post(0, step, []byte{byte(step), 5}))
			require.Equal(t, Posted, b[1].Close(0, step), "a cell with a post is not sealed")
			require.Equal(t, []byte{byte(step), 5}, b[1].Part(0, step))
			require.Equal(t, Closed, b[1].Close(2, step))
			require.Equal(t, Closed, b[2].Post(2, step, []byte{9}), "a sealed member does not post")
			require.Equal(t, Closed, b[0].Look(2, step))
			require.Equal(t, Empty, b[0].Look(1, step))
			require.Equal(t, Empty, b[1].Look(0, step+1), "the other row")
		}
		require.Equal(t, Lost, b[1].Look(0, next), "it has gone on")
		require.Equal(t, Lost, b[0].Post(0, next, nil))
		require.Equal(t, Lost, b[0].Close(0, next))
	}
}

func TestOtherGeneration(t *testing.T) {
	cells := make([]Cell, CellsOf(2, Section))
	Format(cells, 1, 1)
	old := Use(cells, 2, Section, 1)
	require.Equal(t, Posted, old.Post(0, 1, nil))
	Format(cells, 2, 1)
	require.Equal(t, Lost, old.Look(0, 1))
	require.Equal(t, Lost, old.Post(1, 1, nil))
	require.Equal(t, Lost, old.Close(1, 1))
	require.False(t, old.Naps(0, 1))
	require.Equal(t, Empty, Use(cells, 2, Section, 2).Look(1, 1), "what an older one does changes nothing")
}

func TestNaps(t *testing.T) {
	b := made(2, 1, 5)
	require.False(t, b[0].Naps(1, 5))
	b[1].Nap(1, 5)
	require.True(t, b[0].Naps(1, 5))
	require.False(t, b[0].Naps(0, 5))
	require.False(t, b[0].Naps(1, 6), "it napped in another step")
	b[1].Nap(1, 6)
	require.False(t, b[0].Naps(1, 5))
}

// Members take steps as fast as they can, and each sees the parts of all in each.
func TestStepsAtOnce(t *testing.T) {
	const members, steps = 4, 3000
	var all sync.WaitGroup
	for me, b := range made(members, 3, 1) {
		all.Go(func() {
			for step := uint32(1); step <= steps; step++ {
				part := binary.LittleEndian.AppendUint32(nil, step*members+uint32(me))
				if b.Post(me, step, part) != Posted {
					t.Errorf("member %d cannot post in step %d", me, step)
					return
				}
				for o := range members {
					for b.Look(o, step) == Empty {
						runtime.Gosched()
					}
					got := binary.LittleEndian.Uint32(b.Part(o, step))
					if want := step*members + uint32(o); got != want || b.Look(o, step) != Posted {
						t.Errorf("step %d: member %d has posted %d, want %d", step, o, got, want)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// A post and a seal at the same time: one of them is first, and both know which.
func TestSealAgainstPost(t *testing.T) {
	b := made(2, 1, 1)
	for step := uint32(1); step < 5000; step++ {
		var post, seal State
		var both sync.WaitGroup
		both.Go(func() { post = b[0].Post(0, step, []byte{1}) })
		both.Go(func() { seal = b[1].Close(0, step) })
		both.Wait()
		require.Equal(t, post, seal, "step %d", step)
	}
}
