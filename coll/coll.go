package coll

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// The tags tell operations apart in errors and traces only: messages between two
// ranks match in order.
const (
	tagBarrier = iota
	tagBcast
	tagReduce
	tagGather
)

// gone is the root of an operation whose root is agreed to be gone.
const gone = -1

// begin checks what all operations need and gives the communicator to send on, which has no gaps, and
// the root's rank there; gone: there is nothing to do (S0-27).
func begin(c *p2p.Comm, op string, root int) (w *p2p.Comm, at int, err error) {
	switch {
	case c.Local() != nil:
		return nil, 0, fmt.Errorf("%s on %s: %w: not on an intercommunicator", op, c.Name(), ft.ErrArgument)
	case root < 0 || root >= c.Size():
		return nil, 0, fmt.Errorf("%s on %s: %w: root %d, want 0 … %d", op, c.Name(), ft.ErrArgument, root, c.Size()-1)
	}
	if err := c.Collective(op); err != nil {
		return nil, 0, err
	}
	at, left, err := c.Delegate(op, root)
	if !left {
		at = gone
	}
	return c.Coll(), at, err
}

// everybody is begin for operations without root.
func everybody(c *p2p.Comm, op string) (*p2p.Comm, error) {
	if c.Local() != nil {
		return nil, fmt.Errorf("%s on %s: %w: not on an intercommunicator", op, c.Name(), ft.ErrArgument)
	}
	if err := c.Collective(op); err != nil {
		return nil, err
	}
	return c.Coll(), nil
}

// Barrier returns when all ranks have called it. Dissemination: in step k each
// rank tells the one 2^k further on.
func Barrier[M p2p.Mode](c *p2p.Comm) error {
	w, err := everybody(c, "barrier")
	if err != nil {
		return err
	}
	var in, out [1]byte
	n, me := w.Size(), w.Rank()
	for d := 1; d < n; d *= 2 {
		if _, err := p2p.Sendrecv[M](w, out[:], (me+d)%n, tagBarrier, in[:], (me+n-d)%n, tagBarrier); err != nil {
			return &failure{"barrier", err}
		}
	}
	return nil
}

// Bcast copies root's buf into everybody's, which are of the same length. With a root that is
// agreed to be gone it does nothing.
func Bcast[M p2p.Mode](c *p2p.Comm, buf []byte, root int) error {
	w, root, err := begin(c, "bcast", root)
	if err != nil || root == gone {
		return err
	}
	if err := bcast[M](w, buf, root); err != nil {
		return &failure{"bcast", err}
	}
	return nil
}

// bcast goes down the binomial tree: virtual rank v, counted from the root, gets
// the data from v without its lowest bit, and passes them to v plus each lower
// bit, the farthest subtree first. A length that does not fit, and a child that
// has gone, keep nothing from the others: they would wait.
func bcast[M p2p.Mode](w *p2p.Comm, buf []byte, root int) error {
	n := w.Size()
	v := (w.Rank() - root + n) % n
	low := lowest(v, n)
	var first error
	if v != 0 {
		st, err := p2p.Recv[M](w, buf, (v-low+root)%n, tagBcast)
		if err != nil && !errors.Is(err, ft.ErrTruncate) {
			return err
		}
		first = cmp.Or(err, sameLength(w, st, len(buf)))
	}
	for bit := low / 2; bit > 0; bit /= 2 {
		if v+bit < n {
			first = cmp.Or(first, p2p.Send[M](w, buf, (v+bit+root)%n, tagBcast))
		}
	}
	return first
}

// lowest is the lowest bit of v; for the root it is beyond all ranks.
func lowest(v, n int) int {
	if v == 0 {
		return 1 << bits.Len(uint(n-1))
	}
	return v & -v
}

// Op folds in into acc, which are of the same length. It is associative; it is
// applied in the order of ranks.
type Op func(acc, in []byte)

// Reduce folds everybody's buf and leaves the result in root's, with scratch of
// the same length to receive into. The buffers of the others are undefined
// afterwards. Those who are agreed to be gone contribute nothing (S0-29), and with a root that is
// one of them it does nothing.
func Reduce[M p2p.Mode](c *p2p.Comm, buf, scratch []byte, op Op, root int) error {
	w, root, err := begin(c, "reduce", root)
	if err != nil || root == gone {
		return err
	}
	if err := reduce[M](w, buf, scratch, op, root); err != nil {
		return &failure{"reduce", err}
	}
	return nil
}

