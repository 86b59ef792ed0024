package banyan

import (
	"cmp"
	"errors"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft/repair"
)

// workspace is what a communicator's collectives work in besides the buffers of their callers. There is one for
// each communicator that has needed it, with which the operation under way goes off: [Comm.borrow].
type workspace struct {
	coll.Memory
	c     *Comm
	end   func(error) error // w.decide, made once
	what  repair.What
	wrong error // see setting
}

// borrow gives the workspace to one operation. A second one at the same time, which is the program's mistake, gets another.
func (c *Comm) borrow() *workspace {
	w := c.work.Swap(nil)
	if w == nil {
		w = &workspace{c: c}
		w.end = w.decide
	}
	return w
}

// giveBack ends what borrow began, and passes on the operation's error. After one the memory is not used again: what was under
// way with the dead may still have a part in it.
func (c *Comm) giveBack(w *workspace, err error) error {
	if err == nil {
		c.work.Store(w)
	}
	return err
}

// staged reports whether collectives leave the buffers of their callers alone until the outcome is agreed on. The unaware
// engine agrees on nothing, and intercommunicators have no collectives.
func (c *Comm) staged() bool {
	return c.core.Uniformity() >= UniformCollectives && !c.unaware && !c.IsInter()
}

// setting is how a collective of that kind is done. With wrong arguments it is not done, or, where the others get the same error,
// with nothing to give, as they wait for that.
func (w *workspace) setting(what repair.What, wrong error) (coll.Setting, error) {
	if !w.c.staged() {
		return coll.Setting{Memory: &w.Memory, Trees: &w.c.trees}, wrong
	}
	w.what, w.wrong = what, wrong
	return coll.Setting{Memory: &w.Memory, Trees: &w.c.trees, End: w.end}, nil
}

// decide gives a collective the outcome that it has at all ranks. On a communicator that has been freed nothing is agreed.
func (w *workspace) decide(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return w.c.end(repair.Vote{What: w.what, Err: cmp.Or(w.wrong, err)})
}
