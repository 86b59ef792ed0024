package predict

import (
	"fmt"
	"slices"
)

// Op is a collective operation on a tree.
type Op int

// The operations. All but Bcast and Scatter start with a way up the tree; all but Reduce and Gather end
// with one down.
const (
	// Barrier goes up and down with empty messages.
	Barrier Op = iota
	// Bcast goes down with Bytes.
	Bcast
	// Reduce goes up with Bytes.
	Reduce
	// Allreduce goes up and down with Bytes.
	Allreduce
	// Gather goes up with Bytes for each rank of the subtree.
	Gather
	// Scatter goes down with Bytes for each rank of the subtree.
	Scatter
)

var ops = []string{"barrier", "bcast", "reduce", "allreduce", "gather", "scatter"}

// String returns the text that ParseOp parses.
func (o Op) String() string {
	if o >= 0 && int(o) < len(ops) {
		return ops[o]
	}
	return fmt.Sprintf("operation %d", int(o))
}

// ParseOp parses the name of an operation.
func ParseOp(s string) (Op, error) {
	if i := slices.Index(ops, s); i >= 0 {
		return Op(i), nil
	}
	return 0, fmt.Errorf("no operation %q: want barrier, bcast, reduce, allreduce, gather or scatter", s)
}

func (o Op) up() bool       { return o != Bcast && o != Scatter }
func (o Op) down() bool     { return o != Reduce && o != Gather }
func (o Op) subtrees() bool { return o == Gather || o == Scatter }
