package p2p

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/progress"
)

// Blocking collectives of a communicator follow each other. If the caller of one stops waiting, it
// continues in a goroutine of its own, and has a turn: later ones of this process wait for its end,
// as the other members wait for its messages.

// Turn is the turn of a collective.
type Turn struct {
	number uint32
	w      *Comm // for the messages
}

// TakeTurn begins a turn after all others. Free keeps the communicator of its messages until EndTurn.
//
// Precondition: the lock is held.
func (c *Comm) TakeTurn() Turn {
	s, w := c.mutableFT(), c.collLocked()
	s.turns++
	w.state.Or(stateTurn)
	w.joinedOps++
	return Turn{s.turns, w}
}

// AwaitTurn waits for the turns before one, also on a freed communicator. Precondition: the lock is held.
func (c *Comm) AwaitTurn(t Turn) { c.awaitTurn(t.number, stateFinal) }

// awaitTurn waits for the turns before one, until a bit of until is set in the state. Later turns may have ended, too,
// when its goroutine runs again.
func (c *Comm) awaitTurn(turn, until uint32) {
	for int32(turn-c.ftState.over-1) > 0 && c.state.Load()&until == 0 {
		var done progress.Completion
		c.ftState.validateWaiters = append(c.ftState.validateWaiters, &done)
		c.e.p.Wait(&done)
	}
}

// EndTurn ends a turn. Precondition: the lock is held.
func (c *Comm) EndTurn(t Turn) {
	s := c.mutableFT()
	s.over++
	for len(s.afterTurns) > 0 && s.afterTurns[0].turn == s.over {
		fn := s.afterTurns[0].fn
		s.afterTurns = slices.Delete(s.afterTurns, 0, 1)
		fn()
	}
	if w := c.coll.Load(); s.over == s.turns && w != nil {
		w.state.And(^uint32(stateTurn))
	}
	c.wakeValidateWaiters()
	t.w.release()
}

// afterTurn is a call after a turn.
type afterTurn struct {
	turn uint32
	fn   func()
}

// AfterTurns calls fn, with the lock held, when the turns that are under way have ended. Preconditions: the lock is
// held; InTurn.
func (c *Comm) AfterTurns(fn func()) {
	s := c.ftState
	s.afterTurns = append(s.afterTurns, afterTurn{s.turns, fn})
}

// AwaitTurns waits until no turn is under way. Precondition: the lock is not held.
func (c *Comm) AwaitTurns() {
	if w := c.coll.Load(); w == nil || w.state.Load()&stateTurn == 0 {
		return
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.awaitTurns()
}

func (c *Comm) awaitTurns() {
	if c.ftState != nil {
		c.awaitTurn(c.ftState.turns+1, stateFreed|stateFinal)
	}
}

// InTurn reports whether a turn is under way. Precondition: the lock is held.
func (c *Comm) InTurn() bool { return c.ftState != nil && c.ftState.turns != c.ftState.over }
