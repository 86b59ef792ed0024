package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Halls is the memory that processes share, as flat collectives need it; its methods are called with the engine's lock held.
type Halls interface {
	// Reach reports whether this process can open what another one makes, which it must be connected to.
	Reach(owner proc.ID) bool
	// MakeHall takes memory of this process for these members, and names it; false: there is none.
	MakeHall(members []proc.ID) (name uint64, ok bool)
	// OpenHall gives a hall by its name; nil: nobody can have made it. Precondition: Reach(owner), or the owner is this process.
	OpenHall(owner proc.ID, name uint64, members int) *board.Hall
	// DropHall gives the memory back, when all have left or their processes have ended.
	DropHall(name uint64)
}

// flats is what the engine needs for flat collectives.
type flats struct {
	halls Halls
	node  func(proc.ID) int
}

// UseHalls lets small collectives of communicators whose members are all on one node go through memory that they share. It is
// called before the first collective, at all processes of a job or at none, with the same numbers of nodes; halls is nil where
// this process shares none.
func (e *Engine) UseHalls(halls Halls, node func(proc.ID) int) {
	e.flats = flats{halls, node}
	e.p.Handle(fabric.ClassColl, func(proc.ID, uint64, []byte) {}) // it has woken this process
}

// Flat is how the members of a communicator of collectives take small ones in memory that all of them share. There is no tree: each
// says that it has come, and what it brings, and looks at what the others say. So each needs one turn at a processor, where
// many share it. A failure, or a revocation, ends the wait at whoever learns of it, as if it waited for a message; the
// communicator has no collectives any more then, and that of the next validate begins without a hall.
//
// Its methods are for who runs the collective. All members call the same ones in the same order.
type Flat struct {
	c       *Comm
	hall    *board.Hall
	visit   board.Visit
	name    uint64 // of the hall, if it is this process's
	around  []*progress.Endpoint
	ranks   []int // those of around
	using   bool  // an operation is under way
	left    bool
	err     error
	done    progress.Completion
	watcher progress.Watcher
}

// flatTurns is how many looks at a hall pass before other things are looked at, where each process has a core.
const flatTurns = 512

// Flat gives what OpenFlat has made, or nil.
func (c *Comm) Flat() *Flat { return c.flat }

// FlatDue counts the collectives of a communicator of collectives that could be flat, and reports whether this is the one
// before which its members see whether they can share a hall: the answer is the same at all.
func (c *Comm) FlatDue(number uint32) bool {
	if c.flatAsked++; c.flatAsked != number {
		return false
	}
	node := c.e.flats.node
	if node == nil || c.group.size < 2 || c.group.size > board.MaxMembers {
		return false
	}
	for rank := range c.group.size {
		if node(c.group.Proc(rank)) != node(c.group.Proc(0)) {
			return false
		}
	}
	return true
}

// OffersFlat reports whether this process can use a hall of rank 0.
func (c *Comm) OffersFlat() bool {
	halls := c.e.flats.halls
	if halls == nil {
		return false
	}
	if c.rank != 0 && c.link(0) == nil {
		if _, err := c.connect(0); err != nil {
			return false // if it has failed, all will learn of it
		}
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.rank == 0 || halls.Reach(c.group.Proc(0))
}

// MakeFlat has rank 0 make the hall, and gives its name; 0: it cannot be made. All have offered.
func (c *Comm) MakeFlat() uint64 {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	name, _ := c.e.flats.halls.MakeHall(c.group.Procs())
	return name
}

// OpenFlat begins the use of a hall. Around are the ranks with which messages have been exchanged and which this rank wakes; each is in
// the other's, and they connect all.
func (c *Comm) OpenFlat(name uint64, around []int) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	f := &Flat{c: c, ranks: around}
	owner := c.group.Proc(0)
	if f.hall = c.e.flats.halls.OpenHall(owner, name, c.group.size); f.hall == nil {
		return fmt.Errorf("%s: rank %d has named a place in shared memory that cannot be", c.name, c.OriginalRank(0))
	}
	f.visit = f.hall.Visit(c.rank)
	if owner == c.e.p.Self() {
		f.name = name
	}
	for _, rank := range around {
		f.around = append(f.around, c.e.p.Lookup(c.group.Proc(rank)))
	}
	f.watcher = progress.Watcher{Look: f.look, Doze: f.doze}
	c.flat = f
	if c.state.Load()&(stateFreed|stateFinal) != 0 {
		f.leave(c.state.Load()&stateFinal != 0)
	}
	return nil
}

// Meet enters the next step with a part and returns when all have entered it; or, with elsewhere, when it is known that somebody came with
// what is too long, which all will see. Then the caller waits for messages of all. Whether the parts fit together
// is for it to see, by Brought, until the next Meet.
func (f *Flat) Meet(part []byte) (elsewhere bool, err error) {
	f.c.e.p.Lock()
	defer f.c.e.p.Unlock()
	if f.left {
		return false, f.over()
	}
	if !f.visit.Bring(part) {
		f.visit.Enter(board.Everyone)
		f.visit.End() // by the messages that follow
		f.rouse()
		return true, nil
	}
	err = f.enter(board.Everyone)
	return err == nil && f.visit.Apart(), err
}

