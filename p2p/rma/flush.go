package rma

// flushAll waits until the operations on all targets that want it are complete, or their targets have
// ended.
func (w *Window) flushAll(wanted func(*target) bool) error {
	var list []*target
	for i := range w.targets {
		t := &w.targets[i]
		if waits := !t.ended && !t.quiet(); !waits && !t.refused || !wanted(t) {
			continue
		}
		if t.dirty && !t.ended {
			t.flush()
		}
		list = append(list, t)
	}
	return w.awaitFlushed(list)
}

// awaitFlushed waits for the answers to flushes and the moves before them, and reports operations that targets have refused.
func (w *Window) awaitFlushed(list []*target) error {
	err := w.await(func() (bool, error) {
		for _, t := range list {
			if !t.ended && !t.flushed() {
				return false, w.broken()
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.refused {
			err = t.refusal()
			t.refused = false
		}
	}
	return err
}

func every(*target) bool { return true }

// Flush waits until the operations on a rank are complete at the rank and here.
func (w *Window) Flush(rank int) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	t, err := w.reach(rank)
	if err == nil && t != nil {
		if !t.quiet() || t.refused {
			err = w.flushAll(func(o *target) bool { return o == t })
		}
		if err == nil {
			err = t.within()
		}
	}
	return w.finish(err)
}

// FlushLocal waits until the buffers of the operations on a rank may be used again: data that they read are
// here, and data that they write have left them.
func (w *Window) FlushLocal(rank int) error {
	if w.Settled(rank) {
		return nil
	}
	w.s.e.Lock()
	defer w.s.e.Unlock()
	t, err := w.reach(rank)
	if err == nil && t != nil {
		err = w.await(func() (bool, error) {
			switch {
			case t.ended:
				return false, t.endedError()
			case t.left():
				return true, t.within()
			}
			return false, w.broken()
		})
	}
	return w.finish(err)
}

// FlushLocalAll is FlushLocal for all ranks.
func (w *Window) FlushLocalAll() error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	err := w.broken()
	if err == nil {
		err = w.await(func() (bool, error) {
			for i := range w.targets {
				if t := &w.targets[i]; !t.ended && !t.left() {
					return false, w.broken()
				}
			}
			return true, w.within()
		})
	}
	return w.finish(err)
}

// left reports whether no operation on the rank uses a buffer of the application any more.
func (t *target) left() bool {
	if len(t.out)+t.underWay > 0 {
		return false
	}
	for _, r := range t.w.results {
		if r.t == t {
			return false
		}
	}
	return true
}

// Sync makes progress, and lets loads and stores on shared memory before it be over for those after it.
func (w *Window) Sync() error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	w.s.e.Progress()
	return w.returns(w.broken()) // the lock is a barrier for memory
}

// FlushAll is Flush for all ranks.
func (w *Window) FlushAll() error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	err := w.broken()
	if err == nil {
		err = w.flushAll(every)
	}
	if err == nil {
		err = w.within()
	}
	return w.finish(err)
}

// within is the error of a flush of a rank that has ended, or outside of an epoch (MPI-4, 12.5.4).
func (t *target) within() error {
	switch {
	case t.ended:
		return t.endedError()
	case !t.inEpoch():
		return errNoEpoch
	}
	return nil
}

// within is that of a flush of all ranks.
func (w *Window) within() error {
	if err := w.lost(every); err != nil {
		return err
	}
	for i := range w.targets {
		t := &w.targets[i]
		if t.account(); t.inEpoch() {
			return nil
		}
	}
	return errNoEpoch
}
