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
	tagFlat
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

// Setting is how an operation is done. The zero value has it work in the buffers of the caller, with memory of its own
// where it needs more, and end at each rank as it may.
type Setting struct {
	// Memory is what it works in; nil: what it allocates.
	Memory *Memory
	// End, if there is one, gives the outcome that the operation has at all ranks, from the one that it has had here.
	// Until then the operation works in Memory, and the buffers of the caller are only read. So they are as they
	// were before if End gives an error.
	End func(error) error
}

// end gives the outcome.
func (s Setting) end(err error) error {
	if s.End == nil {
		return err
	}
	return s.End(err)
}

// Barrier returns when all ranks have called it. Dissemination: in step k each
// rank tells the one 2^k further on.
func Barrier[M p2p.Mode](c *p2p.Comm, s Setting) error {
	w, err := everybody(c, "barrier")
	if err != nil {
		return s.end(err)
	}
	if err = barrier[M](w); err != nil {
		err = &failure{"barrier", err}
	}
	return s.end(err)
}

func barrier[M p2p.Mode](w *p2p.Comm) error {
	if done, err := flatBarrier[M](w); done {
		return err
	}
	n, me := w.Size(), w.Rank()
	for d := 1; d < n; d *= 2 {
		if _, err := p2p.Sendrecv[M](w, nil, (me+d)%n, tagBarrier, nil, (me+n-d)%n, tagBarrier); err != nil {
			return err
		}
	}
	return nil
}

// Bcast copies root's buf into everybody's, which are of the same length. With a root that is
// agreed to be gone it does nothing.
func Bcast[M p2p.Mode](c *p2p.Comm, s Setting, buf []byte, root int) error {
	w, root, err := begin(c, "bcast", root)
	if err != nil || root == gone {
		return s.end(err)
	}
	to := buf
	if s.End != nil && w.Rank() != root {
		to = s.Memory.bytes(len(buf))
	}
	done, err := flatBcast[M](w, to, root)
	if !done {
		err = bcast[M](w, to, root)
	}
	if err != nil {
		err = &failure{"bcast", err}
	}
	if err = s.end(err); err == nil {
		copy(buf, to)
	}
	return err
}

