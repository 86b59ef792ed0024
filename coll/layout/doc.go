// Package layout sends and receives elements of a slice that do not lie side by side: columns, faces of a
// box, any blocks (derived datatypes, MPI 4.1, 5.1).
//
//	column, err := layout.Vector(rows, 1, cols)           // of a matrix that lies row by row
//	v, err := layout.Of(matrix[2:], column)               // its column 2
//	err = layout.Send(c, v, dst, tag)
//
// A [Layout] selects elements of a slice, in the order in which they travel; a [View] is the selected part of one
// slice, and a [Set] one for each rank or neighbour. The other side needs no layout, or may have another one of as many
// elements. [View.Pack], [View.Packed] and [View.Unpack] serve every other operation, collective, non-blocking or
// persistent:
//
//	r := banyan.Irecv(c, v.Packed(), src, tag)
//	_, err = r.Wait()
//	v.Unpack()
//
// # Cost
//
// Elements that lie in one piece travel from where they are. All others are copied, the whole message at once, to memory of
// the view, and from there. The engine does not pack piece by piece while it sends, so a view has as much memory as
// elements that it selects, from its first use on; after that an operation allocates nothing.
//
// # Failure
//
// Operations have the errors of those that they use. After an error nothing has been unpacked: what does not lie in one
// piece is as it was. Places that an operation leaves as they are, such as those of ranks that are agreed to have failed,
// stay so here as well.
//
// A view serves one operation at a time. A Layout does not change; any goroutine may use it.
//
// Floor 7.
package layout
