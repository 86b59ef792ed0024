package coll

import (
	"cmp"

	"github.com/banyan-hpc/banyan/p2p"
)

// A call with a Check begins with a non-blocking allgather of descriptions of each rank's call. It
// is the same at all ranks, for all calls. So all of them detect calls that differ, and none
// waits for a message that no rank sends. A blocking operation waits for it and then starts. A
// non-blocking one starts at once, and its request ends first with the outcome of the allgather.

// Check is the comparison of one call at all ranks.
type Check struct {
	// Mine describes the call of this rank, in as many bytes at all ranks.
	Mine []byte
	// Differ gives the error of calls that differ, at all ranks if at one. All has the descriptions by
	// rank: zeros of a rank that is agreed to have failed.
	Differ func(all []byte) error
	// End is called at the end of a non-blocking operation, with the lock held, as that of
	// [p2p.Engine.Wrap].
	End func(p2p.Status, error) (p2p.Status, error)
	// Wrap gives the error of a non-blocking operation with a cause; nil: the cause.
	Wrap func(error) error

	all    []byte
	before p2p.Handle
	wrong  error // in the arguments of this rank
}

// Compare compares the call of an operation that blocks. It does nothing for no check, and on
// intercommunicators.
func (o *Comm) Compare(c *p2p.Comm, call Call) error {
	k := call.Check
	if k == nil || c.Local() != nil {
		return nil
	}
	// Comparisons are in the order of operations, of which one may go on without its caller.
	_ = call.ready(c) // the operation finds the same
	o.Begin(c, k, call.Wrong)
	_, err := c.Engine().Wait(k.before)
	return k.verdict(err)
}

// Begin starts to compare the call of an operation that does not block: before that starts, and before
// Follow. Wrong is as in Call.
func (o *Comm) Begin(c *p2p.Comm, k *Check, wrong error) {
	if c.Local() != nil {
		return
	}
	k.all, k.wrong = make([]byte, c.Size()*len(k.Mine)), wrong
	hidden := o.nonblocking(c, Allgather, Call{hidden: true})
	hidden.allgather(k.Mine, k.all)
	k.before = hidden.start()
}

// Follow gives the request of the application for the operation h.
func (k *Check) Follow(e *p2p.Engine, h p2p.Handle) p2p.Handle {
	switch {
	case k == nil:
		return h
	case k.before.Empty():
		return e.Wrap(h, k.End)
	}
	verdict := func(err error) error {
		if err = k.verdict(err); err != nil && k.Wrap != nil {
			err = k.Wrap(err)
		}
		return err
	}
	return e.WrapAfter(k.before, verdict, h, k.End)
}

// verdict compares the calls of all ranks. If the comparison has failed, with a rank or by a revocation, it
// returns nil: the operation continues, since other ranks may depend on it, and has its own outcome. So it ends
// with its buffers, and with the others in an agreement.
func (k *Check) verdict(err error) error {
	if err != nil {
		return nil
	}
	if differ := k.Differ(k.all); differ != nil {
		return cmp.Or(k.wrong, differ)
	}
	return nil
}

// compared is a call of an operation that blocks, after the comparison.
func (o *Comm) compared(c *p2p.Comm, call Call) Call {
	if call.Check != nil {
		call.differs = o.Compare(c, call)
	}
	return call
}

// comparing is a call of an operation that does not block, while it is compared.
func (o *Comm) comparing(c *p2p.Comm, call Call) Call {
	if call.Check != nil {
		o.Begin(c, call.Check, call.Wrong)
	}
	return call
}
