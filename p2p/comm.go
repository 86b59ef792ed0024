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
	// ProcNull is the rank of nobody: sends to it and receives from it
	// complete at once.
	ProcNull = -2
	// MaxTag is the largest tag.
	MaxTag = 1<<31 - 1
)

// The bits of a communicator's state word. Zero is the fast path.
const (
	stateRevoked = 1 << iota
	// stateFailed: a member has failed and the application has not said that
	// it knows. Of a collective's context: a member has failed.
	stateFailed
	stateFreed
	stateFinal // the engine has been closed
	// stateValidating, of a collective's context: it is about to be replaced.
	stateValidating
	// stateLeft, of a collective's context: its communicator has been freed, and it will be when the
	// operations under way have ended. It is the error of none of them.
	stateLeft
	// stateBroken, of a collective's context: one that blocks has been given up; see giveup.go.
	stateBroken
)

// Comm is the core of a communicator. Its methods may be called from any
// goroutine.
type Comm struct {
	// The first line is all that a message needs.
	//
	// state: written with the engine's lock held, loaded once by every
	// operation.
	state atomic.Uint32
	// someNull: seldom.nulls is not empty. Set under the lock, for good.
	someNull atomic.Bool
	// reach is the size of peers.
	reach int
	ctx   uint64 // context in the upper half of a match's imm
	e     *Engine
	// links by rank: written under the lock at first contact, loaded without.
	links []atomic.Pointer[linkTable]

	rank   int
	name   commName
	number Number
	// group is this process's group; peers is the group whose ranks operations
	// name: the same, or the remote one of an intercommunicator. Communicators of the same processes share them: they are
	// never written.
	group, peers *Group
	// derived counts the communicators derived from this one by all its members since the
	// last validate.
	derived uint32
	// flat, flatAsked: of a communicator of collectives; see flat.go. Written by who runs its collectives.
	flatAsked uint32
	flat      *Flat
	// coll carries the messages of collectives, among those members that are not agreed
	// to be gone; nil in such a one, and until somebody asks for it: see collected. It has a context with the top bit set
	// and shares the fate of its communicator. It is stored, with the lock held.
	coll atomic.Pointer[Comm]
	// parent is the communicator whose collectives' messages this one carries, or nil.
	parent *Comm
	// local is an intercommunicator's own communicator of this side.
	local *Comm
	// errorHandler: set before the first operation; see OnError.
	errorHandler ErrorHandler
	inherited
	rangeState
	// acked: see acknowledge.go.
	acked int32
	// epoch: see validate.go.
	epoch atomic.Uint64
	// joined, under: see task.go. Of a collective's context, under the lock.
	joined, joinedOps uint32
	ftState           *ftState
	// digest is that of group, where it has been asked for; 0: it has not.
	digest uint64
	// page is what links is made of where one page is enough.
	page [1]atomic.Pointer[linkTable]
}

// linkTable is one page of a communicator's links.
type linkTable [linkPage]atomic.Pointer[link]

// collContext is the bit of the context that the messages of collectives have.
const collContext = 1 << 31

// has reports whether a process belongs to the communicator, on either side.
func (c *Comm) has(p proc.ID) bool { return c.peers.Rank(p) >= 0 || c.group.Rank(p) >= 0 }

// ErrorHandler is told of errors.
type ErrorHandler interface {
	// OnError gets an error.
	OnError(error)
}

// SetErrorHandler has to be told, without the lock, of each Send, Recv and Sendrecv that
// ends with an error, before it returns. It is to be called before the first
// operation. Errors of requests are told to nobody but who waits.
func (c *Comm) SetErrorHandler(to ErrorHandler) { c.errorHandler = to }

// notifyHandler tells of the error of a blocking operation, if it is one.
func (c *Comm) notifyHandler(err error) error {
	if err != nil && c.errorHandler != nil {
		c.errorHandler.OnError(err)
	}
	return err
}

// Rank is this process's rank, Size the number of ranks.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks of this process's group.
func (c *Comm) Size() int { return c.group.size }

// Group is this process's group.
func (c *Comm) Group() Group { return *c.group }

// Peers is the group whose ranks operations name: the remote group of an
// intercommunicator, else the same as Group.
func (c *Comm) Peers() Group { return *c.peers }

// Context names the communicator's messages; it is the same at all members.
func (c *Comm) Context() uint32 { return uint32(c.ctx >> 32) }

// AllMembers is the group of the members of both sides, in an order that is the same on both;
// of other communicators the same as Group.
func (c *Comm) AllMembers() Group {
	if c.local == nil {
		return *c.group
	}
	return NewGroup(slices.Sorted(slices.Values(append(c.group.Procs(), c.peers.Procs()...))))
}

// Members is Everyone for who only looks at it; of other communicators it takes no copy.
func (c *Comm) Members() *Group {
	if c.local == nil {
		return c.group
	}
	g := c.AllMembers()
	return &g
}

// Local is the communicator of this side of an intercommunicator; nil of others.
func (c *Comm) Local() *Comm { return c.local }

// OriginalRank is the rank by which the user knows a rank of Peers: of a communicator of collectives, the
// one that it has outside.
func (c *Comm) OriginalRank(rank int) int {
	if c.parent == nil {
		return rank
	}
	return c.parent.peers.Rank(c.peers.Proc(rank))
}

// originalRank is the rank of a peer by which the user knows it.
func (c *Comm) originalRank(p proc.ID) int {
	if c.parent != nil {
		return c.parent.originalRank(p)
	}
	return c.peers.Rank(p)
}

// Name is the communicator's name in messages.
func (c *Comm) Name() string { return c.name.String() }

// link gives the link to a rank if it has been used before.
func (c *Comm) link(rank int) *link {
	if uint(rank) < uint(c.reach) {
		if page := c.links[rank/linkPage].Load(); page != nil {
			return page[rank%linkPage].Load()
		}
	}
	return nil
}

// connect fills the place of a rank in the table of links.
// Precondition: the lock is not held, rank is in range.
func (c *Comm) connect(rank int) (*link, error) {
	l, err := c.e.linkTo(c.peers.Proc(rank))
	if err != nil {
		return nil, err
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if c.isNullLocked(rank) {
		return l, nil // recognized meanwhile: the table has no place for it
	}
	page := c.links[rank/linkPage].Load()
	if page == nil {
		page = new(linkTable)
		c.links[rank/linkPage].Store(page)
	}
	page[rank%linkPage].Store(l)
	return l, nil
}

// commName is the name of a communicator in messages. Who makes one has a number for it, and a text when somebody reads it: a
// shrink takes no memory for what hardly anybody reads.
type commName struct {
	base   string
	shrink uint64 // 1 + the number of the shrink of which this is left; 0: of is all
}

// String gives the text.
func (t commName) String() string {
	if t.shrink == 0 {
		return t.base
	}
	return t.base + ".left" + strconv.FormatUint(t.shrink-1, 10)
}
