package banyan

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Under [WithDebug] communicators have a mode of their own, for which Send and the like have no case.
// So their calls come here, and others pay nothing. A message then has a header with the type of its
// elements. The library sends and receives in buffers of its own, and compares the application's with
// what they were.

// checks is what a rank knows under WithDebug; nil without.
type checks struct {
	log   debug.Log
	mu    sync.Mutex
	comms map[*p2p.Comm]uint64 // their numbers in log
}

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
	log := &c.world.checks.log
	number, sum := log.Open(call), debug.Sum(buf)
	h := begin(c.core, debug.Frame(buf, k), dst, tag)
	return Request{c.e.Wrap(h, func(st Status, err error) (Status, error) {
		log.Close(number)
		if err == nil && !st.Cancelled {
			err = unchanged(call, buf, sum)
		}
		return st, err
	}), c}
}

// unchanged is the error of a buffer that changed during an operation.
func unchanged(call debug.Call, buf []byte, sum uint64) error {
	if debug.Sum(buf) == sum {
		return nil
	}
	return fmt.Errorf("%v: %w: the program changed the buffer while the operation was under way: wait for it first",
		call, ErrArgument)
}

// checkedRecv starts a receive of elements of a type.
func (c *Comm) checkedRecv(buf []byte, k debug.Kind, src, tag int) Request {
	room := debug.Room(len(buf))
	r := c.expect(buf, room, k, c.calls("recv of %d bytes (%v) from %s, tag %s", len(buf), k, anyOr(src), anyOr(tag)))
	return r(p2p.Irecv[p2p.Aware](c.core, room, src, tag))
}

func anyOr(n int) string {
	if n < 0 {
		return "any"
	}
	return fmt.Sprint(n)
}

// expect wraps a receive into room, whose message is for buf.
func (c *Comm) expect(buf, room []byte, k debug.Kind, call debug.Call) func(p2p.Handle) Request {
	log := &c.world.checks.log
	number, sum := log.Open(call), debug.Sum(buf)
	return func(h p2p.Handle) Request {
		return Request{c.e.Wrap(h, func(st Status, err error) (Status, error) {
			log.Close(number)
			total, long := p2p.Truncated(err)
			if err != nil && !long || st.Cancelled || st.Source == ProcNull {
				return st, err
			}
			if long {
				err = fmt.Errorf("%v: %w: the message has %d bytes", call, ErrTruncate, total-debug.Header)
			}
			changed := unchanged(call, buf, sum)
			err = together(c.sameType(call, room, k, st), err, changed)
			st.Count = c.payload(st.Count)
			copy(buf, room[debug.Header:][:st.Count])
			return st, err
		}), c}
	}
}

// together is errors.Join that keeps a single error as it is.
func together(errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// sameType is the error of a message with elements of another type.
func (c *Comm) sameType(call debug.Call, room []byte, want debug.Kind, st Status) error {
	got, ok := debug.Unframe(room[:st.Count])
	switch {
	case !ok:
		return fmt.Errorf("%v: %w: rank %d runs without debug: set it alike on all ranks", call, ErrArgument, st.Source)
	case !got.Match(want):
		return fmt.Errorf("%v: %w: rank %d sent elements of type %v, rank %d receives %v: use one type on both sides",
			call, ErrArgument, st.Source, got, c.Rank(), want)
	}
	return nil
}

// payload is the length of a message for the application.
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

// blocking waits for a request of a call that blocks.
func (r Request) blocking() (Status, error) {
	r.c.e.Lock()
	defer r.c.e.Unlock()
	return r.c.e.TakeBlocking(r.h)
}

// ends is blocking that calls the handler.
func (r Request) ends() (Status, error) {
	st, err := r.blocking()
	return st, r.c.notify(err)
}

// enter puts a new communicator into the list of those that have not been freed.
func (k *checks) enter(core *p2p.Comm) {
	n := k.log.Open(debug.Call{What: "communicator " + core.Name() + ", not freed", Where: debug.Where(library)})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.comms == nil {
		k.comms = make(map[*p2p.Comm]uint64)
	}
	k.comms[core] = n
}

// leave takes it out.
func (k *checks) leave(core *p2p.Comm) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n, ok := k.comms[core]; ok {
		k.log.Close(n)
		delete(k.comms, core)
	}
}

// report lists what the program has left.
func (w *World) report() {
	if w.checks == nil {
		return
	}
	for _, call := range w.checks.log.Left() {
		fmt.Fprintf(os.Stderr, "banyan: rank %d: debug: left at Finalize: %v\n", w.job.Rank(), call)
	}
}

// The generic functions come here where no other mode holds.

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
