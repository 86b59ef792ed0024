package repair

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/p2p"
)

// call is this process's part in one agreement, until the decision. Calls are pooled: an agreement
// in shared memory is so short that an allocation would be a good part of it.
type call struct {
	r *Repair
	g *groupState
	// checks: a decision of members that called different operations is an error; else the caller looks
	// at that.
	checks bool
	done   func(*agree.Decision, error)

	then func(*agree.Decision) // call.decided, bound once
	next *call                 // in Repair.calls
}

// propose takes part in the communicator's next agreement. done gets the decision, the cause of an
// error as on a freed communicator, or both if members called different operations.
func (r *Repair) propose(c *p2p.Comm, p agree.Proposal, done func(*agree.Decision, error)) {
	switch err := c.Usable(); {
	case err != nil:
		done(nil, err)
	case (p.What == whatAgree || p.What == whatShrink) && follows(c):
		r.proposeLater(c, p, done)
	default:
		r.proposeNow(c, p, done)
	}
}

// follows reports whether agreements that the application calls now follow the turns under way: these
// are uniform operations, which end with an agreement of the same sequence and were called before.
func follows(c *p2p.Comm) bool { return c.Uniformity() != p2p.UniformNothing && c.InTurn() }

// proposeLater is proposeNow after the turns under way.
//
//go:noinline
func (r *Repair) proposeLater(c *p2p.Comm, p agree.Proposal, done func(*agree.Decision, error)) {
	p.Value = slices.Clone(p.Value)
	c.AfterTurns(func() { r.proposeNow(c, p, done) })
}

func (r *Repair) proposeNow(c *p2p.Comm, p agree.Proposal, done func(*agree.Decision, error)) {
	if p.What == whatShrink || p.What == whatValidate {
		r.reportUnreachable(c)
	}
	k := r.newCall()
	k.g, k.checks, k.done = r.stateOf(c), true, done
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
		k.end(nil, err)
	}
}

func (k *call) decided(d *agree.Decision) {
	var err error
	if k.checks && d.Mismatch {
		err = errMismatch
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

var errMismatch = fmt.Errorf("%w: not all ranks called the same operation", ft.ErrArgument)

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
		err = k.c.FailedError(d.Unacked)
	}
	if d != nil && !d.Mismatch {
		*k.flag = binary.LittleEndian.Uint64(d.Value[k.at:])
	}
	promise := k.promise
	*k = flagCall{r: k.r, done: k.done, next: k.r.flagCalls}
	k.r.flagCalls = k
	promise.Complete(err)
}
