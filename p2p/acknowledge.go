package p2p

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// An acknowledgement is local to one process and one communicator; it sends no message. Its effect
// is decided once, when it is made. The state word becomes zero again, so that operations take the
// fast path, which does not consider failures. In the table of links a failed rank keeps its link
// under ULFM, over which nothing is sent or received; under run-through stabilization it has none,
// so that the slow path finds a null rank.
//
// Failures are acknowledged in the order in which they became known to this process, so a count
// describes the acknowledged ones. Only a validate may acknowledge a failure before another one
// that became known earlier; from then on the communicator has an order of its own.

// Profile is the set of rules that a communicator follows where the documents differ.
type Profile uint8

const (
	// ULFM is user level failure mitigation: operations with failed ranks fail each time,
	// acknowledged or not. A receive from any source starts in spite of failures.
	ULFM Profile = iota
	// RunThrough is run-through stabilization: an acknowledged failed rank is a null rank, as
	// ProcNull. With unacknowledged failures a receive from any source fails at once.
	RunThrough
)

// String gives the profile's name.
func (p Profile) String() string {
	switch p {
	case ULFM:
		return "ULFM"
	case RunThrough:
		return "RTS"
	}
	return fmt.Sprintf("Profile(%d)", uint8(p))
}

// SetProfile sets the profile of communicators that are not derived from others. It is called
// before the first one is made.
func (e *Engine) SetProfile(p Profile) { e.profile = p }

// SetProfile sets the communicator's profile, which derived communicators inherit. Error:
// ft.ErrArgument for an unknown profile, or once failures have been acknowledged.
func (c *Comm) SetProfile(p Profile) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	switch {
	case p > RunThrough:
		return fmt.Errorf("%w: %v", ft.ErrArgument, p)
	case c.acked > 0 && p != c.profile:
		return fmt.Errorf("%w: failures have been acknowledged under %v: choose it before", ft.ErrArgument, c.profile)
	}
	c.profile = p
	return nil
}

// Profile is the communicator's profile.
func (c *Comm) Profile() Profile {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.profile
}

// failedMembers lists the failed members, of both sides of an intercommunicator: first those of the
// communicator's own order, then the others in the order in which they became known to this
// process.
//
// Precondition: the lock is held.
func (c *Comm) failedMembers() []proc.ID {
	order, known := c.readFT().order, c.e.p.View().Order()
	out, first := slices.Grow(slices.Clone(order), len(known)), setOf(order)
	for _, p := range known {
		if c.has(p) && !first.Has(p) {
			out = append(out, p)
		}
	}
	return out
}

// Failed makes progress and lists the failed members, of both sides of an intercommunicator, in the
// order in which this process learned of them. Each list is a prefix of later ones, except that a
// validate moves the failures that it agrees on to the front.
func (c *Comm) Failed() []proc.ID {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.e.p.Progress()
	return c.failedMembers()
}

// Acknowledged is the acknowledged part of Failed.
func (c *Comm) Acknowledged() []proc.ID {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.failedMembers()[:c.acked]
}

// Acknowledge acknowledges the first n members of Failed and returns the number of acknowledged
// failures: fewer than n if fewer are known, more if more were acknowledged before. Errors:
// ft.ErrArgument, ft.ErrClosed.
func (c *Comm) Acknowledge(n int) (int, error) {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	switch {
	case n < 0:
		return int(c.acked), fmt.Errorf("%w: %d failures", ft.ErrArgument, n)
	case c.state.Load()&(stateFreed|stateFinal) != 0:
		return int(c.acked), c.check()
	}
	failed := c.failedMembers()
	for int(c.acked) < min(n, len(failed)) {
		if c.acked++; c.profile == RunThrough {
			c.recognize(failed[c.acked-1])
		}
	}
	c.acknowledgedTo(len(failed))
	return int(c.acked), nil
}

// acknowledgedTo updates the state word and pending receives after an acknowledgement; failed is
// the number of failed members.
func (c *Comm) acknowledgedTo(failed int) {
	if int(c.acked) == failed {
		c.state.And(^uint32(stateFailed))
	}
	if !c.hasUnacknowledged() {
		c.e.resumePending(c)
	}
}

// acknowledgeAgreed acknowledges those of the given failures that are known to this process, ahead
// of all other unacknowledged ones.
//
// Precondition: the lock is held.
func (c *Comm) acknowledgeAgreed(agreed *ft.Set) {
	failed := c.failedMembers()
	order := slices.Clone(failed[:c.acked])
	for _, p := range failed[c.acked:] {
		if !agreed.Has(p) {
			continue
		}
		if order = append(order, p); c.profile == RunThrough {
			c.recognize(p)
		}
	}
	if c.acked = int32(len(order)); !slices.Equal(order, failed[:c.acked]) {
		c.mutableFT().order = order
	}
	c.acknowledgedTo(len(failed))
}

func setOf(procs []proc.ID) (s ft.Set) {
	for _, p := range procs {
		s.Add(p)
	}
	return s
}

// resumePending continues the communicator's pending receives.
func (e *Engine) resumePending(c *Comm) {
	e.posted.all(func(r *Request) {
		if r.comm != c || !r.pending {
			return
		}
		r.resume()
		if err := c.wildcardImpossible(); err != nil {
			e.unpost(r)
			r.fail(err)
		}
	})
}

// recognize makes a failed peer a null rank. It leaves the table of links, and its unreceived
// messages are dropped, since they are exempt from matching.
func (c *Comm) recognize(p proc.ID) {
	rank := c.peers.Rank(p)
	if rank < 0 {
		return
	}
	c.mutableFT().nulls.Add(p)
	c.someNull.Store(true)
	c.dropLink(rank)
	e := c.e
	for m := e.unexpected.oldest; m != nil; {
		next := m.younger
		if m.from == p && m.imm>>32 == c.ctx>>32 {
			e.unexpected.remove(m)
			e.discard(m)
		}
		m = next
	}
}

// isNullLocked reports whether operations with a rank do nothing: it is ProcNull or a recognized
// failed rank.
//
// Precondition: the lock is held.
func (c *Comm) isNullLocked(rank int) bool {
	return rank == ProcNull ||
		c.someNull.Load() && uint(rank) < uint(c.peers.size) && c.ftState.nulls.Has(c.peers.proc(rank))
}

// isNull is isNullLocked for a sender without the lock. Precondition: the rank is in range.
func (c *Comm) isNull(rank int) bool {
	if !c.someNull.Load() {
		return false
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.isNullLocked(rank)
}

// AcknowledgedLocked is Acknowledged with the lock held and without progress. The list is cached
// for agreements; the caller does not change it.
func (c *Comm) AcknowledgedLocked() []proc.ID {
	if c.acked == 0 {
		return nil
	}
	s := c.mutableFT()
	if len(s.acknowledged) < int(c.acked) { // the list only grows
		s.acknowledged = slices.Clip(c.failedMembers()[:c.acked])
	}
	return s.acknowledged
}
