package p2p

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Contexts are not negotiated: each member computes the same one from the parent's context and from
// values that all members agree on anyway. If two communicators of one process get the same
// context, creation of the second one fails.

// deriveContext hashes words into a context.
func (c *Comm) deriveContext(words ...uint64) uint32 {
	h := c.contextSeed()
	for _, w := range words {
		h = mix(h, w)
	}
	h = mix(h, h>>32)
	return uint32(h>>32) &^ collContext
}

// contextSeed distinguishes contexts derived from this communicator from those of others, and from
// those before its last validate.
func (c *Comm) contextSeed() uint64 {
	if epoch := c.epoch.Load(); epoch != 0 {
		return mix(mix(c.ctx, 1), epoch) // an epoch may contain the context
	}
	return c.ctx
}

// Count numbers the derivations that all members take part in. It is called at the beginning of a
// derivation, so that one which fails at some members still has the same number everywhere, and so
// has the next one. After a validate the numbers start again, with other contexts.
func (c *Comm) Count() uint64 {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.awaitValidate()
	c.derived++
	return uint64(c.derived)
}

// Dup makes a communicator of the same groups with a context of its own. All members call it in the
// same order relative to other derivations of this communicator; no messages are exchanged.
func (c *Comm) Dup() (*Comm, error) { return c.dup(c.Count()) }

func (c *Comm) dup(n uint64) (*Comm, error) {
	if err := c.Unrevoked(); err != nil {
		return nil, err
	}
	var local *Comm
	if c.local != nil {
		var err error
		if local, err = c.local.Dup(); err != nil {
			return nil, err
		}
	}
	d, err := c.e.newComm(c, c.childName(n), c.group, c.peers, int(c.rank), c.deriveContext(n), local)
	if err != nil && local != nil {
		_ = local.Free() // made a moment ago
	}
	return d, err
}

// Derive makes a communicator of a group of this one's members. All members of this one call it in
// the same order, each with its own group; processes with different groups pass different colors.
// Outside of its group a process gets nil. n is this derivation's Count.
func (c *Comm) Derive(n uint64, g Group, color uint64) (*Comm, error) {
	rank := g.Rank(c.e.p.Self())
	if rank < 0 {
		return nil, c.Unrevoked()
	}
	if err := c.Unrevoked(); err != nil {
		return nil, err
	}
	return c.e.newComm(c, c.childName(n), &g, &g, rank, c.deriveContext(n, color, g.digest()), nil)
}

// CountAmong is the Count of a DeriveAmong of the group with that tag. It is 0 while a validate is under way:
// then DeriveAmong takes the number, after that.
func (c *Comm) CountAmong(g Group, tag int) uint32 {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if c.readFT().validating > 0 {
		return 0
	}
	return c.countAmong(amongKey(g, tag))
}

func amongKey(g Group, tag int) uint64 { return mix(mix(g.digest(), uint64(tag)), 1) }

// countAmong takes the next number. Precondition: the lock is held.
func (c *Comm) countAmong(key uint64) uint32 {
	s := c.mutableFT()
	if s.partly == nil {
		s.partly = make(map[uint64]uint32)
	}
	s.partly[key]++
	return s.partly[key]
}

// DeriveAmong makes a communicator of a group of this one's members. Only that group calls it, all
// with the same tag, so that survivors can go on without the failed ranks. n is CountAmong, from the beginning of the
// call. The context is returned also with an error, except where this process is not a member.
func (c *Comm) DeriveAmong(g Group, tag int, n uint32) (d *Comm, ctx uint32, err error) {
	rank := g.Rank(c.e.p.Self())
	if rank < 0 {
		return nil, 0, errNotMember
	}
	if err := c.Unrevoked(); err != nil {
		return nil, 0, err
	}
	key := amongKey(g, tag)
	if n == 0 {
		c.e.p.Lock()
		c.awaitValidate()
		n = c.countAmong(key)
		c.e.p.Unlock()
	}
	name := commName{base: new(fmt.Sprintf("%s.tag%d.%d", c.Name(), tag, n))}
	ctx = c.deriveContext(key, uint64(n))
	d, err = c.e.newComm(c, name, &g, &g, rank, ctx, nil)
	return d, ctx, err
}

// Bridge makes an intercommunicator between this communicator's group and a remote one. All members
// of both groups call it with the same seed. The groups have no member in common. n is this
// derivation's Count.
func (c *Comm) Bridge(n uint64, remote Group, seed uint64) (*Comm, error) {
	local, err := c.dup(n)
	if err != nil {
		return nil, err
	}
	// The seed alone determines the context: the two sides have different parents.
	h := mix(mix(0, seed), seed>>32)
	ctx := uint32(h>>32) &^ collContext
	// A member that this side has agreed to have ended may still count on the other side.
	inter, err := c.e.newComm(nil, commName{base: new(fmt.Sprintf("%s~%08x", c.Name(), ctx))}, c.group, &remote,
		int(c.rank), ctx, local)
	if err != nil {
		_ = local.Free() // made a moment ago
		return nil, err
	}
	inter.inheritFrom(c)
	return inter, nil
}

