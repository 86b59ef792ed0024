package banyan

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
	"github.com/banyan-hpc/banyan/p2p/rma"
)

// Alloc allocates n zeroed elements that other ranks of the node can read in place. A message from this memory takes
// one copy and no system call over shared memory, and over RDMA the receiver's adapter reads it. All other
// operations treat it as any memory. It is aligned to a cache line, or to a page from 4 KiB on. It belongs to the
// caller until [Free] or the end of the process. Where ranks share no memory it is ordinary memory. Any goroutine
// may call Alloc. Errors: ErrArgument for n < 1; ErrNoMemory at the limit ([WithMemoryLimit]) or if the machine has
// no more; its text names the remedy.
func Alloc[T Number](w *World, n int) ([]T, error) {
	if w.absent() {
		return nil, misuse("Alloc", errNoWorld)
	}
	if n < 1 || n > math.MaxInt/2/size[T]() {
		return nil, misuse("Alloc", fmt.Errorf("%w: %d elements", ErrArgument, n))
	}
	b, err := w.job.Heap.Alloc(n * size[T]())
	if err != nil {
		return nil, misuse("Alloc", fmt.Errorf("%w: %w", ErrNoMemory, err))
	}
	if w.checks != nil {
		what := fmt.Sprintf("memory of %d bytes, not freed", len(b))
		w.checks.Enter(&b[0], debug.Call{What: what, Where: debug.Where(library)})
	}
	return numbers[T](b), nil
}

// Free frees memory of Alloc as a whole, of which the slice may be the beginning. No slice of it may be used afterwards: an access may end the process.
// Error: ErrArgument for other memory, and while a message uses it; operations on windows are not checked.
func Free[T Number](w *World, memory []T) error {
	if w.absent() {
		return misuse("Free", errNoWorld)
	}
	b := w.job.Heap.Whole(Bytes(memory))
	if w.job.P2P.Uses(b) || w.checks != nil && w.checks.Lends(b) {
		return misuse("Free", fmt.Errorf("%w: it is in a message that is under way, or lent: wait for its request", ErrArgument))
	}
	if len(b) > 0 && w.checks != nil {
		w.checks.Leave(&b[0])
	}
	if err := w.job.Heap.Free(b); err != nil {
		return misuse("Free", fmt.Errorf("%w: %w", ErrArgument, err))
	}
	return nil
}

// Lend sends buf to rank dst by reference. It returns when the receiver has returned the loan ([Comm.Borrow]),
// or has copied the message with a Recv. Until then buf must not change; others may read it, and it may be lent
// to other ranks too. Only memory of [Alloc], between ranks that share it, is read in place; otherwise the
// receiver copies.
//
// Errors as for Ssend. After any error buf belongs to the caller again, unless a context has ended the wait
// ([Request.Wait]). ErrProcFailed and ErrDeparted: the receiver has ended, and its loan with it. After a
// revocation Lend returns ErrRevoked as soon as the receiver has returned its loan.
func (c *Comm) Lend(buf []byte, dst, tag int) error {
	if c.plain() && c.mode != modeDebug {
		if done, err := p2p.LendNow(c.core, buf, dst, tag); done {
			return err
		}
	}
	c, ctx, err := c.enter("Send")
	switch {
	case err != nil:
		return err
	case ctx != nil:
		_, err = c.Ilend(buf, dst, tag).orLeave(contexts{ctx})
		return err
	}
	_, err = c.Ilend(buf, dst, tag).Wait()
	return err
}

// Ilend starts a Lend. To lend to several ranks start one for each, and wait for all.
func (c *Comm) Ilend(buf []byte, dst, tag int) Request {
	if !c.plain() {
		return c.bind(c.valid().Ilend(buf, dst, tag))
	}
	switch c.mode {
	case modeDebug:
		return c.checkedLend(buf, dst, tag)
	case modeUnaware:
		return Request{p2p.Lend[p2p.Unaware](c.core, buf, dst, tag), c}
	}
	return Request{p2p.Lend[p2p.Aware](c.core, buf, dst, tag), c}
}

