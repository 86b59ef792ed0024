package coll

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/coll/corrected"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// With the design tree.Corrected a barrier and a broadcast complete in spite of failures (package coll/corrected).
// They use control frames, which need no matching. They need no validate, since they bypass failed members. All
// other operations of that design are those of tree.Rebalance, and so are uniform ones, those of
// intercommunicators, and all under run-through stabilization, where any failure ends a collective.
//
// If a waiting rank knows of a failure, it asks the ranks that it waits for whether they have given up the
// collectives of the communicator, as in package p2p. If one has, the operation ends and this rank gives up as
// well.

// correction is an operation of that design under way. Its callbacks run with the engine's lock held.
type correction struct {
	o       *Comm
	c, w    *p2p.Comm // the user's communicator, and that of collectives
	kind    Kind
	blocks  bool
	root    int // as its caller named it
	from    int // that rank in w
	buf     []byte
	at      int // where the next piece of buf begins
	pieces  int // how many have ended
	all     int // how many there are; 0: it is not known yet
	promise p2p.Promise
	err     error
	turn    bool // it has the turn to call its parts
}

// Before the first piece of a broadcast is the length of all, in bytes. So ranks with other lengths take as many
// pieces as there are. A root with wrong arguments has no data: its length is spoiled.
const spoiled = 1<<64 - 1

// piecesOf is the number of pieces of a broadcast of so many bytes. All ranks call all of them, after any outcome
// of one, so that the next operation has the same number everywhere.
func piecesOf(length int) int { return (length+corrected.LengthBytes)/corrected.MaxValue + 1 }

// corrects reports whether an operation is one of that design.
func (o *Comm) corrects(c *p2p.Comm, call Call) bool {
	return o.Design == tree.Corrected && o.World != nil && o.Corrected != nil && c.Local() == nil && !call.Uniform &&
		c.Profile() != p2p.RunThrough
}

// correct starts an operation of that design.
func (o *Comm) correct(c *p2p.Comm, call Call, k Kind, blocks bool, buf []byte, root int) p2p.Handle {
	x := &correction{o: o, c: c, kind: k, blocks: blocks, root: root, buf: buf, err: call.Wrong}
	var err error
	if blocks {
		err = call.ready(c)
	}
	x.w = c.Coll()
	lives := true
	if k == Bcast {
		var wrong error
		if x.from, lives, wrong = c.CollRank(root); wrong != nil {
			x.err, x.from, lives = cmp.Or(x.err, wrong), 0, true // it counts at all ranks
		}
	}
	e := c.Engine()
	e.Lock()
	c.CountCollective()
	var h p2p.Handle
	x.promise, h = e.NewPromise(c, k.Name(blocks))
	if err = cmp.Or(err, c.UnrevokedLocked(), call.differs); err != nil || !lives {
		x.end(err)
	} else {
		o.Corrected.Enter(x.w.Context(), x.w.Members(), x.start)
	}
	e.Unlock()
	return call.Check.Follow(e, h)
}

// correctNow is correct for an operation that blocks.
func (o *Comm) correctNow(c *p2p.Comm, call Call, k Kind, buf []byte, root int) error {
	_, err := c.Engine().Wait(o.correct(c, o.compared(c, call), k, true, buf, root))
	return err
}

// start calls the first part. The parts of all operations have one order, which is the same at all ranks, and how
// many a broadcast has is known when the first has come.
func (x *correction) start() {
	x.turn = true
	switch err := x.ready(); {
	case err != nil && !errors.Is(err, ft.ErrClosed): // after Free it continues
		x.end(err)
	case x.kind == Bcast:
		x.piece()
	default:
		x.o.Corrected.Barrier(x.w.Context(), x.w.Members(), x)
		x.leave()
	}
}

// ready is the check of an operation that has been called before: a revocation ends it also after Free.
func (x *correction) ready() error { return cmp.Or(x.c.RevokedLocked(), x.w.CollReady()) }

// leave has the next operation start, once.
func (x *correction) leave() {
	if x.turn {
		x.turn = false
		x.o.Corrected.Leave(x.w.Context())
	}
}

// piece broadcasts the next piece.
func (x *correction) piece() {
	var value []byte
	if x.roots() {
		size := uint64(len(x.buf))
		if x.err != nil {
			size = spoiled
		}
		if x.pieces == 0 {
			value = make([]byte, 0, min(corrected.LengthBytes+len(x.buf), corrected.MaxValue))
			value = binary.LittleEndian.AppendUint64(value, size)
		}
		if x.err == nil {
			value = append(value, x.buf[x.at:min(len(x.buf), x.at+corrected.MaxValue-len(value))]...)
		}
	}
	x.o.Corrected.Bcast(x.w.Context(), x.w.Members(), x.from, value, x)
}

// roots reports whether this rank is the root.
func (x *correction) roots() bool { return x.w.Rank() == x.from }

// Done implements control.Caller: it takes the outcome of a barrier or a piece.
func (x *correction) Done(outcome corrected.Outcome, value []byte) {
	err := x.cause(outcome)
	if x.kind == Barrier || outcome != corrected.Value && outcome != corrected.Lost {
		x.end(err)
		return
	}
	room := corrected.MaxValue
	if x.pieces == 0 {
		room -= corrected.LengthBytes
		value = x.size(value, outcome)
	}
	if x.err = cmp.Or(x.err, err); x.err == nil && !x.roots() {
		copy(x.buf[min(x.at, len(x.buf)):], value)
	}
	x.at += room
	if x.pieces++; x.pieces >= x.all {
		x.end(nil)
		return
	}
	x.piece()
}

// GaveUp implements control.Caller.
func (x *correction) GaveUp(rank proc.ID) {
	err := x.w.ReportedError(rank)
	x.w.GiveUpLocked()
	x.end(err)
}

// size takes the number before the first piece, and gives the rest. If it is lost, the number is that of this rank.
func (x *correction) size(value []byte, outcome corrected.Outcome) (rest []byte) {
	x.all = piecesOf(len(x.buf))
	if outcome == corrected.Lost {
		return nil
	}
	size := uint64(0)
	if len(value) >= corrected.LengthBytes {
		size, rest = binary.LittleEndian.Uint64(value), value[corrected.LengthBytes:]
	}
	switch {
	case size > 1<<62:
		x.all = 1
		x.err = cmp.Or(x.err, fmt.Errorf("%w: rank %d, the root, has met an error in its arguments", ft.ErrArgument, x.root))
	case int(size) != len(x.buf):
		x.all = piecesOf(int(size))
		x.err = cmp.Or(x.err, mismatch(int(size), len(x.buf)))
	}
	return rest
}

// cause is the cause of an error that an outcome is, or nil.
func (x *correction) cause(outcome corrected.Outcome) error {
	switch outcome {
	case corrected.Value:
		return nil
	case corrected.Lost:
		return x.c.FailedError([]proc.ID{x.w.Members().Proc(x.from)})
	case corrected.Differs:
		return fmt.Errorf("%w: other ranks called another collective than this rank, or with another root: "+
			"all ranks must call the same", ft.ErrArgument)
	}
	return cmp.Or(x.ready(), ft.ErrRevoked)
}

// end completes the operation.
func (x *correction) end(met error) {
	if met = cmp.Or(x.err, met); met != nil {
		met = failure(x.c, x.kind, x.blocks, x.root, met)
	}
	x.promise.Complete(met)
	x.leave()
}
