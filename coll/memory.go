package coll

import "weak"

// Memory is the work memory of the operations of one communicator, beside the buffers of their callers. It grows
// as needed and is reused, so an operation allocates nothing if a similar one has run before. One operation uses
// it at a time. The zero value is ready.
//
// The garbage collector may free large parts of it, so that one long operation does not take its memory forever.
type Memory struct {
	small []byte
	large weak.Pointer[[]byte]
}

const (
	// smallest is the smallest allocation, in bytes: large enough to be aligned for every number.
	smallest = 512
	// keep is the most, in bytes, that is held against the collector.
	keep = 1 << 20
	// line is the alignment of its parts, in bytes: a cache line.
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
	both := m.bytes(stride(n) + n)
	return both[:n:n], both[stride(n):]
}

// stride is the distance of buffers of a length that share no cache line.
func stride(length int) int { return (length + line - 1) &^ (line - 1) }
