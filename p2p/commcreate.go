package p2p

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Contexts are not negotiated: all members compute the same one from the
// parent's context and from what they agree on anyway. Two communicators of one
// process that hash alike are an error at the second.

// deriveContext folds words into a context number.
func (c *Comm) deriveContext(words ...uint64) uint32 {
	h := c.contextSeed()
	for _, w := range words {
		h = mix(h, w)
	}
	h = mix(h, h>>32)
	return uint32(h>>32) &^ collContext
}

// contextSeed is what tells contexts that follow from this communicator from those of others, and from those before its last validate.
func (c *Comm) contextSeed() uint64 {
	if epoch := c.epoch.Load(); epoch != 0 {
		return mix(mix(c.ctx, 1), epoch) // an epoch may have the context in it
	}
	return c.ctx
}

// Count numbers what all members derive from this communicator. It is called at
// the beginning of a derivation: one that fails at some members only has the
// same number at all, and the next one too. After a validate the numbers begin again, in
// contexts of their own (S4-22).
func (c *Comm) Count() uint64 {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.awaitValidate()
	c.derived++
	return uint64(c.derived)
}

// Dup makes a communicator of the same groups in which no message of this one
// is seen. All members call it in the same order with respect to other
// derivations of this communicator; no messages are exchanged.
func (c *Comm) Dup() (*Comm, error) { return c.dup(c.Count()) }

func (c *Comm) dup(n uint64) (*Comm, error) {
	if err := c.Unrevoked("dup"); err != nil {
		return nil, err
	}
	var local *Comm
	if c.local != nil {
		var err error
		if local, err = c.local.Dup(); err != nil {
			return nil, err
		}
	}
	d, err := c.e.newComm(c, c.childName(n), c.group, c.peers, c.rank, c.deriveContext(n), local)
	if err != nil && local != nil {
		_ = local.Free() // made a moment ago
	}
	return d, err
}

// Derive makes a communicator of a group of this one's members. All members of
// this one call it in the same order, each with its own group; processes with
// different groups give different colors. An empty group makes none: the result
// is nil. n is this derivation's Count.
func (c *Comm) Derive(n uint64, g Group, color uint64) (*Comm, error) {
	rank := g.Rank(c.e.p.Self())
	if rank < 0 {
		return nil, c.Unrevoked("create")
	}
	if err := c.Unrevoked("create"); err != nil {
		return nil, err
	}
	return c.e.newComm(c, c.childName(n), &g, &g, rank, c.deriveContext(n, color, g.digest()), nil)
}

// DeriveAmong makes a communicator of a group of this one's members, which alone
// call it, all with the same tag. ULFM's and Legio's way to go on without asking
// the dead (S3-1). The context is its, also where it could not be made for a reason other than that this process is
// no member.
func (c *Comm) DeriveAmong(g Group, tag int) (d *Comm, ctx uint32, err error) {
	rank := g.Rank(c.e.p.Self())
	if rank < 0 {
		return nil, 0, c.badMember("create")
	}
	if err := c.Unrevoked("create"); err != nil {
		return nil, 0, err
	}
	key := mix(mix(g.digest(), uint64(tag)), 1)
	c.e.p.Lock()
	c.awaitValidate()
	partly := c.mutableFT().partly
	partly[key]++
	n := partly[key]
	c.e.p.Unlock()
	name := commName{base: fmt.Sprintf("%s.tag%d.%d", c.name, tag, n)}
	ctx = c.deriveContext(key, uint64(n))
	d, err = c.e.newComm(c, name, &g, &g, rank, ctx, nil)
	return d, ctx, err
}

// Bridge makes an intercommunicator between the group of this communicator and
// a remote one. All members of both groups call it with the same seed. The two
// groups must have no member in common. n is this derivation's Count.
func (c *Comm) Bridge(n uint64, remote Group, seed uint64) (*Comm, error) {
	local, err := c.dup(n)
	if err != nil {
		return nil, err
	}
	// The seed alone decides the context: the two sides have other parents.
	h := mix(mix(0, seed), seed>>32)
	ctx := uint32(h>>32) &^ collContext
	// Who is agreed to be gone here need not be agreed to be on the other side.
	inter, err := c.e.newComm(nil, commName{base: fmt.Sprintf("%s~%08x", c.name, ctx)}, c.group, &remote, c.rank, ctx, local)
	if err != nil {
		_ = local.Free() // made a moment ago
		return nil, err
	}
	inter.inheritFrom(c)
	return inter, nil
}

// Union makes the communicator of both groups of an intercommunicator, this
// side's first or last. All members of both sides call it, those of one side
// alike. n is this derivation's Count.
func (c *Comm) Union(n uint64, first bool) (*Comm, error) {
	a, b := c.group.Procs(), c.peers.Procs()
	if !first {
		a, b = b, a
	}
	g := NewGroup(append(a, b...))
	if err := c.Unrevoked("merge"); err != nil {
		return nil, err
	}
	return c.e.newComm(c, c.childName(n), &g, &g, g.Rank(c.e.p.Self()), c.deriveContext(n, g.digest()), nil)
}

