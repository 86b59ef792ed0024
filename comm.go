package banyan

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/create"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/p2p"
)

const (
	// AnySource lets a receive match a message from any rank.
	AnySource = p2p.AnySource
	// AnyTag lets a receive match any tag.
	AnyTag = p2p.AnyTag
	// ProcNull is the rank of no process: sends to it and receives from it succeed at once and move
	// nothing.
	ProcNull = p2p.ProcNull
	// Root is the argument that the root of a collective on an intercommunicator passes as root
	// (MPI_ROOT).
	Root = p2p.Root
	// MaxTag is the largest tag; the smallest is 0.
	MaxTag = p2p.MaxTag
)

// The comments of types from other packages list their fields and methods, because go doc does not
// show those of an alias. A test keeps the lists complete.

// Status is the result of a receive:
//
//	Source    int  // rank of the sender in the communicator, or ProcNull
//	Tag       int  // of the message
//	Count     int  // bytes received; of the generic functions elements
//	Cancelled bool // the receive was cancelled; the rest means nothing
type Status = p2p.Status

// Comm is a communicator: a group of ranks and a context in which their messages match. Any
// goroutine may call its methods; two goroutines of a rank must not call collectives of one
// communicator at the same time (see the package's comment).
type Comm struct {
	core *p2p.Comm
	e    *p2p.Engine
	mode mode
	// errors counts the errors that were passed to the handler.
	errors atomic.Uint32
	world  *World
	// handler: stored by SetErrorHandler, loaded when an operation has failed.
	handler atomic.Pointer[ErrorHandler]
	attrs   attributes
	// flag is taken by the agreement that is under way, and put back when it ends. Allocating
	// instead costs
	// 0.7 µs where ranks take turns on a core and the cache is cold.
	flag atomic.Pointer[uint64]
	// shrinking is the same for shrinks.
	shrinking atomic.Pointer[shrinking]
	// coll holds the collectives; validates renew their trees.
	coll coll.Comm
}

// mode selects the engine. The zero Comm and views have modes of their own, so Send and the like need
// no separate check for them.
type mode uint8

const (
	modeAware mode = 1 + iota
	modeUnaware
	modeBound // a view: see Comm.WithContext
	modeDebug // aware, and every call is checked: see modes.go
)

func modeOf(j *job.Job) mode {
	switch {
	case j.Debug:
		return modeDebug
	case j.Unaware:
		return modeUnaware
	}
	return modeAware
}

// Rank returns the rank of this process, 0 … Size()-1.
func (c *Comm) Rank() int { return c.valid().core.Rank() }

// atRoot returns buf at the root, and nil elsewhere.
func (c *Comm) atRoot(buf []byte, root int) []byte {
	if c.isRoot(root) {
		return buf
	}
	return nil
}

// isRoot reports whether this rank is the root that a collective names.
func (c *Comm) isRoot(root int) bool {
	if c.IsInter() {
		return root == Root
	}
	return c.Rank() == root
}

// Size returns the number of ranks, failed ones included.
func (c *Comm) Size() int { return c.valid().core.Size() }

// Name returns the communicator's name in errors: the name set by SetName, else "world", "self",
// "world.1", …
func (c *Comm) Name() string { return c.valid().core.Name() }

// SetName names the communicator on this rank: errors show the name, and the names of communicators
// that are made from this one afterwards begin with it (MPI_Comm_set_name). "" restores the name
// that it was made with. It sends nothing, and ranks may choose different names. Any goroutine may
// call it at any time.
func (c *Comm) SetName(text string) {
	if c.plain() || c.bound() {
		c.valid().core.SetName(text)
	}
}

// Group returns the group of the window.
func (w *Window) Group() Group {
	if !w.valid() {
		return Group{}
	}
	return w.c.Group()
}

// Name returns the window's name in errors: the name set by SetName, or one made from the communicator's.
func (w *Window) Name() string {
	if !w.valid() {
		return "no window"
	}
	return w.c.Name()
}

// SetName names the window on this rank; see [Comm.SetName].
func (w *Window) SetName(text string) {
	if w.valid() {
		w.c.SetName(text)
	}
}

// CommCounters counts the operations of this rank on a communicator since it was made; modulo 2³². It
// does not count messages: that would add a nanosecond to a short one.
type CommCounters struct {
	// Collectives counts collective calls, blocking and not, and those that creations of
	// communicators make.
	Collectives uint32
	// Errors counts the operations that ended with an error, as often as an error handler is called.
	Errors uint32
}

// Counters returns the counters of this rank on the communicator. It sends nothing. Any goroutine may
// call it at any time, also after Free. [World.PeerCounters] counts traffic by rank.
func (c *Comm) Counters() CommCounters {
	c = c.valid()
	return CommCounters{c.core.Collectives(), c.errors.Load()}
}

