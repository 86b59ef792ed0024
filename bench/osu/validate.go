package osu

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan"
)

// CorruptError says that bytes arrived wrong.
type CorruptError struct {
	Size  int // of the messages, bytes
	Bytes int // that were wrong, over all messages and both sides
}

// Error names the size and the number of bytes.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("osu: data validation: %d bytes arrived wrong in messages of %d bytes", e.Bytes, e.Size)
}

const (
	// maxValidated bounds the validated iterations of a size.
	maxValidated = 1000
	// windowMemory bounds the receive buffers of a validated window, in bytes.
	windowMemory = 64 << 20
)

// validate runs up to n iterations with patterns and returns the number of wrong
// bytes on both sides; both ranks get the same number.
func (p *Pair) validate(size, n int, b pass) (int, error) {
	var mine, theirs [8]byte
	wrong := 0
	for i := range min(n, maxValidated) {
		bad, err := b.check(p, size, byte(i))
		if err != nil {
			return 0, err
		}
		wrong += bad
	}
	binary.LittleEndian.PutUint64(mine[:], uint64(wrong))
	if _, err := p.c.Sendrecv(mine[:], p.peer, tagSync, theirs[:], p.peer, tagSync); err != nil {
		return 0, err
	}
	return wrong + int(binary.LittleEndian.Uint64(theirs[:])), nil
}

// checkPingPong is one round trip: out with one pattern, back with another.
func (p *Pair) checkPingPong(size int, round byte) (int, error) {
	out, back := round, round+128
	s, r := p.sbuf[:size], p.rbuf[:size]
	mine, theirs := out, back
	if !p.first {
		mine, theirs = back, out
	}
	fill(s, mine)
	fill(r, ^theirs)
	if err := p.pingPong(s, r, 1); err != nil {
		return 0, err
	}
	return count(r, theirs), nil
}

// checkWindow is one window, each message in a buffer of its own and with a
// pattern of its own, as many as windowMemory allows.
func (p *Pair) checkWindow(size int, round byte) (int, error) {
	n := min(len(p.reqs), max(1, windowMemory/max(1, size)))
	all := make([]byte, n*size)
	reqs := make([]banyan.Request, n)
	for i := range reqs {
		b := all[i*size : (i+1)*size]
		if p.first {
			fill(b, round+byte(i))
			reqs[i] = p.c.Isend(b, p.peer, tagData)
		} else {
			fill(b, ^(round + byte(i)))
			reqs[i] = p.c.Irecv(b, p.peer, tagData)
		}
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return 0, err
	}
	if p.first {
		return 0, p.sync()
	}
	wrong := 0
	for i := range reqs {
		wrong += count(all[i*size:(i+1)*size], round+byte(i))
	}
	return wrong, p.sync()
}

// fill writes a pattern in which a shifted or a repeated piece is noticed.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = pattern(seed, i)
	}
}

// count returns how many bytes differ from the pattern.
func count(b []byte, seed byte) int {
	wrong := 0
	for i := range b {
		if b[i] != pattern(seed, i) {
			wrong++
		}
	}
	return wrong
}

// pattern differs from one line and from one page to the next.
func pattern(seed byte, i int) byte { return seed + byte(i) + byte(i>>8)*7 + byte(i>>16)*31 }
