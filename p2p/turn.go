package p2p

import "github.com/banyan-hpc/banyan/internal/progress"

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

// AwaitTurn waits for the turns before one. Precondition: the lock is held.
func (c *Comm) AwaitTurn(t Turn) { c.awaitTurn(t.number) }

func (c *Comm) awaitTurn(turn uint32) {
	for c.ftState.over+1 != turn && c.state.Load()&(stateFreed|stateFinal) == 0 {
		var done progress.Completion
		c.ftState.validateWaiters = append(c.ftState.validateWaiters, &done)
		c.e.p.Wait(&done)
	}
}

// EndTurn ends a turn. Precondition: the lock is held.
func (c *Comm) EndTurn(t Turn) {
	s := c.mutableFT()
	s.over++
	if w := c.coll.Load(); s.over == s.turns && w != nil {
		w.state.And(^uint32(stateTurn))
	}
	c.wakeValidateWaiters()
	t.w.release()
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
		c.awaitTurn(c.ftState.turns + 1)
	}
}

// inTurn reports whether a turn is under way. Precondition: the lock is held.
func (c *Comm) inTurn() bool { return c.ftState != nil && c.ftState.turns != c.ftState.over }
