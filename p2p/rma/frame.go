package rma

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/bakery"
	"github.com/banyan-hpc/banyan/ft"
)

// A frame's immediate is the window's context, the kind, the generation and a token:
//
//	context 32 | kind 8 | generation 4 | token 20
//
// The payload begins with a header of 24 bytes. Data follow, or the length of a get. Before the data of a frame with
// the flag inParts are the offset and length of its operation.
const (
	headBytes  = 24
	tokenBits  = 20
	maxTokens  = 1 << tokenBits
	generation = 1<<4 - 1
	lastChunk  = 1 // flag: the operation, or answer, has no more frames
	inParts    = 2 // flag: the operation has several frames, and is on memory of a dynamic window
	partBytes  = 16
)

type kind uint8

const (
	kindPut     kind = 1 + iota
	kindAcc          // accumulate
	kindGet          // answered by kindOld, in several frames
	kindGetAcc       // accumulate, answered by the old values
	kindCas          // compare and swap: the compared value, then the new one
	kindOld          // an answer: data for the buffer of a token
	kindFlush        // answered by kindFlushed
	kindFlushed      // all operations before it are complete
	kindLock         // answered by kindGranted
	kindGranted
	kindUnlock // answered by kindFlushed
	kindPost
	kindComplete
	kindRefused // an answer: the target has refused an operation
	kindGone    // the sender has no such window, or none any more; also unasked
	kindRouse   // a rank may have the receiver's lock, and sleeps
	kindWake    // the receiver may have the sender's lock
	kindWhere   // answered by kindHere
	kindHere    // the piece of a dynamic window that an offset is in, for moves
	kinds
)

// answers reports whether a frame answers one of the receiver.
func (k kind) answers() bool {
	return k == kindOld || k == kindFlushed || k == kindGranted || k == kindRefused || k == kindGone ||
		k == kindHere
}

// asks reports whether a frame is answered.
func (k kind) asks() bool {
	return k == kindGet || k == kindGetAcc || k == kindCas || k == kindFlush || k == kindLock || k == kindUnlock ||
		k == kindWhere
}

// head is the header of a frame.
type head struct {
	acc    Acc
	elem   Elem
	flags  uint8
	notice uint32 // the counter, from 1; 0: none
	at     uint64 // offset in the target's memory; of kindLock the kind of lock
	off    uint64 // offset in the origin's buffer, of operations with an answer; of kindPut the number of notices before
}

func (h *head) encode(b []byte) {
	b[0], b[1], b[2], b[3] = uint8(h.acc), uint8(h.elem), h.flags, 0
	binary.LittleEndian.PutUint32(b[4:], h.notice)
	binary.LittleEndian.PutUint64(b[8:], h.at)
	binary.LittleEndian.PutUint64(b[16:], h.off)
}

// decode splits a payload into header and data.
//
//banyan:decodes
func decode(b []byte) (h head, data []byte, ok bool) {
	if len(b) < headBytes {
		return h, nil, false
	}
	h = head{
		acc: Acc(b[0]), elem: Elem(b[1]), flags: b[2],
		notice: binary.LittleEndian.Uint32(b[4:]),
		at:     binary.LittleEndian.Uint64(b[8:]),
		off:    binary.LittleEndian.Uint64(b[16:]),
	}
	return h, b[headBytes:], true
}

// NoPlace is the offset of an operation that is negative, or beyond all memory.
const NoPlace = 1<<64 - 1

// inside reports whether n bytes at an offset lie in memory of some size.
func inside(at, n, size uint64) bool { return at <= size && n <= size-at }

// CardBytes is the length of a card: the length of the memory, or dynamicSize, the number of counters, the places
// of the memory and of the words of the lock, each with the block, its length, and where they begin in it, and the
// address and the key by which peers move.
const CardBytes = 16 + 2*placeBytes + 8 + keyBytes

const (
	placeBytes = len(fabric.BlockName{}) + 16
	keyBytes   = 1 + 16 // the first one is 0 if the memory is not shared, else 1 more than the length of the key
)

