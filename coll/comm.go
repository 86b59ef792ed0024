package coll

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/p2p"
)

// Comm has the collective operations of one communicator, which each call names. The zero value with a
// Choice is ready.
type Comm struct {
	Trees
	// idleBlocking: taken by the blocking operation under way, put back by it. A second one at the same
	// time, which is a mistake of the program, makes its own.
	idleBlocking atomic.Pointer[Schedule]
	// idle: for the next non-blocking operations. Under the engine's lock.
	idle *Schedule
}

// blocking begins a blocking operation.
func (o *Comm) blocking(c *p2p.Comm, k Kind, call Call) *Schedule {
	s := o.idleBlocking.Swap(nil)
	if s == nil {
		s = &Schedule{o: o, e: c.Engine(), blocks: true}
	}
	s.begin(c, k, call)
	return s
}

// nonblocking begins a non-blocking operation.
func (o *Comm) nonblocking(c *p2p.Comm, k Kind, call Call) *Schedule {
	e := c.Engine()
	e.Lock()
	if !call.hidden {
		c.CountCollective()
	}
	s := o.idle
	if s != nil {
		o.idle, s.next = s.next, nil
	}
	e.Unlock()
	if s == nil {
		s = &Schedule{o: o, e: e}
	}
	s.begin(c, k, call)
	return s
}

// Barrier returns when all ranks have called it.
func (o *Comm) Barrier(c *p2p.Comm, call Call) error {
	if o.corrects(c, call) {
		return o.correctNow(c, call, Barrier, nil, 0)
	}
	if g, _ := o.quick(c, choose.Barrier, call.plain()); g != nil {
		_, err := g.Barrier(Barrier.op())
		return ended(c, Barrier, 0, err)
	}
	return o.newBarrier(c, call).run()
}

// newBarrier begins a barrier.
func (o *Comm) newBarrier(c *p2p.Comm, call Call) *Schedule {
	s := o.blocking(c, Barrier, o.compared(c, call))
	s.barrier()
	return s
}

// Ibarrier is the non-blocking Barrier.
func (o *Comm) Ibarrier(c *p2p.Comm, call Call) p2p.Handle {
	call = o.comparing(c, call)
	if o.corrects(c, call) {
		return o.correct(c, call, Barrier, false, nil, 0)
	}
	s := o.nonblocking(c, Barrier, call)
	s.barrier()
	return s.start()
}

// Bcast copies root's buf into the buf of each rank. All are of the same length. With a root that is
// agreed to have failed it does nothing.
func (o *Comm) Bcast(c *p2p.Comm, call Call, buf []byte, root int) error {
	if o.corrects(c, call) {
		return o.correctNow(c, call, Bcast, buf, root)
	}
	tried := false
	if g, most := o.quick(c, choose.Bcast, call.plain()); g != nil {
		if at, left, err := c.CollRank(root); left && err == nil {
			done, err := g.Bcast(Bcast.op(), buf, at, most)
			if done {
				return ended(c, Bcast, root, err)
			}
			tried = true
		}
	}
	call = o.compared(c, call)
	s := o.blocking(c, Bcast, call)
	s.tried = tried
	s.bcast(buf, root)
	return s.run()
}

// Ibcast is the non-blocking Bcast.
func (o *Comm) Ibcast(c *p2p.Comm, call Call, buf []byte, root int) p2p.Handle {
	call = o.comparing(c, call)
	if o.corrects(c, call) {
		return o.correct(c, call, Bcast, false, buf, root)
	}
	s := o.nonblocking(c, Bcast, call)
	s.bcast(buf, root)
	return s.start()
}

// Reduce folds the ins of all ranks and leaves the result in root's out, which may be its in; the others
// have none. In is only read, but for one that is also out. Ranks that are agreed to have failed
// contribute nothing, and with a root that is one of them it does nothing.
func (o *Comm) Reduce(c *p2p.Comm, call Call, in, out []byte, f Fold, root int) error {
	call = o.compared(c, call)
	s := o.blocking(c, Reduce, call)
	s.reduce(in, out, f, root)
	return s.run()
}

