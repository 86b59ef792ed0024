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
	wrong error // with the arguments
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

// giveBack ends what borrow began, and gives the operation's error: what was wrong with the arguments, where nothing is agreed. After one the memory
// is not used again: what was under way with the dead may still have a part in it.
func (c *Comm) giveBack(w *workspace, err error) error {
	if !c.staged() {
		err = cmp.Or(w.wrong, err)
	}
	if err == nil {
		c.work.Store(w)
	}
	return err
}

// staged reports whether collectives leave the buffers of their callers alone until the outcome is agreed on. The unaware
// engine agrees on nothing, and intercommunicators have no collectives.
func (c *Comm) staged() bool {
	return c.core.Uniformity() >= UniformCollectives && c.mode != modeUnaware && !c.IsInter()
}

// setting is how a collective of that kind is done. With wrong arguments it is done with nothing to give, which fits nobody, since the others wait
// for it.
func (w *workspace) setting(what repair.What, wrong error) coll.Setting {
	w.what, w.wrong = what, wrong
	s := coll.Setting{Memory: &w.Memory, Trees: &w.c.trees}
	if w.c.staged() {
		s.End = w.end
	}
	return s
}

// decide gives a collective the outcome that it has at all ranks. On a communicator that has been freed nothing is agreed.
func (w *workspace) decide(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return w.c.end(repair.Vote{What: w.what, Err: cmp.Or(w.wrong, err)})
}