// reduce folds towards rank 0 and moves the result to the root: folding towards
// another root would change the order of operands.
func reduce[M p2p.Mode](w *p2p.Comm, buf, scratch []byte, op Op, root int) error {
	n, me := w.Size(), w.Rank()
	for bit := 1; bit < n; bit *= 2 {
		if me&bit != 0 {
			if err := p2p.Send[M](w, buf, me-bit, tagReduce); err != nil {
				return err
			}
			break
		}
		if me+bit < n {
			st, err := p2p.Recv[M](w, scratch[:len(buf)], me+bit, tagReduce)
			if err != nil {
				return err
			}
			if err := sameLength(w, st, len(buf)); err != nil {
				return err
			}
			op(buf, scratch[:len(buf)])
		}
	}
	switch {
	case root == 0:
		return nil
	case me == 0:
		return p2p.Send[M](w, buf, root, tagReduce)
	case me == root:
		_, err := p2p.Recv[M](w, buf, 0, tagReduce)
		return err
	}
	return nil
}

// Allreduce folds everybody's buf and leaves the result in everybody's, with
// scratch of the same length to receive into. Those who are agreed to be gone contribute nothing
// (S0-31).
func Allreduce[M p2p.Mode](c *p2p.Comm, buf, scratch []byte, op Op) error {
	w, err := everybody(c, "allreduce")
	if err != nil {
		return err
	}
	if err := reduce[M](w, buf, scratch, op, 0); err != nil {
		return &failure{"allreduce", err}
	}
	if err := bcast[M](w, buf, 0); err != nil {
		return &failure{"allreduce", err}
	}
	return nil
}

// Allgather puts everybody's block, all of one length, into everybody's all, by
// rank. A rank's own block lies in its place already. The places of those who are agreed to be gone
// stay as they are (S0-30).
func Allgather[M p2p.Mode](c *p2p.Comm, all []byte) error {
	w, err := everybody(c, "allgather")
	if err != nil {
		return err
	}
	n := c.Size()
	if len(all)%n != 0 {
		return fmt.Errorf("allgather on %s: %w: %d bytes for %d ranks", c.Name(), ft.ErrArgument, len(all), n)
	}
	block := len(all) / n
	dense := all
	if w.Size() < n {
		dense = make([]byte, w.Size()*block)
		copy(dense[w.Rank()*block:], all[c.Rank()*block:][:block])
	}
	if err := allgather[M](w, dense, block); err != nil {
		return &failure{"allgather", err}
	}
	for rank := 0; w.Size() < n && rank < w.Size(); rank++ {
		copy(all[w.Said(rank)*block:][:block], dense[rank*block:])
	}
	return nil
}

// allgather collects at rank 0 and sends everything to everybody.
func allgather[M p2p.Mode](w *p2p.Comm, all []byte, block int) error {
	if err := gather[M](w, all, block); err != nil {
		return err
	}
	return bcast[M](w, all, 0)
}

// gather collects at rank 0: each rank has the blocks of its subtree, which are
// neighbours, and passes them on in one message.
func gather[M p2p.Mode](w *p2p.Comm, all []byte, block int) error {
	n, me := w.Size(), w.Rank()
	have := 1
	for bit := 1; bit < n; bit *= 2 {
		if me&bit != 0 {
			return p2p.Send[M](w, all[me*block:(me+have)*block], me-bit, tagGather)
		}
		if me+bit < n {
			their := min(bit, n-me-bit)
			st, err := p2p.Recv[M](w, all[(me+bit)*block:(me+bit+their)*block], me+bit, tagGather)
			if err != nil {
				return err
			}
			if err := sameLength(w, st, their*block); err != nil {
				return err
			}
			have += their
		}
	}
	return nil
}

func sameLength(w *p2p.Comm, st p2p.Status, want int) error {
	if st.Count == want {
		return nil
	}
	return fmt.Errorf("%s: %w: rank %d sent %d bytes, want %d: all ranks must call with the same length",
		w.Name(), ft.ErrArgument, w.Said(st.Source), st.Count, want)
}
