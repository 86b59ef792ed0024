package sm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Segments is the memory that processes share. Its methods are called with the engine's lock held.
type Segments interface {
	// Reach reports whether this process can open what another one makes, which it must be connected to.
	Reach(owner proc.ID) bool
	// MakeSegment takes memory of this process for these members, and names it; false: there is none.
	MakeSegment(members []proc.ID) (name uint64, ok bool)
	// OpenSegment gives a segment by its name; nil: no process can have made it. Precondition:
	// Reach(owner), or the owner is this process.
	OpenSegment(owner proc.ID, name uint64, members int) *board.Segment
	// DropSegment gives the memory back, when all members have left or their processes have ended.
	DropSegment(name uint64)
}

// Memory is what a process needs for collectives in shared memory.
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

// Can reports whether the members of a communicator of collectives may have a segment: they are on one
// node, and few enough. The answer is the same at all members.
func (m *Memory) Can(c *p2p.Comm) bool {
	if c.Size() < 2 || c.Size() > board.MaxMembers {
		return false
	}
	for rank := range c.Size() {
		if m.node(c.Group().Proc(rank)) != m.node(c.Group().Proc(0)) {
			return false
		}
	}
	return true
}

// tag is that of the messages of Find.
const tag = p2p.Blocking | 15

// Find finds out whether all members can use memory of rank 0, which makes the segment then; nil: some
// member cannot. The answers to rank 0 go up a binomial tree, and the name of the memory goes down. It
// is a collective, and M the mode of its messages. Precondition: Can.
func Find[M p2p.Mode](m *Memory, c *p2p.Comm) (*Segment, error) {
	n, me := c.Size(), c.Rank()
	low := 1 << bits.Len(uint(n-1)) // the lowest bit of me; for rank 0 it is beyond all ranks
	if me != 0 {
		low = me & -me
	}
	var below []int
	for bit := 1; bit < low && me+bit < n; bit *= 2 {
		below = append(below, me+bit)
	}
	can := m.offers(c)
	var b [8]byte
	for _, child := range below {
		if err := recv[M](c, b[:], child); err != nil {
			return nil, err
		}
		can = can && b[0] == 1
	}
	clear(b[:])
	if can {
		b[0] = 1
	}
	around := below
	switch {
	case me != 0:
		around = append(below[:len(below):len(below)], me-low)
		if err := cmp.Or(p2p.Send[M](c, b[:], me-low, tag), recv[M](c, b[:], me-low)); err != nil {
			return nil, err
		}
	case can:
		binary.LittleEndian.PutUint64(b[:], m.make(c))
	}
	var err error
	for _, child := range below {
		err = cmp.Or(err, p2p.Send[M](c, b[:], child, tag))
	}
	if name := binary.LittleEndian.Uint64(b[:]); name != 0 && err == nil {
		return m.open(c, name, around)
	}
	return nil, err
}

// recv receives what is as long as b.
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

// offers reports whether this process can use a segment of rank 0.
func (m *Memory) offers(c *p2p.Comm) bool {
	if m.segments == nil || c.Rank() != 0 && c.Connect(0) != nil { // if rank 0 has failed, all will learn of it
		return false
	}
	m.e.Lock()
	defer m.e.Unlock()
	return c.Rank() == 0 || m.segments.Reach(c.Group().Proc(0))
}

// make has rank 0 make the segment, and gives its name; 0: it cannot be made. All members have offered.
func (m *Memory) make(c *p2p.Comm) uint64 {
	m.e.Lock()
	defer m.e.Unlock()
	name, _ := m.segments.MakeSegment(c.Group().Procs())
	return name
}

// open begins the use of a segment. Around are the ranks with which messages have been exchanged and
// which this rank wakes. Each is in the other's list, and the lists connect all ranks.
func (m *Memory) open(c *p2p.Comm, name uint64, around []int) (*Segment, error) {
	m.e.Lock()
	defer m.e.Unlock()
	owner := c.Group().Proc(0)
	memory := m.segments.OpenSegment(owner, name, c.Size())
	if memory == nil {
		return nil, fmt.Errorf("rank %d has named a place in shared memory that cannot be", c.OriginalRank(0))
	}
	s := &Segment{m: m, c: c, memory: memory, phase: memory.Phase(c.Rank()), ranks: around}
	if owner == m.e.Self() {
		s.name = name
	}
	for _, rank := range around {
		s.around = append(s.around, m.e.Lookup(c.Group().Proc(rank)))
	}
	s.watcher = progress.Watcher{Look: s.look, Doze: s.doze, Waiting: s.waiting}
	c.Attach(s)
	return s, nil
}
