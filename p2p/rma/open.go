package rma

import "github.com/banyan-hpc/banyan/fabric/bakery"

// Operations on memory that this process reaches, and locks whose words it reaches, go without the engine's lock while
// nothing has failed. The state of a target says so. Fields that the engine's lock guards decide on it: refresh follows
// each change of them. A Lock and its Unlock change nothing but the state and the word of the lock, by a
// compare-and-swap each, which fails after a refresh; t.held and t.granted learn of such a lock when a caller with the
// engine's lock asks (account).

// Bits of the state of a target.
const (
	epochOpen = 1 << iota // operations may be done
	lockReady             // its lock may be taken and given back
	lockTaken             // it has been, which opens an epoch
)

// refresh finds the state of a target. It is called after each change of the fields that it reads. Precondition:
// the engine's lock is held.
func (t *target) refresh() {
	w := t.w
	if t.state.Swap(0)&lockTaken != 0 {
		t.held, t.granted = true, true
	}
	if t.near.Load() == nil && !t.lock.direct || t.ended || w.broken() != nil {
		return
	}
	state := uint32(0)
	if t.inEpoch() {
		state = epochOpen
	}
	if t.lock.direct && !t.held && t.lock.releaseAt == 0 {
		state |= lockReady
	}
	t.state.Store(state)
}

// inEpoch reports whether operations may be started. Precondition: as account, which has been called.
func (t *target) inEpoch() bool { return t.w.fenced || t.access || t.granted }

// account has held and granted say whether this rank has a target's lock. Precondition: the engine's lock is held.
func (t *target) account() {
	if t.state.Load()&lockTaken != 0 {
		t.refresh()
	}
}

// refresh is that of all targets.
func (w *Window) refresh() {
	for i := range w.targets {
		w.targets[i].refresh()
	}
}

// Near gives n bytes of a rank's memory, if operations may take them at once without the lock: this process
// reaches them, an epoch is open and nothing has failed. Else it is nil.
func (w *Window) Near(rank int, at uint64, n int) []byte {
	if uint(rank) >= uint(len(w.targets)) {
		return nil
	}
	t := &w.targets[rank]
	p := t.near.Load()
	if p == nil || t.state.Load()&(epochOpen|lockTaken) == 0 || !inside(at, uint64(n), t.size) {
		return nil
	}
	return bytesAt(p, at, n)
}

// Settled reports without the lock that an epoch is open and all operations on a rank are complete.
func (w *Window) Settled(rank int) bool {
	if uint(rank) >= uint(len(w.targets)) {
		return false
	}
	t := &w.targets[rank]
	return t.state.Load()&(epochOpen|lockTaken) != 0 && t.near.Load() != nil && !t.busy.Load()
}

// LockNow is Lock if the lock can be had at once without the engine's lock; false: nothing has changed.
func (w *Window) LockNow(kind LockKind, rank int) bool {
	if uint(rank) >= uint(len(w.targets)) || kind != LockShared && kind != LockExclusive {
		return false
	}
	t := &w.targets[rank]
	state := t.state.Load()
	if state&(lockReady|lockTaken) != lockReady {
		return false
	}
	if t.lock.Request(w.rank, bakery.Kind(kind)) && t.state.CompareAndSwap(state, state|lockTaken) {
		return true
	}
	t.lock.Release(w.rank)
	t.rouseLater()
	return false
}

// UnlockNow is Unlock of a lock that LockNow has taken, if no operation is under way; false: nothing has changed.
func (w *Window) UnlockNow(rank int) bool {
	if uint(rank) >= uint(len(w.targets)) {
		return false
	}
	t := &w.targets[rank]
	state := t.state.Load()
	if state&lockTaken == 0 || t.busy.Load() || !t.state.CompareAndSwap(state, state&^lockTaken) {
		return false
	}
	t.lock.Release(w.rank)
	t.rouseLater()
	return true
}

// rouseLater is rouse without the engine's lock.
func (t *target) rouseLater() {
	if t.lock.Next(0) < 0 {
		return
	}
	t.w.s.e.Lock()
	defer t.w.s.e.Unlock()
	if !t.w.freed {
		t.rouse()
	}
}
