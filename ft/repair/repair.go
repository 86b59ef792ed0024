package repair

import (
	"encoding/binary"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/internal/few"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Operations, for agree.Proposal.What; part of the wire format.
const (
	whatAgree    = 1
	whatShrink   = 2
	whatValidate = 3
	whatLeave    = 4
)

// Repair runs the operations of one process.
type Repair struct {
	e  *progress.Engine
	ag *control.Agreements
	// byComm are the groups of communicators that have not been freed: the key takes a look at
	// every member.
	byComm few.Map[*p2p.Comm, *groupState]
	// open are the groups with open agreements.
	open few.Map[agree.GroupKey, *groupState]
	// freed are the groups of freed communicators, the oldest first.
	freed   []agree.GroupKey
	waiters []*waiter // see EndAmong
	// refused are the revoked communicators in whose uniform operations this process takes no part
	// any more.
	refused   few.Map[*p2p.Comm, bool]
	value     [16]byte // scratch of Agree
	calls     *call    // recycled
	flagCalls *flagCall
	// notFailed is the Acked function of a process without acknowledgements.
	notFailed func(proc.ID) bool

	unreachable []proc.ID          // see PeerUnreachable
	exit        func(peer proc.ID) // see OnUnreachable
	ended       func(proc.ID) bool
}

// groupState is a group whose agreements are open or about to be opened.
type groupState struct {
	id    agree.GroupKey
	group *p2p.Group
	ops   int // agreements under way
}

// maxFreed bounds the freed groups whose last decisions are kept, for members that lack them
// because the forwarding processes have failed.
const maxFreed = 1024

// New makes it on top of the process's agreements.
func New(e *progress.Engine, ag *control.Agreements) *Repair {
	r := &Repair{e: e, ag: ag}
	r.notFailed = func(p proc.ID) bool { return !e.View().Failed(p) } // a departure is not a failure
	return r
}

// Freed reports that no operation will be started on a communicator any more; operations under way
// continue.
//
// Precondition: the lock is held.
func (r *Repair) Freed(c *p2p.Comm) {
	r.refused.Delete(c)
	if u := r.byComm.Get(c); u != nil {
		r.byComm.Delete(c)
		r.retain(u.id)
	}
}

// retain keeps a group's last decision for as long as there is room.
func (r *Repair) retain(id agree.GroupKey) {
	if r.open.Get(id) == nil {
		return // without any agreement
	}
	r.freed = append(r.freed, id)
	if len(r.freed) <= maxFreed {
		return
	}
	if i := slices.IndexFunc(r.freed, func(id agree.GroupKey) bool { return r.open.Get(id).ops == 0 }); i >= 0 {
		r.ag.Close(r.freed[i])
		r.open.Delete(r.freed[i])
		r.freed = slices.Delete(r.freed, i, i+1)
	}
}

// stateOf is the group of a communicator's agreements. An operation may have been called before Free.
func (r *Repair) stateOf(c *p2p.Comm) *groupState {
	u := r.byComm.Get(c)
	if u == nil {
		g := c.Members()
		u = r.stateFor(agree.GroupKey{Context: c.Context(), Group: g.Digest()}, g)
		if c.Usable() != nil {
			if !slices.Contains(r.freed, u.id) {
				r.retain(u.id)
			}
			return u
		}
		r.byComm.Put(c, u)
		// A freed communicator may have had the same context and members: its sequence continues.
		r.freed = slices.DeleteFunc(r.freed, func(o agree.GroupKey) bool { return o == u.id })
	}
	return u
}

// stateFor is the group with a key.
func (r *Repair) stateFor(id agree.GroupKey, g *p2p.Group) *groupState {
	u := r.open.Get(id)
	if u == nil {
		u = &groupState{id: id, group: g}
		r.open.Put(id, u)
	}
	return u
}

// Agree reduces the flags of all living members by AND (ULFM 17.3.2); on an intercommunicator it
// returns those of the remote group. *flag is set before the promise completes. The error is
// ft.ErrProcFailed if a member has failed and not all have acknowledged the failure; the result is
// valid then as well. All members get the same.
//
// Precondition: the lock is held.
func (r *Repair) Agree(c *p2p.Comm, flag *uint64, promise p2p.Promise) {
	acked := c.AcknowledgedLocked() // nil without failures
	value := binary.LittleEndian.AppendUint64(r.value[:0], *flag)
	at := 0
	if c.Local() != nil { // a word for each side, the remote side's first
		if at = 8; first(c) {
			at = 0
		}
		value = binary.LittleEndian.AppendUint64(value[:0], ^uint64(0))
		value = binary.LittleEndian.AppendUint64(value, ^uint64(0))
		binary.LittleEndian.PutUint64(value[at:], *flag)
		at = 8 - at
	}
	p := agree.Proposal{What: whatAgree, Value: value, Op: and, Acked: r.notFailed}
	if len(acked) > 0 {
		in := membership(acked)
		p.Acked = func(p proc.ID) bool { return in(p) || r.notFailed(p) }
	}
	k := r.newFlagCall()
	k.c, k.flag, k.at, k.promise = c, flag, at, promise
	r.propose(c, p, k.done)
}

// fewMembers are searched one by one.
const fewMembers = 16

// membership is the function that reports whether a process is in a list.
func membership(list []proc.ID) func(proc.ID) bool {
	if len(list) <= fewMembers {
		return func(p proc.ID) bool { return slices.Contains(list, p) }
	}
	var set ft.Set
	for _, p := range list {
		set.Add(p)
	}
	return set.Has
}

// first reports whether the lowest process is on this side of an intercommunicator.
func first(c *p2p.Comm) bool {
	everyone := c.AllMembers()
	return c.Group().Has(everyone.Proc(0))
}

func and(acc, in []byte) {
	for i := range acc {
		acc[i] &= in[i]
	}
}

// Leave completes when all living members have called it or departed: a barrier that does not need
// failed members.
//
// Precondition: the lock is held.
func (r *Repair) Leave(c *p2p.Comm, done func(error)) {
	r.propose(c, agree.Proposal{What: whatLeave}, func(_ *agree.Decision, err error) { done(err) })
}

// Shrink makes a communicator of the members that have not been agreed to have failed, in their
// order (ULFM 17.3.1), in room. Members that fail meanwhile may be in it.
//
// Precondition: the lock is held.
func (r *Repair) Shrink(c, room *p2p.Comm, done func(*p2p.Comm, error)) {
	r.propose(c, agree.Proposal{What: whatShrink}, func(d *agree.Decision, err error) {
		done(survivors(c, room, d, err))
	})
}

// survivors makes the communicator that a shrink has decided on.
func survivors(c, room *p2p.Comm, d *agree.Decision, err error) (*p2p.Comm, error) {
	if err != nil {
		return nil, err
	}
	var ended []proc.ID
	for _, g := range d.Ended {
		ended = append(ended, g.Proc)
	}
	return c.Survivors(ended, uint64(d.Number), room)
}