// dynamicSize stands for the length of the memory of a dynamic window.
const dynamicSize = math.MaxInt64

// Card describes this rank's memory for the others.
func (w *Window) Card() (b [CardBytes]byte) {
	size := uint64(len(w.mem))
	if w.dynamic {
		size = dynamicSize
	}
	binary.LittleEndian.PutUint64(b[:], size)
	binary.LittleEndian.PutUint64(b[8:], uint64(len(w.notices)))
	w.at.encode(b[16:])
	w.lock.at.encode(b[16+placeBytes:])
	encodeRegion(b[16+2*placeBytes:], &w.shared)
	return b
}

// encodeRegion writes a region without its length. One whose key is too long counts as not shared.
func encodeRegion(b []byte, r *fabric.Region) {
	if r.Len > 0 && len(r.Key) < keyBytes {
		binary.LittleEndian.PutUint64(b, r.Addr)
		b[8] = uint8(1 + copy(b[9:], r.Key))
	}
}

// decodeRegion reads a region of a length; of length 0 if the memory is not shared.
//
//banyan:decodes
func decodeRegion(b []byte, size uint64) (r fabric.Region, ok bool) {
	n := int(b[8])
	if n == 0 || n > keyBytes {
		return r, n == 0
	}
	return fabric.Region{Addr: binary.LittleEndian.Uint64(b), Len: size, Key: append([]byte(nil), b[9:8+n]...)}, true
}

// place is where memory lies in a block. The zero place is in none.
type place struct {
	block  fabric.BlockName
	length uint64 // of the block
	from   uint64
}

func (p *place) encode(b []byte) {
	n := copy(b, p.block[:])
	binary.LittleEndian.PutUint64(b[n:], p.length)
	binary.LittleEndian.PutUint64(b[n+8:], p.from)
}

// decode reports whether memory of that size is in the block, if there is a block.
//
//banyan:decodes
func (p *place) decode(b []byte, size uint64) bool {
	b = b[copy(p.block[:], b):]
	p.length, p.from = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return p.none() || p.length <= math.MaxInt64 && inside(p.from, size, p.length)
}

func (p *place) none() bool { return p.block == fabric.BlockName{} }

// NoCard is the card of a rank that has no window because of an error.
func NoCard() (b [CardBytes]byte) {
	binary.LittleEndian.PutUint64(b[:], math.MaxUint64)
	return b
}

// Join takes the cards of all ranks, in order. Error: ft.ErrArgument, which names a rank with an error.
func (w *Window) Join(cards []byte) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	return w.join(cards)
}

//banyan:decodes
func (w *Window) join(cards []byte) error {
	if len(cards) != len(w.targets)*CardBytes {
		return fmt.Errorf("%w: %d bytes of cards", ft.ErrArgument, len(cards))
	}
	words := uint64(bakery.WordsOf(len(w.targets)) * wordBytes)
	for i := range w.targets {
		t, card := &w.targets[i], cards[i*CardBytes:]
		if t.agreed {
			continue // it has no window, and the collective gives no card of it
		}
		t.size, t.notices = binary.LittleEndian.Uint64(card), binary.LittleEndian.Uint64(card[8:])
		fits := t.at.decode(card[16:], t.size) && t.lock.at.decode(card[16+placeBytes:], words) && t.lock.at.from%8 == 0
		region, known := decodeRegion(card[16+2*placeBytes:], t.size)
		if fits = fits && known; region.Len > 0 && !w.dynamic {
			t.pieces = []*piece{{length: t.size, region: region}}
		}
		if t.size > dynamicSize || t.notices > math.MaxUint32 || !fits {
			return fmt.Errorf("%w: the memory or the options of rank %d", ft.ErrArgument, i)
		}
		if (t.size == dynamicSize) != w.dynamic {
			return fmt.Errorf("%w: rank %d and this one differ in whether the window is dynamic", ft.ErrArgument, i)
		}
	}
	return nil
}