// Dup makes a communicator with the same ranks and a context of its own. Its attributes are those
// that the copy functions of their keys return (see [NewKey]). It is collective: all ranks
// duplicate a communicator in the same order. It sends nothing.
func (c *Comm) Dup() (*Comm, error) {
	c, ctx, err := c.enter("Dup")
	if err != nil {
		return nil, err
	}
	p := c.parent()
	core, met, err := c.dupCore(ctx, p)
	if err != nil {
		return nil, err
	}
	d := c.derived(core)
	if met = cmp.Or(c.core.Unrevoked(), met); met == nil {
		met = c.attrs.copyTo(c, d)
	}
	if ctx != nil {
		return c.dupApart(ctx, p, d, met)
	}
	if err = p.Outcome(repair.Dup, core, met); err == nil {
		return d, nil
	}
	if d != nil {
		err = errors.Join(err, d.free())
	}
	return nil, c.notifyOf("Dup", err)
}

// Free deletes the attributes of the communicator, then ends it on this rank. It sends nothing. Other ranks may use
// theirs as long as they need nothing of this one. Operations under way, and receives and probes that wait for a
// message, complete as if Free had not been called; wait for their requests as usual. Later operations are
// ErrClosed, a second Free too. Unexpected messages are lost.
//
// The communicators [World.Comm] and [World.Self] cannot be freed: ErrArgument. Free returns the error of an
// attribute's delete function, and frees the communicator.
func (c *Comm) Free() error {
	if err := c.present("Free"); err != nil {
		return err
	}
	c = c.valid()
	if c == c.world.comm || c.core.Size() == 1 && c == c.world.Self() {
		return c.notifyOf("Free", fmt.Errorf("%w: World.Finalize ends this communicator", ErrArgument))
	}
	return c.notifyOf("Free", c.free())
}

func (c *Comm) free() error {
	lost := c.attrs.close(c) // a second call finds none
	if c.mode == modeDebug {
		c.world.checks.Leave(c.core)
	}
	return errors.Join(lost, create.Free(c.e, c.world.job.Repair, c.core))
}

// Group returns the group of this communicator; of an intercommunicator, the local group.
func (c *Comm) Group() Group {
	c = c.valid()
	return Group{c.core.Group(), c.world.job.Self}
}

// RemoteGroup returns the remote group of an intercommunicator: operations name its ranks. For
// other communicators it is the same as Group.
func (c *Comm) RemoteGroup() Group {
	c = c.valid()
	return Group{c.core.Peers(), c.world.job.Self}
}

// IsInter reports whether this is an intercommunicator.
func (c *Comm) IsInter() bool { return c.valid().core.Local() != nil }

// Compare reports whether two communicators are the same (Identical), or have the same groups
// (Congruent), or groups of the same members (Similar).
func (c *Comm) Compare(o *Comm) Comparison {
	c, o = c.valid(), o.valid()
	if c.core == o.core {
		return Identical
	}
	worst := max(c.Group().Compare(o.Group()), c.RemoteGroup().Compare(o.RemoteGroup()))
	if worst == Identical {
		return Congruent
	}
	return worst
}

// Create makes a communicator of a group of this one's ranks. It is collective over this
// communicator; the groups of different callers may differ if they have no member in common. A rank
// outside its group gets nil. It sends nothing.
func (c *Comm) Create(g Group) (*Comm, error) {
	return c.create(debug.Plain("Create"), nil, ft.Args{}, func(p create.Parent) (*p2p.Comm, error) { return p.Group(g.g) })
}

// CreateGroup makes a communicator of a group of this one's ranks. Only the members call it, with
// the same tag, so it works when other ranks have failed or are busy. It sends nothing. A rank
// outside the group gets nil, as from Create; for the empty group every rank does.
func (c *Comm) CreateGroup(g Group, tag int) (*Comm, error) {
	var n uint32
	count := func(c *p2p.Comm) { n = c.CountAmong(g.g, tag) }
	return c.create(debug.Plain("CreateGroup"), count, ft.Args{arg("tag", tag)},
		func(p create.Parent) (*p2p.Comm, error) { return p.Among(g.g, tag, n) })
}

// Split makes one communicator for each color. Its members are the ranks that passed the color,
// ordered by key, then by rank. Color is at least 0, or [Undefined], which returns nil. Failed
// ranks that were agreed on ([Comm.Validate]) count as Undefined. It is collective. A rank with a
// wrong color takes part and belongs to no group; its error is ErrArgument.
func (c *Comm) Split(color, key int) (*Comm, error) {
	if c.Rank() == Undefined {
		return nil, c.valid().notifyOf("Split", errAbsent)
	}
	return c.create(debug.Plain("Split"), nil, ft.Args{arg("color", color), arg("key", key)},
		func(p create.Parent) (*p2p.Comm, error) { return p.Split(color, key) })
}

