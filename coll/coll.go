package coll

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// The tags tell operations apart in errors and traces only, but for their roots (see p2p.BlockingTag): messages between two
// ranks match in order.
const (
	kindBarrier = iota + 1
	kindBcast
	kindReduce
	kindGather
	kindScatter
	kindAllreduce
	kindAllgather
	kindFlat
)

// Those of operations without root.
const (
	tagBarrier   = p2p.Blocking | kindBarrier
	tagAllreduce = p2p.Blocking | kindAllreduce
	tagAllgather = p2p.Blocking | kindAllgather
	tagFlat      = p2p.Blocking | kindFlat
)

// gone is the root of an operation whose root is agreed to be gone.
const gone = -1

// begin checks what all operations need and gives the communicator to send on, which has no gaps, and
// the root's rank there; gone: there is nothing to do (S0-27).
func begin(c *p2p.Comm, s *Setting, op string, root int) (w *p2p.Comm, at int, err error) {
	if c.Local() == nil && (root < 0 || root >= c.Size()) {
		return nil, 0, fmt.Errorf("%s on %s: %w: root %d, want 0 … %d", op, c.Name(), ft.ErrArgument, root, c.Size()-1)
	}
	if w, err = everybody(c, s, op); err != nil {
		return nil, 0, err
	}
	at, left, err := c.CollRank(op, root)
	if !left {
		at = gone
	}
	return w, at, err
}

// everybody is begin for operations without root.
func everybody(c *p2p.Comm, s *Setting, op string) (*p2p.Comm, error) {
	if c.Local() != nil {
		return nil, cmp.Or(c.Unrevoked(op), fmt.Errorf("%s on %s: %w: not on an intercommunicator", op, c.Name(), ft.ErrArgument))
	}
	if err := c.Ready(op); err != nil {
		return nil, err
	}
	if s.Trees == nil {
		s.Trees = &Trees{Choice: Choice{Design: tree.Rebalance, Auto: true}}
	}
	w := c.Coll()
	return w, s.Trees.ready(c, w, op)
}

// Setting is how an operation is done. The zero value has it work in the buffers of the caller, with memory and
// trees of its own where it needs them, and end at each rank as it may.
type Setting struct {
	// Memory is what it works in; nil: what it allocates.
	Memory *Memory
	// Trees are those it goes over; nil: what it computes.
	Trees *Trees
	// End, if there is one, gives the outcome that the operation has at all ranks, from the one that it has had here.
	// Until then the operation works in Memory, and the buffers of the caller are only read. So they are as they
	// were before if End gives an error.
	End func(error) error
}

// end gives the outcome.
func (s *Setting) end(err error) error {
	if s.End == nil {
		return err
	}
	return s.End(err)
}

// met is what an operation has met on w, with its name. After a failure that it cannot get round those that wait for this rank learn of it.
func met(w *p2p.Comm, op string, err error) error {
	if err == nil || p2p.During(op, err) {
		return err
	}
	if fatal(err) {
		w.GiveUp()
	}
	return &failure{op, err}
}

// fatal reports whether an error ends an operation at this rank. After lengths that do not fit it goes on, with messages that
// are empty, so that no rank waits for it.
func fatal(err error) bool { return err != nil && !errors.Is(err, ft.ErrArgument) }

// recvAll receives what is as long as buf. What is not is ft.ErrArgument; whole is how much of buf is a message
// as it was sent.
func recvAll[M p2p.Mode](w *p2p.Comm, buf []byte, src, tag int) (whole int, err error) {
	st, err := p2p.Recv[M](w, buf, src, tag)
	return fit(w, st, err, len(buf))
}

// swap sends out to a rank and receives from another one what is as long as in.
func swap[M p2p.Mode](w *p2p.Comm, out []byte, dst int, in []byte, src, tag int) error {
	st, err := p2p.Exchange[M](w, out, dst, in, src, tag)
	_, err = fit(w, st, err, len(in))
	return err
}

// fit looks whether what has come is of the length that was wanted.
func fit(w *p2p.Comm, st p2p.Status, err error, want int) (whole int, _ error) {
	if err == nil && st.Count == want {
		return want, nil
	}
	whole, length := st.Count, st.Count
	if total, long := p2p.Truncated(err); long {
		whole, length = 0, total
	} else if err != nil {
		return 0, err
	}
	if length == want { // which was too long for what it was to begin with
		return whole, disagreed(w, want)
	}
	return whole, fmt.Errorf("%s: %w: rank %d %s, this one wants %s: all ranks must call with the same length",
		w.Name(), ft.ErrArgument, w.OriginalRank(st.Source), lengthSent(length), lengthWanted(want))
}

// lengthSent is what a message of the wrong length tells of its sender: an empty one mostly that it has met an error itself ([fatal]).
func lengthSent(length int) string {
	if length == 0 {
		return "sent nothing, or met such an error itself"
	}
	return fmt.Sprintf("sent %d bytes", length)
}

// lengthWanted is a length in words: that of a [mark] is not what anybody has called with.
func lengthWanted(length int) string {
	if length == len(mark{}) {
		return "a long message"
	}
	return fmt.Sprintf("%d bytes", length)
}
