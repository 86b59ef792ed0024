package netpipe

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/internal/pattern"
)

// CorruptError reports bytes that arrived wrong.
type CorruptError struct {
	Size  int // of the messages, bytes
	Bytes int // that were wrong, over all messages and both sides
}

// Error names the size and the number of bytes.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("integrity check: %d bytes arrived wrong in messages of %d bytes", e.Bytes, e.Size)
}

// Bounds of the messages of a size that are checked: in number, and in bytes filled and looked at.
const (
	maxChecked      = 1000
	maxCheckedBytes = 64 << 20
)

// checked returns how many messages of a trial's n are checked.
func checked(size, n int) int {
	return min(n, maxChecked, max(minRepeats, maxCheckedBytes/size))
}

// integrity moves messages with patterns and looks at every byte. Both ranks return the same error.
func (p *pair) integrity(size, n int) error {
	wrong := 0
	for i := range checked(size, n) {
		bad, err := p.check(size, i)
		if err != nil {
			return err
		}
		wrong += bad
	}
	var theirs [8]byte
	binary.LittleEndian.PutUint64(p.word[:], uint64(wrong))
	if _, err := p.c.Sendrecv(p.word[:], p.peer, tagSync, theirs[:], p.peer, tagSync); err != nil {
		return err
	}
	if wrong += int(binary.LittleEndian.Uint64(theirs[:])); wrong > 0 {
		return &CorruptError{Size: size, Bytes: wrong}
	}
	return nil
}

// check moves the i-th messages, one each way or, streaming, one, and returns how many bytes
// arrived wrong here.
func (p *pair) check(size, i int) (int, error) {
	s, r := p.buffers(size)
	out, back := seed(i, p.first), seed(i, !p.first)
	send := func() error { pattern.Fill(s, out); return p.send(s, 1) }
	receive := func() (int, error) {
		pattern.Spoil(r, back)
		err := p.receive(r, 1)
		return pattern.Wrong(r, back), err
	}
	switch {
	case p.mode == Bidirectional:
		pattern.Fill(s, out)
		pattern.Spoil(r, back)
		err := p.exchange(s, r, 1)
		return pattern.Wrong(r, back), err
	case p.mode == Streaming && p.first:
		return 0, send()
	case p.mode == Streaming:
		return receive()
	case p.first:
		if err := send(); err != nil {
			return 0, err
		}
		return receive()
	}
	wrong, err := receive()
	if err != nil {
		return 0, err
	}
	return wrong, send()
}

// seed differs for messages and directions.
func seed(i int, fromFirst bool) byte {
	if fromFirst {
		return byte(2 * i)
	}
	return byte(2*i + 1)
}
