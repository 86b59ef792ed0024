package board

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// inSections is a ballot of 5 members in sections of 2, as each member has it.
func inSections(generation, next uint32) []*Ballot {
	const members, section = 5, 2
	cells := make([]Cell, CellsOf(members, section))
	Format(cells, generation, next)
	all := make([]*Ballot, members)
	for i := range all {
		all[i] = Use(cells, members, section, generation)
	}
	return all
}

func TestSums(t *testing.T) {
	for _, next := range []uint32{1, 2, 1<<32 - 2} { // numbers wrap around
		b := inSections(7, next)
		for step := next; step != next+6; step++ {
			for section := range 3 {
				require.False(t, b[0].HasSum(section, step))
				_, ok := b[0].Sum(section, step)
				require.False(t, ok)
			}
			b[3].LaySum(3, step, []byte{byte(step), 3})
			b[2].LaySum(2, step, []byte{2}) // the second of the section
			sum, ok := b[0].Sum(1, step)
			require.True(t, ok && b[0].HasSum(1, step))
			require.Equal(t, []byte{byte(step), 3}, sum)
			b[4].LaySum(4, step, nil)
			sum, ok = b[1].Sum(2, step)
			require.True(t, ok)
			require.Empty(t, sum)
			require.False(t, b[0].HasSum(0, step))
			require.False(t, b[0].HasSum(1, step+1), "the other row")
		}
		require.False(t, b[0].HasSum(1, next), "it has gone on")
		b[2].LaySum(2, next, []byte{9})
		sum, _ := b[0].Sum(1, next+4)
		require.Equal(t, []byte{byte(next + 4), 3}, sum, "a member that is behind changes no later sum")
	}
	require.Equal(t, []int{0, 0, 1, 1, 2}, []int{
		inSections(1, 1)[0].Section(0), inSections(1, 1)[0].Section(1), inSections(1, 1)[0].Section(2),
		inSections(1, 1)[0].Section(3), inSections(1, 1)[0].Section(4),
	})
}

// Cells that serve another group have none of the sums before.
func TestSumsOfOtherGenerations(t *testing.T) {
	cells := make([]Cell, CellsOf(3, 2))
	Format(cells, 1, 1)
	old := Use(cells, 3, 2, 1)
	old.LaySum(0, 1, []byte{1})
	require.True(t, old.HasSum(0, 1))
	Format(cells, 2, 1)
	require.False(t, old.HasSum(0, 1))
	next := Use(cells, 3, 2, 2)
	require.False(t, next.HasSum(0, 1))
	old.LaySum(0, 1, []byte{1})
	require.False(t, next.HasSum(0, 1))
}

// A ballot with one section has no memory for sums, and lays none.
func TestOneSectionHasNoSums(t *testing.T) {
	require.Equal(t, CellsOf(2, 2)+3, CellsOf(3, 3))
	b := made(2, 1, 1)
	b[0].LaySum(0, 1, []byte{1})
	require.False(t, b[1].HasSum(0, 1))
	_, ok := b[1].Sum(0, 1)
	require.False(t, ok)
}

// Members take steps as fast as they can. Each lays the sum of its section once it has seen it post, and reads
// those of the others, or the cells.
func TestSumsAtOnce(t *testing.T) {
	const steps = 3000
	var all sync.WaitGroup
	for me, b := range inSections(3, 1) {
		all.Go(func() {
			for step := uint32(1); step <= steps; step++ {
				b.Post(me, step, binary.LittleEndian.AppendUint32(nil, step<<5|1<<me))
				for section := range 3 {
					got, laid := uint32(0), false
					for o := section * 2; o < min(section*2+2, 5); o++ {
						for b.Look(o, step) == Empty && !b.HasSum(section, step) {
							runtime.Gosched()
						}
						if b.HasSum(section, step) {
							sum, _ := b.Sum(section, step)
							got, laid = binary.LittleEndian.Uint32(sum), true
							break
						}
						got |= binary.LittleEndian.Uint32(b.Part(o, step))
					}
					if want := step<<5 | 3<<(2*section)&31; got != want {
						t.Errorf("step %d: section %d has %#x, want %#x", step, section, got, want)
						return
					}
					if section == b.Section(me) && !laid {
						b.LaySum(me, step, binary.LittleEndian.AppendUint32(nil, got))
					}
				}
			}
		})
	}
	all.Wait()
}
