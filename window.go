package banyan

import (
	"fmt"
	"math"
	"reflect"

	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p/rma"
)

// Window is memory of the ranks of a communicator that each of them reads and writes without a call of
// the owner (MPI-4, chapter 12). Offsets are bytes in methods and elements in generic functions. Operations
// lie in an epoch: after a Fence, between Start and Complete, Lock and Unlock, or LockAll and UnlockAll;
// one outside is ErrArgument. Their buffers belong to the library until a Flush or the end of the epoch.
//
// Any goroutine may start operations; synchronisation calls of one window are made by one goroutine at a
// time. Accumulates of any kind on the same element are atomic, and those of one rank on one target take effect
// in order.
//
// The owner may look at its memory ([Window.Bytes]) only between a synchronisation that ends all
// accesses and the next epoch: a Fence, Wait, or a lock of its own memory.
//
// An operation reports wrong arguments, not a failure: the synchronisation that needs the failed rank does,
// and ends the epoch. From then on every call on the window has that error in this process, until
// [Window.Validate]. Under [RTS] the failure of any member does so at once.
type Window struct {
	core *rma.Window
	c    *Comm // of its own: a duplicate
}

// WindowOption changes how a window is made.
type WindowOption func(*windowOptions)

type windowOptions struct{ notices int }

// maxNotices bounds the counters of a rank.
const maxNotices = 1024

// WithNotices gives this rank so many notification counters, 0 … 1024, for [Window.PutNotify].
func WithNotices(n int) WindowOption { return func(o *windowOptions) { o.notices = n } }

// AllocWindow makes a window of so many zeroed bytes at this rank; other ranks may give other numbers. It
// is collective over the communicator. Errors: ErrArgument, at all ranks, on an intercommunicator too;
// ErrProcFailed, ErrRevoked, ErrClosed. The outcome is the same at all ranks with UniformCreation
// ([Comm.SetUniformity]).
func (c *Comm) AllocWindow(bytes int, opts ...WindowOption) (*Window, error) {
	if bytes < 0 || uint64(bytes) > math.MaxInt64/2 {
		return c.newWindow("AllocWindow", nil, fmt.Errorf("%w: %d bytes", ErrArgument, bytes), opts)
	}
	return c.newWindow("AllocWindow", rma.Memory(bytes), nil, opts)
}

// NewWindow is AllocWindow with memory of the caller, which is aligned to 8 bytes.
func (c *Comm) NewWindow(mem []byte, opts ...WindowOption) (*Window, error) {
	return c.newWindow("NewWindow", mem, nil, opts)
}

func (c *Comm) newWindow(op string, mem []byte, wrong error, opts []WindowOption) (w *Window, err error) {
	if err := c.present(op); err != nil {
		return nil, err
	}
	c, ctx, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	var o windowOptions
	for _, opt := range opts {
		opt(&o)
	}
	if o.notices < 0 || o.notices > maxNotices {
		wrong = fmt.Errorf("%w: %d counters, want 0 … %d", ErrArgument, o.notices, maxNotices)
		o.notices = 0
	}
	if ctx == nil {
		c.core.AwaitTurns()
		w, err = c.makeWindow(mem, o, wrong, manner{})
		return w, c.notifyOf(op, err)
	}
	err = c.apart(ctx, op, true, &errand{
		do: func() (err error) {
			w, err = c.makeWindow(mem, o, wrong, manner{inTurn: true})
			return c.opError(op, err)
		},
		drop: func() { w.discard() },
	})
	if err != nil {
		return nil, err // w is not ours: the goroutine may still use it
	}
	return w, nil
}

// makeWindow exchanges cards over c, so that a revocation of it ends the call. A rank with an error takes
// part, so that all have one.
func (c *Comm) makeWindow(mem []byte, o windowOptions, wrong error, m manner) (*Window, error) {
	if c.IsInter() {
		return nil, fmt.Errorf("%w: an intercommunicator has no windows", ErrArgument)
	}
	core, err := c.core.Dup()
	w, p := &Window{c: c.derived(core)}, c.parent()
	p.InTurn = m.inTurn
	if err == nil && wrong == nil {
		w.core, wrong = c.world.job.Windows.Prepare(core, mem, o.notices)
	}
	if err = p.Outcome(repair.Dup, core, err); err == nil {
		err = p.Outcome(repair.Dup, core, w.meet(c, wrong, m))
	}
	if err != nil {
		w.discard()
		return nil, err
	}
	return w, nil
}

func (w *Window) meet(c *Comm, wrong error, m manner) error {
	card := rma.NoCard()
	if wrong == nil {
		card = w.core.Card()
	}
	all := make([]byte, len(card)*c.Size())
	if err := c.doAllgather(card[:], all, m); err != nil {
		return err
	}
	if wrong != nil {
		return wrong
	}
	return w.core.Join(all)
}

// discard frees what there is of a window that nobody gets.
func (w *Window) discard() {
	if w.core != nil {
		w.core.Free()
	}
	if w.c != nil {
		_ = w.c.free()
	}
}

// valid reports whether this is a window.
func (w *Window) valid() bool { return w != nil && w.core != nil }

// do starts an operation.
func (w *Window) do(name string, op rma.Op) error {
	if !w.valid() {
		return misuse(name, errAbsent)
	}
	return w.end(name, w.core.Do(&op), arg("rank", op.Rank))
}

// request is do with a request.
func (w *Window) request(name string, op rma.Op) Request {
	if !w.valid() {
		return absent().failed(name, errAbsent)
	}
	return Request{w.core.Request(&op, name), w.c}
}

