package banyan

// Send sends the elements of a slice of numbers without copying them first; see
// [Comm.Send].
func Send[T Number](c *Comm, data []T, dst, tag int) error { return c.Send(Bytes(data), dst, tag) }

// Recv receives numbers into data; see [Comm.Recv]. The Status counts elements. A
// message that is no whole number of elements is ErrArgument.
func Recv[T Number](c *Comm, data []T, src, tag int) (Status, error) {
	st, err := c.Recv(Bytes(data), src, tag)
	n, odd := count[T](st.Count)
	st.Count = n
	if err == nil {
		err = c.raise(odd)
	}
	return st, err
}

// Isend begins to send numbers; see [Comm.Isend].
func Isend[T Number](c *Comm, data []T, dst, tag int) Request { return c.Isend(Bytes(data), dst, tag) }

// Irecv begins to receive numbers; see [Comm.Irecv]. The request's Status counts
// bytes.
func Irecv[T Number](c *Comm, data []T, src, tag int) Request { return c.Irecv(Bytes(data), src, tag) }

// Bcast copies the root's numbers into everybody's; see [Comm.Bcast].
func Bcast[T Number](c *Comm, data []T, root int) error { return c.Bcast(Bytes(data), root) }

// Allreduce folds the slices of all ranks element by element with op and leaves
// the result in each of them. All are of the same length. Op is associative; it
// gets the operands in the order of ranks, so that floating-point results are the
// same on all ranks and in every run with as many ranks.
func Allreduce[T Number](c *Comm, data []T, op func(a, b T) T) error {
	return c.AllreduceBytes(Bytes(data), func(acc, in []byte) {
		a, b := numbers[T](acc), numbers[T](in)
		for i := range a {
			a[i] = op(a[i], b[i])
		}
	})
}

// Sum adds; an operation for [Allreduce].
func Sum[T Number](a, b T) T { return a + b }

// Prod multiplies; an operation for [Allreduce].
func Prod[T Number](a, b T) T { return a * b }

// Min gives the smaller; an operation for [Allreduce].
func Min[T Ordered](a, b T) T { return min(a, b) }

// Max gives the larger; an operation for [Allreduce].
func Max[T Ordered](a, b T) T { return max(a, b) }

// Ordered is Number without the complex ones.
type Ordered interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~float32 | ~float64
}
