package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// tryPause is the time between two series of attempts to take the lock, tryLooks their length. A
// goroutine that polls releases the lock for an instant between two polls.
const tryPause fabric.Time = 1_000_000

const tryLooks = 1000

// TryLock acquires the lock, unless that fails in as many series of attempts, about a millisecond
// each: a goroutine is stuck with it.
func (e *Engine) TryLock(series int) bool {
	e.contenders.Add(1)
	defer e.contenders.Add(-1)
	for range series {
		for range tryLooks {
			if e.tryAcquire() {
				return true
			}
			e.host.Yield()
		}
		e.host.Pause(tryPause)
	}
	return false
}

// Known returns the endpoint of a peer to which there is a connection, or nil. Precondition: the lock
// is held.
func (e *Engine) Known(peer proc.ID) *Endpoint {
	if peer == e.self {
		return e.Lookup(peer)
	}
	return e.endpoints.get(peer)
}

// stamp notes the time at which the waiter of c first gives up its processor.
func (e *Engine) stamp(c *Completion) {
	if c.since == 0 {
		c.since = e.host.Now()
	}
}

// Waited returns how long a goroutine has slept for c, and whether it does now. A goroutine that
// polls does not count. Precondition: the lock is held.
func (e *Engine) Waited(c *Completion) (since fabric.Time, sleeps bool) {
	if c.in == nil && c.asleep == nil {
		return 0, false
	}
	return e.host.Now() - c.since, true
}

// Watched calls fn for the conditions beside frames that goroutines wait for. Precondition: the
// lock is held.
func (e *Engine) Watched(fn func(what string, c *Completion)) {
	for _, w := range e.watchers {
		if w.Waiting != nil {
			fn(w.Waiting())
		}
	}
}
