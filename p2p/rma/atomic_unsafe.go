package rma

import (
	"encoding/binary"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// Why unsafe: numbers in memory that other processes change at the same time take atomic instructions
// where they lie. They are aligned to their size, and the memory to 8 bytes.

// update combines data into memory that others change, and writes the old numbers to old, if that is not
// nil. It updates the numbers of 8 bytes at once, where they begin. Preconditions: as apply; a number has at
// most 8 bytes.
func update(acc Acc, elem Elem, mem, data, old []byte) {
	var size int
	for i := 0; i < len(data); i += size {
		size = elem.size()
		if len(data)-i >= 8 && aligned(mem[i:]) {
			size = 8
		}
		was := combineAt(acc, elem, mem[i:i+size], bitsOf(data[i:i+size]))
		if old != nil {
			putBits(old[i:i+size], was)
		}
	}
}

// Combine updates one number of memory that [Window.Near] gives by the one of data, and writes the old one
// to old. False: it has more than 8 bytes, the operation does not apply to the type, or it is not aligned.
func Combine(acc Acc, elem Elem, mem, data, old []byte) bool {
	if len(mem) != elem.size() || len(mem) > 8 || !placed(mem) || !acc.applies(elem) {
		return false
	}
	putBits(old, combineAt(acc, elem, mem, bitsOf(data)))
	return true
}

// Exchange puts value in place of such a number that equals compare, and writes the old one to old.
func Exchange(mem, compare, value, old []byte) bool {
	if !placed(mem) {
		return false
	}
	putBits(old, exchange(mem, bitsOf(compare), bitsOf(value)))
	return true
}

// placed reports whether a number is aligned to its length.
func placed(mem []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%uintptr(len(mem)) == 0
}

// combineAt updates the numbers of one piece of memory, and gives the old ones.
func combineAt(acc Acc, elem Elem, mem []byte, b uint64) uint64 {
	if acc == Sum && elem.size() == 8 && reflect.Kind(elem) <= reflect.Uint64 {
		return atomic.AddUint64((*uint64)(unsafe.Pointer(&mem[0])), b) - b
	}
	for {
		a := load(mem)
		if acc == NoOp || swap(mem, a, combine(acc, elem, len(mem), a, b)) {
			return a
		}
	}
}

// exchange puts b in place of a number that equals a, and gives the old one.
func exchange(mem []byte, a, b uint64) uint64 {
	for {
		if was := load(mem); was != a || swap(mem, a, b) {
			return was
		}
	}
}

// load reads a number of 1, 2, 4 or 8 bytes.
func load(mem []byte) uint64 {
	switch len(mem) {
	case 8:
		return atomic.LoadUint64((*uint64)(unsafe.Pointer(&mem[0])))
	case 4:
		return uint64(atomic.LoadUint32((*uint32)(unsafe.Pointer(&mem[0]))))
	}
	word, at := wordOf(mem)
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(word))
	return bitsOf(b[at:][:len(mem)])
}

// swap puts b in place of a, unless the number has changed.
func swap(mem []byte, a, b uint64) bool {
	switch len(mem) {
	case 8:
		return atomic.CompareAndSwapUint64((*uint64)(unsafe.Pointer(&mem[0])), a, b)
	case 4:
		return atomic.CompareAndSwapUint32((*uint32)(unsafe.Pointer(&mem[0])), uint32(a), uint32(b))
	}
	word, at := wordOf(mem)
	was := atomic.LoadUint32(word)
	var bytes [4]byte
	binary.NativeEndian.PutUint32(bytes[:], was)
	if bitsOf(bytes[at:][:len(mem)]) != a {
		return false
	}
	putBits(bytes[at:][:len(mem)], b)
	return atomic.CompareAndSwapUint32(word, was, binary.NativeEndian.Uint32(bytes[:]))
}

// wordOf is the word of 4 bytes around a number, and where the number lies in it. Memory is a whole number
// of words: see Memory, and fabric.Blocks.
func wordOf(mem []byte) (word *uint32, at uintptr) {
	p := unsafe.Pointer(&mem[0])
	at = uintptr(p) % 4
	return (*uint32)(unsafe.Add(p, -int(at))), at
}

func bitsOf(b []byte) uint64 {
	switch len(b) {
	case 8:
		return binary.NativeEndian.Uint64(b)
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	}
	return uint64(b[0])
}

func putBits(b []byte, v uint64) {
	switch len(b) {
	case 8:
		binary.NativeEndian.PutUint64(b, v)
	case 4:
		binary.NativeEndian.PutUint32(b, uint32(v))
	case 2:
		binary.NativeEndian.PutUint16(b, uint16(v))
	default:
		b[0] = byte(v)
	}
}

// combine gives acc of the numbers in two pieces of memory of a length. Precondition: acc applies to elem.
func combine(acc Acc, elem Elem, length int, a, b uint64) uint64 {
	if acc == Replace {
		return b
	}
	var room [2]uint64
	x, y := bytesOf(&room[0])[:length], bytesOf(&room[1])[:length]
	putBits(x, a)
	putBits(y, b)
	fold(acc, elem, x, y)
	return bitsOf(x)
}

func bytesOf(v *uint64) []byte { return (*[8]byte)(unsafe.Pointer(v))[:] }