// Loan is a message that this rank has borrowed: a view of the lender's memory, or a copy if that memory
// cannot be read in place or was not lent. Only one goroutine at a time may call its methods.
//
//	Bytes() []uint8 // the message, to be read only; nil after Return
//	Return() error  // ends the loan: the lender may change the memory
//	Status() Status // of the message
type Loan = p2p.Loan

// Borrow receives a message as Recv does, with the same matching. It reads a message in place that its
// sender has lent ([Comm.Lend]). The loan lasts until its Return, also after the lender's death and after
// the communicator was revoked or freed; Finalize returns all loans. Other messages arrive in memory that
// Borrow allocates.
//
// Errors as for Recv, and ErrNoMemory if a message must be copied and is longer than [Alloc] allows: it is
// dropped. A context ends the wait for a message.
func (c *Comm) Borrow(src, tag int) (*Loan, error) {
	if c.plain() && c.mode != modeDebug {
		if l := p2p.BorrowNow(c.core, src, tag); l != nil {
			return l, nil
		}
	}
	m, err := c.probeToBorrow(src, tag)
	if err != nil {
		return nil, err
	}
	l, err := m.Borrow()
	if err != nil && errors.Is(err, ErrNoMemory) {
		_, _ = m.m.Recv(nil) // ErrTruncate is expected
	}
	return l, err
}

// Borrow receives the message as [Comm.Borrow] does. After ErrNoMemory it can still be received.
func (m *Message) Borrow() (*Loan, error) {
	if m == nil || m.c == nil {
		return nil, absent().opError("Message.Borrow", errNoMessage)
	}
	c := m.c
	l := m.m.View(c.debugs())
	if l == nil {
		if err := c.world.job.Heap.Fits(m.m.Status().Count); err != nil {
			return nil, c.notifyOf("Borrow", fmt.Errorf("%w: %w", ErrNoMemory, err))
		}
		var err error
		if l, err = m.m.Copy(); err != nil {
			return nil, c.notify(err)
		}
	}
	if c.debugs() && l.Status().Source != ProcNull {
		return c.checkedBorrow(l)
	}
	return l, nil
}

// Borrowed returns the numbers of a loan, in place. Error: ErrArgument if the loan is no whole number of elements
// or is not aligned, because the lender has lent a part.
func Borrowed[T Number](l *Loan) ([]T, error) {
	b := l.Bytes()
	if len(b)%size[T]() != 0 || len(b) > 0 && reflect.ValueOf(b).Pointer()%uintptr(min(size[T](), 8)) != 0 {
		return nil, misuse("Borrowed", fmt.Errorf("%w: %d bytes at address %d mod 8 hold no elements of %d bytes",
			ErrArgument, len(b), reflect.ValueOf(b).Pointer()%8, size[T]()))
	}
	return numbers[T](b), nil
}

// MemoryReport is the use of [Alloc] at this rank, in bytes.
type MemoryReport struct {
	Used, Peak int // allocated by the application, now and at most
	Held       int // taken from the system for it
	Pieces     int // allocations that are not freed
	Limit      int // of Used; 0 before the first Alloc
}

// Memory reports the use of [Alloc] at this rank.
func (w *World) Memory() MemoryReport {
	if w.absent() {
		return MemoryReport{}
	}
	return MemoryReport(w.job.Heap.Report())
}

