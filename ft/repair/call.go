package repair

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/p2p"
)

// call is one process's part in an agreement, until it has been decided. Calls are used again: an agreement on a board takes so
// little that memory for it would be a good part.
type call struct {
	r    *Repair
	u    *groupState
	c    *p2p.Comm // of propose
	op   string    // of propose: what errors say
	done func(*agree.Decision, error)
	// Of Shrink, in the place of done.
	room *p2p.Comm
	made func(*p2p.Comm, error)
	// Of Agree, in the place of done.
	flag    *uint64
	at      int // where its result lies in the value
	promise p2p.Promise

	then func(*agree.Decision) // decided
	next *call                 // in Repair.calls
}

func (r *Repair) call() *call {
	k := r.calls
	if k == nil {
		k = &call{r: r}
		k.then = k.decided
		return k
	}
	r.calls = k.next
	return k
}

// free has a call be used again.
func (k *call) free() {
	*k = call{r: k.r, then: k.then, next: k.r.calls}
	k.r.calls = k
}

// propose is meet on the line of k.c, unless that is of no use any more.
func (k *call) propose(p agree.Proposal) {
	if err := k.c.Usable(k.op); err != nil {
		k.end(nil, err)
		return
	}
	if p.What == whatShrink || p.What == whatValidate {
		k.r.reportUnreachable(k.c)
	}
	k.u = k.r.stateOf(k.c)
	k.meet(p)
}

// meet takes part in the next agreement of k.u.
func (k *call) meet(p agree.Proposal) {
	u := k.u
	u.ops++
	k.r.exitIfUnreachable(u.group)
	p.Then = k.then
	err := k.r.ag.Propose(u.id, p)
	if err == agree.ErrNotOpen {
		if err = k.r.ag.Open(u.id, u.group); err == nil {
			err = k.r.ag.Propose(u.id, p)
		}
	}
	if err != nil {
		u.ops--
		if k.c != nil {
			err = fmt.Errorf("%s on %s: %w", k.op, k.c.Name(), err)
		}
		k.end(nil, err)
	}
}

// decided gets the decision.
func (k *call) decided(d *agree.Decision) {
	k.u.ops--
	k.end(d, nil)
}

// end tells who has called.
func (k *call) end(d *agree.Decision, err error) {
	if k.c != nil && err == nil && d.Mismatch {
		err = fmt.Errorf("%s on %s: %w: not all ranks called the same operation", k.op, k.c.Name(), ft.ErrArgument)
	}
	if k.made != nil {
		c, room, made := k.c, k.room, k.made
		k.free()
		made(survivors(c, room, d, err))
		return
	}
	if k.done != nil {
		done := k.done
		k.free()
		done(d, err)
		return
	}
	if err == nil && len(d.Unacked) > 0 {
		err = k.c.FailedError(k.op, d.Unacked)
	}
	if d != nil && !d.Mismatch {
		*k.flag = binary.LittleEndian.Uint64(d.Value[k.at:])
	}
	promise := k.promise
	k.free()
	promise.Complete(err)
}
