package detect

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// neighbour is a process to which this one sends every end it knows, as a stream: the log from its
// beginning, repeated until acknowledged.
type neighbour struct {
	id     proc.ID
	acked  int         // it has log[:acked]
	sent   int         // log[acked:sent] is under way
	sentAt fabric.Time // when something was sent last
}

// record adds an end to the log and reports whether it was new. A proof of a failure that was a
// silence before takes the process out of the count.
func (m *Machine) record(id proc.ID, cause proc.Cause, by proc.ID) bool {
	proven := cause.Kind != proc.Heartbeat
	if i, known := m.index[id]; known {
		if e := &m.log[i]; proven && cause.Failed() && !e.proven {
			e.proven = true
			m.counted--
		}
		return false
	}
	if m.missing[id] {
		delete(m.missing, id)
		m.counted++
	}
	m.index[id] = len(m.log)
	m.log = append(m.log, entry{id, cause, by, proven})
	if proven {
		m.counted--
	}
	m.newDeaths = m.newDeaths || cause.Failed()
	m.stale = true
	m.unwatch(id)
	if cause.Kind == proc.Heartbeat && (by == proc.None || find(m.neighbours, id) != nil) {
		m.notifyCondemned(id)
	}
	return true
}

// notifyCondemned notifies a process that it counts as failed because of its silence, while that is
// possible: it may receive although it is not heard, and must not go on.
func (m *Machine) notifyCondemned(id proc.ID) {
	e := m.log[m.index[id]]
	m.reports = append(m.reports, Action{Kind: Send, To: id, Payload: appendUpdate(nil, flagDirect, 0, []entry{e})})
}

func (m *Machine) isEnded(id proc.ID) bool {
	_, ok := m.index[id]
	return ok || m.missing[id]
}

// Missing reports that a process has gone while all are about to finalize: it has departed or
// failed. Nothing is expected of it any longer, and no process is notified; a report of how it
// ended is still accepted.
func (m *Machine) Missing(peer proc.ID) {
	if m.ended || !m.other(peer) || m.isEnded(peer) {
		return
	}
	if m.missing == nil {
		m.missing = make(map[proc.ID]bool)
	}
	m.missing[peer] = true
	m.counted--
	m.unwatch(peer)
	m.stale = true
	m.rebuild()
}

// hasFailed reports whether a process has ended by a failure.
func (m *Machine) hasFailed(id proc.ID) bool {
	i, ok := m.index[id]
	return ok && m.log[i].cause.Failed()
}

// nextLive is the first living process from distance d on (negative: backwards); None if that leads
// back to this process.
func (m *Machine) nextLive(d int) proc.ID {
	n, step := m.cfg.Procs, 1
	if d < 0 {
		step = -1
	}
	for ; d != n && d != -n; d += step {
		if q := proc.ID((int(m.cfg.Self) + d + n) % n); !m.isEnded(q) {
			return q
		}
	}
	return proc.None
}

// rebuild chooses the neighbours and the receivers of heartbeats again after ends.
func (m *Machine) rebuild() {
	if !m.stale {
		return
	}
	m.stale = false
	old := m.neighbours
	m.neighbours = make([]neighbour, 0, len(old))
	for d := 1; d <= m.cfg.Procs/2; d *= 2 {
		m.addNeighbour(old, m.nextLive(d))
		m.addNeighbour(old, m.nextLive(-d))
	}
	m.choosePartners()
}

// addNeighbour makes a process a neighbour. Its stream continues if it was one before; a new
// neighbour gets the whole log.
func (m *Machine) addNeighbour(old []neighbour, id proc.ID) {
	if id == proc.None || find(m.neighbours, id) != nil {
		return
	}
	nb := neighbour{id: id, sentAt: m.now}
	if was := find(old, id); was != nil {
		nb = *was
	} else if m.broken.forget {
		known := max(len(m.log)-1, 0) // all but the newest
		nb.acked, nb.sent = known, known
	}
	m.neighbours = append(m.neighbours, nb)
}

func find(list []neighbour, id proc.ID) *neighbour {
	for i := range list {
		if list[i].id == id {
			return &list[i]
		}
	}
	return nil
}

