package varint

import "encoding/binary"

// Reader takes values off the front of Rest.
type Reader struct {
	Rest []byte
	Bad  bool // a value was missing or malformed
}

// Fail marks the reader as bad if wrong is true.
func (r *Reader) Fail(wrong bool) { r.Bad = r.Bad || wrong }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.Rest) == 0 {
		r.Bad = true
		return 0
	}
	c := r.Rest[0]
	r.Rest = r.Rest[1:]
	return c
}

// Uint reads a varint in its shortest form; any longer form is malformed.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 || n > 1 && r.Rest[n-1] == 0 {
		r.Bad = true
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// UpTo reads a varint of at most limit.
func (r *Reader) UpTo(limit int) int {
	v := r.Uint()
	if v > uint64(limit) {
		r.Bad = true
		return 0
	}
	return int(v)
}
