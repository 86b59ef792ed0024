package detect

import (
	"cmp"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Why a process is watched.
const (
	watchPred       = 1 // it is the one before this on the ring
	watchFar        = 2 // it said that this one is its far observer
	watchUnanswered = 4 // it did not answer a question
)

// never is a clock before all others.
const never = fabric.Time(-1 << 62)

// watch is a process from which something is expected. Times are of the
// machine's clock, which stands still while the process is held up.
type watch struct {
	id      proc.ID
	reasons byte
	heard   fabric.Time // when something was heard of it last
	queried fabric.Time // since when it is asked for; never: it is not suspected
	direct  fabric.Time // when something came from it itself; heard may be another's word, or a respite
}

// round is a question to all.
type round struct {
	id       uint64
	open     bool
	started  fabric.Time // when all were asked last
	repeated fabric.Time // when those who had not answered were asked last
	answered map[proc.ID]fabric.Time
	short    bool        // a verdict was due, and a majority lacked
	lacking  fabric.Time // since when it lacks; never: it does not
}

func (m *Machine) clock() fabric.Time { return m.now - m.heldTotal }

func (m *Machine) search(id proc.ID) (int, bool) {
	return slices.BinarySearchFunc(m.watches, id, func(w watch, id proc.ID) int { return cmp.Compare(w.id, id) })
}

// observe watches a process from now on, as if it had been heard at the given
// clock; if it is watched already, what was heard stands.
func (m *Machine) observe(id proc.ID, why byte, heard fabric.Time) {
	i, ok := m.search(id)
	if ok {
		m.watches[i].reasons |= why
		return
	}
	m.watches = slices.Insert(m.watches, i, watch{id, why, heard, never, never})
	m.wake(heard + m.cfg.patience() + m.heldTotal)
}

func (m *Machine) unwatch(id proc.ID) {
	if i, ok := m.search(id); ok {
		m.watches = slices.Delete(m.watches, i, i+1)
	}
	m.probes = slices.DeleteFunc(m.probes, func(p probe) bool { return p.suspect == id || p.asker == id })
	delete(m.round.answered, id)
}

// alive notes that a process was alive just now, as it or another says.
func (m *Machine) alive(id proc.ID) {
	if i, ok := m.search(id); ok {
		w := &m.watches[i]
		m.stats.Silence = max(m.stats.Silence, m.clock()-w.heard)
		w.heard, w.queried = max(w.heard, m.clock()), never
		if w.reasons &^= watchUnanswered; w.reasons == 0 {
			m.watches = slices.Delete(m.watches, i, i+1)
		}
	}
}

// choosePartners finds the ring's neighbours again. The new ones are greeted at once.
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

// nextOffNode finds the first process at or behind distance d that is not gone and on
// another node than this one; where all others are on this node, or gone, the
// first that is not gone. Round the ring's end it begins behind this process.
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

// sendHeartbeats sends the heartbeats of this period, and all that is done once a period.
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

// checkSilence asks all for those who have been silent for long, once more after half
// of the window, and closes the round when nobody is suspected any more.
func (m *Machine) checkSilence() {
	clock, open := m.clock(), false
	var names []proc.ID
	for i := range m.watches {
		w := &m.watches[i]
		if w.queried == never && clock-w.heard >= m.cfg.patience() {
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

// queryAll begins a round, or asks all again within one, for new suspects.
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

// query sends a question for names to all alive who are chosen.
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

// requery repeats the question to those who have not answered, and watches
// them from now on: they have been silent since they were asked.
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

// passVerdicts passes the verdict on those who have been silent for the timeout and
// asked for during the whole window.
func (m *Machine) passVerdicts() {
	var due []proc.ID
	since, clock := never, m.clock()
	for _, w := range m.watches {
		if w.queried != never && clock-w.heard >= m.cfg.Timeout && clock-w.queried >= m.cfg.window() {
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
		cause, silent := proc.Cause{Kind: proc.Heartbeat}, clock-m.watches[i].heard
		if m.record(id, cause, proc.None) {
			m.report(id, cause, silent)
		}
	}
}

// onlyUnreachableLeft reports whether there is nobody left but those who cannot be reached from here.
// They live and are not heard, and nobody could say so.
func (m *Machine) onlyUnreachableLeft() bool {
	apart := 0
	for _, id := range m.unreachable {
		if !m.isEnded(id) {
			apart++
		}
	}
	return apart > 0 && apart == m.cfg.Procs-1-len(m.log)-len(m.missing)
}

// mayDecide tells whether this side goes on. If it is not known to, it waits a Timeout
// more for answers before it gives up: where all are busy, and connections are yet to be
// made, a window is short. Who then has a majority after all asks anew: meanwhile the other
// side may have passed a verdict on this one, and shrunk by departures.
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

// supporters is how many are on this side: this process and who has answered since then.
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
