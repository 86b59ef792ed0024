package rma

import "slices"

// LockKind is how a rank locks another rank's memory.
type LockKind uint8

// The kinds of locks.
const (
	LockShared LockKind = 1 + iota
	LockExclusive
)

// lock is the lock of this rank's memory: several shared holders, or one exclusive one. Requests
// are granted in order, so none waits for ever.
type lock struct {
	held  []LockKind // by rank
	queue []lockRequest
}

type lockRequest struct {
	rank int
	kind LockKind
}

func (l *lock) init(ranks int) { l.held, l.queue = make([]LockKind, ranks), nil }

// request queues a request. One that a rank makes twice, or of an unknown kind, is ignored.
func (l *lock) request(rank int, kind LockKind) {
	if kind != LockShared && kind != LockExclusive || l.held[rank] != 0 ||
		slices.ContainsFunc(l.queue, func(r lockRequest) bool { return r.rank == rank }) {
		return
	}
	l.queue = append(l.queue, lockRequest{rank, kind})
}

// release drops what a rank holds or waits for.
func (l *lock) release(rank int) {
	l.held[rank] = 0
	l.queue = slices.DeleteFunc(l.queue, func(r lockRequest) bool { return r.rank == rank })
}

// next grants the first request, if it can be, and gives its rank.
func (l *lock) next() (rank int, ok bool) {
	if len(l.queue) == 0 {
		return 0, false
	}
	r := l.queue[0]
	for _, k := range l.held {
		if k == LockExclusive || k == LockShared && r.kind == LockExclusive {
			return 0, false
		}
	}
	l.queue = l.queue[1:]
	l.held[r.rank] = r.kind
	return r.rank, true
}

// grant answers the requests that can be granted. Precondition: the lock is held.
func (w *Window) grant() {
	for {
		rank, ok := w.lock.next()
		if !ok {
			return
		}
		w.targets[rank].tell(kindGranted, 0)
	}
}
