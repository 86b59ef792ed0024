package banyan

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

const (
	// AnySource lets a receive match a message from any rank.
	AnySource = p2p.AnySource
	// AnyTag lets a receive match any tag.
	AnyTag = p2p.AnyTag
	// ProcNull is the rank of nobody: sends to it and receives from it succeed
	// at once and move nothing.
	ProcNull = p2p.ProcNull
	// MaxTag is the largest tag; the smallest is 0.
	MaxTag = p2p.MaxTag
)

// Status tells what a receive got: the sender's rank, the tag, the number of
// bytes; or that it was taken back.
type Status = p2p.Status

// Comm is a communicator: a group of ranks and a context in which their
// messages match. Its methods may be called from any goroutine; two goroutines of a rank
// call no two collectives of one communicator at the same time (see the package's comment).
type Comm struct {
	core  *p2p.Comm
	e     *p2p.Engine
	mode  mode
	world *World
	// handler: stored by SetErrorHandler, loaded where an operation has failed.
	handler atomic.Pointer[ErrorHandler]
	attrs   attributes
	// flag: taken by the agreement that is under way, put back by it. Memory for another one takes 0.7 µs where ranks take
	// turns and the cache is cold.
	flag atomic.Pointer[uint64]
	// shrinking: the same for shrinks.
	shrinking atomic.Pointer[shrinking]
	// coll: the collectives; their trees are renewed by validates.
	coll coll.Comm
}

// mode is the engine's. The zero Comm has none: so Send and the like need not look whether there is a communicator.
type mode uint8

const (
	modeAware mode = 1 + iota
	modeUnaware
)

func modeOf(unaware bool) mode {
	if unaware {
		return modeUnaware
	}
	return modeAware
}

// on wraps a core of the same process that no user sees: no error handler is
// told of what happens there.
func (c *Comm) on(core *p2p.Comm) *Comm {
	d := new(Comm)
	c.wrap(d, core)
	return d
}

// wrap is on in memory that is there.
func (c *Comm) wrap(d *Comm, core *p2p.Comm) {
	d.core, d.e, d.mode, d.world = core, c.e, c.mode, c.world
	d.coll.Choice, d.coll.World = c.coll.Choice, c.coll.World
}

// Rank is this process's rank, 0 … Size()-1.
func (c *Comm) Rank() int { return c.valid().core.Rank() }

// Size is the number of ranks, dead ones included.
func (c *Comm) Size() int { return c.valid().core.Size() }

// Name is the communicator's name in errors: "world", "world.1", …
func (c *Comm) Name() string { return c.valid().core.Name() }

// Dup makes a communicator with the same ranks and a context of its own, and
// with those attributes that their keys' copy functions give it (see [NewKey]).
// It is collective: all ranks duplicate a communicator in the same order. It does
// not communicate.
func (c *Comm) Dup() (*Comm, error) {
	c = c.valid()
	core, err := c.core.Dup()
	d := c.derived(core)
	if err = cmp.Or(c.core.Unrevoked("dup"), err); err == nil {
		if err = c.attrs.copyTo(c, d); err != nil {
			err = fmt.Errorf("dup of %s: %w", c.Name(), err)
		}
	}
	return c.made(repair.Dup, d, err)
}

// Free ends the communicator on this rank, after its attributes have been
// deleted. It sends nothing, and other ranks may use theirs for as long as they
// want nothing of this one. Operations under way, and receives and probes that
// wait for a message, go on and complete as if it had not been called: wait for
// their requests as always. Everything that is begun afterwards is ErrClosed, a
// second Free too. Messages that have arrived and that nobody waits for are lost.
//
// The world's communicator is not freed but finalized: ErrArgument. The error of
// an attribute's delete function is returned, and the communicator is freed.
func (c *Comm) Free() error {
	if err := c.present("free"); err != nil {
		return err
	}
	if c == c.world.comm {
		return c.raise(fmt.Errorf("free of %s: %w: World.Finalize ends the world's communicator", c.Name(), ErrArgument))
	}
	return c.raise(c.free())
}

func (c *Comm) free() error {
	lost := c.attrs.close(c) // of a second call: nothing
	err := c.core.Free()
	if err == nil {
		c.e.Lock()
		c.world.repair.Freed(c.core)
		c.e.Unlock()
	}
	return errors.Join(lost, err)
}

// Send sends buf to rank dst and returns when buf may be changed. A short
// message may then still be under way; a long one has been received.
//
// Errors: ErrArgument, ErrProcFailed, ErrDeparted, ErrRevoked, ErrClosed.
func (c *Comm) Send(buf []byte, dst, tag int) error {
	if c != nil {
		switch c.mode {
		case modeAware:
			return p2p.Send[p2p.Aware](c.core, buf, dst, tag)
		case modeUnaware:
			return p2p.Send[p2p.Unaware](c.core, buf, dst, tag)
		}
	}
	return c.sendAbsent(buf, dst, tag)
}

// Recv receives into buf a message from rank src, or AnySource, with a tag, or
// AnyTag. Messages from one rank match in the order in which they were sent.
//
// Errors: ErrTruncate if the message is longer than buf, which then holds its
// beginning; ErrArgument, ErrProcFailed, ErrDeparted, ErrRevoked, ErrClosed. From
// AnySource ErrProcFailed means that some rank has failed and this process has not
// said that it knows ([Comm.FailureAck]).
func (c *Comm) Recv(buf []byte, src, tag int) (Status, error) {
	if c != nil {
		switch c.mode {
		case modeAware:
			return p2p.Recv[p2p.Aware](c.core, buf, src, tag)
		case modeUnaware:
			return p2p.Recv[p2p.Unaware](c.core, buf, src, tag)
		}
	}
	return c.recvAbsent(buf, src, tag)
}

// Sendrecv sends and receives at once, so that two ranks may exchange messages
// without caring who is first. The buffers must not overlap. Errors as of Send
// and Recv; the send's come first.
func (c *Comm) Sendrecv(sbuf []byte, dst, stag int, rbuf []byte, src, rtag int) (Status, error) {
	if c != nil {
		switch c.mode {
		case modeAware:
			return p2p.Sendrecv[p2p.Aware](c.core, sbuf, dst, stag, rbuf, src, rtag)
		case modeUnaware:
			return p2p.Sendrecv[p2p.Unaware](c.core, sbuf, dst, stag, rbuf, src, rtag)
		}
	}
	return c.sendrecvAbsent(sbuf, dst, stag, rbuf, src, rtag)
}

// Isend begins to send buf, which must not change until the request has been
// waited for. It never fails: errors are the request's.
func (c *Comm) Isend(buf []byte, dst, tag int) Request {
	if c != nil {
		switch c.mode {
		case modeAware:
			return Request{p2p.Isend[p2p.Aware](c.core, buf, dst, tag), c}
		case modeUnaware:
			return Request{p2p.Isend[p2p.Unaware](c.core, buf, dst, tag), c}
		}
	}
	return c.isendAbsent(buf, dst, tag)
}

// Irecv begins to receive into buf, which must not be used until the request
// has been waited for. It never fails: errors are the request's. From AnySource they
// include ErrProcFailedPending, which does not end it: see [Request.Wait].
func (c *Comm) Irecv(buf []byte, src, tag int) Request {
	if c != nil {
		switch c.mode {
		case modeAware:
			return Request{p2p.Irecv[p2p.Aware](c.core, buf, src, tag), c}
		case modeUnaware:
			return Request{p2p.Irecv[p2p.Unaware](c.core, buf, src, tag), c}
		}
	}
	return c.irecvAbsent(buf, src, tag)
}