// SplitByNode makes one communicator for each node. Its members are ranks that can share memory
// (see [World.Node]), ordered by key, then by rank. It is collective.
func (c *Comm) SplitByNode(key int) (*Comm, error) {
	return c.Split(c.valid().world.job.Node(), key)
}

// CreateInter makes an intercommunicator between the ranks of this communicator and those of
// another one. All ranks of both call it, each on the communicator of its side. leader is a rank of
// this communicator. At the leader, peer is a communicator in which the leader of the other side
// has the rank remote; elsewhere peer and remote are ignored. The tag distinguishes concurrent
// creations on the same peer. If the other leader has failed or finalized, the error at all ranks
// of this side is ErrProcFailed or ErrDeparted, with the leader's rank in peer.
func (c *Comm) CreateInter(leader int, peer *Comm, remote, tag int) (*Comm, error) {
	var over *create.Parent
	if peer.plain() || peer.bound() {
		over = new(peer.valid().parent())
	}
	d := debug.Collective{Op: "CreateInter", Root: leader, Length: debug.None}
	return c.create(d, nil, ft.Args{arg("leader", leader), arg("remote", remote), arg("tag", tag)},
		func(p create.Parent) (*p2p.Comm, error) { return p.Inter(leader, over, remote, tag) })
}

// Merge makes one communicator of both sides of an intercommunicator. The ranks of the side that
// passed high as false come first. If both passed the same value, the side with the lowest process
// of the job comes first. It is collective over both sides. If the first rank of the other side (of
// those not agreed to have failed, [Comm.Validate]) has failed or finalized, the error is
// ErrProcFailed or ErrDeparted at all ranks of this side.
func (c *Comm) Merge(high bool) (*Comm, error) {
	return c.create(debug.Plain("Merge"), nil, ft.Args{}, func(p create.Parent) (*p2p.Comm, error) { return p.Merge(high) })
}

// parent describes this communicator to package create.
func (c *Comm) parent() create.Parent {
	return create.Parent{
		Self: c.world.job.Self, Engine: c.e, Core: c.core, Coll: &c.coll,
		Unaware: c.mode == modeUnaware, Repair: c.world.job.Repair,
	}
}

// derived wraps the core of a communicator that is made from this one; a nil one stays nil.
func (c *Comm) derived(core *p2p.Comm) *Comm {
	if core == nil {
		return nil
	}
	d := new(Comm)
	c.inherit(d, core)
	return d
}

// inherit is derived with memory of the caller.
func (c *Comm) inherit(d *Comm, core *p2p.Comm) {
	d.core, d.e, d.mode, d.world = core, c.e, c.mode, c.world
	d.coll.Choice, d.coll.World = c.coll.Choice, c.coll.World
	if d.mode == modeDebug {
		made := debug.Call{What: "communicator " + core.Name() + ", not freed", Where: debug.Where(library)}
		d.world.checks.Enter(core, made)
	}
	core.SetErrorHandler((*listener)(d))
	d.handler.Store(c.handler.Load())
}

// Every call on nil or on a zero value of this package is ErrArgument. A nil *Comm corresponds to
// MPI_COMM_NULL: a rank that is no member of a new communicator gets it.

// errAbsent is the error of operations on such a communicator.
var errAbsent = fmt.Errorf("%w: it is nil, or no call has made it", ErrArgument)

// errNoContext is the error of a nil context.
var errNoContext = fmt.Errorf("%w: nil for the context", ErrArgument)

// valid returns the communicator itself; for a view, the communicator that it views; for nil and the
// zero Comm, an empty one on which every operation is errAbsent.
func (c *Comm) valid() *Comm {
	if !c.plain() {
		return c.other()
	}
	return c
}

// plain reports whether this is a communicator, and not a view, nil or the zero Comm.
func (c *Comm) plain() bool { return c != nil && c.core != nil }

//go:noinline
func (c *Comm) other() *Comm {
	if c.bound() {
		return c.view().of
	}
	return absent()
}

// present returns the error of a change to nil or the zero Comm.
func (c *Comm) present(op string) error {
	if !c.plain() && !c.bound() {
		return absent().opError(op, errAbsent)
	}
	return nil
}

// absent reports whether this is the zero World, or nil.
func (w *World) absent() bool { return w == nil || w.job == nil }

// nothing holds the result of absent, which is made once.
var nothing struct {
	once sync.Once
	comm *Comm
}

// absent returns the empty communicator of valid. It belongs to a world of its own, whose engine is
// closed.
func absent() *Comm {
	nothing.once.Do(func() { nothing.comm = newAbsent() })
	return nothing.comm
}

func newAbsent() *Comm {
	j, core := job.Detached(errAbsent)
	return &Comm{core: core, e: j.P2P, mode: modeAware, world: &World{job: j, buffered: buffered{limit: bufferLimit}}}
}
