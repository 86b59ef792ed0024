package osu

import (
	"fmt"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

// CorruptError reports bytes that arrived wrong.
type CorruptError struct {
	Size  int // of the messages, bytes
	Bytes int // that were wrong, over all messages and ranks
}

// Error names the size and the number of bytes.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("osu: data validation: %d bytes arrived wrong in messages of %d bytes", e.Bytes, e.Size)
}

const (
	// maxValidated bounds the validated iterations of a size.
	maxValidated = 1000
	// windowMemory bounds the buffers of a validated window, in bytes, one way.
	windowMemory = 64 << 20
)

// validate runs up to n iterations with patterns and returns the number of wrong bytes on all
// ranks, to all of them.
func (s *sweep) validate(size, n int) (int, error) {
	wrong := 0
	for i := range max(1, min(n, maxValidated)/s.perCheck) {
		for range s.o.ValidateWarmup {
			if _, err := s.run(s.Pair, size, 1); err != nil {
				return 0, err
			}
		}
		bad, err := s.check(s.Pair, size, byte(i))
		if err != nil {
			return 0, err
		}
		wrong += bad
	}
	total, err := s.sum(int64(wrong))
	return int(total), err
}

// checkPingPong is one round trip: out with one pattern, back with another.
func (p *Pair) checkPingPong(size int, round byte) (int, error) {
	out, back := round, round+128
	s, r := p.sbuf[:size], p.rbuf[:size]
	mine, theirs := out, back
	if !p.first {
		mine, theirs = back, out
	}
	pattern.Fill(s, mine)
	pattern.Spoil(r, theirs)
	if err := p.pingPong(s, r, 1); err != nil {
		return 0, err
	}
	return pattern.Wrong(r, theirs), nil
}

// checkWindow is one window from the first side to the other.
func (p *Pair) checkWindow(size int, round byte) (int, error) {
	return p.exchange(size, p.first, !p.first, round)
}

// checkBothWindows is a window each way.
func (p *Pair) checkBothWindows(size int, round byte) (int, error) {
	return p.exchange(size, true, true, round)
}

// exchange sends and receives a window, or only one of the two, each message in a buffer of its own
// and with a pattern of its own, as many as windowMemory allows.
func (p *Pair) exchange(size int, send, receive bool, round byte) (int, error) {
	mine, theirs := round, round+128
	if !p.first {
		mine, theirs = theirs, mine
	}
	var in, out [][]byte
	var reqs []banyan.Request
	n := min(len(p.reqs)/2, max(1, windowMemory/max(1, size)))
	if receive {
		in = buffers(n, size)
	}
	if send {
		out = buffers(n, size)
	}
	for i, b := range in {
		pattern.Spoil(b, theirs+byte(i))
		reqs = append(reqs, p.receive(b))
	}
	for i, b := range out {
		pattern.Fill(b, mine+byte(i))
		reqs = append(reqs, p.send(b))
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return 0, err
	}
	wrong := 0
	for i, b := range in {
		wrong += pattern.Wrong(b, theirs+byte(i))
	}
	return wrong, p.sync()
}

// buffers returns n buffers of size bytes each.
func buffers(n, size int) [][]byte {
	all, out := make([]byte, n*size), make([][]byte, n)
	for i := range out {
		out[i] = all[i*size : (i+1)*size]
	}
	return out
}
