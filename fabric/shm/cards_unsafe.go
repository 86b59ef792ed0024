package shm

import (
	"sync/atomic"
	"unsafe"

	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Why unsafe: as in segment_unsafe.go.

// A process of a job publishes a card, which contains its addresses. The processes of a machine read each
// other's cards in the memory of the node, in place of asking the launcher for them: the header of each has
// room for two editions, between the bitmap of newcomers and the robust words.

// editions is the number of cards that a process may publish one after the other.
const editions = 2

// cardHead is the beginning of the room of an edition. The card follows.
type cardHead struct {
	length atomic.Uint32 // written once, after the card; 0: there is none
	owner  uint32
}

const cardHeadBytes = int(unsafe.Sizeof(cardHead{}))

// cardRoom is the room of an edition in the header of a process of this geometry.
func (g geometry) cardRoom(header []byte, edition int) (*cardHead, []byte) {
	at := knocksAt
	if g.knockBytes() == 0 {
		at = int(roundUp(knocksAt+int64(g.procs+63)/64*8, lineBytes))
	}
	n := max(0, (wordsAt-at)/editions&^(lineBytes-1))
	if n <= cardHeadBytes {
		return nil, nil
	}
	room := header[at+edition*n:][:n:n]
	return (*cardHead)(unsafe.Pointer(unsafe.SliceData(room))), room[cardHeadBytes:]
}

// PutCard publishes an edition of this process's card, 0 or 1 and each once, to the processes that share the
// memory of the node with it. It does nothing without that memory, a second time, or if the card is too long.
func (p *Provider) PutCard(edition int, card []byte) {
	if !p.own.shared || p.closed {
		return
	}
	if head, room := p.own.cardRoom(p.own.header, edition); head != nil && head.length.Load() == 0 && len(card) <= len(room) {
		copy(room, card)
		head.owner = uint32(p.cfg.Self)
		head.length.Store(uint32(len(card)))
	}
}

// dropCards withdraws the cards of a program that had the place of this process before.
func (s *segment) dropCards() {
	for edition := range editions {
		if head, _ := s.cardRoom(s.header, edition); head != nil {
			head.length.Store(0)
		}
	}
}

// Card is a copy of an edition of a peer's card; nil if the peer has none in the memory of the node, or has
// departed: then its card could only show that the process has ended. Any goroutine may call it. The
// launcher numbers the ranks of a machine in a row, and their headers too.
//
// The contents are the bytes that the peer wrote, unless another process has changed them.
func (p *Provider) Card(edition int, peer proc.ID) []byte {
	p.mapped.RLock()
	defer p.mapped.RUnlock()
	s := p.own
	each := nodemem.Head(int(s.procs))
	at := s.front.at + (int64(peer)-int64(p.cfg.Self))*each
	if s.node == nil || at < 0 || at+each > nodemem.Heads(int64(len(s.node)), int(s.procs)) {
		return nil
	}
	theirs := segment{geometry: s.geometry, header: s.node[at : at+each]}
	head, room := s.cardRoom(theirs.header, edition)
	if head == nil || theirs.head().state.Load() != 0 {
		return nil
	}
	n := head.length.Load()
	if n == 0 || int64(n) > int64(len(room)) || head.owner != uint32(peer) {
		return nil
	}
	return append([]byte(nil), room[:n]...)
}
