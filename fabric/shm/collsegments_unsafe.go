package shm

import (
	"unsafe"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Why unsafe: slots and buffers are laid over the cells of boards; see boards_unsafe.go.

// collSegment is memory for a collective segment.
type collSegment struct {
	first   uint32 // cell
	members []proc.ID
	dropped bool // it can be used again when all members have left
}

const (
	// commonCells and bufferCells are the numbers of cells that these take.
	commonCells = int64(unsafe.Sizeof(board.Common{})) / cellBytes
	bufferCells = board.Buffers * int64(unsafe.Sizeof(board.Buffer{})) / cellBytes
)

// segmentSize is the length of a segment for so many members: slots, then the common part, then
// parts, then buffers.
func segmentSize(members int) int {
	switch {
	case members <= 2:
		return 6
	case board.Slots(members) == board.GroupSize:
		return 9
	}
	return 7
}

// MakeSegment implements sm.Segments. Memory that another process may still read or write is not used
// again. So where a member has died without having left a segment, it is used when its process has
// ended: one that only counts as dead might go on.
func (b *Boards) MakeSegment(members []proc.ID) (name uint64, ok bool) {
	if len(members) > board.MaxMembers || b.p.departed {
		return 0, false
	}
	for i := range b.colls {
		s := &b.colls[i]
		if s.dropped && segmentSize(len(s.members)) == segmentSize(len(members)) && b.unused(s) {
			s.dropped, s.members = false, members
			segmentAt(b.own(), s.first, len(members)).Clear()
			return uint64(s.first) + 1, true
		}
	}
	first, ok := b.take(segmentSize(len(members)))
	if !ok {
		return 0, false
	}
	b.colls = append(b.colls, collSegment{first: first, members: members})
	segmentAt(b.own(), first, len(members)).Clear()
	return uint64(first) + 1, true
}

// unused reports whether no process uses a segment any more. It leaves for the members whose processes
// have ended, so that each is asked for once.
func (b *Boards) unused(s *collSegment) bool {
	at := segmentAt(b.own(), s.first, len(s.members))
	for member, id := range s.members {
		if at.Left(member) {
			continue
		}
		c := b.p.conns[id]
		if c == nil || !c.processEnded() {
			return false
		}
		at.Leave(member, false)
	}
	return true
}

// OpenSegment implements sm.Segments.
//
//banyan:decodes
func (b *Boards) OpenSegment(owner proc.ID, name uint64, members int) *board.Segment {
	cells := b.theirs[owner]
	if owner == b.p.cfg.Self {
		cells = b.own()
	}
	most := uint64(len(cells))
	if name == 0 || name > most || members > board.MaxMembers || name-1+boardPiece<<segmentSize(members) > most {
		return nil
	}
	return segmentAt(cells, uint32(name-1), members)
}

// segmentAt lays the parts of a segment over cells.
func segmentAt(cells []board.Cell, first uint32, members int) *board.Segment {
	piece := cells[first:][:boardPiece<<segmentSize(members)]
	slots := unsafe.Slice((*board.Slot)(unsafe.Pointer(&piece[0])), members)
	rest := piece[board.Slots(members):]
	common := (*board.Common)(unsafe.Pointer(&rest[:commonCells][0]))
	rest = rest[commonCells:]
	parts := unsafe.Slice((*byte)(unsafe.Pointer(&rest[0])), board.PartsBytes(members))
	rest = rest[int64(len(parts))/cellBytes:]
	buffers := unsafe.Slice((*board.Buffer)(unsafe.Pointer(&rest[:bufferCells][0])), board.Buffers)
	return board.Open(slots, common, buffers, parts)
}

// DropSegment implements sm.Segments.
func (b *Boards) DropSegment(name uint64) {
	for i := range b.colls {
		if b.colls[i].first == uint32(name-1) {
			b.colls[i].dropped = true
		}
	}
}

// RejectSegment implements sm.Segments.
func (b *Boards) RejectSegment(name uint64) {
	for i := range b.colls {
		if s := &b.colls[i]; s.first == uint32(name-1) {
			at := segmentAt(b.own(), s.first, len(s.members))
			for member := range s.members {
				at.Leave(member, false)
			}
			s.dropped = true
		}
	}
}
