package peers

import "unsafe"

// lines is the memory of the control: one number per side. They lie two cache lines apart, because
// some processors fetch lines in pairs.
type lines struct {
	of [2]struct {
		seq uint64 // written by its side, read by the other
		_   [120]byte
	}
}

// linesSize is the size of the mapping.
const linesSize = int(unsafe.Sizeof(lines{}))

// linesAt lays lines over a mapping, which is page aligned and never unmapped.
func linesAt(m []byte) *lines { return (*lines)(unsafe.Pointer(&m[0])) }
