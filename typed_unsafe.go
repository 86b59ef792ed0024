package banyan

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Why unsafe: slices of numbers are sent from their own memory. The conversion is sound for the
// types of Number and for Located of them, which contain no pointers.

// The method view relies on this: the Comm of a view is its first field.
var _ [0 - unsafe.Offsetof(view{}.Comm)]byte

// Why the size: a shrink spends most time, apart from its agreement, on access to cold memory. Six
// cache lines are a size class of the allocator.
var _ [6*64 - unsafe.Sizeof(commAlloc{})]byte

// view returns the view that contains this Comm. Precondition: c.mode is modeBound.
func (c *Comm) view() *view { return (*view)(unsafe.Pointer(c)) }

// Number is the set of types that travel without a copy: numbers in the machine's layout. All ranks
// of a job must have the same byte order.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Ordered is Number without the complex types.
type Ordered interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~float32 | ~float64
}

// Integer is Number without the floating-point and complex types.
type Integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint
}

// Bytes returns the memory of a slice of numbers, for the operations on bytes. It shares the
// slice's memory.
func Bytes[T Number](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// numbers is the inverse of Bytes. Precondition: b came from Bytes or is aligned for T.
func numbers[T Number](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// count converts a length in bytes to one in elements.
func count[T Number](bytes int) (int, error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if bytes%size != 0 {
		return bytes / size, fmt.Errorf("%w: a message of %d bytes is no number of elements of %d",
			ErrArgument, bytes, size)
	}
	return bytes / size, nil
}

// memory returns the memory of a slice of a plain type whose values have size bytes.
func memory[T any](s []T, size int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*size)
}

// memoryAt returns the memory of the value of a plain type to which v points.
func memoryAt(v any, size int) []byte {
	return unsafe.Slice((*byte)(reflect.ValueOf(v).UnsafePointer()), size)
}

// size returns the length of an element in bytes.
func size[T Number]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// overlap reports whether slices of one length overlap without being the same.
func overlap(a, b []byte) bool {
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return x != y && max(x, y)-min(x, y) < uintptr(len(a))
}

// locatedBytes returns the memory of values with places, with the padding between a value and its
// place.
func locatedBytes[T Ordered](s []Located[T]) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*locatedSize[T]())
}

// locateds is the inverse of locatedBytes. Precondition: b came from locatedBytes or is aligned for
// it.
func locateds[T Ordered](b []byte) []Located[T] {
	return unsafe.Slice((*Located[T])(unsafe.Pointer(unsafe.SliceData(b))), len(b)/locatedSize[T]())
}

func locatedSize[T Ordered]() int {
	var zero Located[T]
	return int(unsafe.Sizeof(zero))
}

// Send sends the elements of a slice of numbers without copying them first; see
// [Comm.Send].
func Send[T Number](c *Comm, data []T, dst, tag int) error {
	if c != nil {
		switch c.mode {
		case modeAware:
			return p2p.Send[p2p.Aware](c.core, Bytes(data), dst, tag)
		case modeUnaware:
			return p2p.Send[p2p.Unaware](c.core, Bytes(data), dst, tag)
		}
	}
	return sendOther(c, data, dst, tag)
}

// Recv receives numbers into data; see [Comm.Recv]. The Status counts elements. A message that is
// no whole number of elements is ErrArgument.
func Recv[T Number](c *Comm, data []T, src, tag int) (Status, error) {
	var st Status
	var err error
	switch {
	case c != nil && c.mode == modeAware:
		st, err = p2p.Recv[p2p.Aware](c.core, Bytes(data), src, tag)
	case c != nil && c.mode == modeUnaware:
		st, err = p2p.Recv[p2p.Unaware](c.core, Bytes(data), src, tag)
	default:
		st, err = recvOther(c, data, src, tag)
	}
	return elements[T](c, st, err)
}

// elements converts the result of a receive of bytes to that of a receive of numbers.
func elements[T Number](c *Comm, st Status, err error) (Status, error) {
	n, odd := count[T](st.Count)
	st.Count = n
	if err == nil {
		err = c.valid().notifyOf("Recv", odd, arg("src", st.Source), arg("tag", st.Tag))
	}
	return st, err
}

// Isend starts a send of numbers; see [Comm.Isend].
func Isend[T Number](c *Comm, data []T, dst, tag int) Request {
	if c != nil {
		switch c.mode {
		case modeAware:
			return Request{p2p.Isend[p2p.Aware](c.core, Bytes(data), dst, tag), c}
		case modeUnaware:
			return Request{p2p.Isend[p2p.Unaware](c.core, Bytes(data), dst, tag), c}
		}
	}
	return isendOther(c, data, dst, tag)
}

// Irecv starts a receive of numbers; see [Comm.Irecv]. The request's Status counts elements, as for
// [Recv]. A message that is no whole number of elements is ErrArgument.
func Irecv[T Number](c *Comm, data []T, src, tag int) Request {
	if c != nil {
		switch c.mode {
		case modeAware:
			return Request{p2p.IrecvElements[p2p.Aware](c.core, Bytes(data), src, tag, size[T]()), c}
		case modeUnaware:
			return Request{p2p.IrecvElements[p2p.Unaware](c.core, Bytes(data), src, tag, size[T]()), c}
		}
	}
	return irecvOther(c, data, src, tag)
}

