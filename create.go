package banyan

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Group is the group of this communicator's ranks; of an intercommunicator, that
// of this side.
func (c *Comm) Group() Group {
	c = c.valid()
	return Group{c.core.Group(), c.world.self}
}

// RemoteGroup is the group whose ranks an intercommunicator's operations name;
// of other communicators it is the same as Group.
func (c *Comm) RemoteGroup() Group {
	c = c.valid()
	return Group{c.core.Peers(), c.world.self}
}

// IsInter reports whether this is an intercommunicator.
func (c *Comm) IsInter() bool { return c.valid().core.Local() != nil }

// Compare tells whether two communicators are the same, or have the same groups
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

// Create makes a communicator of a group of this one's ranks. It is collective
// over this communicator; groups of different callers may differ if they have no
// member in common. A rank that is not in its group gets nil. It sends nothing.
func (c *Comm) Create(g Group) (*Comm, error) {
	c = c.valid()
	n := c.core.Count()
	core, err := (*p2p.Comm)(nil), cmp.Or(c.core.Unrevoked("create"), c.holds("create", g))
	if err == nil {
		core, err = c.core.Derive(n, g.g, 0)
	}
	return c.made(repair.Create, c.derived(core), err)
}

// CreateGroup makes a communicator of a group of this one's ranks. Only the
// members need to call it, with the same tag: it works also when other ranks have failed
// or are busy. It sends nothing. A rank that is not in the group gets nil, as from Create; so does
// every rank for the empty group.
func (c *Comm) CreateGroup(g Group, tag int) (*Comm, error) {
	c = c.valid()
	if err := cmp.Or(c.core.Unrevoked("create group"), c.holds("create group", g)); err != nil {
		return nil, c.raise(err)
	}
	if tag < 0 || tag > MaxTag {
		return nil, c.raise(fmt.Errorf("create group on %s: %w: tag %d, want 0 … %d", c.Name(), ErrArgument, tag, MaxTag))
	}
	if g.rank(c.world.self) == Undefined {
		return nil, nil
	}
	core, ctx, err := c.core.DeriveAmong(g.g, tag)
	d := c.derived(core)
	if !c.uniformly(err) {
		return c.kept(d, err)
	}
	return c.kept(d, c.endAmong(repair.CreateGroup, d, g.g, ctx, err))
}

// Split makes a communicator for each color: of the ranks that gave it, ordered
// by key, then by rank. Color is at least 0, or [Undefined], which gives nil; those who are agreed to be
// gone count as such ([Comm.Validate]). It is collective.
func (c *Comm) Split(color, key int) (*Comm, error) {
	c = c.valid()
	core, err := c.split(color, key)
	return c.made(repair.Split, c.derived(core), err)
}

func (c *Comm) split(color, key int) (*p2p.Comm, error) {
	if c.Rank() == Undefined {
		return nil, fmt.Errorf("split: %w", errAbsent)
	}
	n := c.core.Count()
	var wrong error
	if color < 0 && color != Undefined {
		wrong = fmt.Errorf("split on %s: %w: color %d, want 0 or more, or Undefined", c.Name(), ErrArgument, color)
		if !c.uniformly(nil) {
			return nil, wrong
		}
	}
	all := make([]byte, colorBytes*c.Size())
	for rank := range c.Size() { // S0-32: the gone give nothing
		undefined := Undefined
		binary.LittleEndian.PutUint64(all[colorBytes*rank:], uint64(int64(undefined)))
	}
	mine := all[colorBytes*c.Rank():]
	binary.LittleEndian.PutUint64(mine, uint64(int64(color)))
	binary.LittleEndian.PutUint64(mine[8:], uint64(int64(key)))
	if err := c.coll.Allgather(c.core, c.plain(), mine[:colorBytes], all); err != nil || wrong != nil { // the others must not wait for a rank that is wrong
		return nil, cmp.Or(wrong, fmt.Errorf("split: %w", err))
	}
	ranks := decodeColors(all, color)
	procs := make([]proc.ID, 0, len(ranks))
	for _, rank := range ranks {
		procs = append(procs, c.core.Group().Proc(rank))
	}
	return c.core.Derive(n, p2p.NewGroup(procs), uint64(int64(color)))
}

// colorBytes is what each rank gives to a split: color and key.
const colorBytes = 16

// decodeColors lists the ranks that gave a color, by key, from what all have given.
func decodeColors(all []byte, color int) (ranks []int) {
	if color == Undefined {
		return nil
	}
	word := func(at int) int { return int(int64(binary.LittleEndian.Uint64(all[at:]))) }
	for rank := range len(all) / colorBytes {
		if word(colorBytes*rank) == color {
			ranks = append(ranks, rank)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(word(colorBytes*a+8), word(colorBytes*b+8)) })
	return ranks
}

