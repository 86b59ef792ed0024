package p2p

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/proc"
)

const (
	// AnySource matches a message from every rank.
	AnySource = -1
	// AnyTag matches every tag.
	AnyTag = -1
	// ProcNull is the null rank: sends to it and receives from it complete at once.
	ProcNull = -2
	// Root is the root that the root of a collective on an intercommunicator names.
	Root = -4
	// MaxTag is the largest tag.
	MaxTag = 1<<31 - 1
)

// The bits of a communicator's state word. Zero is the fast path.
const (
	stateRevoked = 1 << iota
	// stateFailed: a member has failed and the application has not acknowledged it. In the
	// communicator of collectives: a member has failed.
	stateFailed
	stateFreed
	stateFinal // the engine has been closed
	// stateValidating, in the communicator of collectives: it is about to be replaced.
	stateValidating
	// stateLeft, in the communicator of collectives: its parent has been freed, and it will be
	// freed when the operations under way have ended. No operation fails because of it.
	stateLeft
	// stateBroken, in the communicator of collectives: a blocking collective has been given up; see
	// giveup.go.
	stateBroken
	// stateTurn, in the communicator of collectives: see turn.go. No operation fails because of it.
	stateTurn
)

// Comm is the core of a communicator. Its methods may be called from any
// goroutine.
type Comm struct {
	// The first cache line is all that a message needs.
	//
	// state is written with the engine's lock held and loaded once by every operation.
	state atomic.Uint32
	// someNull: ftState.nulls is not empty. Set under the lock, never cleared.
	someNull atomic.Bool
	// reach is the number of ranks that links has room for: the size of peers, or 0 in a sparse engine.
	reach int
	ctx   uint64 // context in the upper half of a match's imm
	e     *Engine
	// links, by rank, are written under the lock at first contact and loaded without it.
	links []atomic.Pointer[linkTable]

	rank int32
	// collectives counts them, of a communicator that is not of collectives. Under the lock.
	collectives uint32

	name commName
	// given is the name of SetName, or nil: any goroutine stores and loads it.
	given atomic.Pointer[string]
	// place is the index in Engine.comms.
	place int32
	// derived counts the communicators derived from this one by all its members since the last
	// validate.
	derived uint32
	// group is this process's group. Operations name ranks of peers: the same group, or the remote
	// group of an intercommunicator. Groups are immutable and shared between communicators of the
	// same processes.
	group, peers *Group
	// segment: of a communicator of collectives; see segment.go. Under the lock.
	segment Segment
	// coll carries the messages of collectives; see collcomm.go. It is nil before the first one,
	// and in a communicator of collectives. Its context has the top bit set, and it is revoked and
	// freed with its parent. Stored with the lock held.
	coll atomic.Pointer[Comm]
	// parent is the communicator whose collectives this one carries, or nil.
	parent *Comm
	// local is the communicator of this side of an intercommunicator.
	local *Comm
	// errorHandler is set before the first operation; see SetErrorHandler.
	errorHandler ErrorHandler
	inherited
	rangeState
	// acked: see acknowledge.go.
	acked int32
	// epoch: see validate.go.
	epoch atomic.Uint64
	// joined, joinedOps: see task.go. Of a communicator of collectives, under the lock.
	joined, joinedOps uint32
	ftState           *ftState
	// digest is the digest of group once it has been computed; 0 before.
	digest uint64
	// page is the memory of links if one page is enough.
	page [1]atomic.Pointer[linkTable]
}

// Collectives is the number of collectives that were called on the communicator.
func (c *Comm) Collectives() uint32 {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.collectives
}

// CountCollective counts one. Precondition: the lock is held.
func (c *Comm) CountCollective() { c.collectives++ }

// CountInParent counts a collective for the parent of a communicator of collectives. Precondition: the
// lock is held.
func (c *Comm) CountInParent() { c.parent.collectives++ }

// linkTable is one page of a communicator's links.
type linkTable [linkPage]atomic.Pointer[link]

// collContext is the bit that marks the contexts of collectives.
const collContext = 1 << 31

// has reports whether a process is a member, on either side.
func (c *Comm) has(p proc.ID) bool { return c.peers.Rank(p) >= 0 || c.group.Rank(p) >= 0 }

// ErrorHandler receives the errors of blocking operations.
type ErrorHandler interface {
	// OnError is called without the lock.
	OnError(error)
}

