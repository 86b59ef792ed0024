package coll

import "unsafe"

// Why unsafe: a slice of slices of numbers is used in place, with elements of any type. The header of a slice of
// elements is read as that of a slice of bytes, which has the same layout with the length in elements.
// Addresses of buffers are compared, and nothing is read through them.

// Blocks are a buffer for each rank of a communicator, or each neighbour. The zero Blocks are empty for all.
type Blocks struct {
	each [][]byte // with lengths in elements of unit bytes; nil: all lie in flat
	unit int
	flat []byte
	size int   // of a block in flat, if all are of one size; else
	at   []int // where each begins, and where the last ends
}

// BlocksOf are the memory of slices of a type without pointers, by rank.
func BlocksOf[T any](s [][]T) Blocks {
	var zero T
	return Blocks{each: *(*[][]byte)(unsafe.Pointer(&s)), unit: int(unsafe.Sizeof(zero))}
}

// Len is the number of slices of which they are made.
func (b *Blocks) Len() int { return len(b.each) }

// equal divides a buffer into blocks of one size.
func equal(flat []byte, n int) Blocks { return Blocks{flat: flat, size: len(flat) / max(1, n)} }

// At is the buffer of a rank.
func (b *Blocks) At(rank int) []byte {
	switch {
	case b.each != nil:
		elements := b.each[rank]
		return unsafe.Slice(unsafe.SliceData(elements), len(elements)*b.unit)
	case b.at != nil:
		return b.flat[b.at[rank]:b.at[rank+1]]
	}
	return b.flat[rank*b.size:][:b.size]
}

// span is the range of addresses in which the buffers of n ranks lie. Both are 0 if all are empty.
func (b *Blocks) span(n int) (low, high uintptr) {
	for rank := range n {
		block := b.At(rank)
		if len(block) == 0 {
			continue
		}
		from := uintptr(unsafe.Pointer(unsafe.SliceData(block)))
		if high == 0 {
			low = from
		}
		low, high = min(low, from), max(high, from+uintptr(len(block)))
	}
	return low, high
}

// overlap reports whether the first n of these buffers may share memory with m others: whether their ranges do.
func (b *Blocks) overlap(n int, o *Blocks, m int) bool {
	low, high := b.span(n)
	from, to := o.span(m)
	return low < to && from < high
}