// Ssend sends numbers synchronously; see [Comm.Ssend].
func Ssend[T Number](c *Comm, data []T, dst, tag int) error {
	_, err := Issend(c, data, dst, tag).Wait()
	return err
}

// Issend starts a synchronous send of numbers; see [Comm.Issend].
func Issend[T Number](c *Comm, data []T, dst, tag int) Request {
	if c.debugs() {
		return c.checkedSend(true, Bytes(data), kindOf[T](), dst, tag)
	}
	return c.Issend(Bytes(data), dst, tag)
}

// Bsend sends a copy of numbers and returns at once; see [Comm.Bsend].
func Bsend[T Number](c *Comm, data []T, dst, tag int) error { return c.Bsend(Bytes(data), dst, tag) }

// Ibsend is Bsend as a request; see [Comm.Ibsend].
func Ibsend[T Number](c *Comm, data []T, dst, tag int) Request {
	return c.Ibsend(Bytes(data), dst, tag)
}

// Sendrecv sends and receives numbers at once; see [Comm.Sendrecv]. The Status counts elements, as
// for [Recv].
func Sendrecv[T Number](c *Comm, send []T, dst, stag int, recv []T, src, rtag int) (Status, error) {
	var st Status
	var err error
	switch {
	case c != nil && c.mode == modeAware:
		st, err = p2p.Sendrecv[p2p.Aware](c.core, Bytes(send), dst, stag, Bytes(recv), src, rtag)
	case c.debugs():
		k := kindOf[T]()
		st, err = c.checkedSendrecv(Bytes(send), k, dst, stag, Bytes(recv), k, src, rtag)
	default:
		st, err = c.Sendrecv(Bytes(send), dst, stag, Bytes(recv), src, rtag)
	}
	return elements[T](c, st, err)
}

// SendrecvReplace sends numbers and receives others in their place; see [Comm.SendrecvReplace]. The Status
// counts elements, as for [Recv].
func SendrecvReplace[T Number](c *Comm, data []T, dst, stag, src, rtag int) (Status, error) {
	old := copyOf(Bytes(data))
	st, err := Sendrecv(c, numbers[T](*old), dst, stag, data, src, rtag)
	if err == nil {
		copies.Put(old)
	}
	return st, err
}

// Bcast copies the root's numbers to all ranks. See [Comm.Bcast], also for the contents after an
// error.
func Bcast[T Number](c *Comm, data []T, root int) error {
	if !c.usual() {
		return c.bcastOther(Bytes(data), root, kindOf[T]())
	}
	return c.notify(c.doBcast(Bytes(data), root, manner{}))
}

// bcastValue is Bcast of the encoding of a value.
func (c *Comm) bcastValue(b []byte, root int) error {
	if !c.usual() {
		return c.bcastOther(b, root, debug.Value)
	}
	return c.notify(c.doBcast(b, root, manner{}))
}

// Allreduce reduces the send slices of all ranks element by element with op and stores the result in recv
// at every rank. All have the same length. Send is only read; the same slice for both reduces in place.
// Op must be associative. It gets the operands in the order of ranks, so floating-point results are the
// same on all ranks and in every run with as many ranks. With AnyOrder it must be commutative as well:
// that saves time and memory if a tree was chosen ([Comm.SetTree]). After an error send is unchanged; see
// [Comm.Allreduce].
func Allreduce[T Number](c *Comm, send, recv []T, op func(a, b T) T, order ...Order) error {
	return c.allreduce(Bytes(send), Bytes(recv), elementwise(op, order), op)
}

// Reduce reduces as [Allreduce] does and stores the result in the root's recv; the others pass nil for
// it. See [Comm.Reduce].
func Reduce[T Number](c *Comm, send, recv []T, op func(a, b T) T, root int, order ...Order) error {
	return c.reduce(Bytes(send), Bytes(recv), elementwise(op, order), op, root)
}

// elementwise converts an operation on numbers to one on their memory. Nil stays nil.
func elementwise[T Number](op func(a, b T) T, order []Order) coll.Fold {
	f := coll.Fold{Unit: size[T](), AnyOrder: anyOrder(order)}
	if op == nil {
		return f
	}
	f.Op = kernels.Find(op)
	if f.Swaps = f.Op != nil; !f.Swaps {
		f.Op = fold(op)
	}
	return f
}

// fold converts an operation on elements to one on their memory.
func fold[T Number](op func(a, b T) T) coll.Op {
	return func(acc, in []byte) {
		a, b := numbers[T](acc), numbers[T](in)
		b = b[:len(a)]
		for i := range a {
			a[i] = op(a[i], b[i])
		}
	}
}

