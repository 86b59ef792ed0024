package sim

import (
	"fmt"
	"unsafe"

	"github.com/banyan-hpc/banyan/fabric"
)

// maxRegions bounds the exposed buffers of one process. The contract cannot take an exposure back,
// so the oldest is forgotten.
const maxRegions = 1 << 16

// regionTable numbers exposed buffers. The same buffer keeps its number while it is in the table,
// so a program that reuses its buffers keeps the table small.
type regionTable struct {
	bufs   [][]byte // number n is at n % maxRegions
	next   uint64
	number map[bufferKey]uint64
}

// bufferKey is a buffer's identity. It keeps the buffer alive and is compared, never ordered or
// printed: addresses differ from run to run.
type bufferKey struct {
	data *byte
	size int
}

func keyOf(buf []byte) bufferKey { return bufferKey{unsafe.SliceData(buf), len(buf)} }

func (t *regionTable) expose(buf []byte) uint64 {
	if n, ok := t.number[keyOf(buf)]; ok {
		return n
	}
	if t.number == nil {
		t.number = make(map[bufferKey]uint64)
	}
	n := t.next
	t.next++
	if n < maxRegions {
		t.bufs = append(t.bufs, buf)
	} else {
		slot := &t.bufs[n%maxRegions]
		delete(t.number, keyOf(*slot))
		*slot = buf
	}
	t.number[keyOf(buf)] = n
	return n
}

// find returns size bytes at offset of the buffer that r names.
func (t *regionTable) find(r fabric.Region, offset uint64, size int) ([]byte, error) {
	if r.Addr >= t.next || t.next-r.Addr > maxRegions {
		return nil, fmt.Errorf("sim: region %d is not exposed", r.Addr)
	}
	buf := t.bufs[r.Addr%maxRegions]
	if length := uint64(len(buf)); offset > length || uint64(size) > length-offset {
		return nil, fmt.Errorf("sim: %d bytes at offset %d lie outside of the region's %d", size, offset, length)
	}
	return buf[offset:][:size], nil
}

// within reports whether memory lies in all.
func within(memory, all []byte) bool {
	from, first := uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(unsafe.Pointer(unsafe.SliceData(all)))
	return from >= first && from-first <= uintptr(len(all)) && uintptr(len(memory)) <= uintptr(len(all))-(from-first)
}

// offsetIn is where memory begins in all. Precondition: within.
func offsetIn(memory, all []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(memory))) - uintptr(unsafe.Pointer(unsafe.SliceData(all))))
}
