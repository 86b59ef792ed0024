package rma

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// onEnd is called when a member has ended, for all or for this window. Precondition: the lock is held.
func (w *Window) onEnd(t *target, how end) {
	if t.ended && (t.how != freed || how == freed) {
		return
	}
	t.ended, t.how = true, how
	err := t.endedError()
	for token, r := range w.results {
		if r.t == t {
			r.done, r.err = true, err
			delete(w.results, token)
		}
	}
	t.out, t.replies, t.open, t.waiting = nil, nil, 0, 0
	t.endRequests(err)
	w.exclude(t)
	if how == failed && !t.agreed && w.runThrough && w.failed == nil {
		// Hursey & Graham: the window is invalid until a validate. Locks stay until a call reports that: their holder may
		// be at work on shared memory.
		w.failed = err
		w.endRequests(err)
	}
	w.refresh()
	if how != departed {
		w.impaired = true
		w.inquire()
	}
	w.wake()
}

// inquire asks the ranks from which this one may await a post, a complete or a lock that it sees in their words whether
// they have the window still: after a failure they may have freed it. Their answer to the flush says so.
func (w *Window) inquire() {
	for i := range w.targets {
		if t := &w.targets[i]; t.access && t.posted == 0 || t.exposed && t.completed == 0 || slices.Contains(w.waits.locks, t) {
			t.flush()
		}
	}
}

// endedError is the error of an operation that needs a rank that has ended.
func (t *target) endedError() error {
	switch t.how {
	case departed:
		return fmt.Errorf("rank %d: %w", t.rank, ft.ErrDeparted)
	case freed:
		return fmt.Errorf("rank %d has freed the window, or has failed to create it: %w", t.rank, ft.ErrDeparted)
	}
	return t.w.core.FailedError([]proc.ID{t.id})
}

// lost is the error that names the failed ones of some members on which no validate has agreed, or else
// one that has no window any more.
func (w *Window) lost(of func(*target) bool) (err error) {
	var all []proc.ID
	for i := range w.targets {
		t := &w.targets[i]
		switch {
		case !t.ended || t.agreed || !of(t):
		case t.how == failed:
			all = append(all, t.id)
		case t.how == freed && err == nil:
			err = t.endedError()
		}
	}
	if all == nil {
		return err
	}
	return w.core.FailedError(all)
}

// gone is lost, or names a member that has departed.
func (w *Window) gone(of func(*target) bool) error {
	if err := w.lost(of); err != nil {
		return err
	}
	for i := range w.targets {
		if t := &w.targets[i]; t.ended && t.how == departed && of(t) {
			return t.endedError()
		}
	}
	return nil
}

// finish ends a synchronisation. If it has found a failure the epoch ends: operations on living targets
// complete, locks are given back, and the window stays failed (ULFM 17.2.4).
func (w *Window) finish(err error) error {
	if err = w.returns(err); err == nil || !errors.Is(err, ft.ErrProcFailed) || w.freed {
		return err
	}
	if w.failed == nil {
		if w.lost(every) == nil {
			return err // of a rank that a validate has agreed on: the others go on
		}
		w.failed = err
	}
	w.completeLiving()
	w.endAccess()
	w.release()
	w.refresh()
	w.wake()
	return err
}

// completeLiving waits for the operations on living targets, after any failures.
func (w *Window) completeLiving() {
	for i := range w.targets {
		if t := &w.targets[i]; t.dirty && !t.ended {
			t.flush()
		}
	}
	_ = w.await(func() (bool, error) {
		for i := range w.targets {
			if t := &w.targets[i]; !t.ended && !t.flushed() {
				if w.freed {
					return false, errFreed
				}
				return false, w.core.UnrevokedLocked()
			}
		}
		return true, nil
	})
}

// release gives back the locks that this rank holds or has asked for.
func (w *Window) release() {
	for i := range w.targets {
		t := &w.targets[i]
		if t.account(); t.held && !t.ended {
			t.unlock()
		}
		t.held, t.granted, t.exposed = false, false, false
	}
	w.fenced = false
}

// endRequests ends all requests and results with an error. Operations that wait go on with copies, and do not read
// any more, as the buffers belong to the application again.
func (w *Window) endRequests(err error) {
	for i := range w.targets {
		t := &w.targets[i]
		t.abandon()
		for k := range t.out {
			t.out[k].data = bytes.Clone(t.out[k].data)
		}
		t.endRequests(err)
	}
	for token, r := range w.results {
		r.done, r.err = true, err
		delete(w.results, token)
	}
}

// endRequests ends the requests of a rank with an error, as soon as no adapter uses their buffers any more.
func (t *target) endRequests(err error) {
	for i := range t.requests {
		if t.requests[i].err == nil {
			t.requests[i].err = err
		}
	}
	t.completeRequests()
}

// Reset begins a new generation after a validate of the window's communicator, which all living members have
// called: no epoch, lock or operation is left. Ended are the members that were agreed to have failed. A barrier must
// follow before the next operation, as a frame of the new generation may not come before its reset.
func (w *Window) Reset(ended []proc.ID) {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	w.endRequests(ft.ErrProcFailed)
	w.settle() // nothing of the last generation is written after the barrier
	w.gen = (w.gen + 1) & generation
	w.failed, w.fenced = nil, false
	for i := range w.targets {
		t := &w.targets[i]
		t.drop()
		if slices.Contains(ended, t.id) {
			t.ended, t.how, t.agreed = true, failed, true
			w.lock.Exclude(i)
		}
	}
	if w.runThrough {
		w.failed = w.lost(every)
	}
	w.refresh()
	w.wake()
}

// Fail makes the window fail if there are failures that no validate has agreed on: the barrier after a
// reset has found one.
func (w *Window) Fail() {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	if w.failed == nil {
		w.failed = w.lost(every)
	}
	w.refresh()
}