// Gather stores the slices of all ranks, which have the same length, in the root's all, in the
// order of ranks; the others pass nil for it. See [Comm.Gather].
func Gather[T Number](c *Comm, mine, all []T, root int) error {
	if !c.usual() {
		return c.gatherOther(Bytes(mine), Bytes(all), root, kindOf[T]())
	}
	return c.notify(c.doGather(Bytes(mine), Bytes(all), root, manner{}))
}

// Scatter copies each rank's part of the root's all into its mine; the others pass nil for all. See
// [Comm.Scatter].
func Scatter[T Number](c *Comm, all, mine []T, root int) error {
	if !c.usual() {
		return c.scatterOther(Bytes(all), Bytes(mine), root, kindOf[T]())
	}
	return c.notify(c.doScatter(Bytes(all), Bytes(mine), root, manner{}))
}

// Allgather stores the slices of all ranks, which have the same length, in every rank's all, in the
// order of ranks; all has room for Size() of them. After an error see [Comm.Allgather].
func Allgather[T Number](c *Comm, mine, all []T) error {
	if !c.usual() {
		return c.allgatherOther(Bytes(mine), Bytes(all), kindOf[T]())
	}
	return c.notify(c.doAllgather(Bytes(mine), Bytes(all), manner{}))
}

// Ibcast is the non-blocking [Bcast]; see [Comm.Ibcast].
func Ibcast[T Number](c *Comm, data []T, root int) Request {
	if !c.usual() {
		return c.ibcastOther(Bytes(data), root, kindOf[T]())
	}
	return Request{c.startBcast(Bytes(data), root, manner{}), c}
}

// Ireduce is the non-blocking [Reduce]; see [Comm.Ireduce].
func Ireduce[T Number](
	c *Comm, send, recv []T, op func(a, b T) T, root int, order ...Order,
) Request {
	return c.ireduce(Bytes(send), Bytes(recv), elementwise(op, order), op, root)
}

// Iallreduce is the non-blocking [Allreduce]; see [Comm.Iallreduce].
func Iallreduce[T Number](c *Comm, send, recv []T, op func(a, b T) T, order ...Order) Request {
	return c.iallreduce(Bytes(send), Bytes(recv), elementwise(op, order), op)
}

// Igather is the non-blocking [Gather]; see [Comm.Igather].
func Igather[T Number](c *Comm, mine, all []T, root int) Request {
	if !c.usual() {
		return c.igatherOther(Bytes(mine), Bytes(all), root, kindOf[T]())
	}
	return Request{c.startGather(Bytes(mine), Bytes(all), root, manner{}), c}
}

// Iscatter is the non-blocking [Scatter]; see [Comm.Iscatter].
func Iscatter[T Number](c *Comm, all, mine []T, root int) Request {
	if !c.usual() {
		return c.iscatterOther(Bytes(all), Bytes(mine), root, kindOf[T]())
	}
	return Request{c.startScatter(Bytes(all), Bytes(mine), root, manner{}), c}
}

// Iallgather is the non-blocking [Allgather]; see [Comm.Iallgather].
func Iallgather[T Number](c *Comm, mine, all []T) Request {
	if !c.usual() {
		return c.iallgatherOther(Bytes(mine), Bytes(all), kindOf[T]())
	}
	return Request{c.startAllgather(Bytes(mine), Bytes(all), manner{}), c}
}

// Located is a value with its place, usually the rank that has it. [MinLoc] and [MaxLoc] compare such values.
type Located[T Ordered] struct {
	Value T
	Place int
}

// MinLoc returns the smaller value with its place, and of equal values the one with the smaller place; an
// operation for [AllreduceLocated] and [ReduceLocated].
func MinLoc[T Ordered](a, b Located[T]) Located[T] {
	if b.Value < a.Value || b.Value == a.Value && b.Place < a.Place {
		return b
	}
	return a
}

// MaxLoc returns the larger value with its place, and of equal values the one with the smaller place; an
// operation for [AllreduceLocated] and [ReduceLocated].
func MaxLoc[T Ordered](a, b Located[T]) Located[T] {
	if b.Value > a.Value || b.Value == a.Value && b.Place < a.Place {
		return b
	}
	return a
}

// AllreduceLocated is [Allreduce] of values with places.
func AllreduceLocated[T Ordered](
	c *Comm, send, recv []Located[T], op func(a, b Located[T]) Located[T], order ...Order,
) error {
	return c.allreduce(locatedBytes(send), locatedBytes(recv), eachLocated(op, order), op)
}

// ReduceLocated is [Reduce] of values with places.
func ReduceLocated[T Ordered](
	c *Comm, send, recv []Located[T], op func(a, b Located[T]) Located[T], root int, order ...Order,
) error {
	return c.reduce(locatedBytes(send), locatedBytes(recv), eachLocated(op, order), op, root)
}

func eachLocated[T Ordered](op func(a, b Located[T]) Located[T], order []Order) coll.Fold {
	f := coll.Fold{Unit: locatedSize[T](), AnyOrder: anyOrder(order)}
	if op != nil {
		f.Op = func(acc, in []byte) {
			a, b := locateds[T](acc), locateds[T](in)
			for i := range a {
				a[i] = op(a[i], b[i])
			}
		}
	}
	return f
}
