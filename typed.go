package banyan

// Send sends the elements of a slice of numbers without copying them first; see
// [Comm.Send].
func Send[T Number](c *Comm, data []T, dst, tag int) error { return c.Send(Bytes(data), dst, tag) }

// Recv receives numbers into data; see [Comm.Recv]. The Status counts elements. A
// message that is no whole number of elements is ErrArgument.
func Recv[T Number](c *Comm, data []T, src, tag int) (Status, error) {
	st, err := c.Recv(Bytes(data), src, tag)
	return elements[T](c, st, err)
}

// elements turns what a receive of bytes gave into that of a receive of numbers.
func elements[T Number](c *Comm, st Status, err error) (Status, error) {
	n, odd := count[T](st.Count)
	st.Count = n
	if err == nil {
		err = c.valid().raise(odd)
	}
	return st, err
}

// Isend begins to send numbers; see [Comm.Isend].
func Isend[T Number](c *Comm, data []T, dst, tag int) Request { return c.Isend(Bytes(data), dst, tag) }

// Irecv begins to receive numbers; see [Comm.Irecv]. The request's Status counts
// bytes.
func Irecv[T Number](c *Comm, data []T, src, tag int) Request { return c.Irecv(Bytes(data), src, tag) }

// Ssend sends numbers synchronously; see [Comm.Ssend].
func Ssend[T Number](c *Comm, data []T, dst, tag int) error { return c.Ssend(Bytes(data), dst, tag) }

// Issend begins to send numbers synchronously; see [Comm.Issend].
func Issend[T Number](c *Comm, data []T, dst, tag int) Request {
	return c.Issend(Bytes(data), dst, tag)
}

// Sendrecv sends and receives numbers at once; see [Comm.Sendrecv]. The Status
// counts elements, as of [Recv].
func Sendrecv[T Number](c *Comm, send []T, dst, stag int, recv []T, src, rtag int) (Status, error) {
	st, err := c.Sendrecv(Bytes(send), dst, stag, Bytes(recv), src, rtag)
	return elements[T](c, st, err)
}

// Bcast copies the root's numbers into everybody's; see [Comm.Bcast], also for what they are after an error.
func Bcast[T Number](c *Comm, data []T, root int) error { return c.Bcast(Bytes(data), root) }

// Allreduce folds the slices of all ranks element by element with op and leaves
// the result in each of them. All are of the same length. Op is associative; it
// gets the operands in the order of ranks, so that floating-point results are the
// same on all ranks and in every run with as many ranks. With AnyOrder it is commutative as well: that spares time and memory
// where a tree was chosen ([Comm.SetTree]). After an error see [Comm.AllreduceBytes].
func Allreduce[T Number](c *Comm, data []T, op func(a, b T) T, order ...Order) error {
	return c.allreduce(Bytes(data), elementwise(op, order))
}

// Reduce folds as [Allreduce] does and leaves the result with the root alone; the
// slices of the others are undefined afterwards. After an error see [Comm.ReduceBytes].
func Reduce[T Number](c *Comm, data []T, op func(a, b T) T, root int, order ...Order) error {
	return c.reduce(Bytes(data), elementwise(op, order), root)
}

// Gather puts the slices of all ranks, which are of the same length, into the root's all, in the order of ranks; the
// others give nil for it. See [Comm.GatherBytes].
func Gather[T Number](c *Comm, mine, all []T, root int) error {
	return c.GatherBytes(Bytes(mine), Bytes(all), root)
}

// Scatter puts each rank's part of the root's all into its mine; the others give nil for all. See [Comm.ScatterBytes].
func Scatter[T Number](c *Comm, all, mine []T, root int) error {
	return c.ScatterBytes(Bytes(all), Bytes(mine), root)
}

// Allgather puts the slices of all ranks, which are of the same length, into
// everybody's all, in the order of ranks; all has room for Size() of them. After an error see [Comm.AllgatherBytes].
func Allgather[T Number](c *Comm, mine, all []T) error {
	return c.AllgatherBytes(Bytes(mine), Bytes(all))
}

// IBcast is the non-blocking [Bcast]; see [Comm.IBcast].
func IBcast[T Number](c *Comm, data []T, root int) Request { return c.IBcast(Bytes(data), root) }

// IReduce is the non-blocking [Reduce]; see [Comm.IReduceBytes].
func IReduce[T Number](c *Comm, data []T, op func(a, b T) T, root int, order ...Order) Request {
	return c.ireduce(Bytes(data), elementwise(op, order), root)
}

// IAllreduce is the non-blocking [Allreduce]; see [Comm.IAllreduceBytes].
func IAllreduce[T Number](c *Comm, data []T, op func(a, b T) T, order ...Order) Request {
	return c.iallreduce(Bytes(data), elementwise(op, order))
}

// IGather is the non-blocking [Gather]; see [Comm.IGatherBytes].
func IGather[T Number](c *Comm, mine, all []T, root int) Request {
	return c.IGatherBytes(Bytes(mine), Bytes(all), root)
}

// IScatter is the non-blocking [Scatter]; see [Comm.IScatterBytes].
func IScatter[T Number](c *Comm, all, mine []T, root int) Request {
	return c.IScatterBytes(Bytes(all), Bytes(mine), root)
}

// IAllgather is the non-blocking [Allgather]; see [Comm.IAllgatherBytes].
func IAllgather[T Number](c *Comm, mine, all []T) Request {
	return c.IAllgatherBytes(Bytes(mine), Bytes(all))
}
