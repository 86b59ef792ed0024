package repair

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/p2p"
)

// call is this process's part in one agreement, until the decision. Calls are pooled: an agreement
// in shared memory is so short that an allocation would be a good part of it.
type call struct {
	r    *Repair
	g    *groupState
	c    *p2p.Comm // for errors; nil if the caller checks the decision itself
	op   string    // the operation's name in errors
	done func(*agree.Decision, error)

	then func(*agree.Decision) // call.decided, bound once
	next *call                 // in Repair.calls
}

// propose takes part in the communicator's next agreement. done gets the decision, the error of a
// freed communicator, or both if members called different operations.
func (r *Repair) propose(c *p2p.Comm, op string, p agree.Proposal, done func(*agree.Decision, error)) {
	if err := c.Usable(op); err != nil {
		done(nil, err)
		return
	}
	if p.What == whatShrink || p.What == whatValidate {
		r.reportUnreachable(c)
	}
	k := r.newCall()
	k.g, k.c, k.op, k.done = r.stateOf(c), c, op, done
	k.start(p)
}

// proposeIn takes part in the next agreement of a group. done gets the decision unchecked.
func (r *Repair) proposeIn(g *groupState, p agree.Proposal, done func(*agree.Decision, error)) {
	k := r.newCall()
	k.g, k.done = g, done
	k.start(p)
}

func (r *Repair) newCall() *call {
	k := r.calls
	if k == nil {
		k = &call{r: r}
		k.then = k.decided
		return k
	}
	r.calls = k.next
	return k
}

// start proposes, and opens the group at its first agreement.
func (k *call) start(p agree.Proposal) {
	g := k.g
	g.ops++
	k.r.exitIfUnreachable(g.group)
	p.Then = k.then
	err := k.r.ag.Propose(g.id, p)
	if err == agree.ErrNotOpen {
		if err = k.r.ag.Open(g.id, g.group); err == nil {
			err = k.r.ag.Propose(g.id, p)
		}
	}
	if err != nil {
		if k.c != nil {
			err = fmt.Errorf("%s on %s: %w", k.op, k.c.Name(), err)
		}
		k.end(nil, err)
	}
}

func (k *call) decided(d *agree.Decision) {
	var err error
	if k.c != nil && d.Mismatch {
		err = mismatchError(k.op, k.c)
	}
	k.end(d, err)
}

// end recycles the call before done gets the outcome, since done may start the next agreement.
func (k *call) end(d *agree.Decision, err error) {
	k.g.ops--
	done := k.done
	*k = call{r: k.r, then: k.then, next: k.r.calls}
	k.r.calls = k
	done(d, err)
}

func mismatchError(op string, c *p2p.Comm) error {
	return fmt.Errorf("%s on %s: %w: not all ranks called the same operation", op, c.Name(), ft.ErrArgument)
}

// flagCall is a call of Agree. It is pooled as well.
type flagCall struct {
	r       *Repair
	c       *p2p.Comm
	flag    *uint64
	at      int // offset of the result in the agreed value, in bytes
	promise p2p.Promise

	done func(*agree.Decision, error) // flagCall.decided, bound once
	next *flagCall                    // in Repair.flagCalls
}

func (r *Repair) newFlagCall() *flagCall {
	k := r.flagCalls
	if k == nil {
		k = &flagCall{r: r}
		k.done = k.decided
		return k
	}
	r.flagCalls = k.next
	return k
}

func (k *flagCall) decided(d *agree.Decision, err error) {
	if err == nil && len(d.Unacked) > 0 {
		err = k.c.FailedError("agree", d.Unacked)
	}
	if d != nil && !d.Mismatch {
		*k.flag = binary.LittleEndian.Uint64(d.Value[k.at:])
	}
	promise := k.promise
	*k = flagCall{r: k.r, done: k.done, next: k.r.flagCalls}
	k.r.flagCalls = k
	promise.Complete(err)
}
