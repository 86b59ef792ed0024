package control

import (
	"encoding/binary"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/proc"
	"github.com/banyan-hpc/banyan/progress"
)

// Revocations tells the members of a communicator that it has been revoked, by reliable
// broadcast on a binomial graph: whoever hears of it first tells, of the members in their order and without those
// known to be gone, the ones at the distances 1, 2, 4 … in both directions. When somebody dies
// the graph closes over the gap, and whoever has heard tells its new neighbours. So it is enough that one member that
// has heard lives: among those who know the same deaths the graph is connected.
//
// Its methods are called with the engine's lock held.
type Revocations struct {
	e    *progress.Engine
	out  *Outbox
	hear func(context uint32)

	told  map[uint32]*revocation
	order []uint32 // of told: the oldest first
	over  bool
}

// revocation is one that this process has heard of.
type revocation struct {
	members agree.Group
	told    []proc.ID
}

// maxRevocations bounds those that are remembered: a member that nobody has told of an older one, because
// all who were to do it have died, is not told any more.
const maxRevocations = 1024

// StartRevocations is called once, before the first frame can arrive. Hear gets the context
// of a communicator that another member has revoked, each time; it is to call Tell the first time.
func StartRevocations(e *progress.Engine, out *Outbox, hear func(context uint32)) *Revocations {
	r := &Revocations{e: e, out: out, hear: hear, told: make(map[uint32]*revocation)}
	e.Handle(fabric.ClassRevoke, r.heard)
	e.OnEnd(func(ep *progress.Endpoint, _ proc.Cause) {
		for _, context := range r.order {
			if v := r.told[context]; v.members.Rank(ep.Proc) >= 0 {
				r.pass(context, v)
			}
		}
	})
	return r
}

// Tell passes on that a communicator has been revoked. The members are in the same order at all of them.
func (r *Revocations) Tell(context uint32, members agree.Group) {
	if r.told[context] == nil {
		if len(r.order) == maxRevocations {
			delete(r.told, r.order[0])
			r.order = slices.Delete(r.order, 0, 1)
		}
		r.order = append(r.order, context)
	}
	v := &revocation{members: members}
	r.told[context] = v
	r.pass(context, v)
}

// heard takes in a frame: what is none is dropped, as its sender may only be newer.
func (r *Revocations) heard(_ proc.ID, _ uint64, payload []byte) {
	if len(payload) == 4 && !r.over {
		r.hear(binary.LittleEndian.Uint32(payload))
	}
}

// pass tells the neighbours that have not been told.
func (r *Revocations) pass(context uint32, v *revocation) {
	if r.over {
		return
	}
	var frame []byte
	for distance := 1; distance < v.members.Size(); distance *= 2 {
		for _, by := range []int{distance, -distance} {
			to := r.neighbour(v.members, by)
			if to == r.e.Self() || slices.Contains(v.told, to) {
				continue
			}
			if frame == nil {
				frame = binary.LittleEndian.AppendUint32(nil, context)
			}
			v.told = append(v.told, to)
			r.out.Send(to, fabric.ClassRevoke, frame)
		}
	}
}

// neighbour is the living member at a distance, or the next beyond it.
func (r *Revocations) neighbour(members agree.Group, by int) proc.ID {
	n := members.Size()
	step := 1
	if by < 0 {
		step = -1
	}
	for at := members.Rank(r.e.Self()) + by; ; at += step {
		p := members.Proc((at%n + n) % n)
		if p == r.e.Self() {
			return p
		}
		if ep := r.e.Known(p); ep == nil || ep.State == progress.Alive {
			return p
		}
	}
}

// Stop has nothing be passed on any more, for a process that departs.
func (r *Revocations) Stop() { r.over = true }
