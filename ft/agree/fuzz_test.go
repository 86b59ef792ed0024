package agree

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/board"
)

// FuzzBallot: members write anything into the cells of a ballot, also into those of a process that
// waits there. It decides on a value as long as its own, waits on, or goes back to messages.
func FuzzBallot(f *testing.F) {
	const cellBytes = int(unsafe.Sizeof(board.Cell{}))
	// After one round the next is the second, of even steps' cells; offset 8 is the length of a
	// cell.
	f.Add([]byte{0, 1, 8, 0, 0, 0, 8, 10}, true)
	f.Add([]byte{0, 0, 8, 255, 0, 2, 8, 255}, false)
	f.Add([]byte{0, 0, 0, 1, 0, 2, 0, 2}, true)
	f.Fuzz(func(t *testing.T, writes []byte, all bool) {
		w := newWorld(job{n: 3, rounds: 3, flat: true})
		w.through(1)
		p := w.procs[1]
		w.propose(1, 0)
		w.drain(1, -1)
		if all {
			for _, other := range []int{0, 2} {
				w.propose(other, 0)
				w.drain(other, -1)
			}
		}
		cells := w.shelf.all[0].cells
		memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(cells))), len(cells)*cellBytes)
		for b := writes; len(b) >= 4; b = b[4:] { // row, member, place, value
			at := (int(b[0])*3+int(b[1]))*cellBytes + int(b[2])
			memory[at%len(memory)] = b[3]
		}
		before := w.decided
		p.m.Look()
		p.m.Doze()
		w.drain(1, -1)
		p.m.Look()
		w.drain(1, -1)
		require.LessOrEqual(t, w.decided, before+1)
		for _, d := range p.part[0].got {
			require.Len(t, d.Value, 8)
		}
	})
}
