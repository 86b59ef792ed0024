package coll

import (
	"cmp"
	"errors"

	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// A Schedule is one collective operation as a list of steps. Each algorithm is written once, as a
// method that appends its steps; nothing is sent before the schedule runs.
//
// A blocking operation runs its steps in the goroutine of its caller. A non-blocking one runs in any
// goroutine that makes progress, whenever the messages of a stepWait have completed. Messages of
// non-blocking operations have tags of their own, by the number of the operation, so they mix
// neither with each other nor with blocking operations.
//
// The first error ends the operation, unless it is an error of lengths: no further message is
// started, and the operation ends when all messages under way have ended. A failure and a revocation
// end those. The buffers of the caller are not accessed after that.
//
// A schedule serves one operation after the other.
type Schedule struct {
	o    *Comm
	e    *p2p.Engine
	call Call
	kind Kind
	root int // as its caller named it, if it has one
	// blocks: the operation blocks.
	blocks  bool
	tried   bool // in shared memory, where it was counted
	unaware bool // its messages use the unaware engine

	c, w   *p2p.Comm // the user's communicator, and the one to send on
	tag    int
	steps  []step
	at     int
	parts  []p2p.Handle // messages under way for which the next stepWait waits
	want   []int        // of parts, the length to receive; or sent, first, offer
	fold   Op
	mem    Memory
	result result
	order  []int   // memory for the order of result
	sorted []int   // memory for the order of stepSort
	places []int   // memory for Blocks.at
	heads  []byte  // memory for the length headers of all ranks
	moved  moved   // memory for that of result
	stream *stream // nil until there is need, and for most operations
	ascent *ascent // likewise
	place  *route  // in a tree of this operation alone; nil until there is need

	err     error // the first error
	ended   bool  // err is fatal: no further step runs
	broken  bool  // so that other ranks may wait for this one in vain
	spoiled bool  // a length does not fit: empty messages, which fit no rank, replace all data
	got     int   // the usable length of the message that was received last

	async
}

// async is the part of a schedule that only non-blocking operations use.
type async struct {
	task    *p2p.Task
	number  uint32
	promise p2p.Promise
	state   progression
	decide  func(error)
	next    *Schedule // in Comm.idle
}

// Call describes how one operation is called.
type Call struct {
	// Wrong is the cause of an error in the arguments of this rank. The operation takes part with no data, so that
	// no rank waits for this one, and ends with Wrong.
	Wrong error
	// Uniform gives the operation the same outcome at all ranks, by World.Agreement. Until then the
	// operation works in memory of its own and only reads the buffers of the caller, so they keep their
	// contents if the outcome is an error.
	Uniform bool
	// InTurn: the operation has a turn of the communicator, for which others wait.
	InTurn bool
	// Check compares the call with those of other ranks. Nil: no comparison.
	Check   *Check
	differs error // the outcome, if that is known
	hidden  bool  // a comparison, which does not count
}

// plain reports whether an operation needs neither an agreement nor its arguments reported, and may
// have to wait for turns.
func (c Call) plain() bool { return !c.Uniform && !c.InTurn && c.Wrong == nil }

// ready is the check of a blocking operation before it begins.
func (c Call) ready(on *p2p.Comm) error {
	if c.InTurn {
		return on.ReadyInTurn()
	}
	return on.Ready()
}

// Agreement agrees on the outcome of an operation.
type Agreement interface {
	// Outcome waits for the outcome of a blocking operation at all ranks. Err is its outcome at this one.
	Outcome(c *p2p.Comm, k Kind, err error) error
	// Begin calls done with the outcome of a non-blocking operation. Ctx is a context that belongs to this
	// operation alone, the same at all ranks. The engine's lock is held, in done too.
	Begin(c *p2p.Comm, k Kind, ctx uint32, err error, done func(error))
}

// Kind is the kind of an operation. In tags it serves errors and traces: messages between two ranks
// match in order.
type Kind uint8

// The operations.
const (
	Barrier Kind = 1 + iota
	Bcast
	Reduce
	Gather
	Scatter
	Allreduce
	Allgather
	Alltoall
	Allgatherv
	Gatherv
	Scatterv
	Alltoallv
	ReduceScatter
	Scan
	Exscan
	ReduceScatterBlock
	NeighborAllgather
	NeighborAllgatherv
	NeighborAlltoall
	NeighborAlltoallv
)

var kinds = [...][2]string{
	Barrier: {"Barrier", "Ibarrier"}, Bcast: {"Bcast", "Ibcast"}, Reduce: {"Reduce", "Ireduce"},
	Gather: {"Gather", "Igather"}, Scatter: {"Scatter", "Iscatter"},
	Allreduce: {"Allreduce", "Iallreduce"}, Allgather: {"Allgather", "Iallgather"},
	Alltoall: {"Alltoall", "Ialltoall"}, Allgatherv: {"Allgatherv", "Iallgatherv"},
	Gatherv: {"Gatherv", "Igatherv"}, Scatterv: {"Scatterv", "Iscatterv"}, Alltoallv: {"Alltoallv", "Ialltoallv"},
	ReduceScatter: {"ReduceScatter", "IreduceScatter"}, Scan: {"Scan", "Iscan"}, Exscan: {"Exscan", "Iexscan"},
	ReduceScatterBlock: {"ReduceScatterBlock", "IreduceScatterBlock"},
	NeighborAllgather:  {"NeighborAllgather", "IneighborAllgather"},
	NeighborAllgatherv: {"NeighborAllgatherv", "IneighborAllgatherv"},
	NeighborAlltoall:   {"NeighborAlltoall", "IneighborAlltoall"},
	NeighborAlltoallv:  {"NeighborAlltoallv", "IneighborAlltoallv"},
}

// String is the name of the blocking operation in errors.
func (k Kind) String() string { return kinds[k][0] }

// op is the operation in shared memory.
func (k Kind) op() sm.Op { return sm.Op{Number: uint8(k), Name: k.String()} }

// inward reports whether ranks send what others take one by one, and have no answer.
func (k Kind) inward() bool {
	switch k {
	case Reduce, Gather, Gatherv, Scan, Exscan:
		return true
	}
	return false
}

// Rooted reports whether it has a root.
func (k Kind) Rooted() bool {
	switch k {
	case Bcast, Reduce, Gather, Scatter, Gatherv, Scatterv:
		return true
	}
	return false
}

// Varies reports whether ranks may call it with different lengths.
func (k Kind) Varies() bool { return k >= Allgatherv && k <= Alltoallv || k >= NeighborAllgather }

// Tag is the kind in the tags of blocking operations, of which there are 16. Package sm has the last one.
// ReduceScatterBlock sends the same messages as ReduceScatter, and the operations among neighbours have that
// of Alltoallv.
func (k Kind) Tag() int {
	switch k {
	case Exscan:
		return 0
	case ReduceScatterBlock:
		return int(ReduceScatter)
	case NeighborAllgather, NeighborAllgatherv, NeighborAlltoall, NeighborAlltoallv:
		return int(Alltoallv)
	}
	return int(k)
}

// Name is the name of the operation in errors.
func (k Kind) Name(blocks bool) string {
	if blocks {
		return k.String()
	}
	return kinds[k][1]
}

// Values of want that are no lengths.
const (
	sent  = -1 - iota
	first // of a broadcast
	offer // a child's first message of a reduction
)

type step struct {
	kind stepKind
	peer int32 // to send to, or to receive from
	src  int32 // of stepExchange, to receive from
	// to is received into, folded into or copied to; from is folded, copied or sent.
	to, from []byte
}

type stepKind uint8

const (
	stepRecv      stepKind = iota
	stepRecvFirst          // of a broadcast: it may be a length header
	stepRecvChild          // the first of a reduction: it may be a length header
	stepSend               // an empty message if a length did not fit
	stepRelay              // as much as was received last
	stepIrecv              // stepRecv that the next stepWait waits for, also if the operation blocks
	stepReach              // nothing: start connects to the rank, with which later steps may have messages
	stepExchange           // stepRecv and stepSend at once
	stepWait               // for all messages of the steps before, and for those of Schedule.now
	stepFold
	stepSame // folds length headers
	stepCopy
	stepSort   // copies blocks by Schedule.sorted
	stepAgreed // ends the operation unless all ranks have sent the same length header
	stepTurn
	stepSegment
	stepTakeIn
	stepClimbOn
	stepBring    // of this rank's part to the leader of its node; see levels.go
	stepCollect  // of the parts of a node
	stepHand     // of the result to a node
	stepTake     // of the result
	stepHandOn   // of a length header, after which the blocks of an allgather follow
	stepHandData // of a broadcast
	stepTakeData
)

// result is the place of the outcome when the operation has succeeded.
type result struct {
	to, from []byte
	// order: the i-th block of from goes to the place order[i] in to, or nowhere if that is negative.
	// Nil: from is copied as it is.
	order []int
	block int    // length in bytes
	moved *moved // instead, for the ranks in order; or nil
}

// moved are blocks that go to other places of the same lengths.
type moved struct{ to, from Blocks }

// write puts the result into the buffer of the caller.
func (r *result) write() {
	switch {
	case r.moved != nil:
		for _, rank := range r.order {
			copy(r.moved.to.At(rank), r.moved.from.At(rank))
		}
	case r.order != nil:
		arrange(r.to, r.from, r.order, r.block)
	case len(r.from) > 0 && len(r.to) > 0 && &r.to[0] != &r.from[0]:
		copy(r.to, r.from)
	}
}

// arrange copies blocks of a length from one order to another.
func arrange(to, from []byte, order []int, block int) {
	for i, place := range order {
		if place >= 0 {
			copy(to[place*block:][:block], from[i*block:])
		}
	}
}

// begin prepares the schedule for an operation of c. Where that fails the operation ends with the
// error before it sends anything.
func (s *Schedule) begin(c *p2p.Comm, k Kind, call Call) {
	s.c, s.w, s.kind, s.call, s.tried = c, nil, k, call, false
	s.unaware = s.o.Design == tree.Unaware || s.o.World != nil && s.o.World.Unaware
	var err error
	switch {
	case c.Local() != nil && !k.spans():
		err = cmp.Or(c.Unrevoked(), errInter)
	case !s.blocks:
		s.w, s.number, err = c.Join()
		s.tag = p2p.TagOf(s.number)
	default:
		if err = call.ready(c); err == nil {
			s.w = c.Coll()
		}
		s.tag = p2p.BlockingTag(k.Tag(), 0)
	}
	if err == nil {
		err = s.o.ready(c, s.w)
	}
	if err = cmp.Or(err, call.differs); err != nil {
		s.refuse(err)
	}
	if call.Wrong != nil {
		s.misuse(call.Wrong)
	}
}

// misuse notes an error in the arguments of this rank, which takes part with no data.
func (s *Schedule) misuse(err error) {
	if s.call.Wrong = cmp.Or(s.call.Wrong, err); !s.call.Uniform {
		s.err, s.spoiled = cmp.Or(s.err, err), true
	}
}

// refuse ends the operation with an error before it sends anything.
func (s *Schedule) refuse(err error) {
	s.steps, s.result = s.steps[:0], result{}
	s.err, s.ended = cmp.Or(s.err, err), true
}

// rooted gives the root's rank in the communicator to send on. False: there is nothing to do, since
// the root is agreed to have failed, it is another rank of this side of an intercommunicator, or the
// operation has ended.
func (s *Schedule) rooted(root int) (int, bool) {
	s.root = root
	if s.ended {
		return 0, false
	}
	if s.between() && root == p2p.ProcNull {
		return 0, false
	}
	at, left, err := s.w.Rank(), true, error(nil)
	if !s.between() || root != p2p.Root {
		at, left, err = s.c.CollRank(root)
	}
	if err != nil {
		s.refuse(err)
	}
	s.tag = p2p.WithRoot(s.tag, at)
	return at, err == nil && left
}

// staged reports whether the buffers of the caller are only read until the outcome is agreed on.
func (s *Schedule) staged() bool { return s.call.Uniform }

// free reports whether the operation chooses its way: no tree was chosen.
func (s *Schedule) free() bool { return s.o.free() }

func (s *Schedule) add(kind stepKind, peer int, to, from []byte) {
	s.steps = append(s.steps, step{kind: kind, peer: int32(peer), to: to, from: from})
}

func (s *Schedule) exchange(dst int, out []byte, src int, in []byte) {
	s.steps = append(s.steps, step{stepExchange, int32(dst), int32(src), in, out})
	s.wait()
}

func (s *Schedule) wait() { s.add(stepWait, 0, nil, nil) }

// fail records an error of the operation. After an error of lengths the operation continues with
// empty messages, so that no rank waits for this one.
func (s *Schedule) fail(err error) {
	fatal := !errors.Is(err, ft.ErrArgument)
	s.broken = s.broken || fatal && !p2p.OnlyRevoked(err)
	s.err, s.spoiled, s.ended = cmp.Or(s.err, err), true, s.ended || fatal
}

// reset makes the schedule ready for the next operation after one that has succeeded.
func (s *Schedule) reset() {
	if s.result.moved != nil {
		s.moved = moved{}
	}
	s.result, s.fold = result{}, nil
	if len(s.steps) == 0 {
		return
	}
	clear(s.steps)
	s.steps, s.at, s.got = s.steps[:0], 0, 0
	if s.stream != nil {
		s.stream.reset()
	}
	if s.ascent != nil {
		s.ascent.reset()
	}
}
