package coll

import "weak"

// Memory is what the operations of one communicator work in besides the buffers of their callers: it grows
// to what they need and serves the next one, so that an operation allocates nothing once the like of it has run.
// One operation uses it at a time. The zero value is ready.
//
// What is large is kept for as long as the garbage collector leaves it, so that one long operation does not
// cost its memory for ever.
type Memory struct {
	small []byte
	large weak.Pointer[[]byte]
}

const (
	// smallest is what is allocated at least, in bytes: enough that the beginning is aligned for every number.
	smallest = 512
	// keep is the most, in bytes, that is held against the collector.
	keep = 1 << 20
	// line is what parts of it begin at a multiple of, in bytes: a cache line.
	line = 64
)

// bytes gives n bytes of no particular content, until the next call.
func (m *Memory) bytes(n int) []byte {
	switch {
	case n > keep:
		b := m.large.Value()
		if b == nil || len(*b) < n {
			grown := make([]byte, n)
			b = &grown
			m.large = weak.Make(b)
		}
		return (*b)[:n]
	case len(m.small) < n:
		m.small = make([]byte, min(keep, max(smallest, n, 2*len(m.small))))
	}
	return m.small[:n]
}

// two gives two parts of n bytes each, which share no cache line, until the next call.
func (m *Memory) two(n int) (a, b []byte) {
	at := (n + line - 1) &^ (line - 1)
	both := m.bytes(at + n)
	return both[:n:n], both[at:]
}
