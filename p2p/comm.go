package p2p

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/ft"
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
	name   title
	handle Number
	// group is this process's group; peers is the group whose ranks operations
	// name: the same, or the remote one of an intercommunicator. Communicators of the same processes share them: they are
	// never written.
	group, peers *Group
	// made counts the communicators derived from this one by all its members since the
	// last validate.
	made uint32
	// segment: of a communicator of collectives; see segment.go. Under the lock.
	segment Segment
	// coll carries the messages of collectives, among those members that are not agreed
	// to be gone; nil in such a one, and until somebody asks for it: see collected. It has a context with the top bit set
	// and shares the fate of its communicator. It is stored, with the lock held.
	coll atomic.Pointer[Comm]
	// of is the communicator whose collectives' messages this one carries, or nil.
	of *Comm
	// local is an intercommunicator's own communicator of this side.
	local *Comm
	// onError: set before the first operation; see OnError.
	onError Listener
	manner
	ranged
	// acked: see acknowledge.go.
	acked int32
	// epoch: see validate.go.
	epoch atomic.Uint64
	// joined, under: see task.go. Of a collective's context, under the lock.
	joined, under uint32
	seldom        *seldom
	// digest is that of group, where it has been asked for; 0: it has not.
	digest uint64
	// page is what links is made of where one page is enough.
	page [1]atomic.Pointer[linkTable]
}

// linkTable is one page of a communicator's links.
type linkTable [linkPage]atomic.Pointer[link]

// collContext is the bit of the context that the messages of collectives have.
const collContext = 1 << 31

// NewComm makes a communicator with the given context, of which the top bit is
// not used. It fails if another communicator of this process has the same.
func (e *Engine) NewComm(name string, g Group, rank int, ctx uint32) (*Comm, error) {
	return e.newComm(nil, title{of: name}, &g, &g, rank, ctx, nil)
}

// newComm makes a communicator in the manner of another one, where those are gone who are agreed to
// be gone there, or of none; with local an intercommunicator.
func (e *Engine) newComm(from *Comm, name title, g, peers *Group, rank int, ctx uint32, local *Comm) (*Comm, error) {
	e.p.Lock()
	defer e.p.Unlock()
	c := new(Comm)
	if err := e.makeComm(c, from, name, g, peers, rank, ctx, local); err != nil {
		return nil, err
	}
	return c, nil
}

// makeComm is newComm in memory that is there, with the lock held.
func (e *Engine) makeComm(c, from *Comm, name title, g, peers *Group, rank int, ctx uint32, local *Comm) error {
	ctx &^= collContext
	if o := e.holder(ctx); o != nil {
		return fmt.Errorf("context %#x of %s is taken by %s: create it once more", ctx, name, o.name)
	}
	e.enter(c, name, g, peers, rank, ctx)
	c.local = local
	c.inherit(from)
	if from != nil {
		if gone := from.gone(); len(gone) > 0 {
			c.gather(g.rest(gone), peers.rest(gone), c.firstColl())
			agreed := setOf(gone)
			c.admit(&agreed)
		}
	}
	e.revokeEarly(c)
	e.fell(c)
	return nil
}

// enter makes a new communicator known. Precondition: the lock is held.
func (e *Engine) enter(c *Comm, name title, g, peers *Group, rank int, ctx uint32) {
	e.fill(c, name, g, peers, rank, ctx)
	c.handle = e.comms.add(c)
}

// fill makes a communicator that is not known. Precondition: the lock is held.
func (e *Engine) fill(c *Comm, name title, g, peers *Group, rank int, ctx uint32) {
	c.name, c.group, c.peers, c.reach, c.rank, c.ctx, c.e = name, g, peers, peers.size, rank, uint64(ctx)<<32, e
	if c.links = c.page[:]; peers.size > linkPage {
		c.links = make([]atomic.Pointer[linkTable], (peers.size+linkPage-1)/linkPage)
	}
	dead := e.p.View().Order()
	c.cause, c.since = proc.None, int32(len(dead))
	for _, p := range dead {
		if c.has(p) {
			c.state.Or(stateFailed)
		}
	}
	if e.closed {
		c.state.Or(stateFinal)
	}
}

// has reports whether a process belongs to the communicator, on either side.
func (c *Comm) has(p proc.ID) bool { return c.peers.Rank(p) >= 0 || c.group.Rank(p) >= 0 }

// Listener is told of errors.
type Listener interface {
	// Met gets an error.
	Met(error)
}

