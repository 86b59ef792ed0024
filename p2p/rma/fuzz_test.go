package rma

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/bakery"
)

// Any payload is refused or applied inside of the memory; an answer to no request changes nothing.
func FuzzFrame(f *testing.F) {
	for k := range kinds {
		f.Add(uint8(k), make([]byte, headBytes+8))
	}
	f.Add(uint8(kindPut), []byte("short"))
	for n := range partBytes + 8 { // ones that are too short, and of both kinds of windows
		part := make([]byte, headBytes+n)
		(&head{flags: inParts}).encode(part)
		f.Add(uint8(kindPut), part)
		f.Add(uint8(kindGetAcc), part)
	}
	f.Fuzz(func(t *testing.T, k uint8, b []byte) {
		h, data, ok := decode(b)
		assert.Equal(t, len(b) >= headBytes, ok)
		if !ok {
			return
		}
		around := Memory(80)
		w := &Window{s: new(Service), mem: around[8:72:72], notices: make([]uint64, 2), targets: make([]target, 1)}
		if len(b)%2 == 1 {
			w.dynamic, w.attached, w.mem = true, []attached{{at: gap, mem: w.mem[:32:32]}, {at: 3 * gap, mem: w.mem[32:]}}, nil
		}
		w.makeLock()
		o := &w.targets[0]
		o.w, o.stalled, o.asking = w, true, true
		if kind(k).answers() {
			o.answered(kind(k), 3, &h, data)
		} else {
			o.serve(kind(k), 3, &h, data)
		}
		assert.Equal(t, make([]byte, 8), around[:8])
		assert.Equal(t, make([]byte, 8), around[72:])
		again := make([]byte, headBytes)
		h.encode(again)
		again[3] = b[3]
		assert.Equal(t, b, append(again, data...))
	})
}

// Cards of a wrong length, or of a rank with an error, are refused.
func FuzzCards(f *testing.F) {
	none := NoCard()
	f.Add(none[:])
	inBlock := (&Window{mem: make([]byte, 24), at: place{[24]byte{1}, 32, 16}}).Card()
	f.Add(inBlock[:]) // ends 8 bytes behind the block
	shared := (&Window{mem: make([]byte, 24), shared: fabric.Region{Addr: 5, Len: 24, Key: []byte("four")}}).Card()
	f.Add(shared[:])
	locked := &Window{mem: make([]byte, 24)}
	locked.lock.at = place{[24]byte{1}, 32, 4} // not aligned
	card := locked.Card()
	f.Add(card[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		ranks := max(1, len(b)/CardBytes)
		w := &Window{targets: make([]target, ranks)}
		if err := w.join(b); err == nil {
			assert.Len(t, b, ranks*CardBytes)
			for i := range w.targets {
				o := &w.targets[i]
				for _, p := range o.pieces {
					assert.True(t, p.from == 0 && p.length == o.size && p.region.Len == o.size && len(p.region.Key) < keyBytes)
				}
				assert.True(t, o.at.none() || o.at.from <= o.at.length && o.size <= o.at.length-o.at.from)
				l, words := o.lock.at, uint64(8*bakery.WordsOf(ranks))
				assert.True(t, l.none() || l.from%8 == 0 && l.from <= l.length && words <= l.length-l.from)
			}
		}
	})
}

// Each frame of before a validate is dropped, of any kind.
func TestFramesOfBeforeAValidate(t *testing.T) {
	w := &Window{gen: 2}
	s := &Service{windows: map[uint32]*Window{7: w}}
	for k := kindPut; k < kinds; k++ {
		if k != kindGone {
			s.receive(1, 7<<32|uint64(k)<<24|1<<tokenBits, make([]byte, headBytes))
		}
	}
	assert.Equal(t, &Window{gen: 2}, w)
}
