package detect

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Stats is what a detector has seen so far of the patience that its job needs.
type Stats struct {
	// Late is the longest time by which a Tick came after it was due.
	Late fabric.Time
	// Silence is the longest that a process was not heard which was to be heard, and
	// then it was. Time for which this process did not run itself is not in it.
	Silence fabric.Time
	// Suspicions is how often a process was asked for after a silence.
	Suspicions uint64
}

// Stats gives what was seen so far.
func (m *Machine) Stats() Stats { return m.stats }

// Doubted gives the processes of which something is expected that has not come: while
// all are asked for suspects, the suspects and who has not answered; and those for whom others
// ask. The driver may know better of some, and say so with Seen.
func (m *Machine) Doubted() []proc.ID {
	if m.ended {
		return nil
	}
	var ids []proc.ID
	for _, p := range m.probes {
		ids = append(ids, p.suspect)
	}
	if !m.round.open {
		return ids
	}
	for q := range proc.ID(m.cfg.Procs) {
		if at, ok := m.round.answered[q]; q != m.cfg.Self && !m.isEnded(q) && (!ok || at < m.round.started || m.suspected(q)) {
			ids = append(ids, q)
		}
	}
	return ids
}

// Queried gives the processes for which others have asked since the last call and of which
// nothing was heard lately. The driver may know better of some, and say so with Seen.
func (m *Machine) Queried() []proc.ID {
	asked := m.queried
	m.queried = nil
	return asked
}

func (m *Machine) suspected(id proc.ID) bool {
	i, ok := m.search(id)
	return ok && m.watches[i].queried != never
}

// Running says that a process runs, as the kernel of a common machine has it: it is silent
// for want of a core. That is as good as an answer from it.
func (m *Machine) Running(id proc.ID, now fabric.Time) {
	if !m.advance(now) || !m.other(id) || m.isEnded(id) {
		return
	}
	m.alive(id)
	m.confirmAlive(id)
	if m.round.open {
		m.round.answered[id] = m.clock()
	}
}
