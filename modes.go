package banyan

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Persistent is a send, receive or other operation that is described once and started many times. Wait
// for each start before the next. Only one goroutine at a time may use it.
type Persistent struct {
	begin func(*Comm) Request // nil once freed
	c     *Comm
	round Request // the last start
}

// errNoPersistent is the error of the zero Persistent.
var errNoPersistent = fmt.Errorf("%w: no persistent request: SendInit, SsendInit, RecvInit and Persistent make them", ErrArgument)

// errActive is the error of a persistent request whose round has not been waited for.
var errActive = fmt.Errorf("%w: the persistent request is active: wait for it first", ErrArgument)

// Persistent describes an operation that begin starts, such as a collective (MPI 6.13). Each start calls begin
// with this communicator. MPI has one such call for each operation (MPI_Allreduce_init). A start allocates memory
// only if the operation does. It chooses the algorithm anew, so it is valid after a failure and a validate. All
// ranks start the collectives of a communicator in the same order, persistent or not. Nothing is checked or sent
// before Start.
func (c *Comm) Persistent(begin func(*Comm) Request) *Persistent {
	if !c.bound() {
		c = c.valid()
	}
	return &Persistent{begin: starting(begin), c: c}
}

// SendInit describes a standard send of buf. Nothing is checked or sent before Start.
func (c *Comm) SendInit(buf []byte, dst, tag int) *Persistent {
	return c.Persistent(func(c *Comm) Request { return c.Isend(buf, dst, tag) })
}

// SsendInit describes a synchronous send of buf.
func (c *Comm) SsendInit(buf []byte, dst, tag int) *Persistent {
	return c.Persistent(func(c *Comm) Request { return c.Issend(buf, dst, tag) })
}

// RecvInit describes a receive into buf.
func (c *Comm) RecvInit(buf []byte, src, tag int) *Persistent {
	return c.Persistent(func(c *Comm) Request { return c.Irecv(buf, src, tag) })
}

// Start starts the operation once more and returns the request of this round, to be waited for
// alone or with others; Wait waits for the same request. As for Isend and Irecv the request returns
// the error: ErrArgument if the previous round has not been waited for, ErrClosed after Free.
func (p *Persistent) Start() Request {
	if p == nil || p.c == nil {
		return absent().failed("Start", errNoPersistent)
	}
	switch {
	case p.begin == nil:
		return p.c.failed("Start", fmt.Errorf("%w: the persistent request has been freed", ErrClosed))
	case p.active():
		return p.c.failed("Start", errActive)
	}
	p.round = p.begin(p.c)
	return p.round
}

// active reports whether the last start has not been waited for.
func (p *Persistent) active() bool {
	e := p.c.e
	e.Lock()
	defer e.Unlock()
	return !p.round.h.Empty() && p.round.state(e) != p2p.Ended
}

// Wait waits for the operation that was started last, and returns its outcome. It returns at once
// if that has been waited for, or no operation was started.
func (p *Persistent) Wait() (Status, error) {
	switch {
	case p == nil || p.c == nil:
		return Status{}, absent().opError("Wait", errNoPersistent)
	case p.round.c == nil:
		return Status{}, nil
	}
	st, err := p.round.Wait()
	if err == nil || !p.active() { // otherwise it is pending
		p.round = Request{}
	}
	return st, err
}

// Free releases the buffer. Error: ErrArgument while the operation is active.
func (p *Persistent) Free() error {
	if p == nil || p.c == nil {
		return absent().opError("Free", errNoPersistent)
	}
	if p.active() {
		return p.c.valid().notifyOf("Free", errActive)
	}
	p.begin, p.round = nil, Request{}
	return nil
}

// StartAll starts them in order and stores the requests of this round in reqs, as far as there is
// room: Persistent.Wait waits for the others.
func StartAll(ps []*Persistent, reqs []Request) {
	for i, p := range ps {
		if r := p.Start(); i < len(reqs) {
			reqs[i] = r
		}
	}
}

// Bsend is the buffered Send: it copies buf and returns at once, without waiting for the receiver
// (MPI_Bsend). The copy is freed after the message has been received, or after its receiver has
// failed or the communicator was revoked; such a failure is not reported. [World.Finalize] waits
// for all these messages.
//
// Errors as for Send as far as they are known at once, and ErrArgument, with nothing sent, if the
// copies under way would exceed the limit of [World.SetBufferLimit].
func (c *Comm) Bsend(buf []byte, dst, tag int) error {
	c = c.valid()
	return c.notify(c.bsend(buf, dst, tag))
}

// Ibsend is Bsend as a request, which has ended when the call returns (MPI_Ibsend).
func (c *Comm) Ibsend(buf []byte, dst, tag int) Request {
	c = c.valid()
	if err := c.bsend(buf, dst, tag); err != nil {
		return Request{c.e.Failed(c.core, err), c}
	}
	return Request{}
}