// Union makes the communicator of both groups of an intercommunicator, with this side's group first
// or last. All members of both sides call it, those of one side with the same argument. n is this
// derivation's Count.
func (c *Comm) Union(n uint64, first bool) (*Comm, error) {
	a, b := c.group.Procs(), c.peers.Procs()
	if !first {
		a, b = b, a
	}
	g := NewGroup(append(a, b...))
	if err := c.Unrevoked(); err != nil {
		return nil, err
	}
	return c.e.newComm(c, c.childName(n), &g, &g, g.Rank(c.e.p.Self()), c.deriveContext(n, g.digest()), nil)
}

// childName is the name of the nth communicator derived from this one.
func (c *Comm) childName(n uint64) commName {
	return commName{base: new(c.Name() + "." + strconv.FormatUint(n, 10))}
}

// groupDigest is the digest of left, which is the group or a part of it. The digest of the whole
// group is computed once. Precondition: the lock is held.
func (c *Comm) groupDigest(left *Group) uint64 {
	if left.size < c.group.size {
		return left.digest()
	}
	if c.digest == 0 {
		c.digest = c.group.digest()
	}
	return c.digest
}

// Survivors makes a communicator of the members that are not in ended, in the same order, on both
// sides of an intercommunicator. Processes in ended that are not members are ignored. All remaining
// members call it with the same ended and number; a number is used once. The result is nil if no
// member remains on the other side of an intercommunicator, as MPI_Comm_split returns none there.
// The communicator is made in room, zeroed memory of the caller; nil allocates.
//
// Precondition: the lock is held.
func (c *Comm) Survivors(ended []proc.ID, number uint64, room *Comm) (*Comm, error) {
	if room == nil {
		room = new(Comm)
	}
	name := commName{c.named().whole(), number + 1}
	group := c.group.remaining(ended)
	rank := int(c.rank)
	if group.size < c.group.size {
		rank = group.Rank(c.e.p.Self())
	}
	digest := c.groupDigest(group)
	if c.local == nil {
		ctx := c.deriveContext(number, digest, 2)
		if err := c.e.buildComm(room, c, name, group, group, rank, ctx, nil); err != nil {
			return nil, err
		}
		if group.size == c.group.size {
			room.digest = digest
		}
		return room, nil
	}
	peers := c.peers.remaining(ended)
	if peers.size == 0 {
		return nil, nil
	}
	local, err := c.local.Survivors(ended, number, nil)
	if err != nil {
		return nil, err
	}
	ctx := c.deriveContext(number, digest^peers.digest(), 2)
	if err = c.e.buildComm(room, c, name, group, peers, rank, ctx, local); err != nil {
		local.free()
		return nil, err
	}
	return room, nil
}

// Seed is a seed for Bridge that was not used before, for the leaders of the two sides to combine.
// n is this derivation's Count.
func (c *Comm) Seed(n uint64) uint64 { return mix(c.contextSeed(), n) }

// NewComm makes a communicator with the given context, whose top bit is not used. It fails if
// another communicator of this process has the same.
func (e *Engine) NewComm(name string, g Group, rank int, ctx uint32) (*Comm, error) {
	in := g.inMemory()
	return e.newComm(nil, commName{base: new(name)}, in, in, rank, ctx, nil)
}

// newComm makes a communicator that inherits the settings of another one and leaves out the members
// agreed to have ended there; from may be nil. With local it is an intercommunicator.
func (e *Engine) newComm(from *Comm, name commName, g, peers *Group, rank int, ctx uint32, local *Comm) (*Comm, error) {
	e.p.Lock()
	defer e.p.Unlock()
	c := new(Comm)
	if err := e.buildComm(c, from, name, g, peers, rank, ctx, local); err != nil {
		return nil, err
	}
	return c, nil
}

// buildComm is newComm in given memory, with the lock held.
func (e *Engine) buildComm(c, from *Comm, name commName, g, peers *Group, rank int, ctx uint32, local *Comm) error {
	ctx &^= collContext
	if o := e.holder(ctx); o != nil {
		return fmt.Errorf("context %#x is taken by %s: create it once more", ctx, o.Name())
	}
	e.register(c, name, g, peers, rank, ctx)
	c.local = local
	c.inherit(from)
	if from != nil {
		if ended := from.AgreedEnded(); len(ended) > 0 {
			c.setColl(c.bothSides().remaining(ended), c.firstCollContext())
			agreed := setOf(ended)
			c.acknowledgeAgreed(&agreed)
		}
	}
	e.revokeUnmade(c)
	e.revokeIfInRange(c)
	return nil
}

// register initializes a communicator and adds it to the table. Precondition: the lock is held.
func (e *Engine) register(c *Comm, name commName, g, peers *Group, rank int, ctx uint32) {
	e.initComm(c, name, g, peers, rank, ctx)
	e.comms.add(c)
}

// initComm initializes a communicator without adding it to the table. Precondition: the lock is
// held.
func (e *Engine) initComm(c *Comm, name commName, g, peers *Group, rank int, ctx uint32) {
	c.name, c.group, c.peers, c.rank, c.ctx, c.e = name, g, peers, int32(rank), uint64(ctx)<<32, e
	if !e.p.Sparse() {
		if c.links, c.reach = c.page[:], peers.size; peers.size > linkPage {
			c.links = make([]atomic.Pointer[linkTable], (peers.size+linkPage-1)/linkPage)
		}
	}
	known := e.p.View().Order()
	c.cause, c.knownFailures = proc.None, int32(len(known))
	for _, p := range known {
		if c.has(p) {
			c.state.Or(stateFailed)
		}
	}
	if e.closed {
		c.state.Or(stateFinal)
	}
}
