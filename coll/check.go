package coll

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// Under World.Check each operation of the application begins with a non-blocking allgather of what
// each rank calls. It is the same at all ranks, whatever they call: so all of them learn of calls
// that differ, and none waits for a message that no rank sends. A blocking operation waits for it
// and then starts. A non-blocking one starts at once, and its request ends first with the outcome of
// the allgather.

// signature is a call as it travels.
type signature [32]byte

// describe gives the signature of a call. Root is negative where there is none.
func describe(k Kind, blocks bool, root, length int, f Fold) (s signature) {
	s[0], s[1] = 1, byte(k)
	if blocks {
		s[2] = 1
	}
	if f.AnyOrder {
		s[3] = 1
	}
	binary.LittleEndian.PutUint32(s[4:], uint32(f.Unit))
	binary.LittleEndian.PutUint64(s[8:], uint64(root))
	binary.LittleEndian.PutUint64(s[16:], uint64(length))
	return s
}

// blocks reports whether the call blocks.
func (s signature) blocks() bool { return s[2] == 1 }

// String describes the call.
func (s signature) String() string {
	k := Kind(s[1])
	text := k.name(s.blocks())
	if length := binary.LittleEndian.Uint64(s[16:]); k != Barrier {
		text += fmt.Sprintf(" of %d bytes", length)
	}
	if unit := binary.LittleEndian.Uint32(s[4:]); unit > 0 {
		text += fmt.Sprintf(" in elements of %d", unit)
	}
	if root := int64(binary.LittleEndian.Uint64(s[8:])); root >= 0 {
		text += fmt.Sprintf(" with root %d", root)
	}
	if s[3] == 1 {
		text += " in any order"
	}
	return text
}

// check is the comparison of a call at all ranks.
type check struct {
	c      *p2p.Comm
	mine   signature
	all    []byte
	before p2p.Handle
	wrong  error // in the arguments of this rank
	root   int
}

// compare adds the comparison to a call under World.Check.
func (o *Comm) compare(c *p2p.Comm, call Call, k Kind, blocks bool, root, length int, f Fold) Call {
	if o.World == nil || !o.World.Check {
		return call
	}
	return o.compared(c, call, describe(k, blocks, root, length, f), root)
}

// compared is compare where it has something to do. The error of a blocking call is in Call.differs.
func (o *Comm) compared(c *p2p.Comm, call Call, s signature, root int) Call {
	if c.Local() != nil {
		return call
	}
	if s.blocks() { // comparisons are in the order of operations, of which one may go on without its caller
		_ = call.ready(c) // the operation finds the same
	}
	k := &check{c: c, mine: s, all: make([]byte, c.Size()*len(s)), wrong: call.Wrong, root: root}
	hidden := o.nonblocking(c, Allgather, Call{})
	hidden.allgather(k.mine[:], k.all)
	k.before = hidden.start()
	if !s.blocks() {
		call.check = k
		return call
	}
	_, err := c.Engine().Wait(k.before)
	call.differs = k.verdict(err)
	return call
}

// verdict compares the calls of all ranks. Where the comparison has failed, with a rank or by a revocation,
// it says nothing: the operation goes on, takes part where other ranks count on it, and has its own outcome. So it
// ends with its buffers, and with the others in an agreement.
func (k *check) verdict(err error) error {
	if err != nil {
		return nil
	}
	for rank := range k.c.Size() {
		var s signature
		copy(s[:], k.all[rank*len(s):])
		if s[0] == 0 || bytes.Equal(s[:], k.mine[:]) { // 0: it is agreed to have failed
			continue
		}
		return cmp.Or(k.wrong, fmt.Errorf(
			"%w: rank %d called %v, rank %d called %v: all ranks call the same in the same order",
			ft.ErrArgument, rank, s.String(), k.c.Rank(), k.mine.String()))
	}
	return nil
}

// follow gives the request of the application for a non-blocking operation.
func (k *check) follow(e *p2p.Engine, h p2p.Handle) p2p.Handle {
	if k == nil {
		return h
	}
	verdict := func(err error) error {
		if err = k.verdict(err); err != nil {
			err = failure(k.c, Kind(k.mine[1]), false, k.root, err)
		}
		return err
	}
	return e.WrapAfter(k.before, verdict, h, func(st p2p.Status, err error) (p2p.Status, error) { return st, err })
}