// Brought gives what a rank has brought to the last Meet; see board.Hall.Brought.
func (f *Flat) Brought(rank int) (part []byte, length int) { return f.visit.Brought(rank) }

// Await enters the next step and returns when all have entered it.
func (f *Flat) Await() error {
	f.c.e.p.Lock()
	defer f.c.e.p.Unlock()
	if f.left {
		return f.over()
	}
	return f.enter(board.Everyone)
}

// Spread enters the next step, in which the root lays what is to be had by all, and gives it to the others: until their
// next step; see board.Hall.Laid.
func (f *Flat) Spread(root int, payload []byte) (laid []byte, length int, err error) {
	f.c.e.p.Lock()
	defer f.c.e.p.Unlock()
	if f.left {
		return nil, 0, f.over()
	}
	if f.c.rank == root {
		f.visit.Lay(payload)
	}
	if err = f.enter(f.visit.From(root)); err != nil {
		return nil, 0, err
	}
	laid, length, ok := f.visit.Laid(root) // also at the root: another one may have laid something there
	if !ok {
		return nil, 0, fmt.Errorf("%s: %w: not all ranks name rank %d as the root", f.c.name, ft.ErrArgument, f.c.OriginalRank(root))
	}
	return laid, length, nil
}

// enter enters the next step and waits until a rank has, or everyone. Precondition: the lock is held.
func (f *Flat) enter(from int) error {
	e := f.c.e
	f.visit.Enter(from)
	f.using = true
	if !f.soon() {
		f.done.Reset()
		e.p.Watch(&f.watcher)
		e.p.Wait(&f.done)
		e.p.Unwatch(&f.watcher)
	}
	f.using = false
	err := f.err
	if f.err = nil; err == nil {
		f.visit.End()
	} else if f.c.state.Load()&stateFailed != 0 && f.c.parent.profile != RunThrough {
		e.giveUp(collStream{ctx: f.c.Context()})
	}
	f.rouse()
	if f.c.state.Load()&(stateFreed|stateFinal) != 0 {
		f.leave(f.c.state.Load()&stateFinal != 0)
	}
	return err
}

// patientSteps is one step of how many waits in the progress loop at once where processes share cores, so that messages and timers
// have their turn.
const patientSteps = 8

// soon reports whether those who have to come have, or come while nothing else is looked at: for some microseconds where the process has a core,
// and else within one turn of the others, after which all have come that come as fast as they can. The less is touched in
// a turn the shorter it is, as the cache is another process's by then.
func (f *Flat) soon() bool {
	p := f.c.e.p
	if f.visit.Here() {
		return true
	}
	if p.Spins() == 0 {
		return f.visit.Step()%patientSteps != 0 && p.YieldProcess() && f.visit.Here()
	}
	for range min(p.Spins(), flatTurns) {
		if f.visit.Here() {
			return true
		}
		if p.Contended() {
			break
		}
	}
	return false
}

// look implements progress.Watcher: what was seen to be whole is, whatever has happened since.
func (f *Flat) look() int {
	switch {
	case f.done.Done():
		return 0
	case f.visit.Here():
	case f.c.state.Load()&^stateValidating == 0:
		return 0
	default:
		if f.err = f.over(); f.err == nil {
			return 0
		}
	}
	f.done.Finish()
	return 1
}

// doze implements progress.Watcher.
func (f *Flat) doze() bool {
	if f.done.Done() {
		return false
	}
	f.visit.Nap()
	switch saw, rank := f.visit.Doze(); saw {
	case board.Nothing:
		return true
	case board.Missing:
		f.err = fmt.Errorf("%s: rank %d: %w", f.c.name, f.c.OriginalRank(rank), ft.ErrDeparted)
		f.done.Finish()
	case board.Apart:
		f.done.Finish()
	}
	return false
}

// over is the error of a wait that has no end, or nil. One that was begun before the communicator was freed goes on.
func (f *Flat) over() error {
	s, of := f.c.state.Load(), f.c.parent.state.Load()
	if f.using && s&of&stateFreed != 0 && s&(stateRevoked|stateFailed|stateFinal) == 0 {
		return nil
	}
	if err := f.c.check("collective"); err != nil || s&stateFailed == 0 {
		return err
	}
	return f.c.failedMembersError("collective")
}

// rouse wakes those who sleep in the step that this rank has seen to its end, and whom it is to wake: they see the
// end, and wake others.
func (f *Flat) rouse() {
	for i, rank := range f.ranks {
		if f.visit.Naps(rank) {
			f.around[i].TrySend(fabric.ClassColl, 0, nil) // without credit: it has something to read, so it does not sleep
		}
	}
}

// leave ends the use of the hall; departs: because the process leaves the job.
func (f *Flat) leave(departs bool) {
	switch {
	case f.left:
		return
	case f.using && departs:
		f.hall.Depart(f.c.rank) // before it tells anybody that it departs
		return
	case f.using:
		return
	}
	f.left = true
	f.hall.Leave(f.c.rank, departs)
	if f.name != 0 {
		f.c.e.flats.halls.DropHall(f.name)
	}
}

// leaveFlat has a communicator that is freed, or whose process leaves the job, leave its hall, at once or at the end of the collective that is under
// way.
func (c *Comm) leaveFlat(departs bool) {
	if c.flat != nil {
		c.flat.leave(departs)
	}
}
