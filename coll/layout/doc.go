// Package layout sends and receives strided or scattered elements of a slice: columns, faces of a box, any blocks
// (derived datatypes, MPI 4.1, 5.1).
//
//	column, err := layout.Vector(rows, 1, cols)           // of a row-major matrix
//	v, err := layout.Of(matrix[2:], column)               // its column 2
//	err = layout.Send(c, v, dst, tag)
//
// A [Layout] selects elements of a slice, in the order in which they travel; a [View] is the selected part of one
// slice, and a [Set] one for each rank or neighbour. The other side needs no layout, or may have another one with
// the same number of elements. [View.Pack], [View.Packed] and [View.Unpack] serve every other operation, collective,
// non-blocking or
// persistent:
//
//	r := banyan.Irecv(c, v.Packed(), src, tag)
//	_, err = r.Wait()
//	v.Unpack()
//
// # Cost
//
// Contiguous elements are sent in place. All others are copied, the whole message at once, to memory of the view,
// and sent from there. The engine does not pack piece by piece while it sends. So a view has as much memory as the
// elements that it selects, from its first use on; after that an operation allocates nothing.
//
// # Failure
//
// Operations return the errors of the operations that they use. After an error nothing has been unpacked: elements
// that are not contiguous are unchanged. If an operation leaves blocks unchanged, such as those of ranks that are
// agreed to have failed, so do the functions of this package.
//
// A view serves one operation at a time. A Layout is immutable; any goroutine may use it.
//
// Floor 7.
package layout
