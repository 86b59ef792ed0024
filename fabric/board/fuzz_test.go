package board

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// poke writes bytes into memory that others share: place and value by turns.
func poke(memory, writes []byte) {
	for at := 0; len(writes) >= 3; writes = writes[3:] {
		at += int(writes[0])<<8 | int(writes[1])
		memory[at%len(memory)] = writes[2]
	}
}

func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// within reports whether a part lies in some memory.
func within(part, memory []byte) bool {
	from, at := uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	return len(part) == 0 || at >= from && at+uintptr(len(part)) <= from+uintptr(len(memory))
}

// With any contents of the cells of a board, a part is at most as long as the longest, and lies in its cell.
func FuzzCells(f *testing.F) {
	f.Add([]byte{0, 8, 255, 0, 64, 77}, uint32(1))
	f.Add([]byte{0, 0, 1, 0, 1, 5}, ^uint32(0))
	f.Fuzz(func(t *testing.T, writes []byte, step uint32) {
		const members, section = 3, 2
		cells := make([]Cell, CellsOf(members, section))
		Format(cells, 7, step)
		b := Use(cells, members, section, 7)
		require.Equal(t, Posted, b.Post(1, step, []byte("part")))
		b.LaySum(1, step, []byte("sum"))
		poke(bytesOf(cells), writes)
		for number := range 2 {
			sum, ok := b.Sum(number, step)
			require.LessOrEqual(t, len(sum), MaxPart)
			require.True(t, within(sum, bytesOf(cells)))
			require.False(t, ok && !b.HasSum(number, step))
		}
		for member := range members {
			before := b.Look(member, step)
			part := b.Part(member, step)
			require.LessOrEqual(t, len(part), MaxPart)
			require.True(t, within(part, bytesOf(cells)))
			b.Naps(member, step)
			if s := b.Close(member, step); before == Empty {
				require.Equal(t, Closed, s)
			} else {
				require.Equal(t, before, s)
			}
		}
	})
}

// With any contents of a segment, a part has room in it or is reported as elsewhere.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{0, 12, 255, 0, 1, 255}, []byte{0, 0, 255, 0, 1, 255}, uint64(3), uint16(2))
	f.Add([]byte{0, 7, 0xc0}, []byte{0, 3, 0x80}, ^uint64(0), uint16(MaxMembers))
	f.Fuzz(func(t *testing.T, inSlots, inBuffers []byte, step uint64, n uint16) {
		members := 1 + int(n)%MaxMembers
		slots, buffers, parts := make([]Slot, members), make([]Buffer, Buffers), make([]byte, PartsBytes(members))
		common := make([]Common, 1)
		h := Open(slots, &common[0], buffers, parts)
		h.Bring(0, 1, 1, partsOp, make([]byte, 40))
		h.Lay(0, step, []byte("laid"))
		h.Enter(0, step&stepMask)
		poke(bytesOf(slots), inSlots)
		poke(bytesOf(buffers), inBuffers)
		poke(bytesOf(common), inSlots)
		for group := range h.Groups() {
			for _, at := range []uint64{step, step + 1} {
				sum, _ := h.Sum(group, at)
				require.True(t, len(sum) <= Wide(members) && (sum == nil || within(sum, parts)))
			}
			h.GroupEntered(group, step)
		}
		h.Apart(step)
		for member := range members {
			for turn := range 2 {
				h.Stamped(member, turn, uint16(step))
				part, length := h.Brought(member, turn)
				require.True(t, length == len(part) && length <= Wide(members) || part == nil && length == Elsewhere)
				require.True(t, within(part, parts) || within(part, bytesOf(slots)))
			}
			if laid, length, ok := h.Laid(member, step); ok {
				require.True(t, length == len(laid) && length <= MaxLaid || laid == nil && length == Elsewhere)
				require.True(t, within(laid, bytesOf(buffers)))
			}
			require.False(t, h.Missed(member, step) && h.Entered(member, step))
			h.Left(member)
			h.Naps(member, step)
		}
	})
}
