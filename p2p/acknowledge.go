package p2p

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Acknowledging is saying, for one communicator and without a message, that the
// application knows of failures. It decides once what operations find: the state
// word is zero again, so that they take the fast path, which knows nothing of
// failures; and in the table of links the dead has either its own link, over
// which nothing goes out or comes in (ULFM), or none, so that the slow path looks and finds
// nobody (RTS).
//
// Failures are acknowledged in the order in which they became known, so the
// acknowledged ones are a number. Only a validate may acknowledge one before another that was known here
// earlier; from then on the communicator has an order of its own.

// Profile is the set of rules that a communicator follows where the documents
// differ.
type Profile uint8

const (
	// ULFM (user level failure mitigation): operations with the dead fail each
	// time, acknowledged or not. A receive from any source begins whatever has failed.
	ULFM Profile = iota
	// RunThrough (run-through stabilization): the dead that have been acknowledged are
	// nobody, as ProcNull. With others a receive from any source fails at once.
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

// SetProfile chooses the profile of communicators that are not made from others.
// It is called before the first is made.
func (e *Engine) SetProfile(p Profile) { e.profile = p }

// SetProfile chooses the communicator's profile, which those that are made from it
// have too. Error: ft.ErrArgument once failures have been acknowledged, or for
// what is no profile.
func (c *Comm) SetProfile(p Profile) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	switch {
	case p > RunThrough:
		return fmt.Errorf("set profile of %s: %w: %v", c.name, ft.ErrArgument, p)
	case c.acked > 0 && p != c.profile:
		return fmt.Errorf("set profile of %s: %w: failures have been acknowledged under %v: choose it before", c.name, ft.ErrArgument, c.profile)
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

// failedMembers lists the members that have failed, of both sides of an intercommunicator:
// those of its own order first, then in the order in which that became known here. Precondition:
// the lock is held.
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

// Failed makes progress and lists the members that have failed, of both sides of an
// intercommunicator, in the order in which that became known here: a list is a
// prefix of later ones, but that a validate puts those that it agrees on before others.
func (c *Comm) Failed() []proc.ID {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.e.p.Progress()
	return c.failedMembers()
}

// Acknowledged is the part of Failed that has been acknowledged.
func (c *Comm) Acknowledged() []proc.ID {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.failedMembers()[:c.acked]
}

// Acknowledge says that the application knows of the first n members of Failed,
// and gives how many are acknowledged now: fewer if so many are not known, more
// if so many were acknowledged before. Error: ft.ErrArgument, ft.ErrClosed.
func (c *Comm) Acknowledge(n int) (int, error) {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	switch {
	case n < 0:
		return int(c.acked), fmt.Errorf("acknowledge on %s: %w: %d failures", c.name, ft.ErrArgument, n)
	case c.state.Load()&(stateFreed|stateFinal) != 0:
		return int(c.acked), c.check("acknowledge")
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

// acknowledgedTo looks at what has become of the communicator, of which so many have failed.
func (c *Comm) acknowledgedTo(failed int) {
	if int(c.acked) == failed {
		c.state.And(^uint32(stateFailed))
	}
	if !c.hasUnacknowledged() {
		c.e.resumePending(c)
	}
}

// acknowledgeAgreed acknowledges, of the failures that are known here, those of some processes, which come
// before all others that are not acknowledged yet. Precondition: the lock is held.
func (c *Comm) acknowledgeAgreed(dead *ft.Set) {
	failed := c.failedMembers()
	order := slices.Clone(failed[:c.acked])
	for _, p := range failed[c.acked:] {
		if !dead.Has(p) {
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

// resumePending lets receives of the communicator that were pending go on.
func (e *Engine) resumePending(c *Comm) {
	e.posted.all(func(r *Request) {
		if r.comm != c || !r.pending {
			return
		}
		r.resume()
		if err := c.wildcardImpossible(r.kind.String()); err != nil {
			e.unpost(r)
			r.fail(err)
		}
	})
}

// recognize makes a dead peer nobody: it leaves the table of links, and what has come
// from it and nobody has received is dropped, as it is exempt from matching (S4-8).
func (c *Comm) recognize(p proc.ID) {
	rank := c.peers.Rank(p)
	if rank < 0 {
		return
	}
	c.mutableFT().nulls.Add(p)
	c.someNull.Store(true)
	if page := c.links[rank/linkPage].Load(); page != nil {
		page[rank%linkPage].Store(nil)
	}
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

// isNullLocked reports whether operations with a rank do nothing: ProcNull's and those
// of the recognized. Precondition: the lock is held.
func (c *Comm) isNullLocked(rank int) bool {
	return rank == ProcNull ||
		c.someNull.Load() && uint(rank) < uint(c.reach) && c.ftState.nulls.Has(c.peers.Proc(rank))
}

// isNull is nobody for who sends, without the lock. Precondition: the rank is in
// range.
func (c *Comm) isNull(rank int) bool {
	if !c.someNull.Load() {
		return false
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.isNullLocked(rank)
}

// AcknowledgedLocked is Acknowledged with the lock held, and without progress. It is kept, for the agreements after a failure, and not to be
// written.
func (c *Comm) AcknowledgedLocked() []proc.ID {
	if c.acked == 0 {
		return nil
	}
	s := c.mutableFT()
	if len(s.acknowledged) < int(c.acked) { // it only grows
		s.acknowledged = slices.Clip(c.failedMembers()[:c.acked])
	}
	return s.acknowledged
}
