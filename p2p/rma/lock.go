package rma

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric/bakery"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// The lock of a rank's memory is a bakery: words, one for each rank. Where a rank reaches the words of another one, it
// writes its own there, and the owner need not take part. Elsewhere a message asks the owner, which writes the word for
// that rank. The owner is the keeper of the bakery: it learns of every death among those that use its lock, as it is
// connected to them.
//
// A waiting rank polls the word that keeps it from the lock. Before it sleeps it says so in its own word. A rank that
// lets a sleeping one go on tells the owner (kindRouse), which wakes it (kindWake), or grants the lock of a request.

// LockKind is how a rank locks another rank's memory.
type LockKind uint8

// The kinds of locks.
const (
	LockShared    = LockKind(bakery.Shared)
	LockExclusive = LockKind(bakery.Exclusive)
)

// ownLock is the lock of this rank's memory.
type ownLock struct {
	bakery.Lock
	block []byte // with the words; nil: no other process reaches them
	at    place  // of the words; zero: likewise
}

// theirLock is the state of locks of a window with one rank: of the lock of its memory, and of its request for that of
// this rank.
type theirLock struct {
	bakery.Lock
	at     place
	block  []byte // the mapped block of at
	found  bool   // it has been looked for
	direct bool   // this process writes its word itself
	passed int    // while it waits: see bakery.Lock.Granted
	// releaseAt is the flush after which the lock is released; 0: none.
	releaseAt uint64
	// asked, asks: the rank has asked for the lock of this rank by a message, and has not got it yet.
	asked, asks bool
	asksPassed  int
}

// waits are the locks for which this process looks at words.
type waits struct {
	locks   []*target // of these ranks, for this one
	asks    []*target // of this rank, for these
	watcher progress.Watcher
	watched bool
}

// makeLock makes the words of the lock. Without a block for them other ranks ask by messages.
func (w *Window) makeLock() {
	n := len(w.targets)
	w.waits.watcher = progress.Watcher{Look: w.lookAtLocks, Doze: w.dozeAtLocks}
	if w.s.blocks != nil && n > 1 {
		length := bakery.WordsOf(n) * wordBytes
		if mem, name, err := w.s.blocks.MakeBlock(length); err == nil {
			w.lock = ownLock{bakery.Open(wordsIn(mem), n), mem, place{block: name, length: uint64(length)}}
			return
		}
	}
	w.lock.Lock = bakery.Open(make([]bakery.Word, bakery.WordsOf(n)), n)
}

// findLock finds out whether the words of a rank's lock can be reached, once. Precondition: as of find.
func (t *target) findLock() {
	l, w := &t.lock, t.w
	if l.found {
		return
	}
	l.found = true
	if t.rank == w.rank {
		l.Lock, l.direct = w.lock.Lock, true
		return
	}
	if w.s.blocks == nil || l.at.none() {
		return
	}
	if block, err := w.s.blocks.OpenBlock(t.id, l.at.block, int(l.at.length)); err == nil {
		l.block, l.direct = block, true
		l.Lock = bakery.Open(wordsIn(block[l.at.from:]), len(w.targets))
	} // else messages reach it
}

// endLock lets no rank have the lock of this rank any more: one that reaches the words asks by a message, whose answer
// says that the window has been freed.
func (w *Window) endLock() {
	for i := range w.targets {
		w.lock.Exclude(i)
	}
	w.waits.locks, w.waits.asks = nil, nil
	w.watchLess()
}

// closeLocks ends the use of the blocks with words. Precondition: the lock is held, and the window is freed.
func (w *Window) closeLocks() {
	for i := range w.targets {
		if l := &w.targets[i].lock; l.block != nil {
			_ = w.s.blocks.CloseBlock(l.block) // it can only fail to unmap
			l.block, l.direct = nil, false
		}
	}
	if w.lock.block != nil {
		_ = w.s.blocks.CloseBlock(w.lock.block)
		w.lock = ownLock{}
	}
}

// request asks for a lock.
func (t *target) request(kind LockKind) {
	if t.ended {
		return
	}
	t.findLock()
	t.held, t.granted = true, false
	t.refresh()
	if !t.lock.direct {
		t.tell(kindLock, uint64(kind))
		return
	}
	if t.lock.Request(t.w.rank, bakery.Kind(kind)) {
		t.granted = true
		t.refresh()
		return
	}
	t.lock.passed = 0
	t.rouse()
	if t.look() {
		return
	}
	t.w.waits.locks = append(t.w.waits.locks, t)
	t.w.watchMore()
	if t.w.impaired || t.lock.Excluded(t.w.rank) {
		t.flush() // has the owner freed the window?
	}
}

// look reports whether this rank has the lock for which it waits.
func (t *target) look() bool {
	t.lock.passed, t.granted = t.lock.Granted(t.w.rank, t.lock.passed)
	if t.granted {
		t.refresh()
	}
	return t.granted
}