// SplitByNode makes a communicator for each node, of the ranks that can share
// memory (see [World.Node]), ordered by key, then by rank. It is collective.
func (c *Comm) SplitByNode(key int) (*Comm, error) {
	c = c.valid()
	return c.Split(c.world.node, key)
}

// CreateInter makes an intercommunicator between the ranks of this communicator
// and those of another one. All ranks of both call it, each on its own side's
// communicator: leader is a rank of this communicator; there, peer is a
// communicator in which the other side's leader has the rank remote. Elsewhere
// peer and remote are not looked at. The tag tells concurrent creations on the
// same peer apart. Where the other side's leader has failed or finalized this is ErrProcFailed or
// ErrDeparted, with the leader's rank in peer, at all ranks of this side.
func (c *Comm) CreateInter(leader int, peer *Comm, remote, tag int) (*Comm, error) {
	c = c.valid()
	n := c.core.Count()
	var core *p2p.Comm
	remoteGroup, seed, err := c.meet(n, leader, peer, remote, tag)
	if err != nil {
		err = fmt.Errorf("create inter on %s: %w", c.Name(), err)
	} else {
		core, err = c.core.Bridge(n, remoteGroup, seed)
	}
	d := c.derived(core)
	if !c.uniformly(err) {
		return c.kept(d, err)
	}
	return c.kept(d, c.endInter(d, leader, peer, remote, tag, err))
}

// meetLen is what leaders tell each other first, in bytes: the length of the list of processes, and
// a seed.
const meetLen = 16

// meet gives this side the group of the other one and what both compute the
// context from. n is this creation's number.
func (c *Comm) meet(n uint64, leader int, peer *Comm, remote, tag int) (theirGroup p2p.Group, seed uint64, err error) {
	if leader < 0 || leader >= c.Size() {
		return p2p.Group{}, 0, fmt.Errorf("%w: leader %d, want 0 … %d", ErrArgument, leader, c.Size()-1)
	}
	if _, left, _ := c.core.Delegate("create inter", leader); !left {
		return p2p.Group{}, 0, c.core.Lost("create inter", leader)
	}
	theirs := make([]byte, meetLen+verdictLen) // length of the list, seed, and what has gone wrong
	var list []byte
	if c.Rank() == leader {
		list, err = c.meetLeader(theirs[:meetLen], peer, remote, tag, c.core.Seed(n))
		encodeVerdict(theirs[meetLen:], err) // the others of this side must not wait
	}
	if berr := c.bcast(theirs, leader); berr != nil || err != nil {
		return p2p.Group{}, 0, cmp.Or(err, berr)
	}
	if err := decodeVerdict(theirs[meetLen:], "create inter"); err != nil {
		return p2p.Group{}, 0, fmt.Errorf("rank %d could not reach the other side: %w", leader, err)
	}
	length, seed, err := parseMeeting(theirs)
	if err != nil {
		return p2p.Group{}, 0, fmt.Errorf("rank %d passes on that %w", leader, err)
	}
	if c.Rank() != leader {
		list = make([]byte, length)
	}
	if err := c.bcast(list, leader); err != nil {
		return p2p.Group{}, 0, err
	}
	theirGroup, err = decodeGroup(list, c.core.Group())
	return theirGroup, seed, err
}