// OnError has to be told, without the lock, of each Send, Recv and Sendrecv that
// ends with an error, before it returns. It is to be called before the first
// operation. Errors of requests are told to nobody but who waits.
func (c *Comm) OnError(to Listener) { c.onError = to }

// raise tells of the error of a blocking operation, if it is one.
func (c *Comm) raise(err error) error {
	if err != nil && c.onError != nil {
		c.onError.Met(err)
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

// Everyone is the group of the members of both sides, in an order that is the same on both;
// of other communicators the same as Group.
func (c *Comm) Everyone() Group {
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
	g := c.Everyone()
	return &g
}

// Local is the communicator of this side of an intercommunicator; nil of others.
func (c *Comm) Local() *Comm { return c.local }

// Said is the rank by which the user knows a rank of Peers: of a communicator of collectives, the
// one that it has outside.
func (c *Comm) Said(rank int) int {
	if c.of == nil {
		return rank
	}
	return c.of.peers.Rank(c.peers.Proc(rank))
}

// said is the rank of a peer by which the user knows it.
func (c *Comm) said(p proc.ID) int {
	if c.of != nil {
		return c.of.said(p)
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
	if c.nobody(rank) {
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

// checkState is the slow half of the early exit: the state word was not zero.
// With a failure unacknowledged, operations that do not need the dead go on.
// Precondition: the lock is not held.
func (c *Comm) checkState(op string, wild bool) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if err := c.check(op); err != nil {
		return err
	}
	if wild && c.profile == RTS && c.doubtful() {
		return c.doubt(op, false) // S4-15; in ULFM it begins
	}
	return nil
}

// check is the early exit once more, under the lock: what an operation saw of the
// state at its beginning may be history when it is about to wait. In run-through
// stabilization a collective needs everybody, so its messages to the living end as well.
func (c *Comm) check(op string) error {
	switch s := c.state.Load(); {
	case s == 0:
		return nil
	case s&stateFreed != 0 && c.of != nil && c.of.state.Load()&stateFreed == 0:
		if s&stateFailed != 0 {
			return c.bereaved(op) // which is why there was a validate
		}
		return c.overtaken(op)
	case s&stateFreed != 0:
		return fmt.Errorf("%s on %s: %w: the communicator has been freed", op, c.name, ft.ErrClosed)
	case s&stateFinal != 0:
		return fmt.Errorf("%s on %s: %w", op, c.name, c.e.over)
	case s&stateRevoked != 0:
		return c.revokedError(op)
	case c.of != nil && s&stateFailed != 0 && c.of.profile == RTS:
		return c.bereaved(op)
	}
	return nil
}

// bereaved is the error that names all members that have failed. Precondition:
// the lock is held.
func (c *Comm) bereaved(op string) error {
	failed := &ft.ProcFailedError{Op: op, Comm: c.Name()}
	for p := range c.e.p.View().Set().All() {
		if c.has(p) {
			c.blame(failed, p)
		}
	}
	return failed
}

// blame adds a member that has failed to an error: by its rank among the peers,
// or, of an intercommunicator, by that on this side. Precondition: the lock is
// held.
func (c *Comm) blame(failed *ft.ProcFailedError, p proc.ID) {
	if c.of != nil {
		c = c.of
	}
	if rank := c.peers.Rank(p); rank >= 0 {
		failed.Ranks = append(failed.Ranks, rank)
	} else {
		failed.Local = append(failed.Local, c.group.Rank(p))
	}
	failed.Cause = c.e.p.View().Cause(p)
}

func (c *Comm) badRank(op string, rank int) error {
	return fmt.Errorf("%s on %s: %w: rank %d, want 0 … %d", op, c.name, ft.ErrArgument, rank, c.peers.size-1)
}

func (c *Comm) badTag(op string, tag int) error {
	return fmt.Errorf("%s on %s: %w: tag %d, want 0 … %d", op, c.name, ft.ErrArgument, tag, MaxTag)
}

func (c *Comm) badMember(op string) error {
	return fmt.Errorf("%s on %s: %w: this process is not in the group", op, c.name, ft.ErrArgument)
}

// lost is the error of an operation whose peer is not alive.
func (c *Comm) lost(op string, l *link) error {
	if !c.e.p.View().Failed(l.peer) {
		return fmt.Errorf("%s on %s: rank %d: %w", op, c.name, c.said(l.peer), ft.ErrDeparted)
	}
	if c.cause != proc.None {
		return c.revokedError(op) // S4-2: in this range the failure is that of the communicator
	}
	failed := &ft.ProcFailedError{Op: op, Comm: c.Name()}
	c.blame(failed, l.peer)
	return failed
}
