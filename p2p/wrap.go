package p2p

// wrapping is a request around another one, by which a layer above changes the outcome. Its handle
// never has the generation of its record. So only calls with an outdated handle look here, and
// other requests pay nothing.
type wrapping struct {
	inner  Handle
	finish func(Status, error) (Status, error)
	ended  bool
	// before: an operation that decides whether there is anything to wait for; undecided: it has
	// not completed.
	before    Handle
	undecided bool
	verdict   func(error) error
	err       error // of the verdict
}

// Wrap returns a request in the place of h. Finish is called once, with the lock held, when the
// request ends: with the outcome of h, and it returns that of the request. Status.Cancelled: h was
// taken back, or left to the engine.
func (e *Engine) Wrap(h Handle, finish func(Status, error) (Status, error)) Handle {
	return wrapped(&wrapping{inner: h, finish: finish})
}

// WrapAfter is Wrap with an operation before h, for which verdict is called once, with the lock
// held, and the operation's error. The request ends with the error of the verdict if there is one:
// h is then left to the engine.
func (e *Engine) WrapAfter(
	before Handle, verdict func(error) error, h Handle, finish func(Status, error) (Status, error),
) Handle {
	return wrapped(&wrapping{inner: h, finish: finish, before: before, undecided: true, verdict: verdict})
}

func wrapped(w *wrapping) Handle { return Handle{&Request{gen: 1, wrap: w}, 0} }

// wrapping is nil for a handle that has ended, and for others.
func (h Handle) wrapping() *wrapping {
	if h.r == nil || h.r.wrap == nil || h.r.wrap.ended {
		return nil
	}
	return h.r.wrap
}

// awaited is the request that has to complete next.
func (h Handle) awaited() Handle {
	for {
		w := h.wrapping()
		switch {
		case w == nil:
			return h
		case w.undecided:
			h = w.before
		default:
			h = w.inner
		}
	}
}

// decide takes the outcome of the operation before. The error is that of a wait that has not ended it.
func (e *Engine) decide(w *wrapping) error {
	if !w.undecided {
		return nil
	}
	_, err := e.Take(w.before)
	if err != nil && e.State(w.before) != Ended {
		return err
	}
	w.undecided, w.err = false, w.verdict(err)
	return nil
}

// takeStale is Take of a handle whose record has another generation.
func (e *Engine) takeStale(h Handle) (Status, error) {
	w := h.wrapping()
	if w == nil {
		return Status{}, nil
	}
	if err := e.decide(w); err != nil {
		return Status{}, err
	}
	if w.err != nil {
		if e.State(w.inner) == Pending {
			e.Detach(w.inner)
		}
		w.ended = true
		return w.finish(Status{}, w.err)
	}
	st, err := e.Take(w.inner)
	if w.inner.r != nil && e.State(w.inner) != Ended {
		return st, err // in doubt
	}
	w.ended = true
	return w.finish(st, err)
}

// takeBlockingStale is TakeBlocking of such a handle, which Take has returned st and err for.
func (e *Engine) takeBlockingStale(h Handle, st Status, err error) (Status, error) {
	w := h.wrapping()
	if w == nil {
		return st, err
	}
	st, err = e.TakeBlocking(w.inner)
	w.ended = true
	return w.finish(st, err)
}

// testStale is Test of such a handle.
func (e *Engine) testStale(h Handle) (st Status, done bool, err error) {
	w := h.wrapping()
	if w == nil {
		return Status{}, true, nil
	}
	if e.State(h) != Complete {
		e.p.Progress()
	}
	if e.State(h) == Pending {
		return Status{}, false, nil
	}
	st, err = e.takeStale(h)
	return st, w.ended, err
}

// stateStale is State of such a handle.
func (e *Engine) stateStale(h Handle) State {
	w := h.wrapping()
	if w == nil {
		return Ended
	}
	if w.undecided {
		if e.State(w.before) == Pending {
			return Pending
		}
		if e.decide(w) != nil {
			return Complete // a goroutine waits for it
		}
	}
	if w.err != nil {
		return Complete
	}
	return e.State(w.inner)
}

// leave ends a wrapping whose request was taken back, or left to the engine.
func (w *wrapping) leave() {
	w.ended = true
	_, _ = w.finish(Status{Cancelled: true}, nil)
}