// Ireduce is the non-blocking Reduce.
func (o *Comm) Ireduce(c *p2p.Comm, call Call, in, out []byte, f Fold, root int) p2p.Handle {
	call = o.comparing(c, call)
	s := o.nonblocking(c, Reduce, call)
	s.reduce(in, out, f, root)
	return s.start()
}

// Allreduce folds the ins of all ranks and leaves the result in each out, the same bytes at all ranks.
// Out may be in, which else is only read. Ranks that are agreed to have failed contribute nothing.
func (o *Comm) Allreduce(c *p2p.Comm, call Call, in, out []byte, f Fold) error {
	tried := false
	if g, most := o.quick(c, choose.Allreduce, call.plain()); g != nil && len(in) <= min(most, g.Room()) && len(in) != headerLen {
		if done, err := g.Allreduce(Allreduce.op(), in, out, f.Op, most); done {
			return ended(c, Allreduce, 0, err)
		}
		tried = true
	}
	call = o.compared(c, call)
	s := o.blocking(c, Allreduce, call)
	s.tried = tried
	s.allreduce(in, out, f)
	return s.run()
}

// Iallreduce is the non-blocking Allreduce.
func (o *Comm) Iallreduce(c *p2p.Comm, call Call, in, out []byte, f Fold) p2p.Handle {
	call = o.comparing(c, call)
	s := o.nonblocking(c, Allreduce, call)
	s.allreduce(in, out, f)
	return s.start()
}

// Gather stores the mine of each rank in root's all, by rank. All blocks have one length. Only the
// root's all counts; its mine may be its own block there. The blocks of ranks that are agreed to have
// failed stay unchanged; if the root is one of them, Gather does nothing.
func (o *Comm) Gather(c *p2p.Comm, call Call, mine, all []byte, root int) error {
	call = o.compared(c, call)
	s := o.blocking(c, Gather, call)
	s.gather(mine, all, root)
	return s.run()
}

// Igather is the non-blocking Gather.
func (o *Comm) Igather(c *p2p.Comm, call Call, mine, all []byte, root int) p2p.Handle {
	call = o.comparing(c, call)
	s := o.nonblocking(c, Gather, call)
	s.gather(mine, all, root)
	return s.start()
}

// Scatter copies each rank's block of root's all into its mine. All blocks have one length. Only the
// root's all counts; its mine may be its own block there. Nothing is sent to ranks that are agreed to
// have failed; if the root is one of them, Scatter does nothing.
func (o *Comm) Scatter(c *p2p.Comm, call Call, all, mine []byte, root int) error {
	call = o.compared(c, call)
	s := o.blocking(c, Scatter, call)
	s.scatter(all, mine, root)
	return s.run()
}

// Iscatter is the non-blocking Scatter.
func (o *Comm) Iscatter(c *p2p.Comm, call Call, all, mine []byte, root int) p2p.Handle {
	call = o.comparing(c, call)
	s := o.nonblocking(c, Scatter, call)
	s.scatter(all, mine, root)
	return s.start()
}

// Allgather stores the mine of each rank in all of every rank, by rank. All blocks have one length.
// Mine may be its own block of all. The blocks of ranks that are agreed to have failed stay unchanged.
func (o *Comm) Allgather(c *p2p.Comm, call Call, mine, all []byte) error {
	tried := false
	if g, most := o.quick(c, choose.Allgather, call.plain()); g != nil && c.Coll().Size() == c.Size() {
		done, err := g.Allgather(Allgather.op(), mine, all, most)
		if done {
			return ended(c, Allgather, 0, err)
		}
		tried = true
	}
	call = o.compared(c, call)
	s := o.blocking(c, Allgather, call)
	s.tried = tried
	s.allgather(mine, all)
	return s.run()
}

// Iallgather is the non-blocking Allgather.
func (o *Comm) Iallgather(c *p2p.Comm, call Call, mine, all []byte) p2p.Handle {
	call = o.comparing(c, call)
	s := o.nonblocking(c, Allgather, call)
	s.allgather(mine, all)
	return s.start()
}
