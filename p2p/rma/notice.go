package rma

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
)

// WaitNotice waits until a counter of this rank has reached n, and subtracts n.
func (w *Window) WaitNotice(counter int, n uint64) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	return w.finish(w.await(func() (bool, error) {
		if ok, err := w.testNotice(counter, n); ok || err != nil {
			return ok, err
		}
		return false, w.lost(every)
	}))
}

// TestNotice is WaitNotice if that would not wait.
func (w *Window) TestNotice(counter int, n uint64) (bool, error) {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	w.s.e.Progress()
	ok, err := w.testNotice(counter, n)
	if !ok && err == nil {
		err = w.lost(every)
	}
	return ok, w.finish(err)
}

func (w *Window) testNotice(counter int, n uint64) (bool, error) {
	if err := w.broken(); err != nil {
		return false, err
	}
	if uint(counter) >= uint(len(w.notices)) {
		return false, fmt.Errorf("%w: counter %d, this rank has %d", ft.ErrArgument, counter, len(w.notices))
	}
	if w.notices[counter] < n {
		return false, nil
	}
	w.notices[counter] -= n
	return true, nil
}