// Window is memory of the ranks of a communicator. Each of them reads and writes it without a call of the owner
// (MPI-4, chapter 12). Offsets are bytes in methods and elements in generic functions. Operations belong to an
// epoch: after a Fence, between Start and Complete, Lock and Unlock, or LockAll and UnlockAll; an operation
// outside is ErrArgument. Buffers belong to the library until a Flush or the end of the epoch.
//
// Any goroutine may start operations; synchronisation calls of one window are made by one goroutine at a time.
// Accumulates of any kind on the same element are atomic, and those of one rank on one target take effect in
// order.
//
// The owner may access its memory ([Window.Bytes]) only between a synchronisation that ends all accesses and
// the next epoch: a Fence, Wait, or a lock of its own memory.
//
// An operation reports wrong arguments, but no failure. The synchronisation that needs the failed rank reports
// it and ends the epoch. From then on every call on the window returns that error in this process, until
// [Window.Validate]. Under [RTS] the failure of any member does so at once.
type Window struct {
	core *rma.Window
	c    *Comm // the window's own: a duplicate
}

// WindowOption changes how a window is made.
type WindowOption func(*windowOptions)

type windowOptions struct {
	notices int
	bytes   int    // to allocate
	mem     []byte // memory of the caller
	dynamic bool   // memory is attached later
}

// maxNotices bounds the counters of a rank.
const maxNotices = 1024

// WithNotices sets the number of notification counters of this rank, 0 … 1024, for
// [Window.PutNotify].
func WithNotices(n int) WindowOption { return func(o *windowOptions) { o.notices = n } }

// AllocWindow makes a window with the given number of zeroed bytes at this rank; other ranks may pass
// other numbers. It is collective over the communicator. Errors: ErrArgument, at all ranks, also on an
// intercommunicator; ErrProcFailed, ErrRevoked, ErrClosed. The outcome is the same at all ranks with
// UniformCreation ([Comm.SetUniformity]).
func (c *Comm) AllocWindow(bytes int, opts ...WindowOption) (*Window, error) {
	if bytes < 0 || uint64(bytes) > math.MaxInt64/2 {
		return c.newWindow("AllocWindow", windowOptions{}, fmt.Errorf("%w: %d bytes", ErrArgument, bytes), opts)
	}
	return c.newWindow("AllocWindow", windowOptions{bytes: bytes}, nil, opts)
}

// NewWindow is AllocWindow with memory of the caller, aligned to 8 bytes. Other ranks of the node access memory
// of [Alloc] directly, as for AllocWindow; free it after the window.
func (c *Comm) NewWindow(mem []byte, opts ...WindowOption) (*Window, error) {
	return c.newWindow("NewWindow", windowOptions{mem: mem}, nil, opts)
}

// NewDynamicWindow is AllocWindow without memory: each rank adds memory with [Window.Attach] while the window is in
// use. Operations travel as messages.
func (c *Comm) NewDynamicWindow(opts ...WindowOption) (*Window, error) {
	return c.newWindow("NewDynamicWindow", windowOptions{dynamic: true}, nil, opts)
}

func (c *Comm) newWindow(op string, o windowOptions, wrong error, opts []WindowOption) (w *Window, err error) {
	if err := c.present(op); err != nil {
		return nil, err
	}
	c, ctx, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	for _, opt := range opts {
		if opt == nil {
			wrong = fmt.Errorf("%w: nil for an option", ErrArgument)
			continue
		}
		opt(&o)
	}
	if o.notices < 0 || o.notices > maxNotices {
		wrong = fmt.Errorf("%w: %d counters, want 0 … %d", ErrArgument, o.notices, maxNotices)
		o.notices = 0
	}
	if ctx == nil {
		c.core.AwaitTurns()
		w, err = c.makeWindow(o, wrong, manner{})
		return w, c.notifyOf(op, err)
	}
	err = c.apart(ctx, op, true, &errand{
		do: func() (err error) {
			w, err = c.makeWindow(o, wrong, manner{inTurn: true})
			return c.opError(op, err)
		},
		drop: func() { w.leave() },
	})
	if err != nil {
		return nil, err // the other goroutine may still use w
	}
	return w, nil
}