// unlock starts an unlock, which is a flush as well.
func (t *target) unlock() {
	t.held, t.granted = false, false
	switch {
	case !t.lock.direct:
		t.dirty = false
		t.busy.Store(true)
		t.sent++
		t.tell(kindUnlock, 0)
	case t.quiet():
		t.release()
	default:
		t.lock.releaseAt = t.flush()
	}
	t.refresh()
}

// release gives a lock back, or withdraws the request for it.
func (t *target) release() {
	t.lock.Release(t.w.rank)
	t.lock.releaseAt = 0
	t.w.forget(t)
	t.rouse()
}

// releaseLater releases the lock if the operations under it are complete by now.
func (t *target) releaseLater() {
	if at := t.lock.releaseAt; at != 0 && t.acked >= at {
		t.release()
		t.refresh()
	}
}

// rouse has the owner of a lock wake a rank that sleeps although it has it.
func (t *target) rouse() {
	switch {
	case t.lock.Next(0) < 0:
	case t.rank == t.w.rank:
		t.w.rouse()
	default:
		t.tell(kindRouse, 0)
	}
}

// askedFor takes a rank's request for the lock of this rank. One that a rank makes twice, or of an unknown kind, is ignored.
func (t *target) askedFor(kind LockKind) {
	if kind != LockShared && kind != LockExclusive || t.lock.asked {
		return
	}
	t.lock.asked, t.lock.asks, t.lock.asksPassed = true, true, 0
	if t.w.lock.Request(t.rank, bakery.Kind(kind)) {
		t.grantNow()
		return
	}
	t.w.rouse()
	if !t.grant() {
		t.w.waits.asks = append(t.w.waits.asks, t)
		t.w.watchMore()
	}
}

// grantNow answers a rank that has asked for the lock of this rank, and has it.
func (t *target) grantNow() {
	t.lock.asks = false
	t.tell(kindGranted, 0)
}

// grant is grantNow for a rank that has waited, if it has the lock by now.
func (t *target) grant() bool {
	var ok bool
	if t.lock.asksPassed, ok = t.w.lock.Granted(t.rank, t.lock.asksPassed); ok {
		t.grantNow()
	}
	return ok
}

// givenBack ends the lock, or the wait for it, of a rank that has asked by a message.
func (t *target) givenBack() {
	if !t.lock.asked {
		return
	}
	t.lock.asked, t.lock.asks = false, false
	t.w.lock.Release(t.rank)
	t.w.forget(t)
}

// exclude ends the part of a rank that has ended in locks.
func (w *Window) exclude(t *target) {
	t.lock.asked, t.lock.asks, t.lock.releaseAt = false, false, 0
	w.lock.Exclude(t.rank)
	w.forget(t)
	w.rouse()
}

// rouse wakes the ranks that sleep although they have the lock of this rank.
func (w *Window) rouse() {
	w.lookAtLocks()
	for rank := w.lock.Next(0); rank >= 0; rank = w.lock.Next(rank + 1) {
		if t := &w.targets[rank]; rank != w.rank && !t.lock.asked {
			t.tell(kindWake, 0)
		}
	}
}

// lookAtLocks implements progress.Watcher: it looks whether locks for which this process waits can be had.
func (w *Window) lookAtLocks() (found int) {
	v := &w.waits
	was := len(v.locks) + len(v.asks)
	if was == 0 {
		return 0
	}
	v.locks = slices.DeleteFunc(v.locks, (*target).look)
	v.asks = slices.DeleteFunc(v.asks, (*target).grant)
	if found = was - len(v.locks) - len(v.asks); found > 0 {
		w.wake()
		w.watchLess()
	}
	return found
}

// dozeAtLocks implements progress.Watcher: this process is about to sleep.
func (w *Window) dozeAtLocks() bool {
	for _, t := range w.waits.locks {
		t.lock.Sleep(w.rank)
	}
	for _, t := range w.waits.asks {
		w.lock.Sleep(t.rank)
	}
	return w.lookAtLocks() == 0
}

// forget ends waits for the lock of a rank, and of the rank.
func (w *Window) forget(t *target) {
	v := &w.waits
	if len(v.locks)+len(v.asks) == 0 {
		return
	}
	v.locks = slices.DeleteFunc(v.locks, func(o *target) bool { return o == t && (!o.held || o.ended) })
	v.asks = slices.DeleteFunc(v.asks, func(o *target) bool { return o == t && !o.lock.asks })
	w.watchLess()
}

// watchMore has the engine look at words, as this process waits for one more lock. A goroutine that sleeps already has
// not said so in the word for that lock: it does before another one relies on it.
func (w *Window) watchMore() {
	if w.waits.watched {
		w.s.e.Unwatch(&w.waits.watcher)
	}
	w.waits.watched = true
	w.s.e.Watch(&w.waits.watcher)
	w.s.e.Kick()
}

// watchLess ends that when there is nothing left to wait for.
func (w *Window) watchLess() {
	if v := &w.waits; v.watched && len(v.locks)+len(v.asks) == 0 {
		v.watched = false
		w.s.e.Unwatch(&v.watcher)
	}
}
