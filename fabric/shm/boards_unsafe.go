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

// Boards is the memory for boards and collective segments, at the end of the segment of this process
// and of those whose boards it uses. It stays mapped until the endpoint is closed: the posts of dead
// processes still count.
type Boards struct {
	p       *Provider
	theirs  map[proc.ID][]board.Cell // nil: it cannot be mapped
	free    [pieceSizes][]uint32     // pieces that were used, by size: their first cells
	used    uint32                   // cells that have been given away so far
	backed  int64                    // bytes that have memory
	last    uint32                   // generation that was given
	members map[uint32]int           // of the boards in use, by first cell
	colls   []collSegment            // of this process
}

const (
	// boardArea is the part of each segment for boards, in bytes. It takes memory when boards are made.
	boardArea = 64 << 20
	// boardPiece is the smallest piece, in cells: pieces have powers of two as their size.
	boardPiece = 16
	boardSizes = 9
	// pieceSizes: a segment may be larger than all boards.
	pieceSizes = boardSizes + 1
	// boardChunk is how many bytes are given memory at once.
	boardChunk = 64 << 10
	cellBytes  = int64(unsafe.Sizeof(board.Cell{}))
)

// Boards gives the boards of this endpoint. They belong to the caller of the provider.
func (p *Provider) Boards() *Boards { return &p.boards }

// cellsOf lays cells over the part of a segment for boards.
func cellsOf(area []byte) []board.Cell {
	return unsafe.Slice((*board.Cell)(unsafe.Pointer(unsafe.SliceData(area))), int64(len(area))/cellBytes)
}

// own gives the cells of this process.
func (b *Boards) own() []board.Cell {
	s := b.p.own
	return cellsOf(s.rings[s.boardsOffset()-s.ringOffset(0):])
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
	area, err := mapBoards(c, b.p.cfg.Dir != "")
	if err != nil {
		b.p.cfg.Log.Info("agreements and collectives take messages", "peer", int(owner), "reason", err)
		b.theirs[owner] = nil
		return false
	}
	b.theirs[owner] = cellsOf(area)
	return true
}

// mapBoards maps the part of a peer's segment for boards.
func mapBoards(c *Conn, unsealed bool) (area []byte, err error) {
	s := &segment{geometry: c.address.geometry, fd: -1}
	if s.fd, err = c.findBacking(&c.address); err != nil {
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
	board.Format(b.own()[first:][:cellsFor(members)], b.last, next)
	return uint64(b.last)<<32 | uint64(first), true
}

// cellsFor is the number of cells of a board.
func cellsFor(members int) int { return board.CellsOf(members, board.Section) }

// sizeOf gives the piece for a board: boardPiece cells, doubled so many times.
func sizeOf(members int) int {
	return bits.Len(uint((cellsFor(members) - 1) / boardPiece))
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
			b.p.cfg.Log.Info("agreements and collectives take messages", "reason", err)
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
	if generation == 0 || generation > board.MaxGeneration || first+uint64(cellsFor(members)) > uint64(len(cells)) {
		return nil
	}
	return board.Use(cells[first:][:cellsFor(members)], members, board.Section, uint32(generation))
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