// makeWindow exchanges cards over c, so a revocation of c ends the call. A rank with an error takes part: all get one.
func (c *Comm) makeWindow(o windowOptions, wrong error, m manner) (*Window, error) {
	if c.IsInter() {
		return nil, fmt.Errorf("%w: an intercommunicator has no windows", ErrArgument)
	}
	core, err := c.core.Dup()
	w, p := &Window{c: c.derived(core)}, c.parent()
	p.InTurn = m.inTurn
	if err == nil && wrong == nil {
		windows := c.world.job.Windows
		switch {
		case o.dynamic:
			w.core, wrong = windows.PrepareDynamic(core, o.notices)
		case o.mem != nil || o.bytes == 0:
			w.core, wrong = windows.Prepare(core, o.mem, o.notices)
		default:
			w.core, wrong = windows.Allocate(core, o.bytes, o.notices)
		}
	}
	if err = p.Outcome(repair.Dup, core, err); err == nil {
		err = p.Outcome(repair.Dup, core, w.meet(c, wrong, m))
	}
	if err != nil {
		w.discard(!errors.Is(err, ErrArgument))
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

// leave frees a window whose creation this rank has not waited for. Other ranks may have it and wait for
// this rank: the revocation ends their waits.
func (w *Window) leave() {
	if w != nil && w.c != nil {
		_ = w.c.core.Revoke() // the only error is that it has ended
	}
	w.discard(true)
}

// discard frees a window of which creation has failed. Others notifies ranks that may have it.
func (w *Window) discard(others bool) {
	if w.core != nil {
		w.core.Free(others)
	}
	if w.c != nil {
		_ = w.c.free()
	}
}

// valid reports whether this is a window.
func (w *Window) valid() bool { return w != nil && w.core != nil }

// Bytes returns this rank's memory. Memory of [Comm.AllocWindow] ends with the window: an access after Free
// ends the process.
func (w *Window) Bytes() []byte {
	if !w.valid() {
		return nil
	}
	return w.core.Bytes()
}

// Shared returns the memory of a rank for loads and stores, or nil if this process cannot map it. That needs memory
// of [Comm.AllocWindow] or [Alloc], ranks of the same node, and shared memory. Accesses follow the rules of the
// operations. The slice ends with the window.
func (w *Window) Shared(rank int) ([]byte, error) {
	if !w.valid() {
		return nil, misuse("Shared", errAbsent)
	}
	mem, err := w.core.Reach(rank)
	return mem, w.end("Shared", err, arg("rank", rank))
}

// Attach adds memory of this rank, aligned to 8 bytes, to a window of [Comm.NewDynamicWindow]. It returns the offset
// of the first byte, a multiple of 4096; no other memory of this window gets it. It sends nothing: the program sends
// the offset to the ranks that need it. The memory belongs to the window until Detach or Free (MPI-4, 12.2.4).
//
// An operation on memory that is not attached, or beyond its end, has no effect. An operation that waits for its
// result returns ErrArgument; for others the next synchronisation with the rank does.
func (w *Window) Attach(memory []byte) (at int, err error) {
	if !w.valid() {
		return 0, misuse("Attach", errAbsent)
	}
	at, err = w.core.Attach(memory)
	return at, w.end("Attach", err)
}

// Detach removes memory from the window, by its offset. Other ranks must have ended their operations
// on it.
func (w *Window) Detach(at int) error {
	if !w.valid() {
		return misuse("Detach", errAbsent)
	}
	return w.end("Detach", w.core.Detach(at))
}

// Free ends the window after all ranks have called it: it is collective. After an error the window
// is freed on this rank as well (ULFM 17.2.4).
func (w *Window) Free() error {
	if !w.valid() {
		return misuse("Free", errAbsent)
	}
	err := w.core.Fence(func() error { return w.c.doBarrier(manner{}) })
	w.core.Free(err != nil)
	if errors.Is(err, ErrProcFailed) {
		w.c.core.Coll().GiveUp()
	}
	if err = w.end("Free", err); err == nil || !errors.Is(err, ErrClosed) {
		err = errors.Join(err, w.c.free())
	}
	return err
}