// childName is the name of the nth communicator that is made from this one.
func (c *Comm) childName(n uint64) commName {
	return commName{base: c.Name() + "." + strconv.FormatUint(n, 10)}
}

// groupDigest is the digest of the group, or of what is left of it, worked out once for both where nobody has been lost.
// Precondition: the lock is held.
func (c *Comm) groupDigest(left *Group) uint64 {
	if left.size < c.group.size {
		return left.digest()
	}
	if c.digest == 0 {
		c.digest = c.group.digest()
	}
	return c.digest
}

// Survivors makes, of a communicator, that of those of its members that are not among the
// gone, in the same order, on both sides of an intercommunicator. Who is gone and no member does not matter. All who are left call it with
// the same gone and number, which is used once. Nil: nobody is left on the other side of an
// intercommunicator, as where a split has no color there. It is made in room, which is new memory, for a caller who has it lie beside
// what he adds; nil takes some. Precondition: the lock is held.
func (c *Comm) Survivors(gone []proc.ID, number uint64, room *Comm) (*Comm, error) {
	if room == nil {
		room = new(Comm)
	}
	name := commName{c.Name(), number + 1}
	group := c.group.remaining(gone)
	rank := c.rank
	if group.size < c.group.size {
		rank = group.Rank(c.e.p.Self())
	}
	digest := c.groupDigest(group)
	if c.local == nil {
		if err := c.e.buildComm(room, c, name, group, group, rank, c.deriveContext(number, digest, 2), nil); err != nil {
			return nil, err
		}
		if group.size == c.group.size {
			room.digest = digest
		}
		return room, nil
	}
	peers := c.peers.remaining(gone)
	if peers.size == 0 {
		return nil, nil
	}
	local, err := c.local.Survivors(gone, number, nil)
	if err != nil {
		return nil, err
	}
	if err = c.e.buildComm(room, c, name, group, peers, rank, c.deriveContext(number, digest^peers.digest(), 2), local); err != nil {
		local.free()
		return nil, err
	}
	return room, nil
}

// Seed gives what the leaders of two sides may use, together, as a seed of
// Bridge that was not used before. n is this derivation's Count.
func (c *Comm) Seed(n uint64) uint64 { return mix(c.contextSeed(), n) }

// NewComm makes a communicator with the given context, of which the top bit is
// not used. It fails if another communicator of this process has the same.
func (e *Engine) NewComm(name string, g Group, rank int, ctx uint32) (*Comm, error) {
	return e.newComm(nil, commName{base: name}, &g, &g, rank, ctx, nil)
}

// newComm makes a communicator in the manner of another one, where those are gone who are agreed to
// be gone there, or of none; with local an intercommunicator.
func (e *Engine) newComm(from *Comm, name commName, g, peers *Group, rank int, ctx uint32, local *Comm) (*Comm, error) {
	e.p.Lock()
	defer e.p.Unlock()
	c := new(Comm)
	if err := e.buildComm(c, from, name, g, peers, rank, ctx, local); err != nil {
		return nil, err
	}
	return c, nil
}

// buildComm is newComm in memory that is there, with the lock held.
func (e *Engine) buildComm(c, from *Comm, name commName, g, peers *Group, rank int, ctx uint32, local *Comm) error {
	ctx &^= collContext
	if o := e.holder(ctx); o != nil {
		return fmt.Errorf("context %#x of %s is taken by %s: create it once more", ctx, name, o.name)
	}
	e.register(c, name, g, peers, rank, ctx)
	c.local = local
	c.inherit(from)
	if from != nil {
		if gone := from.agreedEnded(); len(gone) > 0 {
			c.setColl(g.remaining(gone), peers.remaining(gone), c.firstCollContext())
			agreed := setOf(gone)
			c.acknowledgeAgreed(&agreed)
		}
	}
	e.revokeUnmade(c)
	e.revokeIfInRange(c)
	return nil
}

// register makes a new communicator known. Precondition: the lock is held.
func (e *Engine) register(c *Comm, name commName, g, peers *Group, rank int, ctx uint32) {
	e.initComm(c, name, g, peers, rank, ctx)
	c.number = e.comms.add(c)
}

// initComm makes a communicator that is not known. Precondition: the lock is held.
func (e *Engine) initComm(c *Comm, name commName, g, peers *Group, rank int, ctx uint32) {
	c.name, c.group, c.peers, c.reach, c.rank, c.ctx, c.e = name, g, peers, peers.size, rank, uint64(ctx)<<32, e
	if c.links = c.page[:]; peers.size > linkPage {
		c.links = make([]atomic.Pointer[linkTable], (peers.size+linkPage-1)/linkPage)
	}
	dead := e.p.View().Order()
	c.cause, c.knownFailures = proc.None, int32(len(dead))
	for _, p := range dead {
		if c.has(p) {
			c.state.Or(stateFailed)
		}
	}
	if e.closed {
		c.state.Or(stateFinal)
	}
}
