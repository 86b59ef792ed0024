package shm

import (
	"errors"
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Why unsafe: cells are laid over mappings that other processes share. Their indices are checked against the
// length of the mapping, and the segment cannot shrink.

// Boards is the memory for boards of this process and of those whose boards it uses. A segment ends with it. What
// has been mapped stays so until the endpoint is closed: what the dead have posted still counts.
type Boards struct {
	p       *Provider
	theirs  map[proc.ID][]board.Cell // nil: it cannot be mapped
	free    [boardSizes][]uint32     // pieces that were used, by size: their first cells
	used    uint32                   // cells that have been given away so far
	backed  int64                    // bytes that have memory
	last    uint32                   // generation that was given
	members map[uint32]int           // of the boards in use, by first cell
	halls   []hall                   // of this process
}

// hall is memory for a hall.
type hall struct {
	first   uint32
	members []proc.ID
	dropped bool // it can be used again when all have left
}

const (
	// boardArea is what each segment has for boards. It takes memory when boards are made.
	boardArea = 8 << 20
	// boardPiece is the smallest piece, in cells: pieces have powers of two as their size.
	boardPiece = 16
	boardSizes = 7
	// hallSize is the piece of a hall: seats, what members bring, and slots.
	hallSize  = 6
	hallParts = board.MaxMembers
	hallSlots = hallParts + board.PartsBytes/int(cellBytes)
	// boardChunk is how much is given memory at once.
	boardChunk = 64 << 10
	cellBytes  = int64(unsafe.Sizeof(board.Cell{}))
)

// Boards gives the boards of this endpoint. They belong to who calls the provider.
func (p *Provider) Boards() *Boards { return &p.boards }

// cellsOf lays cells over the part of a segment that is for boards.
func cellsOf(area []byte) []board.Cell {
	return unsafe.Slice((*board.Cell)(unsafe.Pointer(unsafe.SliceData(area))), int64(len(area))/cellBytes)
}

// own are the cells of this process.
func (b *Boards) own() []board.Cell {
	s := b.p.own
	return cellsOf(s.slots[s.boardsOffset()-s.slotOffset(0):])
}

// Reach implements agree.Boards: there must be a connection for the first time.
func (b *Boards) Reach(owner proc.ID) bool {
	if cells, known := b.theirs[owner]; known || b.p.closed {
		return cells != nil
	}
	c := b.p.conns[owner]
	if c == nil || !c.live || c.invalidated {
		return false
	}
	area, err := mapBoards(&c.address, b.p.cfg.Dir != "")
	if err != nil {
		b.p.cfg.Logf("shm: agreements and collectives with %v take messages: %v", owner, err)
		b.theirs[owner] = nil
		return false
	}
	b.theirs[owner] = cellsOf(area)
	return true
}

// mapBoards maps the part of a peer's segment that is for boards.
func mapBoards(a *address, unsealed bool) (area []byte, err error) {
	s := &segment{geometry: a.geometry, fd: -1}
	if s.fd, err = findBacking(a); err != nil {
		return nil, err
	}
	if err = s.checkSealed(unsealed); err == nil {
		area, err = mapRange(s.fd, s.boardsOffset(), boardArea)
	}
	return area, errors.Join(err, unix.Close(s.fd))
}

// Make implements agree.Boards.
func (b *Boards) Make(members int, next uint32) (name uint64, ok bool) {
	size := sizeOf(members)
	if size >= boardSizes || b.p.departed {
		return 0, false
	}
	first, ok := b.take(size)
	if !ok {
		return 0, false
	}
	if b.last++; b.last > board.MaxGeneration {
		b.last = 1
	}
	b.members[first] = members
	board.Format(b.own()[first:][:board.CellsOf(members)], b.last, next)
	return uint64(b.last)<<32 | uint64(first), true
}

// sizeOf gives the piece for a board: boardPiece cells, doubled so many times.
func sizeOf(members int) int {
	return bits.Len(uint((board.CellsOf(members) - 1) / boardPiece))
}

// take finds a piece with memory.
func (b *Boards) take(size int) (first uint32, ok bool) {
	if free := b.free[size]; len(free) > 0 {
		b.free[size] = free[:len(free)-1]
		return free[len(free)-1], true
	}
	end := int64(b.used+boardPiece<<size) * cellBytes
	if end > boardArea {
		return 0, false
	}
	for end > b.backed {
		if err := reserve(b.p.own.fd, b.p.own.boardsOffset()+b.backed, boardChunk); err != nil {
			b.p.cfg.Logf("shm: agreements and collectives take messages: %v", err)
			return 0, false
		}
		b.backed += boardChunk
	}
	first = b.used
	b.used += boardPiece << size
	return first, true
}

// Open implements agree.Boards.
//
//banyan:decodes
func (b *Boards) Open(owner proc.ID, name uint64, members int) *board.Ballot {
	cells := b.theirs[owner]
	if owner == b.p.cfg.Self {
		cells = b.own()
	}
	first, generation := uint64(uint32(name)), name>>32
	if generation == 0 || generation > board.MaxGeneration || first+uint64(board.CellsOf(members)) > uint64(len(cells)) {
		return nil
	}
	return board.Use(cells[first:][:board.CellsOf(members)], members, uint32(generation))
}

// Drop implements agree.Boards.
func (b *Boards) Drop(name uint64) {
	first := uint32(name)
	if members, used := b.members[first]; used {
		delete(b.members, first)
		size := sizeOf(members)
		b.free[size] = append(b.free[size], first)
	}
}

// MakeHall takes memory of this process for the hall of these members, and names it; false: there is none. Memory that others may still look at,
// or write to, is not used again. So where a member has died without having left a hall, it is when its process has ended: one that
// only counts as dead might go on.
func (b *Boards) MakeHall(members []proc.ID) (name uint64, ok bool) {
	if len(members) > board.MaxMembers || b.p.departed {
		return 0, false
	}
	for i := range b.halls {
		if h := &b.halls[i]; h.dropped && b.deserted(h) {
			h.dropped, h.members = false, members
			b.hallAt(b.own(), h.first, len(members)).Clear()
			return uint64(h.first) + 1, true
		}
	}
	first, ok := b.take(hallSize)
	if !ok {
		return 0, false
	}
	b.halls = append(b.halls, hall{first: first, members: members})
	b.hallAt(b.own(), first, len(members)).Clear()
	return uint64(first) + 1, true
}

// deserted reports whether nobody uses a hall any more. It leaves for those whose processes have ended, so that each is asked for
// once.
func (b *Boards) deserted(h *hall) bool {
	at := b.hallAt(b.own(), h.first, len(h.members))
	for member, id := range h.members {
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

// OpenHall gives a hall by its name; nil: nobody can have made it. Precondition: Reach(owner), or the owner is this process.
//
//banyan:decodes
func (b *Boards) OpenHall(owner proc.ID, name uint64, members int) *board.Hall {
	cells := b.theirs[owner]
	if owner == b.p.cfg.Self {
		cells = b.own()
	}
	if name == 0 || name > uint64(len(cells)) || members > board.MaxMembers || name-1+boardPiece<<hallSize > uint64(len(cells)) {
		return nil
	}
	return b.hallAt(cells, uint32(name-1), members)
}

// hallAt lays seats and slots over cells.
func (b *Boards) hallAt(cells []board.Cell, first uint32, members int) *board.Hall {
	piece := cells[first:][:boardPiece<<hallSize]
	seats := unsafe.Slice((*board.Seat)(unsafe.Pointer(&piece[0])), members)
	parts := unsafe.Slice((*byte)(unsafe.Pointer(&piece[hallParts])), board.PartsBytes)
	slots := unsafe.Slice((*board.Slot)(unsafe.Pointer(&piece[hallSlots:][:board.Slots*int64(unsafe.Sizeof(board.Slot{}))/cellBytes][0])), board.Slots)
	return board.Meet(seats, slots, parts)
}

// DropHall gives the memory of a hall back that this process has made.
func (b *Boards) DropHall(name uint64) {
	for i := range b.halls {
		if b.halls[i].first == uint32(name-1) {
			b.halls[i].dropped = true
		}
	}
}

// close unmaps everything. Boards must not be used any more.
func (b *Boards) close() error {
	var errs []error
	for _, cells := range b.theirs {
		if cells != nil {
			errs = append(errs, unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(cells))), boardArea)))
		}
	}
	clear(b.theirs)
	return errors.Join(errs...)
}
