package layout

// pack copies the selected elements of data, the first len(packed) of them, to packed.
func pack[T any](l *Layout, packed, data []T) {
	for w := l.walk(); len(packed) > 0; {
		n := min(w.next(), len(packed))
		gather(packed[:n], data[w.at:], w.block, w.stride)
		packed = packed[n:]
	}
}

// unpack copies packed to the first selected elements of data.
func unpack[T any](l *Layout, packed, data []T) {
	for w := l.walk(); len(packed) > 0; {
		n := min(w.next(), len(packed))
		scatter(data[w.at:], packed[:n], w.block, w.stride)
		packed = packed[n:]
	}
}

// gather copies blocks that begin stride elements apart to packed. Blocks of one element are frequent, and a copy of
// one costs as much as a dozen assignments.
func gather[T any](packed, data []T, block, stride int) {
	if block == 1 {
		for i := range packed {
			packed[i] = data[i*stride]
		}
		return
	}
	for len(packed) > block {
		copy(packed[:block], data)
		packed, data = packed[block:], data[stride:]
	}
	copy(packed, data)
}

// scatter copies packed to blocks that begin stride elements apart.
func scatter[T any](data, packed []T, block, stride int) {
	if block == 1 {
		for i, x := range packed {
			data[i*stride] = x
		}
		return
	}
	for len(packed) > block {
		copy(data, packed[:block])
		packed, data = packed[block:], data[stride:]
	}
	copy(data, packed)
}

// walk goes from row to row: blocks of one length that begin stride elements apart, the first at an element.
type walk struct {
	l                 *Layout
	at, block, stride int
	index             [maxDims]int // of the next row, by dimension
	base              int          // where the next row begins; of an indexed layout its number
}

func (l *Layout) walk() walk { return walk{l: l, base: l.first} }

// next goes to the next row, and gives the number of its elements.
func (w *walk) next() int {
	l := w.l
	if l.places != nil {
		for w.block = 0; w.block == 0; w.base++ { // one of no elements may lie beyond all others
			w.at, w.block = l.places[w.base], l.lengths[w.base]
		}
		return w.block
	}
	w.at, w.block = w.base, l.block
	inner := len(l.dims) - 1
	if inner < 0 {
		return w.block
	}
	for d := inner - 1; d >= 0; d-- {
		w.base += l.dims[d].stride
		if w.index[d]++; w.index[d] < l.dims[d].count {
			break
		}
		w.base -= l.dims[d].stride * l.dims[d].count
		w.index[d] = 0
	}
	w.stride = l.dims[inner].stride
	return w.block * l.dims[inner].count
}
