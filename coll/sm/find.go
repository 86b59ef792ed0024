package sm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Segments is the memory that processes share. Its methods are called with the engine's lock held.
type Segments interface {
	// Reach reports whether this process can open memory of another one, which it must be connected to.
	Reach(owner proc.ID) bool
	// MakeSegment takes memory of this process for these members, and names it; false: there is none.
	MakeSegment(members []proc.ID) (name uint64, ok bool)
	// OpenSegment gives a segment by its name; nil: no process can have made it. Precondition:
	// Reach(owner), or the owner is this process.
	OpenSegment(owner proc.ID, name uint64, members int) *board.Segment
	// DropSegment gives the memory back, when all members have left or their processes have ended.
	DropSegment(name uint64)
	// RejectSegment gives it back at once: no other process knows its name.
	RejectSegment(name uint64)
}

// Memory is the state of a process for collectives in shared memory.
type Memory struct {
	e        *progress.Engine
	segments Segments
	node     func(proc.ID) int
}

// New makes one. It is called before the first collective, at all processes of a job or at none, with
// the same numbers of nodes. Segments is nil where this process shares none.
func New(e *progress.Engine, segments Segments, node func(proc.ID) int) *Memory {
	e.Handle(fabric.ClassColl, func(proc.ID, uint64, []byte) {}) // it has woken this process
	return &Memory{e, segments, node}
}

// MaxMembers is the largest number of ranks on a node that have a segment.
const MaxMembers = board.MaxMembers

// Nodes gives the numbers of the nodes of a communicator's ranks, the same at all ranks.
func (m *Memory) Nodes(c *p2p.Comm) []int {
	nodes := make([]int, c.Size())
	for rank := range nodes {
		nodes[rank] = m.node(c.Group().Proc(rank))
	}
	return nodes
}

// tag is that of the messages of Find.
const tag = p2p.Blocking | 15

// Find finds out whether the ranks of each node can use memory of the lowest of them, which makes a segment
// then; nil: some rank cannot. Members are the ranks on this rank's node, in order. It is a collective of the whole
// communicator, and M the mode of its messages: the answers go up a binomial tree, and the outcome down;
// with several nodes the name of the memory then goes down a tree of each node.
//
// Preconditions: no node has more than MaxMembers ranks, and there are two ranks at least.
func Find[M p2p.Mode](m *Memory, c *p2p.Comm, members []int) (*Segment, error) {
	name, can := m.offer(c, members)
	all := make([]int, c.Size())
	for rank := range all {
		all[rank] = rank
	}
	whole := len(members) == len(all)
	around, can, err := answer[M](c, all, can)
	var b [8]byte
	if b[0] = 1; !can {
		b[0] = 0
	} else if whole && c.Rank() == 0 {
		binary.LittleEndian.PutUint64(b[:], name)
	}
	known := whole && can // others may learn the name
	err = cmp.Or(err, down[M](c, all, b[:]))
	can = err == nil && b != [8]byte{}
	if !whole {
		if binary.LittleEndian.PutUint64(b[:], name); can {
			known = true
			around = neighbours(len(members), slices.Index(members, c.Rank()))
			err = down[M](c, members, b[:])
		}
	}
	if !can || err != nil {
		m.withdraw(name, len(members), known)
		return nil, err
	}
	return m.open(c, binary.LittleEndian.Uint64(b[:]), members, around)
}

// tree is a place in a binomial tree of n: that of the parent, or -1, and those of the children.
func tree(n, me int) (parent int, children []int) {
	parent, low := -1, 1<<bits.Len(uint(n-1)) // the lowest bit of me; of 0 it is beyond all
	if me != 0 {
		low = me & -me
		parent = me - low
	}
	for bit := 1; bit < low && me+bit < n; bit *= 2 {
		children = append(children, me+bit)
	}
	return parent, children
}

// neighbours are the places next to one in that tree.
func neighbours(n, me int) []int {
	parent, around := tree(n, me)
	if parent >= 0 {
		around = append(around, parent)
	}
	return around
}

