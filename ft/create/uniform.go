package create

import (
	"errors"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

// names are the operations' names in descriptions of pending operations.
var names = map[repair.What]string{
	repair.Dup: "Dup", repair.Create: "Create", repair.CreateGroup: "CreateGroup", repair.Split: "Split",
	repair.CreateInter: "CreateInter", repair.CreateInterReady: "CreateInter", repair.Merge: "Merge",
}

// Agrees reports whether all members make the communicator or none does, so that Outcome waits for other
// ranks. On a communicator that has been freed nothing is agreed.
func (p Parent) Agrees(err error) bool {
	return p.Core.Uniformity() >= p2p.UniformCreation && !errors.Is(err, ft.ErrClosed)
}

// Outcome is the outcome of creating a communicator (nil for a rank that is no member) in which this
// rank met err: where creation is uniform the one that all members agree on.
func (p Parent) Outcome(what repair.What, made *p2p.Comm, err error) error {
	if !p.Agrees(err) {
		return err
	}
	if err == nil {
		err = p.complete(what, made)
	}
	return p.vote(repair.Vote{What: what, Err: err, Makes: true})
}

// complete is the error of making a communicator in which a rank that is known to have failed would
// have a part.
func (p Parent) complete(what repair.What, made *p2p.Comm) error {
	switch {
	case what != repair.Create && what != repair.CreateGroup || p.Core.Profile() == p2p.RunThrough:
		return p.Core.CheckMembers()
	case made == nil:
		return nil
	}
	return p.Core.FailedIn(made.Group())
}

// vote takes part in the agreement on the outcome of an operation.
func (p Parent) vote(v repair.Vote) error {
	return p.await(v.What, func(done func(error)) { p.Repair.End(p.Core, v, done) })
}

// await waits for the outcome of an agreement that begin starts with the lock held.
func (p Parent) await(what repair.What, begin func(done func(error))) error {
	p.Engine.Lock()
	promise, h := p.Engine.NewAgreement(p.Core, names[what])
	begin(promise.Complete)
	p.Engine.Unlock()
	_, err := p.Engine.Wait(h)
	return err
}

// finish is keep of the result of Outcome.
func (p Parent) finish(what repair.What, made *p2p.Comm, err error) (*p2p.Comm, error) {
	return p.keep(made, p.Outcome(what, made, err))
}

// keep gives a new communicator, or frees it for an error.
func (p Parent) keep(made *p2p.Comm, err error) (*p2p.Comm, error) {
	if err == nil {
		return made, nil
	}
	if made != nil {
		err = errors.Join(err, Free(p.Engine, p.Repair, made))
	}
	return nil, err
}

// Free frees a communicator and the state that repair keeps for it.
func Free(e *p2p.Engine, r *repair.Repair, core *p2p.Comm) error {
	err := core.Free()
	if err == nil {
		e.Lock()
		r.Freed(core)
		e.Unlock()
	}
	return err
}
