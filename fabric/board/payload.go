package board

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/release"
)

// Buffer is the payload that a member lays for all in a step.
type Buffer struct {
	// word: step, member and length of the payload; see laidWord. Written by the member after the data. It is accessed as
	// that of a slot is.
	word uint64
	data [MaxLaid]byte
}

const (
	lengthBits = 12
	memberBits = 9
	laidBits   = lengthBits + memberBits
	// elsewhere is the length of a payload in the word of a buffer that stands for Elsewhere.
	elsewhere = 1<<lengthBits - 1
)

// laidWord is the word of a buffer with a payload of a length. So it differs from that of another member, and of another
// step.
func laidWord(member int, step uint64, length int) uint64 {
	return step<<laidBits | uint64(member)<<lengthBits | uint64(length)
}

// Lay writes the payload for all of the step that the member is about to enter; one longer than MaxLaid
// counts as Elsewhere.
func (g *Segment) Lay(member int, step uint64, payload []byte) {
	if len(payload) > MaxLaid {
		g.layElsewhere(member, step)
		return
	}
	b := &g.buffers[step%Buffers]
	release.Store64(&b.word, laidWord(member, step, copy(b.data[:], payload)))
}

// layElsewhere is Lay of a payload that is too long.
func (g *Segment) layElsewhere(member int, step uint64) {
	release.Store64(&g.buffers[step%Buffers].word, laidWord(member, step, elsewhere))
}

// Laid gives the payload that a member has laid in a step, of Elsewhere no bytes. It is not to be
// changed. False: another member has laid one, or none.
//
//banyan:decodes
func (g *Segment) Laid(member int, step uint64) (payload []byte, length int, ok bool) {
	b := &g.buffers[step%Buffers]
	w := atomic.LoadUint64(&b.word)
	if w&^elsewhere != laidWord(member, step, 0) {
		return nil, 0, false
	}
	if n := int(w & elsewhere); n <= MaxLaid {
		return b.data[:n], n, true
	}
	return nil, Elsewhere, true
}

// HasLaid reports whether a member has laid a payload in a step. It enters the step right after.
func (g *Segment) HasLaid(member int, step uint64) bool {
	_, _, ok := g.Laid(member, step)
	return ok
}