// answer sends up the tree of ranks whether all below can, and gives the answer for rank 0 to send.
func answer[M p2p.Mode](c *p2p.Comm, ranks []int, can bool) (around []int, _ bool, err error) {
	me := slices.Index(ranks, c.Rank())
	parent, children := tree(len(ranks), me)
	var b [8]byte
	for _, child := range children {
		if err := recv[M](c, b[:], ranks[child]); err != nil {
			return nil, false, err
		}
		can = can && b[0] == 1
	}
	clear(b[:])
	if can {
		b[0] = 1
	}
	if parent >= 0 {
		err = p2p.Send[M](c, b[:], ranks[parent], tag)
	}
	return neighbours(len(ranks), me), can, err
}

// down passes the bytes b of the first of the ranks to all.
func down[M p2p.Mode](c *p2p.Comm, ranks []int, b []byte) (err error) {
	parent, children := tree(len(ranks), slices.Index(ranks, c.Rank()))
	if parent >= 0 {
		if err := recv[M](c, b, ranks[parent]); err != nil {
			return err
		}
	}
	for _, child := range children {
		err = cmp.Or(err, p2p.Send[M](c, b, ranks[child], tag))
	}
	return err
}

// recv receives a message as long as b.
func recv[M p2p.Mode](c *p2p.Comm, b []byte, src int) error {
	st, err := p2p.Recv[M](c, b, src, tag)
	if total, long := p2p.Truncated(err); long {
		st.Count, err = total, nil
	}
	if err == nil && st.Count != len(b) {
		err = fmt.Errorf("%w: rank %d sent %d bytes about shared memory, want %d",
			ft.ErrArgument, c.OriginalRank(src), st.Count, len(b))
	}
	return err
}

// offer reports whether this process can use a segment of the first member, which makes it, and names it.
func (m *Memory) offer(c *p2p.Comm, members []int) (name uint64, can bool) {
	leader := members[0]
	if m.segments == nil || c.Rank() != leader && c.Connect(leader) != nil { // if it has failed, all will learn of it
		return 0, false
	}
	m.e.Lock()
	defer m.e.Unlock()
	if c.Rank() != leader {
		return 0, m.segments.Reach(c.Group().Proc(leader))
	}
	procs := make([]proc.ID, len(members))
	for i, rank := range members {
		procs[i] = c.Group().Proc(rank)
	}
	return m.segments.MakeSegment(procs)
}

// withdraw gives back a segment of this process that it does not use after all. If its name is known to others they may use it,
// and leave it later.
func (m *Memory) withdraw(name uint64, members int, known bool) {
	if name == 0 {
		return
	}
	m.e.Lock()
	defer m.e.Unlock()
	if !known {
		m.segments.RejectSegment(name)
		return
	}
	m.segments.OpenSegment(m.e.Self(), name, members).Leave(0, false)
	m.segments.DropSegment(name)
}

// open begins the use of a segment. Around are the members with which messages have been exchanged and
// which this one wakes. Each is in the other's list, and the lists connect all members.
func (m *Memory) open(c *p2p.Comm, name uint64, members, around []int) (*Segment, error) {
	m.e.Lock()
	defer m.e.Unlock()
	owner := c.Group().Proc(members[0])
	memory := m.segments.OpenSegment(owner, name, len(members))
	if memory == nil {
		return nil, fmt.Errorf("rank %d has named a place in shared memory that cannot be", c.OriginalRank(members[0]))
	}
	me := slices.Index(members, c.Rank())
	s := &Segment{
		m: m, c: c, memory: memory, phase: memory.Phase(me), me: me, members: members, near: around,
		whole: len(members) == c.Size(), asked: -1,
	}
	if owner == m.e.Self() {
		s.name = name
	}
	for _, member := range around {
		s.around = append(s.around, m.e.Lookup(c.Group().Proc(members[member])))
	}
	s.leader = m.e.Lookup(owner)
	s.watcher = progress.Watcher{Look: s.look, Doze: s.doze, Waiting: s.waiting}
	c.Attach(s)
	return s, nil
}
