package banyan

import "fmt"

// ReduceLocal folds in into acc, element by element: acc[i] becomes op(acc[i], in[i]). It is one step of a
// reduction, without communication (MPI_Reduce_local). The same slice may be both. Error: ErrArgument for no
// op, slices of different lengths, or slices that overlap otherwise; acc is then as it was.
func ReduceLocal[T Number](acc, in []T, op func(a, b T) T) error {
	var wrong error
	switch {
	case op == nil:
		wrong = fmt.Errorf("%w: no operation to fold with", ErrArgument)
	case len(acc) != len(in):
		wrong = fmt.Errorf("%w: %d elements to fold into %d: give slices of one length", ErrArgument, len(in), len(acc))
	case overlap(Bytes(acc), Bytes(in)):
		wrong = fmt.Errorf("%w: the two slices overlap: give the same one twice, or two", ErrArgument)
	}
	if wrong != nil {
		return misuse("ReduceLocal", wrong)
	}
	elementwise(op, nil).Op(Bytes(acc), Bytes(in))
	return nil
}