// bcast goes down the binomial tree: virtual rank v, counted from the root, gets
// the data from v without its lowest bit, and passes them to v plus each lower
// bit, the farthest subtree first. A length that does not fit, and a child that
// has gone, keep nothing from the others, who would wait: they get what the root sent, or
// nothing, which fits none of them.
func bcast[M p2p.Mode](w *p2p.Comm, buf []byte, root int) error {
	n := w.Size()
	v := (w.Rank() - root + n) % n
	low := lowest(v, n)
	var first error
	if v != 0 {
		var whole int
		if whole, first = recvAll[M](w, buf, (v-low+root)%n, tagBcast); first != nil && !errors.Is(first, ft.ErrArgument) {
			return first
		}
		buf = buf[:whole]
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

// Reduce folds everybody's buf and leaves the result in root's. The buffers of the others are undefined
// afterwards, or with an End as they were before. Those who are agreed to be gone contribute nothing (S0-29), and with
// a root that is one of them it does nothing.
func Reduce[M p2p.Mode](c *p2p.Comm, s Setting, buf []byte, op Op, root int) error {
	w, root, err := begin(c, "reduce", root)
	if err != nil || root == gone {
		return s.end(err)
	}
	to, scratch := s.toFold(buf)
	if err = reduce[M](w, buf, to, scratch, op, root); err != nil {
		err = &failure{"reduce", err}
	}
	if err = s.end(err); err == nil && w.Rank() == root {
		copy(buf, to)
	}
	return err
}

// toFold gives what to fold buf in, and memory of the same length to receive into.
func (s Setting) toFold(buf []byte) (to, scratch []byte) {
	if s.End == nil {
		return buf, s.Memory.bytes(len(buf))
	}
	return s.Memory.two(len(buf))
}

// reduce folds everybody's from into the root's to, and into the to of those on the way, which may be the
// same memory as from. It folds towards rank 0 and moves the result to the root: folding towards another root would change the
// order of operands. Who has got a length that does not fit passes on nothing, which fits nobody, and keeps no others waiting.
func reduce[M p2p.Mode](w *p2p.Comm, from, to, scratch []byte, op Op, root int) error {
	n, me := w.Size(), w.Rank()
	acc := from
	var first error
	for bit := 1; bit < n; bit *= 2 {
		if me&bit != 0 {
			first = cmp.Or(p2p.Send[M](w, acc, me-bit, tagReduce), first)
			break
		}
		if me+bit >= n {
			continue
		}
		_, err := recvAll[M](w, scratch, me+bit, tagReduce)
		switch {
		case err == nil && first == nil:
			if bit == 1 {
				copy(to, from)
				acc = to
			}
			op(acc, scratch)
		case err != nil && !errors.Is(err, ft.ErrArgument):
			return err
		default:
			first, acc = cmp.Or(first, err), nil
		}
	}
	switch {
	case me == root && root != 0:
		_, err := recvAll[M](w, to, 0, tagReduce)
		return cmp.Or(err, first)
	case me == 0 && root != 0:
		return cmp.Or(p2p.Send[M](w, acc, root, tagReduce), first)
	case me == 0:
		copy(to, acc)
	}
	return first
}

// Allreduce folds everybody's buf and leaves the result in everybody's. Those who are agreed to be gone contribute nothing
// (S0-31).
func Allreduce[M p2p.Mode](c *p2p.Comm, s Setting, buf []byte, op Op) error {
	w, err := everybody(c, "allreduce")
	if err != nil {
		return s.end(err)
	}
	to, scratch := s.toFold(buf)
	done, err := flatAllreduce[M](w, buf, to, scratch, op)
	if !done {
		err = thenBcast[M](w, to, reduce[M](w, buf, to, scratch, op, 0))
	}
	if err != nil {
		err = &failure{"allreduce", err}
	}
	if err = s.end(err); err == nil {
		copy(buf, to)
	}
	return err
}

// thenBcast is the second half of an operation, which sends rank 0's buf to all. If the first one has ended with lengths that do not fit
// all learn of that: those who have the right one wait for something.
func thenBcast[M p2p.Mode](w *p2p.Comm, buf []byte, err error) error {
	switch {
	case err == nil:
		return bcast[M](w, buf, 0)
	case !errors.Is(err, ft.ErrArgument):
		return err
	case w.Rank() == 0:
		buf = nil
	}
	return cmp.Or(err, bcast[M](w, buf, 0))
}

// Allgather puts everybody's mine, all of one length, into everybody's all, by
// rank. Mine may lie in all where it belongs. The places of those who are agreed to be gone
// stay as they are (S0-30).
func Allgather[M p2p.Mode](c *p2p.Comm, s Setting, mine, all []byte) error {
	w, err := everybody(c, "allgather")
	if err != nil {
		return s.end(err)
	}
	n, block := c.Size(), len(mine)
	dense := all
	if s.End != nil || w.Size() < n {
		dense = s.Memory.bytes(w.Size() * block)
	}
	copy(dense[w.Rank()*block:], mine)
	if err = thenBcast[M](w, dense, gather[M](w, dense, block)); err != nil {
		err = &failure{"allgather", err}
	}
	if err = s.end(err); err != nil {
		return err
	}
	if w.Size() == n {
		copy(all, dense)
		return nil
	}
	for rank := range w.Size() {
		copy(all[w.Said(rank)*block:][:block], dense[rank*block:])
	}
	return nil
}

// gather collects at rank 0: each rank has the blocks of its subtree, which are
// neighbours, and passes them on in one message; or nothing, if one does not fit.
func gather[M p2p.Mode](w *p2p.Comm, all []byte, block int) error {
	n, me := w.Size(), w.Rank()
	have := 1
	var first error
	for bit := 1; bit < n; bit *= 2 {
		if me&bit != 0 {
			mine := all[me*block : (me+have)*block]
			if first != nil {
				mine = nil
			}
			return cmp.Or(p2p.Send[M](w, mine, me-bit, tagGather), first)
		}
		if me+bit < n {
			their := min(bit, n-me-bit)
			_, err := recvAll[M](w, all[(me+bit)*block:(me+bit+their)*block], me+bit, tagGather)
			if err != nil && !errors.Is(err, ft.ErrArgument) {
				return err
			}
			first = cmp.Or(first, err)
			have += their
		}
	}
	return first
}

// recvAll receives what is as long as buf. What is not is ft.ErrArgument; whole is how much of buf is a message
// as it was sent.
func recvAll[M p2p.Mode](w *p2p.Comm, buf []byte, src, tag int) (whole int, err error) {
	st, err := p2p.Recv[M](w, buf, src, tag)
	switch {
	case errors.Is(err, ft.ErrTruncate):
		return 0, fmt.Errorf("%w: %w: all ranks must call with the same length", ft.ErrArgument, err)
	case err != nil:
		return 0, err
	}
	return st.Count, sameLength(w, st, len(buf))
}

func sameLength(w *p2p.Comm, st p2p.Status, want int) error {
	if st.Count == want {
		return nil
	}
	return fmt.Errorf("%s: %w: rank %d sent %d bytes, want %d: all ranks must call with the same length",
		w.Name(), ft.ErrArgument, w.Said(st.Source), st.Count, want)
}
