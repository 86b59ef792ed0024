package rma

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// await waits until ready reports true or an error. Precondition: the lock is held, as on return.
func (w *Window) await(ready func() (bool, error)) error {
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		c := w.spare
		if w.spare = nil; c == nil {
			c = new(progress.Completion)
		}
		w.waiters = append(w.waiters, c)
		w.s.e.Wait(c)
		c.Reset()
		w.spare = c
	}
}

// wake lets the waiting calls look again. Precondition: the lock is held.
func (w *Window) wake() {
	for _, c := range w.waiters {
		c.Finish()
	}
	clear(w.waiters)
	w.waiters = w.waiters[:0]
}

// Fence ends an epoch and begins the next; barrier is that of the window's communicator. It is called without
// the lock.
func (w *Window) Fence(barrier func() error) error {
	e := w.s.e
	e.Lock()
	defer e.Unlock()
	err := w.broken()
	if err == nil {
		err = w.flushAll(every)
		if err == nil {
			err = w.lost(every)
		}
		if err == nil || errors.Is(err, ft.ErrDeparted) || errors.Is(err, ft.ErrArgument) { // others wait for this rank
			e.Unlock()
			err = cmp.Or(barrier(), err)
			e.Lock()
		}
		if errors.Is(err, ft.ErrProcFailed) && w.failed == nil {
			w.failed = err
		}
	}
	w.fenced = w.fenced || err == nil
	w.refresh()
	return w.finish(err)
}

// Post begins an exposure epoch for ranks.
func (w *Window) Post(origins []int) error {
	return w.eachOf(origins, func(t *target) {
		t.exposed = !t.ended // else the error names it, and Wait is about the others
		t.tell(kindPost, 0)
	}, nil)
}

// noAccess ends an access epoch that has not started. No target is told: its post is still there.
func (w *Window) noAccess(targets []int) {
	for _, rank := range targets {
		w.targets[rank].access = false
		w.targets[rank].refresh()
	}
}

// StartAccess begins an access epoch: it waits until the targets have posted.
func (w *Window) StartAccess(targets []int) error {
	return w.eachOf(targets, func(t *target) { t.access = true }, func() (bool, error) {
		for _, rank := range targets {
			if t := &w.targets[rank]; t.access && t.posted == 0 {
				return false, nil
			}
		}
		for _, rank := range targets {
			if t := &w.targets[rank]; t.access {
				t.posted--
				t.refresh()
			}
		}
		return true, nil
	})
}

// eachOf calls do for ranks, and waits until they are ready; it ends if one of them has failed.
func (w *Window) eachOf(ranks []int, do func(*target), ready func() (bool, error)) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	var list []*target
	in := func(t *target) bool { return slices.Contains(ranks, t.rank) }
	for _, rank := range ranks {
		t, err := w.reach(rank)
		switch {
		case err != nil:
			return w.finish(err)
		case t == nil:
		case t.agreed:
			return w.finish(t.endedError())
		default:
			list = append(list, t)
		}
	}
	for _, t := range list {
		do(t)
	}
	if w.impaired {
		w.inquire()
	}
	if ready == nil {
		return w.finish(w.gone(in))
	}
	err := w.await(func() (bool, error) {
		if ok, err := ready(); ok || err != nil {
			return ok, err
		}
		if err := w.gone(in); err != nil {
			return false, err
		}
		return false, w.broken()
	})
	if err != nil && w.failed == nil && !errors.Is(err, ft.ErrProcFailed) {
		w.noAccess(ranks)
	}
	return w.finish(err)
}

// Complete ends the access epoch: its operations are complete, and its targets are told.
func (w *Window) Complete() error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	in := func(t *target) bool { return t.access }
	err := w.broken()
	if err == nil {
		err = w.flushAll(in)
	}
	if err == nil {
		err = w.lost(in)
	}
	w.endAccess()
	return w.finish(err)
}

func (w *Window) endAccess() {
	for i := range w.targets {
		if t := &w.targets[i]; t.access {
			t.access = false
			t.refresh()
			t.tell(kindComplete, 0)
		}
	}
}

// Wait ends the exposure epoch: all its origins have completed.
func (w *Window) Wait() error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	return w.finish(w.await(w.exposureEnds))
}

// Test is Wait if that would not wait.
func (w *Window) Test() (bool, error) {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	w.s.e.Progress()
	done, err := w.exposureEnds()
	return done, w.finish(err)
}

func (w *Window) exposureEnds() (bool, error) {
	if err := w.broken(); err != nil {
		return false, err
	}
	open := func(t *target) bool { return t.exposed && t.completed == 0 }
	if err := w.lost(open); errors.Is(err, ft.ErrProcFailed) {
		return false, err
	}
	waits := false
	for i := range w.targets {
		switch t := &w.targets[i]; {
		case !open(t):
		case t.ended: // it does not complete any more: the next call is about the others
			t.exposed = false
			return false, t.endedError()
		default:
			waits = true
		}
	}
	if waits {
		return false, nil
	}
	for i := range w.targets {
		if t := &w.targets[i]; t.exposed {
			t.exposed = false
			t.completed--
		}
	}
	return true, nil
}

// Lock waits for a lock on a rank's memory.
func (w *Window) Lock(kind LockKind, rank int) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	t, err := w.reach(rank)
	if err == nil && t != nil {
		if kind != LockShared && kind != LockExclusive || t.held {
			return fmt.Errorf("%w: lock of kind %d; rank %d is locked already, or the kind is unknown", ft.ErrArgument, kind, rank)
		}
		t.request(kind)
		err = w.await(func() (bool, error) {
			if t.ended {
				return false, t.endedError()
			}
			return t.granted, w.broken()
		})
	}
	return w.finish(err)
}

// LockAll locks all ranks, shared.
func (w *Window) LockAll() error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	err := w.broken()
	for rank := range w.targets {
		if err != nil {
			break
		}
		var t *target
		if t, err = w.reach(rank); err == nil && t != nil && !t.ended && !t.held {
			t.request(LockShared)
		}
	}
	if err == nil {
		err = w.await(func() (bool, error) {
			for i := range w.targets {
				if t := &w.targets[i]; !t.ended && t.held && !t.granted {
					return false, w.broken()
				}
			}
			return true, w.lost(every)
		})
	}
	return w.finish(err)
}

// Unlock completes the operations on a rank and gives its lock back.
func (w *Window) Unlock(rank int) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	t, err := w.reach(rank)
	if err == nil && t != nil {
		if !t.held && !t.ended {
			return fmt.Errorf("%w: rank %d is not locked", ft.ErrArgument, rank)
		}
		err = w.unlockAll([]*target{t})
		if err == nil && t.ended {
			err = t.endedError()
		}
	}
	return w.finish(err)
}

// UnlockAll is Unlock for all ranks.
func (w *Window) UnlockAll() error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	err := w.broken()
	if err == nil {
		var list []*target
		for i := range w.targets {
			t := &w.targets[i]
			if t.account(); t.held {
				list = append(list, t)
			}
		}
		err = w.unlockAll(list)
	}
	if err == nil {
		err = w.lost(every)
	}
	return w.finish(err)
}

func (w *Window) unlockAll(list []*target) error {
	for _, t := range list {
		t.unlock()
	}
	return w.awaitFlushed(list)
}
