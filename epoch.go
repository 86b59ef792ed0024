package banyan

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p/rma"
)

// Synchronisation of windows. Errors of all: ErrProcFailed, if a rank that the call needs has failed;
// ErrDeparted, ErrRevoked, ErrClosed, ErrArgument. Fence, FlushAll, LockAll, UnlockAll and WaitNotice need all
// members, Flush, Lock and Unlock the target, Start, Post, Complete and Wait their group.

// LockKind is how memory is locked.
type LockKind = rma.LockKind

// The kinds of locks. Several ranks may hold LockShared at once.
const (
	LockShared    = rma.LockShared
	LockExclusive = rma.LockExclusive
)

// end is the error of an operation.
func (w *Window) end(op string, err error, args ...ft.Arg) error {
	if err == nil {
		return nil
	}
	return w.c.notifyOf(op, err, args...)
}

// wrong is the error of a wrong argument.
func (w *Window) wrong(op string, err error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	return w.c.notifyOf(op, err)
}

// sync is the error of a synchronisation. After a failure other ranks that wait for this one in a fence learn
// that it does not come.
func (w *Window) sync(op string, err error, args ...ft.Arg) error {
	if errors.Is(err, ErrProcFailed) {
		w.c.core.Coll().GiveUp()
	}
	return w.end(op, err, args...)
}

// Fence completes all operations on this rank's memory and of this rank, and begins an epoch at all
// ranks. It is collective.
func (w *Window) Fence() error {
	if !w.valid() {
		return misuse("Fence", errAbsent)
	}
	return w.sync("Fence", w.core.Fence(func() error { return w.c.doBarrier(manner{}) }))
}

// Post lets ranks access this rank's memory, until Wait.
func (w *Window) Post(origins Group) error {
	return w.among("Post", origins, (*rma.Window).Post)
}

// Start waits until ranks have posted, and lets this rank access their memory until Complete.
func (w *Window) Start(targets Group) error {
	return w.among("Start", targets, (*rma.Window).StartAccess)
}

func (w *Window) among(op string, g Group, do func(*rma.Window, []int) error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	var ranks []int
	for _, p := range g.g.Procs() {
		rank := w.c.core.Members().Rank(p)
		if rank < 0 {
			return w.wrong(op, fmt.Errorf("%w: %v is no rank of the window", ErrArgument, p))
		}
		ranks = append(ranks, rank)
	}
	return w.sync(op, do(w.core, ranks))
}

// Complete ends what Start began: the operations are complete.
func (w *Window) Complete() error { return w.call("Complete", (*rma.Window).Complete) }

// Wait ends what Post began, when all ranks of its group have called Complete.
func (w *Window) Wait() error { return w.call("Wait", (*rma.Window).Wait) }

func (w *Window) call(op string, do func(*rma.Window) error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	return w.sync(op, do(w.core))
}

func (w *Window) callOn(op string, rank int, do func(*rma.Window, int) error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	return w.sync(op, do(w.core, rank), arg("rank", rank))
}

// Test makes progress and is Wait if all have called Complete; else it reports false.
func (w *Window) Test() (done bool, err error) {
	if !w.valid() {
		return false, misuse("Test", errAbsent)
	}
	done, err = w.core.Test()
	return done, w.sync("Test", err)
}

// Lock waits for a lock of a rank's memory, and lets this rank access it until Unlock. Locks are granted in the
// order of requests. That of a rank that has died is free.
func (w *Window) Lock(kind LockKind, rank int) error {
	return w.callOn("Lock", rank, func(w *rma.Window, rank int) error { return w.Lock(kind, rank) })
}

// Unlock completes the operations on the rank and releases the lock.
func (w *Window) Unlock(rank int) error { return w.callOn("Unlock", rank, (*rma.Window).Unlock) }

// LockAll is Lock of all ranks, shared. It is not collective.
func (w *Window) LockAll() error { return w.call("LockAll", (*rma.Window).LockAll) }

// UnlockAll is Unlock of all ranks that are locked.
func (w *Window) UnlockAll() error { return w.call("UnlockAll", (*rma.Window).UnlockAll) }

