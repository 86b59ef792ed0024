package rma

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// A dynamic window has the memory that its owner attaches. Attached memory gets offsets that no memory of the
// window has had before, so an operation on memory that was detached meets none, and is refused. Only its
// owner knows the attached memory: the answer to a flush says that an operation was refused.
//
// Attached memory is shared with adapters, too. The first put or get of a rank that meets a piece is a frame, before which the
// rank asks for the piece's key; later ones are moves. A move to detached memory is lost, and the frame in its place refused.

// attached is memory of a dynamic window.
type attached struct {
	at     uint64
	mem    []byte
	shared fabric.Region // of length 0: it is not
}

// piece is memory of a target that moves reach, from an offset of the window on. A dynamic window has many.
type piece struct {
	from   uint64
	length uint64
	region fabric.Region // of length 0: frames reach it
}

const (
	// offsetUnit divides the offsets of attached memory, gap lies between two of them, and before the first.
	offsetUnit = 4096
	gap        = offsetUnit
)

// PrepareDynamic is Prepare of a dynamic window.
func (s *Service) PrepareDynamic(c *p2p.Comm, notices int) (*Window, error) {
	w, err := s.Prepare(c, nil, notices)
	if err == nil {
		w.dynamic, w.unused = true, gap
	}
	return w, err
}

// Attach adds memory to a dynamic window and gives the offset of its first byte, a multiple of offsetUnit.
func (w *Window) Attach(mem []byte) (int, error) {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	length := (uint64(len(mem)) + offsetUnit - 1) &^ (offsetUnit - 1)
	switch err := w.broken(); {
	case err != nil:
		return 0, err
	case !w.dynamic:
		return 0, errNotDynamic
	case len(mem) == 0 || !aligned(mem):
		return 0, fmt.Errorf("%w: %d bytes; the memory is empty, or not aligned to 8 bytes", ft.ErrArgument, len(mem))
	case length > math.MaxInt64/2-w.unused:
		return 0, fmt.Errorf("%w: all offsets of the window have been used", ft.ErrArgument)
	}
	at := w.unused
	a := attached{at: at, mem: mem}
	if w.s.sharer != nil && len(w.targets) > 1 {
		a.shared, _ = w.s.sharer.Share(mem) // else messages reach it
	}
	w.attached = append(w.attached, a)
	w.unused += length + gap
	return int(at), nil
}

// Detach takes the memory out that Attach has given an offset. It is not touched afterwards, if the operations on
// it were complete.
func (w *Window) Detach(at int) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	if w.freed {
		return errFreed
	}
	i := slices.IndexFunc(w.attached, func(a attached) bool { return a.at == uint64(at) })
	switch {
	case !w.dynamic:
		return errNotDynamic
	case i < 0:
		return fmt.Errorf("%w: no memory is attached at %d", ft.ErrArgument, at)
	}
	w.unshare(w.attached[i].shared)
	w.attached = slices.Delete(w.attached, i, i+1)
	return nil
}

// unshare ends the use of memory by adapters of others, if it is shared.
func (w *Window) unshare(r fabric.Region) {
	if r.Len > 0 {
		w.s.sharer.Unshare(r)
	}
}

// pieceOf gives the piece of a target's memory that has n bytes at an offset, if moves reach them. The first time it asks
// the owner of a dynamic window. Precondition: t.mover is not nil.
func (t *target) pieceOf(at, n uint64) *piece {
	if !t.w.dynamic {
		return t.pieces[0]
	}
	i := sort.Search(len(t.pieces), func(i int) bool { return t.pieces[i].from > at }) - 1
	switch {
	case i >= 0 && inside(at-t.pieces[i].from, n, t.pieces[i].length):
		if p := t.pieces[i]; p.region.Len > 0 {
			return p
		}
	case !t.asking:
		t.asking = true
		t.tell(kindWhere, at)
	}
	return nil
}

// tellWhere answers with the piece that an offset is in, of length 0 if it is in none.
func (t *target) tellWhere(at uint64) {
	var data [8 + 8 + keyBytes]byte
	from := uint64(0)
	for i := range t.w.attached {
		if a := &t.w.attached[i]; a.at <= at && at-a.at < uint64(len(a.mem)) {
			from = a.at
			binary.LittleEndian.PutUint64(data[:], uint64(len(a.mem)))
			encodeRegion(data[8:], &a.shared)
		}
	}
	t.replies = append(t.replies, item{kind: kindHere, head: head{at: from}, data: data[:], n: uint64(len(data))})
	t.pump()
}

// learn takes such an answer.
//
//banyan:decodes
func (t *target) learn(from uint64, data []byte) {
	if !t.asking || len(data) != 8+8+keyBytes {
		return
	}
	t.asking = false
	p := &piece{from: from, length: binary.LittleEndian.Uint64(data)}
	var ok bool
	if p.region, ok = decodeRegion(data[8:], p.length); !ok || p.length == 0 || p.length > math.MaxInt64 || from > math.MaxInt64 {
		return
	}
	i, known := slices.BinarySearchFunc(t.pieces, from, func(p *piece, from uint64) int { return cmp.Compare(p.from, from) })
	if !known {
		t.pieces = slices.Insert(t.pieces, i, p)
	}
}

var errNotDynamic = fmt.Errorf("%w: the window is not dynamic", ft.ErrArgument)

// memory gives n bytes of this rank's memory. False: they are not all in it. Precondition: the lock is held.
func (w *Window) memory(at, n uint64) ([]byte, bool) {
	mem := w.mem
	if w.dynamic {
		i := sort.Search(len(w.attached), func(i int) bool { return w.attached[i].at > at }) - 1
		if i < 0 {
			return nil, n == 0
		}
		mem = w.attached[i].mem
		at -= w.attached[i].at
	}
	if !inside(at, n, uint64(len(mem))) {
		return nil, w.dynamic && n == 0
	}
	return mem[at : at+n : at+n], true
}
