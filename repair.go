package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/p2p"
)

// Revoke ends all communication on this communicator, at every living rank of both
// sides: what waits on it, and what is begun on it, is ErrRevoked, but for [Comm.Agree], [Comm.Shrink] and what
// only asks (ULFM 17.3.1, S1-28 to S1-31). It is how one rank that has met a failure has all others leave
// the communication pattern that the dead has a part in. Any rank may call it at any time; it is not collective and does not
// wait. Messages that have been matched already are transferred.
//
// Errors: ErrClosed.
func (c *Comm) Revoke() error {
	c = c.valid()
	return c.raise(c.core.Revoke())
}

// IsRevoked makes progress and reports whether the communicator has been revoked, by this rank or
// another.
func (c *Comm) IsRevoked() bool { return c.valid().core.Revoked() }

// Agree gives every living rank the bitwise AND of the flags of all: of an
// intercommunicator, of those of the remote group (ULFM 17.3.2, S1-38 to S1-41). It is collective, works on a
// revoked communicator, and returns at all ranks with the same outcome although ranks die meanwhile. A
// boolean is a flag of 0 or 1. Over a remote group of which nobody lives the AND is all ones.
//
// A rank that has returned may still have to tell others, if those die who were to do it. It does so while it
// computes, within a period of the failure detector ([WithDetection]), or at once with [WithAsyncProgress]. Without
// detector a rank may wait for one that died without its knowing.
//
// Errors: ErrProcFailed, at all ranks alike, if a rank has failed and not all have acknowledged that
// ([Comm.AckFailed]); the result is right all the same, and GetFailed has all ranks that have no part in
// it. ErrArgument if some rank calls another operation in its stead; ErrClosed.
func (c *Comm) Agree(flag uint64) (uint64, error) {
	c = c.valid()
	at := c.flag.Swap(nil)
	if at == nil {
		at = new(uint64)
	}
	*at = flag
	err := c.wait(c.agree(at))
	flag = *at
	c.flag.Store(at)
	return flag, c.raise(err)
}

// IAgree begins to agree on *flag, which is not to be touched until the request is complete and has
// the result then. Several may be under way; they meet in the order in which each rank has begun them. Neither
// Request.Cancel nor the end of a context takes one back, since others count on it. ErrArgument without a flag, then nothing is
// begun. As [Comm.Agree] otherwise.
func (c *Comm) IAgree(flag *uint64) Request {
	c = c.valid()
	if flag == nil {
		return c.nowhere("agree", "flag")
	}
	return Request{c.agree(flag), c}
}

// nowhere is the request of an operation that would not know where to leave its result: it would find that out
// only when others count on it.
func (c *Comm) nowhere(op, what string) Request {
	return Request{c.e.Failed(c.core, fmt.Errorf("%s on %s: %w: nil for the %s", op, c.Name(), ErrArgument, what)), c}
}

func (c *Comm) agree(flag *uint64) p2p.Handle {
	c.e.Lock()
	defer c.e.Unlock()
	promise, h := c.e.NewAgreement(c.core)
	c.world.repair.Agree(c.core, flag, promise)
	return h
}

// Shrink makes a communicator of the ranks that have not failed, in their order (ULFM 17.3.1, S1-33 to
// S1-35). It is collective over the living, works on a revoked communicator, and all get the
// same group; it leaves out at least every rank whose failure has been reported to some caller. Ranks that die meanwhile may be
// in it. The failure of ranks is no error. What is left has the error handler and the profile of the old one, and no
// attributes. Of an intercommunicator it has the living of both sides; where the other side has none it is nil, as of a
// split without colors there.
//
// It waits for all who live. So ranks that shrink several communicators with members in common do that in one
// order, or they wait for each other: else use IShrink.
//
// Errors: ErrArgument if some rank calls another operation in its stead; ErrClosed.
func (c *Comm) Shrink() (*Comm, error) {
	c = c.valid()
	s := c.shrinking.Swap(nil)
	if s == nil {
		s = newShrinking(c)
	}
	s.into = &s.left
	err := c.wait(c.shrink(s))
	left := s.left
	s.left = nil
	c.shrinking.Store(s)
	if err != nil {
		return nil, c.raise(err)
	}
	return left, nil
}

// IShrink begins to shrink; *into is the new communicator when the request is complete. Shrinks of several
// communicators with members in common may be begun in different orders. As [Comm.Shrink]
// otherwise.
func (c *Comm) IShrink(into **Comm) Request {
	c = c.valid()
	if into == nil {
		return c.nowhere("shrink", "place of the new communicator")
	}
	s := newShrinking(c)
	s.into = into
	return Request{c.shrink(s), c}
}

// shrinking is what a shrink needs while it is under way. That of a blocking one is used again, for the same reason as Comm.flag.
type shrinking struct {
	c       *Comm
	into    **Comm
	left    *Comm // of a blocking one
	heir    *whole
	promise p2p.Promise
	done    func(*p2p.Comm, error) // end
}

func newShrinking(c *Comm) *shrinking {
	s := &shrinking{c: c}
	s.done = s.end
	return s
}

func (s *shrinking) end(core *p2p.Comm, err error) {
	*s.into = nil
	if core != nil {
		s.c.bequeath(&s.heir.Comm, core)
		*s.into, s.heir = &s.heir.Comm, nil
	}
	s.promise.Complete(err)
}

// whole is a communicator that lies beside its core, which begins with a line of the cache: where the cache is cold, memory for both
// takes little longer than for each.
type whole struct {
	room p2p.Comm
	Comm
}

func (c *Comm) shrink(s *shrinking) (h p2p.Handle) {
	c.e.Lock()
	defer c.e.Unlock()
	if s.heir == nil {
		s.heir = new(whole)
	}
	s.promise, h = c.e.NewAgreement(c.core)
	c.world.repair.Shrink(c.core, &s.heir.room, s.done)
	return h
}

// wait ends a request and gives its error, which nobody has been told of.
func (c *Comm) wait(h p2p.Handle) error {
	_, err := c.e.Wait(h)
	return err
}
