package banyan

import (
	"cmp"
	"errors"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft/repair"
)

// The collectives of this file are begun and give a request. They go on whenever some goroutine makes progress: one that waits for
// anything, one that tests, or that of [WithAsyncProgress] while the application computes. Several may be under way on a
// communicator; they match in the order in which each rank has begun them, among themselves: those that block match apart from them. Their
// buffers are not to be touched until the request is complete, and are not touched any more then, whatever its outcome.
//
// As for those that block: with the failure of a rank they end at each rank with ErrProcFailed or success, which under ULFM it is if that rank had success; a
// revocation ends them. Neither [Request.Cancel] nor the end of a context takes one back, since others count on it. After
// [Comm.Free] those under way go on. One that is still under way when a validate of its communicator ends is an error.
//
// With [UniformCollectives] each ends with an agreement of its own. There revoking may come between the ranks: a rank that has the outcome keeps it.

// ongoing is one of them. It serves one operation after the other.
type ongoing struct {
	*coll.Schedule
	c     *Comm
	end   func(error, func(error)) // o.decide, made once
	over  func(error)              // o.giveBack, made once
	what  repair.What
	wrong error // with the arguments
	next  *ongoing
}

// inames are the names of the operations in errors.
var inames = map[repair.What]string{
	repair.Barrier: "ibarrier", repair.Bcast: "ibcast", repair.Reduce: "ireduce", repair.Allreduce: "iallreduce",
	repair.Allgather: "iallgather", repair.Gather: "igather", repair.Scatter: "iscatter",
}

// ongoing gives the record of a new operation. With wrong arguments it takes part with nothing to give, since the others wait for it.
func (c *Comm) ongoing(what repair.What, wrong error) *ongoing {
	c.e.Lock()
	o := c.idle
	if o != nil {
		c.idle = o.next
	}
	c.e.Unlock()
	if o == nil {
		o = &ongoing{Schedule: coll.NewSchedule(c.e), c: c}
		o.end, o.over = o.decide, o.giveBack
	}
	o.what, o.wrong = what, wrong
	way := coll.Way{Unaware: c.careless(), Trees: &c.trees, Over: o.over}
	if c.staged() {
		way.End = o.end
	}
	o.Begin(c.core, inames[what], way)
	if wrong != nil && way.End == nil {
		o.Spoil(wrong)
	}
	return o
}

// begun gives the request of an operation that has been put together.
func (c *Comm) begun(o *ongoing) Request { return Request{o.Start(), c} }

// decide gives the operation the outcome that it has at all ranks. The lock is held.
func (o *ongoing) decide(err error, done func(error)) {
	err = cmp.Or(o.wrong, err)
	ctx, joined := o.Name()
	if !joined || errors.Is(err, ErrClosed) {
		done(err)
		return
	}
	v := repair.Vote{What: o.what, Op: inames[o.what], Err: err}
	o.c.world.job.Repair.EndAmong(o.c.core, *o.c.core.Members(), ctx, v, done)
}

// giveBack keeps the record for the next operation. The lock is held.
func (o *ongoing) giveBack(error) {
	o.wrong = nil
	o.next, o.c.idle = o.c.idle, o
}

// Ibarrier begins a barrier: the request is complete when all ranks have begun it. Errors as of [Comm.Barrier].
func (c *Comm) Ibarrier() Request {
	c = c.valid()
	o := c.ongoing(repair.Barrier, nil)
	o.Schedule.Barrier()
	return c.begun(o)
}

// Ibcast begins to copy the root's buf into that of every rank. As [Comm.Bcast] otherwise.
func (c *Comm) Ibcast(buf []byte, root int) Request {
	c = c.valid()
	o := c.ongoing(repair.Bcast, nil)
	o.Schedule.Bcast(buf, root)
	return c.begun(o)
}

// IreduceBytes begins to fold the bufs of all ranks into the root's. Op is called by whichever goroutine makes progress, without locks. As
// [Comm.ReduceBytes] otherwise.
func (c *Comm) IreduceBytes(buf []byte, op func(acc, in []byte), root int, order ...Order) Request {
	return c.ireduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, root)
}