// parseMeeting reads what a leader tells first: the length of the list that follows, in bytes, and a seed.
func parseMeeting(b []byte) (length int, seed uint64, err error) {
	if len(b) < meetLen {
		return 0, 0, fmt.Errorf("%w: %d bytes that announce no group", ErrArgument, len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n == 0 || n > 4*proc.MaxIDs || n%4 != 0 {
		return 0, 0, fmt.Errorf("%w: a group of %d bytes is announced", ErrArgument, n)
	}
	return int(n), binary.LittleEndian.Uint64(b[8:]), nil
}

// meetLeader exchanges seeds and lists of processes with the other side's leader.
func (c *Comm) meetLeader(theirs []byte, peer *Comm, remote, tag int, number uint64) ([]byte, error) {
	if peer == nil || peer.core == nil {
		return nil, fmt.Errorf("%w: the leader needs a peer communicator", ErrArgument)
	}
	procs := c.core.Group().Procs()
	list := make([]byte, 0, 4*len(procs))
	for _, p := range procs {
		list = binary.LittleEndian.AppendUint32(list, uint32(p))
	}
	ours := binary.LittleEndian.AppendUint64(nil, uint64(len(list)))
	ours = binary.LittleEndian.AppendUint64(ours, number)
	if err := peer.core.Ready("create inter"); err != nil {
		return nil, err
	}
	at, left, err := peer.core.Delegate("create inter", remote)
	switch {
	case err != nil:
		return nil, err
	case !left:
		return nil, peer.core.Lost("create inter", remote)
	}
	w := peer.on(peer.core.Coll())
	st, err := w.Sendrecv(ours, at, tag, theirs, at, tag)
	if err != nil {
		return nil, err
	}
	n, seed, err := parseMeeting(theirs[:st.Count])
	if err != nil {
		return nil, fmt.Errorf("from rank %d of %s: %w", remote, peer.Name(), err)
	}
	in := make([]byte, n)
	if st, err = w.Sendrecv(list, at, tag, in, at, tag); err != nil {
		return nil, err
	}
	if st.Count != n {
		return nil, fmt.Errorf("%w: rank %d of %s sends %d bytes of a group of %d",
			ErrArgument, remote, peer.Name(), st.Count, n)
	}
	// Both sides compute the same seed: the sum does not care who is who.
	binary.LittleEndian.PutUint64(theirs[8:], seed+number)
	return in, nil
}

// decodeGroup reads a list of processes that another side's leader sent; here is the group of this side.
func decodeGroup(list []byte, here p2p.Group) (p2p.Group, error) {
	if len(list)%4 != 0 {
		return p2p.Group{}, fmt.Errorf("%w: a group of %d bytes", ErrArgument, len(list))
	}
	seen := make(map[proc.ID]bool)
	procs := make([]proc.ID, 0, len(list)/4)
	for i := 0; i < len(list); i += 4 {
		p := proc.ID(binary.LittleEndian.Uint32(list[i:]))
		if !p.Valid() || seen[p] || here.Rank(p) >= 0 {
			return p2p.Group{}, fmt.Errorf("%w: %v is on both sides, twice on one, or nobody", ErrArgument, p)
		}
		seen[p] = true
		procs = append(procs, p)
	}
	return p2p.NewGroup(procs), nil
}

// Merge makes one communicator of both sides of an intercommunicator: first the
// ranks of the side that gave high as false. If both gave the same, the side with
// the lowest process of the job comes first. It is collective over both sides. Where the first rank of the
// other side that is not agreed to be gone ([Comm.Validate]) has failed or finalized this is ErrProcFailed or
// ErrDeparted at all ranks of this side.
func (c *Comm) Merge(high bool) (*Comm, error) {
	c = c.valid()
	core, err := c.merge(high)
	return c.made(repair.Merge, c.derived(core), err)
}

func (c *Comm) merge(high bool) (*p2p.Comm, error) {
	n := c.core.Count()
	local := c.core.Local()
	if local == nil {
		return nil, fmt.Errorf("merge on %s: %w: not an intercommunicator", c.Name(), ErrArgument)
	}
	w, side := c.on(c.core.Coll()), c.on(local)
	if w.core.Peers().Size() == 0 {
		return nil, fmt.Errorf("merge on %s: %w", c.Name(), c.core.Lost("merge", 0))
	}
	word := make([]byte, 1+verdictLen) // theirs, and why it is not there
	var err error
	if w.Rank() == 0 {
		mine := []byte{0}
		if high {
			mine[0] = 1
		}
		_, err = w.Sendrecv(mine, 0, 0, word[:1], 0, 0)
		encodeVerdict(word[1:], err)
	}
	if berr := side.bcast(word, local.Coll().Said(0)); berr != nil || err != nil {
		return nil, fmt.Errorf("merge on %s: %w", c.Name(), cmp.Or(err, berr))
	}
	if err := decodeVerdict(word[1:], "merge"); err != nil {
		return nil, fmt.Errorf("merge on %s: the first rank could not reach the other side: %w", c.Name(), err)
	}
	first := !high
	if high == (word[0] == 1) {
		first = slices.Min(c.core.Group().Procs()) < slices.Min(c.core.Peers().Procs())
	}
	return c.core.Union(n, first)
}

// derived wraps a new core; a nil one stays nil.
func (c *Comm) derived(core *p2p.Comm) *Comm {
	if core == nil {
		return nil
	}
	return c.heir(core)
}

// heir wraps the core of a communicator that is made from this one.
func (c *Comm) heir(core *p2p.Comm) *Comm {
	d := new(Comm)
	c.bequeath(d, core)
	return d
}

// bequeath is heir in memory that is there.
func (c *Comm) bequeath(d *Comm, core *p2p.Comm) {
	c.wrap(d, core)
	core.OnError((*listener)(d))
	d.handler.Store(c.handler.Load())
}

// holds checks that a group's members are this communicator's.
func (c *Comm) holds(op string, g Group) error {
	if g.Difference(c.Group()).Size() != 0 {
		return fmt.Errorf("%s on %s: %w: the group has members that the communicator has not", op, c.Name(), ErrArgument)
	}
	return nil
}
