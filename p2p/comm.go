package p2p

import (
	"fmt"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/proc"
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
	// it knows.
	stateFailed
	stateFreed
)

// Group maps ranks to process ids: rank r is process r, for r < size. (Groups
// with other maps come with communicator creation.)
type Group struct{ size int }

// WorldGroup is the group of the processes 0 … n-1.
func WorldGroup(n int) Group { return Group{size: n} }

// Size is the number of members.
func (g Group) Size() int { return g.size }

func (g Group) proc(rank int) proc.ID { return proc.ID(rank) }

func (g Group) rank(p proc.ID) int {
	if int64(p) < int64(g.size) {
		return int(p)
	}
	return -1
}

// Comm is the core of a communicator. Its methods may be called from any
// goroutine.
type Comm struct {
	// state: written with the engine's lock held, loaded once by every
	// operation.
	state atomic.Uint32
	rank  int
	group Group
	ctx   uint64 // context in the upper half of a match's imm
	e     *Engine
	// links by rank: written under the lock at first contact, loaded without.
	links []atomic.Pointer[linkTable]
	name  string
	// made counts the communicators derived from this one.
	made uint32
}

// linkTable is one page of a communicator's links.
type linkTable [linkPage]atomic.Pointer[link]

// NewComm makes a communicator with the given context. It fails if another
// communicator of this process has the same.
func (e *Engine) NewComm(name string, g Group, rank int, ctx uint32) (*Comm, error) {
	c := &Comm{name: name, group: g, rank: rank, ctx: uint64(ctx) << 32, e: e}
	c.links = make([]atomic.Pointer[linkTable], (g.size+linkPage-1)/linkPage)
	e.p.Lock()
	defer e.p.Unlock()
	for _, o := range e.comms {
		if o.ctx == c.ctx {
			return nil, fmt.Errorf("context %#x of %s is taken by %s: create it once more", ctx, name, o.name)
		}
	}
	for p := range e.p.View().Set().All() {
		if g.rank(p) >= 0 {
			c.state.Or(stateFailed)
		}
	}
	e.comms = append(e.comms, c)
	return c, nil
}

// Dup makes a communicator of the same group in which no message of this one
// is seen. All members call it in the same order with respect to other Dups of
// this communicator; no messages are exchanged: the context follows from the
// parent's and from how many were made before.
func (c *Comm) Dup() (*Comm, error) {
	c.e.p.Lock()
	c.made++
	n := c.made
	c.e.p.Unlock()
	ctx := uint32(hash(proc.ID(n), c.ctx|1) >> 32)
	return c.e.NewComm(fmt.Sprintf("%s.%d", c.name, n), c.group, c.rank, ctx)
}

// Free ends the communicator: operations on it fail from now on, and messages
// that arrived for it and were not received are dropped. Receives and probes
// that wait on it are completed with an error.
func (c *Comm) Free() {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	c.state.Or(stateFreed)
	for i, o := range e.comms {
		if o == c {
			e.comms = append(e.comms[:i], e.comms[i+1:]...)
			break
		}
	}
	e.posted.all(func(r *Request) {
		if r.comm == c {
			e.posted.remove(r)
			r.fail(fmt.Errorf("recv on %s: %w", c.name, ft.ErrClosed))
		}
	})
	e.probing.all(func(r *Request) {
		if r.comm == c {
			e.probing.remove(r)
			r.fail(fmt.Errorf("%v on %s: %w", r.kind, c.name, ft.ErrClosed))
		}
	})
	for m := e.early.oldest; m != nil; {
		next := m.younger
		// One that is still arriving, or whose sender waits, ends as usual.
		if m.imm>>32 == c.ctx>>32 && !m.rts && m.got == m.total {
			e.early.remove(m)
			e.unkept(m)
			e.early.release(m)
		}
		m = next
	}
}

// Rank is this process's rank, Size the number of ranks.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.group.size }

// Name is the communicator's name in messages.
func (c *Comm) Name() string { return c.name }

// link gives the link to a rank if it has been used before.
func (c *Comm) link(rank int) *link {
	if uint(rank) < uint(c.group.size) {
		if page := c.links[rank/linkPage].Load(); page != nil {
			return page[rank%linkPage].Load()
		}
	}
	return nil
}

// connect fills the place of a rank in the table of links.
// Precondition: the lock is not held, rank is in range.
func (c *Comm) connect(rank int) (*link, error) {
	l, err := c.e.linkTo(c.group.proc(rank))
	if err != nil {
		return nil, err
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
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
func (c *Comm) checkState(op string, wild bool) error {
	switch s := c.state.Load(); {
	case s&stateFreed != 0:
		return fmt.Errorf("%s on %s: %w: the communicator has been freed", op, c.name, ft.ErrClosed)
	case s&stateRevoked != 0:
		return fmt.Errorf("%s on %s: %w", op, c.name, ft.ErrRevoked)
	case wild:
		return fmt.Errorf("%s on %s from any source: %w", op, c.name, ft.ErrProcFailedPending)
	}
	return nil
}

func (c *Comm) badRank(op string, rank int) error {
	return fmt.Errorf("%s on %s: %w: rank %d, want 0 … %d", op, c.name, ft.ErrArgument, rank, c.group.size-1)
}

func (c *Comm) badTag(op string, tag int) error {
	return fmt.Errorf("%s on %s: %w: tag %d, want 0 … %d", op, c.name, ft.ErrArgument, tag, MaxTag)
}

// lost is the error of an operation whose peer is not alive.
func (c *Comm) lost(op string, l *link) error {
	rank := c.group.rank(l.peer)
	if !c.e.p.View().Failed(l.peer) {
		return fmt.Errorf("%s on %s: rank %d: %w", op, c.name, rank, ft.ErrDeparted)
	}
	return &ft.ProcFailedError{Op: op, Comm: c.name, Ranks: []int{rank}, Cause: c.e.p.View().Cause(l.peer)}
}
