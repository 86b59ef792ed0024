package banyan

import (
	"fmt"
	"sync"

	"github.com/banyan-hpc/banyan/internal/job"
)

// Whatever is called on nil or on a zero value of this package is ErrArgument. A nil *Comm is what MPI calls
// MPI_COMM_NULL: what a rank gets that is no member of a new communicator.

// errAbsent is what operations on such a communicator end with.
var errAbsent = fmt.Errorf("%w: it is nil, or no call has made it", ErrArgument)

// errNoContext is the error of a nil context.
var errNoContext = fmt.Errorf("%w: nil for the context", ErrArgument)

// valid is the communicator, or for nil and the zero Comm an empty one on which every operation is errAbsent.
func (c *Comm) valid() *Comm {
	if c == nil || c.core == nil {
		return absent()
	}
	return c
}

// present is the error of what would change such a communicator.
func (c *Comm) present(op string) error {
	if c == nil || c.core == nil {
		return fmt.Errorf("%s: %w", op, errAbsent)
	}
	return nil
}

// absent reports whether this is the zero World, or nil.
func (w *World) absent() bool { return w == nil || w.job == nil }

// nothing is what absent gives, once.
var nothing struct {
	once sync.Once
	comm *Comm
}

// absent is that communicator. It belongs to a world of its own, whose engine has been closed.
func absent() *Comm {
	nothing.once.Do(func() { nothing.comm = newAbsent() })
	return nothing.comm
}

func newAbsent() *Comm {
	j, core := job.Detached(errAbsent)
	return &Comm{core: core, e: j.P2P, mode: modeAware, world: &World{job: j}}
}

// Of nil and the zero Comm. They are apart, so that the others keep nothing for the call of absent.
//
//go:noinline
func (c *Comm) sendAbsent(buf []byte, dst, tag int) error { return absent().Send(buf, dst, tag) }

//go:noinline
func (c *Comm) recvAbsent(buf []byte, src, tag int) (Status, error) {
	return absent().Recv(buf, src, tag)
}

//go:noinline
func (c *Comm) sendrecvAbsent(sbuf []byte, dst, stag int, rbuf []byte, src, rtag int) (Status, error) {
	return absent().Sendrecv(sbuf, dst, stag, rbuf, src, rtag)
}

//go:noinline
func (c *Comm) isendAbsent(buf []byte, dst, tag int) Request { return absent().Isend(buf, dst, tag) }

//go:noinline
func (c *Comm) irecvAbsent(buf []byte, src, tag int) Request { return absent().Irecv(buf, src, tag) }
