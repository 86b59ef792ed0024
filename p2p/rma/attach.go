package rma

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// A dynamic window has the memory that its owner attaches. Attached memory gets offsets that no memory of the
// window has had before, so an operation on memory that was detached meets none, and is refused. Only its
// owner knows what is attached: the answer to a flush says that an operation was refused.

// attached is memory of a dynamic window.
type attached struct {
	at  uint64
	mem []byte
}

const (
	// offsetUnit divides the offsets of attached memory, gap lies between two of them, and before the first.
	offsetUnit = 4096
	gap        = offsetUnit
)

// PrepareDynamic is Prepare of a dynamic window.
func (s *Service) PrepareDynamic(c *p2p.Comm, notices int) (*Window, error) {
	w, err := s.Prepare(c, nil, notices)
	if err == nil {
		w.dynamic, w.unused = true, gap
	}
	return w, err
}

// Attach adds memory to a dynamic window and gives the offset of its first byte, a multiple of offsetUnit.
func (w *Window) Attach(mem []byte) (int, error) {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	length := (uint64(len(mem)) + offsetUnit - 1) &^ (offsetUnit - 1)
	switch err := w.broken(); {
	case err != nil:
		return 0, err
	case !w.dynamic:
		return 0, errNotDynamic
	case len(mem) == 0 || !aligned(mem):
		return 0, fmt.Errorf("%w: %d bytes; the memory is empty, or not aligned to 8 bytes", ft.ErrArgument, len(mem))
	case length > math.MaxInt64/2-w.unused:
		return 0, fmt.Errorf("%w: all offsets of the window have been used", ft.ErrArgument)
	}
	at := w.unused
	w.attached = append(w.attached, attached{at, mem})
	w.unused += length + gap
	return int(at), nil
}

// Detach takes the memory out that Attach has given an offset. It is not touched afterwards, if the operations on
// it were complete.
func (w *Window) Detach(at int) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	if w.freed {
		return errFreed
	}
	i := slices.IndexFunc(w.attached, func(a attached) bool { return a.at == uint64(at) })
	switch {
	case !w.dynamic:
		return errNotDynamic
	case i < 0:
		return fmt.Errorf("%w: no memory is attached at %d", ft.ErrArgument, at)
	}
	w.attached = slices.Delete(w.attached, i, i+1)
	return nil
}

var errNotDynamic = fmt.Errorf("%w: the window is not dynamic", ft.ErrArgument)

// memory gives n bytes of this rank's memory. False: they are not all in it. Precondition: the lock is held.
func (w *Window) memory(at, n uint64) ([]byte, bool) {
	mem := w.mem
	if w.dynamic {
		i := sort.Search(len(w.attached), func(i int) bool { return w.attached[i].at > at }) - 1
		if i < 0 {
			return nil, n == 0
		}
		mem = w.attached[i].mem
		at -= w.attached[i].at
	}
	if !inside(at, n, uint64(len(mem))) {
		return nil, w.dynamic && n == 0
	}
	return mem[at : at+n : at+n], true
}
