package progress

import "github.com/banyan-hpc/banyan/fabric"

const (
	// partnerPolls is the number of polls of one peer in vain, some 40 µs, for which a wait stays on its
	// core while that peer has one. A round takes as long as roundPolls. Await does awaitPolls at a time.
	partnerPolls = 2048
	roundPolls   = 4
	awaitPolls   = 32
)

// runs reports whether the peer has a core now and may be expected to answer soon. Ranks that share
// cores yield in each wait; two of them that have cores at the same time exchange messages without, until
// one of them loses its core. A peer that does not answer is waited for once in each of its turns: the
// caller is about to take so many polls.
func (ep *Endpoint) runs(polls int) bool {
	if ep.shm == nil {
		return false
	}
	if turn := ep.shm.Turn(); turn != ep.turn {
		ep.turn, ep.patience = turn, partnerPolls
	}
	if ep.turn%2 == 0 || ep.patience < polls {
		return false
	}
	ep.patience -= polls
	return true
}

// answered notes that the wait for the peer, which may be nil, has ended.
func (ep *Endpoint) answered() {
	if ep != nil {
		ep.patience = partnerPolls
	}
}

// Crowded reports whether the processes of this node share cores.
func (e *Engine) Crowded() bool { return e.crowded }

// WaitFor is Wait for an action of the peer.
func (e *Engine) WaitFor(c *Completion, ep *Endpoint) {
	c.partner = ep
	e.Wait(c)
	c.partner = nil
}

// setRuns reports to the peers whether this process has a core or yields it to others.
func (e *Engine) setRuns(runs bool) {
	if e.crowded && e.shm != nil {
		e.shm.SetRuns(runs)
	}
}

// YieldProcess lets other processes run once, unless this host prefers to sleep, and reports
// whether it has. Precondition: the lock is held, as on return.
func (e *Engine) YieldProcess() bool {
	if e.yields == 0 || e.contenders.Load() != 0 {
		return false
	}
	e.yieldProcess()
	return true
}

// patientTurns is one wait of how many does not begin with Turn, so that messages, timers and deaths are looked at.
const patientTurns = 8

// Turn gives the other processes one turn, where processes share cores, and then looks at the watchers and at
// nothing else. A wait for a watcher may begin with it: the less memory is touched in a turn the shorter it is,
// as the cache holds another process's by then. Precondition: the lock is held.
func (e *Engine) Turn() {
	if e.turns++; e.turns%patientTurns == 0 || e.spins > 0 || e.progressing || len(e.watchers) == 0 || !e.YieldProcess() {
		return
	}
	for i := 0; i < len(e.watchers) && !e.progressing; i++ {
		if e.watchers[i].Look() > 0 {
			return
		}
	}
}

// yieldProcess is yield for a goroutine that has found nothing and delays no other one.
func (e *Engine) yieldProcess() {
	if e.idlePolls < idlePolls {
		e.gapLeft = 0
	} else {
		e.gapLeft = min(e.gapLeft, turnGap)
	}
	if e.yieldMost == fabric.Forever {
		e.Unlock()
		e.host.Relax()
		e.Lock()
		return
	}
	start := e.host.Now()
	e.setRuns(false)
	e.Unlock()
	e.host.Relax()
	e.Lock()
	e.setRuns(true)
	if e.lull.yielded(e.host.Now() - start) {
		e.patientAwait(e.lull.polls)
	}
}
