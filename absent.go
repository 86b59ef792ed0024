package banyan

import (
	"fmt"
	"os"
	"sync"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
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
	w, err := newWorld(nobody{bench{size: 1, perNode: 1}}, progress.Config{Host: host.New(host.Config{})}, new(options))
	var core *p2p.Comm
	if err == nil {
		core, err = w.p2p.NewComm("no communicator", p2p.Group{}, Undefined, noticeContext+1)
	}
	if err != nil {
		panic(fmt.Sprintf("banyan: the communicator of nobody: %v", err)) // it depends on nothing outside
	}
	c := &Comm{core: core, e: w.p2p, mode: modeAware, world: w}
	w.p2p.CloseFor(errAbsent)
	w.control.stop(w.progress)
	w.comm = nil
	return c
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

// nobody is the bootstrap of the world of no communicator: that of a simulated world of one, without a simulation.
type nobody struct{ bench }

// Expire implements bootstrap.
func (n nobody) Expire(why error) { n.Abort(ExitExpelled, why.Error()) }

// Abort implements bootstrap.
func (nobody) Abort(code int, why string) {
	fmt.Fprintln(os.Stderr, "banyan:", why)
	os.Exit(code)
}