// SetErrorHandler sets the handler that each Send, Recv and Sendrecv calls before it returns an
// error. It is called before the first operation. Errors of requests are returned by their waits
// only.
func (c *Comm) SetErrorHandler(to ErrorHandler) { c.errorHandler = to }

// notifyHandler passes the error of a blocking operation to the handler and returns it.
func (c *Comm) notifyHandler(err error) error {
	if err != nil && c.errorHandler != nil {
		c.errorHandler.OnError(err)
	}
	return err
}

// Rank is this process's rank.
func (c *Comm) Rank() int { return int(c.rank) }

// Size is the number of ranks of this process's group.
func (c *Comm) Size() int { return c.group.size }

// RemoteSize is the number of ranks that operations name: of Peers.
func (c *Comm) RemoteSize() int { return c.peers.size }

// Group is this process's group.
func (c *Comm) Group() Group { return *c.group }

// Peers is the group whose ranks operations name: the remote group of an
// intercommunicator, else the same as Group.
func (c *Comm) Peers() Group { return *c.peers }

// Context identifies the communicator's messages; it is the same at all members.
func (c *Comm) Context() uint32 { return uint32(c.ctx >> 32) }

// AllMembers is the group of the members of both sides of an intercommunicator, in an order that is
// the same on both sides; of other communicators it is Group.
func (c *Comm) AllMembers() Group {
	if c.local == nil {
		return *c.group
	}
	return NewGroup(slices.Sorted(slices.Values(append(c.group.Procs(), c.peers.Procs()...))))
}

// Members is AllMembers without a copy where none is needed. The caller does not change it.
func (c *Comm) Members() *Group {
	if c.local == nil {
		return c.group
	}
	g := c.AllMembers()
	return &g
}

// Local is the communicator of this side of an intercommunicator; nil of others.
func (c *Comm) Local() *Comm { return c.local }

// OriginalRank translates a rank of Peers to the rank that the user sees: in a communicator of
// collectives, the rank in its parent.
func (c *Comm) OriginalRank(rank int) int {
	if c.parent == nil {
		return rank
	}
	return c.originalRank(c.peers.proc(rank))
}

// originalRank is the rank of a peer that the user sees. For a member of this side of an
// intercommunicator, which also has messages in collectives, it is the rank on this side.
func (c *Comm) originalRank(p proc.ID) int {
	if c.parent != nil {
		return c.parent.originalRank(p)
	}
	if rank := c.peers.Rank(p); rank >= 0 {
		return rank
	}
	return c.group.Rank(p)
}

// Name is the communicator's name in error messages, and that of the communicator of its
// collectives.
func (c *Comm) Name() string { return c.named().String() }

// named is the name before it is formatted.
func (c *Comm) named() commName {
	if c.parent != nil {
		return c.parent.named()
	}
	if given := c.given.Load(); given != nil {
		return commName{base: given}
	}
	return c.name
}

// SetName gives it another name; "" restores the first one.
func (c *Comm) SetName(text string) {
	if text == "" {
		c.given.Store(nil)
		return
	}
	c.given.Store(&text)
}

// link returns the link to a rank that has been used before, or nil.
func (c *Comm) link(rank int) *link {
	if uint(rank) < uint(c.reach) {
		if page := c.links[rank/linkPage].Load(); page != nil {
			return page[rank%linkPage].Load()
		}
	}
	return nil
}

// connect connects to a rank at the first call, and fills its entry in the table of links.
//
// Preconditions: the lock is not held; the rank is in range.
func (c *Comm) connect(rank int) (*link, error) {
	ep, err := c.e.p.Endpoint(c.peers.proc(rank))
	if err != nil {
		return nil, err
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	l := c.e.linkFor(ep)
	if !c.isNullLocked(rank) { // recognized meanwhile: the table has no entry for it
		c.setLink(rank, l)
	}
	return l, nil
}

// commName is the name of a communicator in error messages. It is formatted when it is read, so
// that a shrink allocates nothing for it.
type commName struct {
	base   *string
	shrink uint64 // 1 + the number of the shrink that made it; 0: base is the whole name
}

// String formats the name.
func (t commName) String() string {
	if t.shrink == 0 {
		return *t.base
	}
	return *t.base + ".left" + strconv.FormatUint(t.shrink-1, 10)
}

// whole is the name as the base of others.
func (t commName) whole() *string {
	if t.shrink == 0 {
		return t.base
	}
	return new(t.String())
}