// Flush completes the operations on a rank: at the rank, and what they read is here.
func (w *Window) Flush(rank int) error { return w.callOn("Flush", rank, (*rma.Window).Flush) }

// FlushAll is Flush of all ranks.
func (w *Window) FlushAll() error { return w.call("FlushAll", (*rma.Window).FlushAll) }

// WaitNotice waits until a counter of this rank has reached n, and subtracts n ([Window.PutNotify]). It needs
// no epoch. The failure of any member ends it, unless the counter is there.
func (w *Window) WaitNotice(counter int, n uint64) error {
	return w.call("WaitNotice", func(w *rma.Window) error { return w.WaitNotice(counter, n) })
}

// TestNotice makes progress and is WaitNotice if the counter is there; else it reports false.
func (w *Window) TestNotice(counter int, n uint64) (bool, error) {
	if !w.valid() {
		return false, misuse("TestNotice", errAbsent)
	}
	ok, err := w.core.TestNotice(counter, n)
	return ok, w.sync("TestNotice", err)
}

// Bytes is this rank's memory.
func (w *Window) Bytes() []byte {
	if !w.valid() {
		return nil
	}
	return w.core.Bytes()
}

// SizeAt is the length of a rank's memory in bytes; 0 for a rank that does not exist.
func (w *Window) SizeAt(rank int) int {
	if !w.valid() || rank < 0 || rank >= w.c.Size() {
		return 0
	}
	return w.core.SizeAt(rank)
}

// Free ends the window, after all ranks have called it: it is collective. With an error it has been
// freed on this rank all the same (ULFM 17.2.4).
func (w *Window) Free() error {
	if !w.valid() {
		return misuse("Free", errAbsent)
	}
	err := w.core.Fence(func() error { return w.c.doBarrier(manner{}) })
	w.core.Free()
	if errors.Is(err, ErrProcFailed) {
		w.c.core.Coll().GiveUp()
	}
	if err = w.end("Free", err); err == nil || !errors.Is(err, ErrClosed) {
		err = errors.Join(err, w.c.free())
	}
	return err
}

// Revoke ends all communication on the window, here at once and soon at every living rank (ULFM 17.3.2):
// every call but Failed, Validate and Free is ErrRevoked.
func (w *Window) Revoke() error {
	if !w.valid() {
		return misuse("Revoke", errAbsent)
	}
	return w.end("Revoke", w.c.core.Revoke())
}

// IsRevoked makes progress and reports whether any rank has revoked the window.
func (w *Window) IsRevoked() bool { return w.valid() && w.c.core.Revoked() }

// Failed makes progress and gives the members that this process knows to have failed; see [Comm.Failed].
func (w *Window) Failed() Group {
	if !w.valid() {
		return Group{}
	}
	return w.c.Failed()
}

// FailedRanks gives the members of Failed by their ranks in the window.
func (w *Window) FailedRanks() []int {
	if !w.valid() {
		return nil
	}
	return w.c.FailedRanks()
}

// Validate makes the window work again after failures, among the remaining ranks; see [Comm.Validate].
// All living ranks call it. No epoch, lock or notice that waits is left; memory and counters keep their
// values. Operations on the agreed failed ranks do nothing under [RTS]; under [ULFM] synchronisation
// with them alone is ErrProcFailed. ErrProcFailed: another rank has failed meanwhile, call it again. A revoked
// window remains revoked.
func (w *Window) Validate() (Group, error) {
	if !w.valid() {
		return Group{}, misuse("Validate", errAbsent)
	}
	var failed Group
	err := w.c.wait(w.c.validate([]*Comm{w.c}, func(_ int, g Group) { failed = g }))
	if err != nil {
		return Group{}, w.end("Validate", err)
	}
	var ended []proc.ID
	ended = append(ended, failed.g.Procs()...)
	w.core.Reset(ended)
	if w.c.core.Revoked() {
		return failed, nil
	}
	if err = w.c.doBarrier(manner{}); err != nil {
		w.core.Fail()
	}
	return failed, w.sync("Validate", err)
}
