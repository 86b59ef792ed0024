package rma

import (
	"bytes"
	"errors"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/p2p"
)

// Where this process reaches the memory of a target, it works on it itself: its own memory, and blocks of
// processes of the same node. An operation is complete when its call returns, and a flush has nothing to
// wait for. An accumulate of one rank to an element is atomic towards all others: frames that the
// owner applies to a block take the same atomic instructions.

// Allocate is Prepare with n bytes of memory that the other ranks of the node reach.
func (s *Service) Allocate(c *p2p.Comm, n, notices int) (*Window, error) {
	if s.blocks == nil || n == 0 || c.Size() == 1 {
		return s.Prepare(c, Memory(n), notices)
	}
	mem, _, err := s.blocks.MakeBlock(n)
	switch {
	case errors.Is(err, fabric.ErrUnsupported):
		return s.Prepare(c, Memory(n), notices)
	case err != nil:
		return nil, err
	}
	w, err := s.Prepare(c, mem, notices)
	if err != nil {
		_ = s.blocks.CloseBlock(mem) // err says more
		return nil, err
	}
	w.made = true
	return w, nil
}

// reached gives memory of a target that this process reaches. Precondition: n is not 0.
func (t *target) reached(at, n uint64) ([]byte, bool) {
	switch {
	case t.rank == t.w.rank:
		return t.w.memory(at, n)
	case t.mem == nil:
		return nil, false
	}
	return t.mem[at : at+n], true
}

// find finds out whether the memory of a target can be reached, once. Precondition: the lock is held, and
// the target is this rank or connected.
func (t *target) find() {
	t.found = true
	w := t.w
	if t.rank == w.rank {
		if t.mem = w.mem; w.remote() { // memory of this rank alone is guarded by the lock
			t.near.Store(beginOf(t.mem))
		}
		return
	}
	t.findPath()
	if w.s.blocks == nil || t.at.none() || t.size == 0 {
		return
	}
	if block, err := w.s.blocks.OpenBlock(t.id, t.at.block, int(t.at.length)); err == nil {
		t.block, t.mem = block, block[t.at.from:][:t.size:t.size]
		t.near.Store(beginOf(t.mem))
	} // else messages reach it
}

// closeMemory ends the use of the blocks. Precondition: the lock is held.
func (w *Window) closeMemory() {
	for i := range w.targets {
		t := &w.targets[i]
		if t.block != nil {
			_ = w.s.blocks.CloseBlock(t.block) // it can only fail to unmap
		}
		t.near.Store(nil)
		t.mem, t.block, t.found = nil, nil, true
	}
	w.unshare(w.shared)
	for i := range w.attached {
		w.unshare(w.attached[i].shared)
	}
	w.shared, w.attached = fabric.Region{}, nil
	if w.made {
		_ = w.s.blocks.CloseBlock(w.mem)
		w.mem = nil
	}
}

// Reach gives the memory of a rank, if this process reaches it by loads and stores; else nil. It connects to
// the rank.
func (w *Window) Reach(rank int) ([]byte, error) {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	t, err := w.reach(rank)
	if err != nil || t == nil {
		return nil, err
	}
	return t.mem, nil
}

// atOnce does an accumulate on such memory; false: it may need more, or be wrong.
func (w *Window) atOnce(op *Op) bool {
	n := op.length()
	mem := w.Near(op.Rank, op.At, int(n))
	if mem == nil || op.Notice != 0 || op.wide() || op.check(&w.targets[op.Rank], n) != nil {
		return false
	}
	op.on(mem, true)
	return true
}

// wide reports whether an operation updates numbers for which there are no atomic instructions.
func (op *Op) wide() bool { return op.Elem.size() == 16 && op.Kind != Put && op.Kind != Get }

// direct does an operation on memory of a target that this process reaches; false: messages do it.
// Wide numbers are updated by their owner.
func (t *target) direct(op *Op, mem []byte) bool {
	own := t.rank == t.w.rank
	if op.wide() && !own {
		return false
	}
	op.on(mem, !own || t.w.remote())
	return true
}

// on does an operation on the memory that it is about. Shared: other processes may change it.
func (op *Op) on(mem []byte, shared bool) {
	switch op.Kind {
	case Put:
		copy(mem, op.Data)
	case Get:
		copy(op.Old, mem)
	case CompareAndSwap:
		size := len(op.Old)
		compareAndSwap(shared, mem, op.Data[:size], op.Data[size:], op.Old)
	default:
		accumulate(shared, op.Acc, op.Elem, mem, op.Data, op.Old)
	}
}

// accumulate combines data into memory and gives the old numbers to old, which may be nil. Shared: other
// processes may change them at the same time.
func accumulate(shared bool, acc Acc, elem Elem, mem, data, old []byte) {
	if shared && elem.size() <= 8 {
		update(acc, elem, mem, data, old)
		return
	}
	copy(old, mem)
	apply(acc, elem, mem, data)
}

// compareAndSwap puts value in place of a number that equals compare, and gives the old one; shared as above.
func compareAndSwap(shared bool, mem, compare, value, old []byte) {
	if shared && len(compare) <= 8 {
		putBits(old, exchange(mem, bitsOf(compare), bitsOf(value)))
		return
	}
	copy(old, mem)
	if bytes.Equal(mem, compare) {
		copy(mem, value)
	}
}

// remote reports whether other processes may work on the memory of this rank.
func (w *Window) remote() bool { return !w.at.none() }
