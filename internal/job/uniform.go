package job

import (
	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

// uniform gives collectives the same outcome at all ranks. A non-blocking one has an agreement of its
// own: a revocation may come between the ranks, and a rank that has the outcome keeps it.
type uniform Job

// votes are the kinds of collectives in agreements.
var votes = [...]repair.What{
	coll.Barrier: repair.Barrier, coll.Bcast: repair.Bcast, coll.Reduce: repair.Reduce, coll.Gather: repair.Gather,
	coll.Scatter: repair.Scatter, coll.Allreduce: repair.Allreduce, coll.Allgather: repair.Allgather,
	coll.Alltoall: repair.Alltoall, coll.Allgatherv: repair.Allgatherv, coll.Gatherv: repair.Gatherv,
	coll.Scatterv: repair.Scatterv, coll.Alltoallv: repair.Alltoallv,
	coll.ReduceScatter: repair.ReduceScatter, coll.Scan: repair.Scan, coll.Exscan: repair.Exscan,
	coll.ReduceScatterBlock: repair.ReduceScatterBlock,
	coll.NeighborAllgather:  repair.NeighborAllgather, coll.NeighborAllgatherv: repair.NeighborAllgatherv,
	coll.NeighborAlltoall: repair.NeighborAlltoall, coll.NeighborAlltoallv: repair.NeighborAlltoallv,
}

// Outcome implements coll.Agreement.
func (u *uniform) Outcome(c *p2p.Comm, k coll.Kind, err error) error {
	u.P2P.Lock()
	promise, h := u.P2P.NewAgreement(c, k.String())
	u.Repair.End(c, repair.Vote{What: votes[k], Err: err}, promise.Complete)
	u.P2P.Unlock()
	_, err = u.P2P.Wait(h)
	return err
}

// Begin implements coll.Agreement.
func (u *uniform) Begin(c *p2p.Comm, k coll.Kind, ctx uint32, err error, done func(error)) {
	u.Repair.EndAmong(c, *c.Members(), ctx, repair.Vote{What: votes[k], Err: err}, done)
}