func negative(at int) uint64 {
	if at < 0 {
		return math.MaxUint64
	}
	return uint64(at)
}

// Put writes buf to a rank's memory, at an offset.
func (w *Window) Put(buf []byte, rank, at int) error {
	return w.do("Put", rma.Op{Kind: rma.Put, Data: buf, Rank: rank, At: negative(at)})
}

// Get reads from a rank's memory, at an offset, into buf.
func (w *Window) Get(buf []byte, rank, at int) error {
	return w.do("Get", rma.Op{Kind: rma.Get, Old: buf, Rank: rank, At: negative(at)})
}

// PutNotify is Put that increments a counter of the target after the data have been written; see
// [Window.WaitNotice] and [WithNotices].
func (w *Window) PutNotify(buf []byte, rank, at, counter int) error {
	if counter < 0 || counter >= maxNotices {
		return w.wrong("PutNotify", fmt.Errorf("%w: counter %d", ErrArgument, counter))
	}
	return w.do("PutNotify", rma.Op{Kind: rma.Put, Data: buf, Rank: rank, At: negative(at), Notice: counter + 1})
}

// Rput is Put with a request, which completes when the data are at the target. Like every request it must be
// waited for.
func (w *Window) Rput(buf []byte, rank, at int) Request {
	return w.request("Rput", rma.Op{Kind: rma.Put, Data: buf, Rank: rank, At: negative(at)})
}

// Rget is Get with a request, which completes when the data are in buf.
func (w *Window) Rget(buf []byte, rank, at int) Request {
	return w.request("Rget", rma.Op{Kind: rma.Get, Old: buf, Rank: rank, At: negative(at)})
}

// AccOp is how an accumulate combines an element with the one in memory. A wrong combination with a type is
// ErrArgument: And, Or and Xor are of Integer types, Min and Max of Ordered ones.
type AccOp uint8

// The operations of accumulates. AccReplace is an atomic put, AccNoOp an atomic get.
const (
	AccSum     = AccOp(rma.Sum)
	AccProd    = AccOp(rma.Prod)
	AccMin     = AccOp(rma.Min)
	AccMax     = AccOp(rma.Max)
	AccAnd     = AccOp(rma.And)
	AccOr      = AccOp(rma.Or)
	AccXor     = AccOp(rma.Xor)
	AccReplace = AccOp(rma.Replace)
	AccNoOp    = AccOp(rma.NoOp)
)

// elem is a type as a frame names it.
func elem[T Number]() rma.Elem {
	switch k := reflect.TypeFor[T]().Kind(); k {
	case reflect.Int:
		return rma.Elem(reflect.Int64)
	case reflect.Uint:
		return rma.Elem(reflect.Uint64)
	default:
		return rma.Elem(k)
	}
}

// at is the offset in bytes of an element.
func at[T Number](i int) uint64 {
	if i < 0 || i > math.MaxInt64/size[T]() {
		return math.MaxUint64
	}
	return uint64(i * size[T]())
}

// Put writes elements to a rank's memory; as [Window.Put] otherwise.
func Put[T Number](w *Window, data []T, rank, i int) error {
	return w.do("Put", rma.Op{Kind: rma.Put, Data: Bytes(data), Rank: rank, At: at[T](i)})
}

// Get reads elements from a rank's memory; as [Window.Get] otherwise.
func Get[T Number](w *Window, data []T, rank, i int) error {
	return w.do("Get", rma.Op{Kind: rma.Get, Old: Bytes(data), Rank: rank, At: at[T](i)})
}

// Accumulate combines elements with those of a rank's memory, each atomically.
func Accumulate[T Number](w *Window, data []T, rank, i int, op AccOp) error {
	return w.do("Accumulate", rma.Op{
		Kind: rma.Accumulate, Acc: rma.Acc(op), Elem: elem[T](), Data: Bytes(data), Rank: rank, At: at[T](i),
	})
}

// GetAccumulate is Accumulate, and reads the old values into old, which is as long as data.
func GetAccumulate[T Number](w *Window, data, old []T, rank, i int, op AccOp) error {
	return w.do("GetAccumulate", rma.Op{
		Kind: rma.GetAccumulate, Acc: rma.Acc(op), Elem: elem[T](), Data: Bytes(data), Old: Bytes(old),
		Rank: rank, At: at[T](i),
	})
}

// FetchAndOp combines a value with an element of a rank's memory and gives the old one. It waits for that: its
// errors are those of a synchronisation too.
func FetchAndOp[T Number](w *Window, value T, rank, i int, op AccOp) (T, error) {
	old := make([]T, 1)
	err := w.fetch("FetchAndOp", rma.Op{
		Kind: rma.GetAccumulate, Acc: rma.Acc(op), Elem: elem[T](), Data: Bytes([]T{value}), Old: Bytes(old),
		Rank: rank, At: at[T](i),
	})
	return old[0], err
}

// CompareAndSwap puts a value in place of an element of a rank's memory that equals compare, and gives the old
// one. As [FetchAndOp] otherwise.
func CompareAndSwap[T Integer](w *Window, compare, value T, rank, i int) (T, error) {
	old := make([]T, 1)
	err := w.fetch("CompareAndSwap", rma.Op{
		Kind: rma.CompareAndSwap, Elem: elem[T](), Data: Bytes([]T{compare, value}), Old: Bytes(old),
		Rank: rank, At: at[T](i),
	})
	return old[0], err
}

func (w *Window) fetch(name string, op rma.Op) error {
	if !w.valid() {
		return misuse(name, errAbsent)
	}
	return w.sync(name, w.core.Fetch(&op), arg("rank", op.Rank))
}