func (c *Comm) bsend(buf []byte, dst, tag int) error {
	b, e, n := &c.world.buffered, c.e, len(buf)+bufferOverhead
	e.Lock()
	if b.used+n > b.limit {
		e.Poll() // some may have been received
	}
	if b.used+n > b.limit || len(b.sends) >= b.most {
		b.free()
	}
	if b.used+n > b.limit {
		defer e.Unlock()
		return c.opError("Bsend", fmt.Errorf("%w: %d bytes beside %d in %d messages that have not been received, limit %d: "+
			"receive first, use Send, or raise the limit (World.SetBufferLimit)",
			ErrArgument, n, b.used, len(b.sends), b.limit), arg("dst", dst), arg("tag", tag), arg("bytes", len(buf)))
	}
	b.used += n
	e.Unlock()
	r := c.Isend(slices.Clone(buf), dst, tag)
	e.Lock()
	defer e.Unlock()
	if r.state(e) == p2p.Pending {
		b.sends = append(b.sends, bufferedSend{r, n})
		return nil
	}
	b.used -= n
	_, err := e.Take(r.h)
	return err
}

const (
	bufferLimit    = 16 << 20 // by default
	bufferOverhead = 64       // per message, in addition to its bytes
)

// buffered holds a rank's buffered sends, under the engine's lock.
type buffered struct {
	limit, used int // bytes
	sends       []bufferedSend
	most        int // number of sends that starts a scan for complete ones: the average call scans few
}

// bufferedSend is a buffered send under way; bytes is its share of the limit.
type bufferedSend struct {
	r     Request
	bytes int
}

// free ends the sends that are complete.
func (b *buffered) free() {
	b.sends = slices.DeleteFunc(b.sends, func(s bufferedSend) bool {
		if s.r.state(s.r.c.e) == p2p.Pending {
			return false
		}
		_, _ = s.r.c.e.Take(s.r.h) // Bsend reports no late failure
		b.used -= s.bytes
		return true
	})
	b.most = 2*len(b.sends) + 16
}

// SetBufferLimit sets the number of bytes that the copies of [Comm.Bsend] of this rank may take: 16
// MiB by default. Each message counts 64 bytes more. Messages under way stay. Error: ErrArgument if
// it is negative.
func (w *World) SetBufferLimit(bytes int) error {
	if w.absent() || bytes < 0 {
		return misuse("SetBufferLimit", fmt.Errorf("%w: %d bytes", ErrArgument, bytes))
	}
	w.job.P2P.Lock()
	defer w.job.P2P.Unlock()
	w.buffered.limit = bytes
	return nil
}

// drain returns when all buffered sends have ended.
func (w *World) drain() {
	e := w.job.P2P
	e.Lock()
	defer e.Unlock()
	for b := &w.buffered; len(b.sends) > 0; {
		last := b.sends[len(b.sends)-1]
		b.sends = b.sends[:len(b.sends)-1]
		_, _ = e.Take(last.r.h)
		b.used -= last.bytes
	}
}

// Under [WithDebug] communicators have a mode of their own, which the fast paths of Send and the like
// do not handle. So their calls come here, at no cost to other communicators. Each message has a
// header with the type of its elements. The library sends and receives in its own buffers, and
// detects changes of the application's buffers by comparing them with a copy.

func (c *Comm) debugs() bool { return c != nil && c.mode == modeDebug }

// kindOf is the type of numbers in messages. It is not for the fast path.
//
//go:noinline
func kindOf[T Number]() debug.Kind { return debug.KindOf(reflect.TypeFor[T]().Kind()) }

var library = strings.TrimSuffix(reflect.TypeFor[Comm]().PkgPath(), ".")

// calls describes a call of the application.
func (c *Comm) calls(format string, args ...any) debug.Call {
	return debug.Call{What: fmt.Sprintf(format, args...) + " on " + c.Name(), Where: debug.Where(library)}
}

// checkedSend starts a send of elements of a type.
func (c *Comm) checkedSend(sync bool, buf []byte, k debug.Kind, dst, tag int) Request {
	begin, op := p2p.Isend[p2p.Aware], "send"
	if sync {
		begin, op = p2p.Issend[p2p.Aware], "ssend"
	}
	call := c.calls("%s of %d bytes (%v) to rank %d, tag %d", op, len(buf), k, dst, tag)
	log := c.world.checks
	number, sum := log.Open(call), debug.Sum(buf)
	h := begin(c.core, debug.Frame(buf, k), dst, tag)
	return Request{c.e.Wrap(h, func(st Status, err error) (Status, error) {
		log.Close(number)
		if err == nil && !st.Cancelled {
			err = c.opError("Send", debug.Unchanged(call, buf, sum), arg("dst", dst), arg("tag", tag), arg("bytes", len(buf)))
		} else if framed, ok := err.(*OpError); ok {
			own := *framed
			own.Args[2].Value, err = len(buf), &own
		}
		return st, err
	}), c}
}