func (c *Comm) ireduce(buf []byte, f coll.Fold, root int) Request {
	c = c.valid()
	buf, wrong := c.toFold("ireduce", buf, &f)
	o := c.ongoing(repair.Reduce, wrong)
	o.Schedule.Reduce(buf, f, root)
	return c.begun(o)
}

// IallreduceBytes begins to fold the bufs of all ranks into each of them. Op is called as by [Comm.IreduceBytes]. As
// [Comm.AllreduceBytes] otherwise.
func (c *Comm) IallreduceBytes(buf []byte, op func(acc, in []byte), order ...Order) Request {
	return c.iallreduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)})
}

func (c *Comm) iallreduce(buf []byte, f coll.Fold) Request {
	c = c.valid()
	buf, wrong := c.toFold("iallreduce", buf, &f)
	o := c.ongoing(repair.Allreduce, wrong)
	o.Schedule.Allreduce(buf, f)
	return c.begun(o)
}

// IgatherBytes begins to put the blocks of all ranks, which are of the same length, into the root's all, in the order of ranks; that is
// Size() times as long, and not looked at elsewhere. Mine may lie in all where it belongs. Errors as of [Comm.Barrier]; ErrArgument for lengths
// that do not fit. The places of those who are agreed to be gone stay as they are.
func (c *Comm) IgatherBytes(mine, all []byte, root int) Request {
	c = c.valid()
	wrong := c.blocks("igather", mine, all, root)
	if wrong != nil {
		mine, all = nil, nil
	}
	o := c.ongoing(repair.Gather, wrong)
	o.Schedule.Gather(mine, all, root)
	return c.begun(o)
}

// IscatterBytes begins to give each rank's mine, all of the same length, its block of the root's all, in the order of ranks; that is
// Size() times as long, only read, and not looked at elsewhere. Mine may lie in all where it belongs. Errors as of [Comm.IgatherBytes].
func (c *Comm) IscatterBytes(all, mine []byte, root int) Request {
	c = c.valid()
	wrong := c.blocks("iscatter", mine, all, root)
	if wrong != nil {
		mine, all = nil, nil
	}
	o := c.ongoing(repair.Scatter, wrong)
	o.Schedule.Scatter(all, mine, root)
	return c.begun(o)
}

// IallgatherBytes begins to put the blocks of all ranks into everybody's all. As [Comm.AllgatherBytes] otherwise.
func (c *Comm) IallgatherBytes(mine, all []byte) Request {
	c = c.valid()
	wrong := c.blocks("iallgather", mine, all, c.Rank())
	if wrong != nil {
		mine, all = nil, nil
	}
	o := c.ongoing(repair.Allgather, wrong)
	o.Schedule.Allgather(mine, all)
	return c.begun(o)
}

// Ibcast begins to copy the root's numbers into everybody's; see [Comm.Ibcast].
func Ibcast[T Number](c *Comm, data []T, root int) Request { return c.Ibcast(Bytes(data), root) }

// Ireduce begins [Reduce]; see [Comm.IreduceBytes].
func Ireduce[T Number](c *Comm, data []T, op func(a, b T) T, root int, order ...Order) Request {
	return c.ireduce(Bytes(data), elementwise(op, order), root)
}

// Iallreduce begins [Allreduce]; see [Comm.IallreduceBytes].
func Iallreduce[T Number](c *Comm, data []T, op func(a, b T) T, order ...Order) Request {
	return c.iallreduce(Bytes(data), elementwise(op, order))
}

// Igather begins to put the slices of all ranks into the root's all; see [Comm.IgatherBytes].
func Igather[T Number](c *Comm, mine, all []T, root int) Request {
	return c.IgatherBytes(Bytes(mine), Bytes(all), root)
}

// Iscatter begins to give each rank its slice of the root's all; see [Comm.IscatterBytes].
func Iscatter[T Number](c *Comm, all, mine []T, root int) Request {
	return c.IscatterBytes(Bytes(all), Bytes(mine), root)
}

// Iallgather begins [Allgather]; see [Comm.IallgatherBytes].
func Iallgather[T Number](c *Comm, mine, all []T) Request {
	return c.IallgatherBytes(Bytes(mine), Bytes(all))
}