// sendLog sends a neighbour the next part of the log, unless it has all or too much is under way.
func (m *Machine) sendLog(nb *neighbour, flags byte) {
	for nb.acked < len(m.log) && m.log[nb.acked].by == nb.id {
		nb.acked++
	}
	nb.sent = max(nb.sent, nb.acked)
	end := min(nb.acked+maxEntries, len(m.log))
	if nb.sent >= end {
		return
	}
	m.sendPatiently(nb.id, m.encoded(flags, nb.sent, end), flags&flagAgain == 0)
	nb.sent, nb.sentAt = end, m.now
}

// sendPatiently is send for frames that may wait for a connection.
func (m *Machine) sendPatiently(to proc.ID, payload []byte, patient bool) {
	m.sends = append(m.sends, Action{Kind: Send, To: to, Payload: payload, Patient: patient})
}

// encoded is the Update of a part of the log. Most neighbours need the same.
func (m *Machine) encoded(flags byte, from, to int) []byte {
	if c := &m.cache; c.b == nil || c.flags != flags || c.from != from || c.to != to {
		*c = encodedUpdate{flags, from, to, appendUpdate(nil, flags, from, m.log[from:to])}
	}
	return m.cache.b
}

type encodedUpdate struct {
	flags    byte
	from, to int
	b        []byte
}

// flush sends new failures to all neighbours.
func (m *Machine) flush() {
	if !m.newDeaths {
		return
	}
	m.newDeaths = false
	m.sends = slices.Grow(m.sends, len(m.neighbours)) // the first time, while others wait for a core
	for i := range m.neighbours {
		m.sendLog(&m.neighbours[i], 0)
	}
}

// resend repeats entries that are unacknowledged for half a period, and sends departures, which are
// not urgent.
func (m *Machine) resend() {
	if m.broken.silent {
		return
	}
	for i := range m.neighbours {
		nb := &m.neighbours[i]
		switch {
		case nb.acked == nb.sent:
			m.sendLog(nb, 0)
		case m.now-nb.sentAt >= m.cfg.Period/2:
			nb.sent = nb.acked
			m.sendLog(nb, flagAgain)
		}
	}
}

// onUpdate handles another process's entries.
func (m *Machine) onUpdate(from proc.ID, f *frame) {
	for _, e := range f.entries {
		if e.id == m.cfg.Self {
			if e.cause.Failed() {
				m.end(&EndError{By: from, Of: m.counted})
				return
			}
			continue
		}
		switch news := m.record(e.id, e.cause, from); {
		case news && e.cause.Failed():
			m.report(e.id, e.cause, 0)
		case news:
			m.reports = append(m.reports, Action{Kind: Departed, Peer: e.id})
		}
	}
	crossed := m.crossedUpdate(from, f)
	if f.flags&flagDirect == 0 && !crossed {
		m.send(from, appendAck(nil, f.from, f.to))
	}
}

// crossedUpdate advances this process's stream to a neighbour over the entries that it just
// received from it. It reports whether all of them are under way to the neighbour: then the
// neighbour takes them for an acknowledgement.
func (m *Machine) crossedUpdate(from proc.ID, f *frame) bool {
	nb := find(m.neighbours, from)
	if nb == nil {
		return false
	}
	all := f.flags&flagAgain == 0
	for _, e := range f.entries {
		i, ok := m.index[e.id]
		all = all && ok && i >= nb.acked && i < nb.sent
	}
	for _, e := range f.entries {
		if i, ok := m.index[e.id]; ok && i == nb.acked {
			nb.acked++
		}
	}
	nb.sent = max(nb.sent, nb.acked)
	return all
}

// onAck advances the stream to a neighbour.
func (m *Machine) onAck(from proc.ID, f *frame) error {
	if f.to > len(m.log) {
		return errFrame
	}
	nb := find(m.neighbours, from)
	if nb == nil || f.from > nb.acked || f.to <= nb.acked {
		return nil
	}
	nb.acked = f.to
	m.sendLog(nb, 0)
	return nil
}