// checkedRecv starts a receive of elements of a type.
func (c *Comm) checkedRecv(buf []byte, k debug.Kind, src, tag int) Request {
	room := debug.Room(len(buf))
	r := c.expect(buf, room, k, src, tag, c.calls("recv of %d bytes (%v) from %s, tag %s", len(buf), k, debug.AnyOr(src), debug.AnyOr(tag)))
	return r(p2p.Irecv[p2p.Aware](c.core, room, src, tag))
}

// expect wraps a receive into room; its message is then copied to buf.
func (c *Comm) expect(buf, room []byte, k debug.Kind, src, tag int, call debug.Call) func(p2p.Handle) Request {
	log := c.world.checks
	number, sum := log.Open(call), debug.Sum(buf)
	return func(h p2p.Handle) Request {
		return Request{c.e.Wrap(h, func(st Status, err error) (Status, error) {
			log.Close(number)
			total, long := p2p.Truncated(err)
			if err != nil && !long || st.Cancelled || st.Source == ProcNull {
				return st, err
			}
			if long {
				err = fmt.Errorf("called at %s: %w: the message has %d bytes", call.Where, ErrTruncate, total-debug.Header)
			}
			changed := debug.Unchanged(call, buf, sum)
			err = debug.Join(c.sameType(call, room, k, st), err, changed)
			st.Count = c.payload(st.Count)
			copy(buf, room[debug.Header:][:st.Count])
			return st, c.opError("Recv", err, arg("src", src), arg("tag", tag))
		}), c}
	}
}

// sameType returns an error if the elements of a message have another type.
func (c *Comm) sameType(call debug.Call, room []byte, want debug.Kind, st Status) error {
	got, ok := debug.Unframe(room[:st.Count])
	switch {
	case !ok:
		return fmt.Errorf("called at %s: %w: rank %d runs without debug: set it alike on all ranks",
			call.Where, ErrArgument, st.Source)
	case !got.Match(want):
		return fmt.Errorf("called at %s: %w: rank %d sent elements of type %v, rank %d receives %v: use one type on both sides",
			call.Where, ErrArgument, st.Source, got, c.Rank(), want)
	}
	return nil
}

// payload returns the length of a message without the header of WithDebug.
func (c *Comm) payload(bytes int) int {
	if c.mode == modeDebug {
		return max(bytes-debug.Header, 0)
	}
	return bytes
}

// checkedSendrecv is Sendrecv of elements of types.
func (c *Comm) checkedSendrecv(
	sbuf []byte, sk debug.Kind, dst, stag int, rbuf []byte, rk debug.Kind, src, rtag int,
) (Status, error) {
	r, s := c.checkedRecv(rbuf, rk, src, rtag), c.checkedSend(false, sbuf, sk, dst, stag)
	_, err := c.e.Wait(s.h)
	if err != nil && !errors.Is(err, ErrArgument) {
		r.Cancel()
	}
	st, wrong := r.blocking()
	return st, c.notify(cmp.Or(err, wrong))
}

// comparison compares a call with those of other ranks under WithDebug; otherwise it is nil.
func (c *Comm) comparison(d debug.Collective) *coll.Check {
	if !c.debugs() {
		return nil
	}
	d.Name, d.Where = debug.Caller(library)
	return debug.Compare(c.core, d)
}

// blocking waits for the request of a blocking call.
func (r Request) blocking() (Status, error) {
	r.c.e.Lock()
	defer r.c.e.Unlock()
	return r.c.e.TakeBlocking(r.h)
}

// ends is blocking, and calls the handler.
func (r Request) ends() (Status, error) {
	st, err := r.blocking()
	return st, r.c.notify(err)
}

// report lists requests and communicators that the program has not ended.
func (w *World) report() {
	if w.checks == nil {
		return
	}
	for _, call := range w.checks.Left() {
		fmt.Fprintf(os.Stderr, "banyan: rank %d: debug: left at Finalize: %v\n", w.job.Rank(), call)
	}
}

// The generic functions call these under WithDebug, and on views, nil and the zero Comm.

func sendOther[T Number](c *Comm, data []T, dst, tag int) error {
	if !c.debugs() {
		return c.sendAbsent(Bytes(data), dst, tag)
	}
	_, err := c.checkedSend(false, Bytes(data), kindOf[T](), dst, tag).ends()
	return err
}

func recvOther[T Number](c *Comm, data []T, src, tag int) (Status, error) {
	if !c.debugs() {
		return c.recvAbsent(Bytes(data), src, tag)
	}
	return c.checkedRecv(Bytes(data), kindOf[T](), src, tag).ends()
}

func isendOther[T Number](c *Comm, data []T, dst, tag int) Request {
	if !c.debugs() {
		return c.isendAbsent(Bytes(data), dst, tag)
	}
	return c.checkedSend(false, Bytes(data), kindOf[T](), dst, tag)
}

func irecvOther[T Number](c *Comm, data []T, src, tag int) Request {
	var r Request
	if c.debugs() {
		r = c.checkedRecv(Bytes(data), kindOf[T](), src, tag)
	} else {
		r = c.irecvAbsent(Bytes(data), src, tag)
	}
	r.c.e.CountElements(r.h, size[T]())
	return r
}
