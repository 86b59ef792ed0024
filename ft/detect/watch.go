package detect

import (
	"cmp"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Reasons to watch a process.
const (
	watchPred       = 1 // it is the predecessor on the ring
	watchFar        = 2 // it marked this one as its far observer
	watchUnanswered = 4 // it did not reply to a query
)

// never is earlier than all times.
const never = fabric.Time(-1 << 62)

// watch is a process from which frames are expected. Times are of the machine's clock, which stands
// still while the process does not run.
type watch struct {
	id        proc.ID
	reasons   byte
	lastSeen  fabric.Time // the last sign of life, direct or reported, or the start of a grace period
	queried   fabric.Time // the start of the suspicion; never: not suspected
	lastFrame fabric.Time // the last frame from the process itself
}

// round is a query to all processes.
type round struct {
	id       uint64
	open     bool
	started  fabric.Time // when all were queried last
	repeated fabric.Time // when those that had not replied were queried last
	answered map[proc.ID]fabric.Time
	short    bool        // a verdict was due without a majority
	lacking  fabric.Time // since when; never: there was a majority
}

func (m *Machine) clock() fabric.Time { return m.now - m.heldTotal }

func (m *Machine) search(id proc.ID) (int, bool) {
	return slices.BinarySearchFunc(m.watches, id, func(w watch, id proc.ID) int { return cmp.Compare(w.id, id) })
}

// observe starts to watch a process as if it had been heard at the given clock; it does not change
// the state of a watched one.
func (m *Machine) observe(id proc.ID, why byte, seen fabric.Time) {
	i, ok := m.search(id)
	if ok {
		m.watches[i].reasons |= why
		return
	}
	m.watches = slices.Insert(m.watches, i, watch{id, why, seen, never, never})
	m.wake(seen + m.cfg.patience() + m.heldTotal)
}

func (m *Machine) unwatch(id proc.ID) {
	if i, ok := m.search(id); ok {
		m.watches = slices.Delete(m.watches, i, i+1)
	}
	m.probes = slices.DeleteFunc(m.probes, func(p probe) bool { return p.suspect == id || p.asker == id })
	delete(m.round.answered, id)
}

// alive records a sign of life of a process, direct or reported.
func (m *Machine) alive(id proc.ID) {
	if i, ok := m.search(id); ok {
		w := &m.watches[i]
		m.stats.Silence = max(m.stats.Silence, m.clock()-w.lastSeen)
		w.lastSeen, w.queried = max(w.lastSeen, m.clock()), never
		if w.reasons &^= watchUnanswered; w.reasons == 0 {
			m.watches = slices.Delete(m.watches, i, i+1)
		}
	}
}

// choosePartners chooses the neighbours on the ring again. New receivers get a heartbeat at once.
func (m *Machine) choosePartners() {
	succ, far, pred := m.nextLive(1), proc.None, m.nextLive(-1)
	if m.cfg.Procs > 3 {
		far = m.nextOffNode(m.cfg.Procs / 2)
	}
	if far == succ {
		far = proc.None
	}
	if succ != m.succ && succ != proc.None {
		m.sendPatiently(succ, heartbeatFrame, true)
	}
	if far != m.far && far != proc.None {
		m.sendPatiently(far, farHeartbeatFrame, true)
	}
	m.succ, m.far = succ, far
	if pred != proc.None {
		m.observe(pred, watchPred, m.clock())
	}
}

// nextOffNode is the first living process from distance d on that is on another node than this one,
// around the ring; if all are on this node, the first living one.
func (m *Machine) nextOffNode(d int) proc.ID {
	n := m.cfg.Procs
	if m.cfg.Node != nil {
		home := m.cfg.Node(m.cfg.Self)
		for i := range n {
			q := proc.ID((int(m.cfg.Self) + d + i) % n)
			if q != m.cfg.Self && !m.isEnded(q) && m.cfg.Node(q) != home {
				return q
			}
		}
	}
	return m.nextLive(d)
}

// sendHeartbeats sends the heartbeats of this period and does all other periodic work.
func (m *Machine) sendHeartbeats() {
	if m.now < m.next {
		return
	}
	if m.next += m.cfg.Period; m.next <= m.now {
		m.next = m.now + m.cfg.Period
	}
	if m.succ != proc.None {
		m.send(m.succ, heartbeatFrame)
	}
	if m.far != proc.None {
		m.send(m.far, farHeartbeatFrame)
	}
	m.resend()
	m.probes = slices.DeleteFunc(m.probes, func(p probe) bool { return p.until <= m.clock() })
}

// checkSilence queries all processes about new suspects, repeats the query after half of the
// window, and ends the round when there is no suspect any more.
func (m *Machine) checkSilence() {
	clock, open := m.clock(), false
	var names []proc.ID
	for i := range m.watches {
		w := &m.watches[i]
		if w.queried == never && clock-w.lastSeen >= m.cfg.patience() {
			w.queried = clock
			m.stats.Suspicions++
			names = append(names, w.id)
		}
		open = open || w.queried != never
	}
	switch {
	case !open:
		m.round.open, m.round.answered = false, nil
	case len(names) > 0:
		m.queryAll(names)
	case clock-m.round.repeated >= m.cfg.window()/2:
		m.requery()
	}
}

// queryAll starts a round, or queries all again within one, for new suspects.
func (m *Machine) queryAll(names []proc.ID) {
	r := &m.round
	if !r.open {
		r.answered = make(map[proc.ID]fabric.Time)
		r.short, r.lacking = false, never
	}
	r.open, r.started = true, m.clock()
	r.repeated = r.started
	r.id++
	m.query(names, func(proc.ID) bool { return true })
}

// query sends a query about names to the chosen living processes.
func (m *Machine) query(names []proc.ID, chosen func(proc.ID) bool) {
	for part := range slices.Chunk(names, maxNames) {
		b := appendQuery(nil, m.round.id, part)
		for q := range proc.ID(m.cfg.Procs) {
			if q != m.cfg.Self && chosen(q) && !m.isEnded(q) {
				m.send(q, b)
			}
		}
	}
}

// requery repeats the query to the processes that have not replied, and watches them from now on:
// they have been silent since the query.
func (m *Machine) requery() {
	r := &m.round
	r.repeated = m.clock()
	var names []proc.ID
	for _, w := range m.watches {
		if w.queried != never {
			names = append(names, w.id)
		}
	}
	mute := func(q proc.ID) bool {
		at, ok := r.answered[q]
		return !ok || at < r.started
	}
	m.query(names, mute)
	for q := range proc.ID(m.cfg.Procs) {
		if q != m.cfg.Self && mute(q) && !m.isEnded(q) {
			m.observe(q, watchUnanswered, r.started)
		}
	}
}

// passVerdicts condemns the processes that have been silent for the timeout and under query for the
// whole window.
func (m *Machine) passVerdicts() {
	var due []proc.ID
	since, clock := never, m.clock()
	for _, w := range m.watches {
		if w.queried != never && clock-w.lastSeen >= m.cfg.Timeout && clock-w.queried >= m.cfg.window() {
			due = append(due, w.id)
			since = max(since, w.queried)
		}
	}
	if len(due) == 0 || m.onlyUnreachableLeft() {
		return
	}
	if m.cfg.Partition == Majority && !m.broken.alone && !m.mayDecide(due, since) {
		return
	}
	for _, id := range due {
		i, _ := m.search(id)
		cause, silent := proc.Cause{Kind: proc.Heartbeat}, clock-m.watches[i].lastSeen
		if m.record(id, cause, proc.None) {
			m.report(id, cause, silent)
		}
	}
}

// onlyUnreachableLeft reports whether all living processes are unreachable from here. They are
// silent, and no other process could confirm them.
func (m *Machine) onlyUnreachableLeft() bool {
	apart := 0
	for _, id := range m.unreachable {
		if !m.isEnded(id) {
			apart++
		}
	}
	return apart > 0 && apart == m.cfg.Procs-1-len(m.log)-len(m.missing)
}

// mayDecide reports whether this side goes on. Without a majority it waits a Timeout more for
// replies before it ends: where all are busy and connections have yet to be made, a window is
// short. If it then has a majority it queries again: meanwhile the other side may have condemned
// this one and shrunk by departures.
func (m *Machine) mayDecide(due []proc.ID, since fabric.Time) bool {
	r := &m.round
	switch with, clock := m.majority(since), m.clock(); {
	case with && !r.short:
		return true
	case with:
		r.short = false
		for _, id := range due {
			i, _ := m.search(id)
			m.watches[i].queried = clock
		}
		m.queryAll(due)
	case r.lacking == never:
		r.short, r.lacking = true, clock
	default:
		r.short = true
		if clock-r.lacking >= m.cfg.Timeout {
			m.end(&EndError{Partition: true, With: m.supporters(since), Of: m.counted, By: proc.None})
		}
	}
	return false
}

// supporters is the number of processes on this side: this one and those that replied since then.
func (m *Machine) supporters(since fabric.Time) int {
	with := 1
	for _, at := range m.round.answered {
		if at >= since {
			with++
		}
	}
	return with
}

// majority reports whether this side goes on.
func (m *Machine) majority(since fabric.Time) bool {
	with := m.supporters(since)
	if 2*with > m.counted {
		return true
	}
	if 2*with == m.counted {
		lowest := proc.ID(0)
		for i, ok := m.index[lowest]; ok && m.log[i].proven || m.missing[lowest]; i, ok = m.index[lowest] {
			lowest++
		}
		if at, ok := m.round.answered[lowest]; lowest == m.cfg.Self || ok && at >= since {
			return true
		}
	}
	return false
}
