package detect

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Stats are observations of the patience that the job needs.
type Stats struct {
	// Late is the longest delay of a Tick after it was due.
	Late fabric.Time
	// Silence is the longest silence of a watched process that ended, without time for which this
	// process did not run itself.
	Silence fabric.Time
	// Suspicions is the number of suspicions of this process.
	Suspicions uint64
}

// Stats returns the observations so far.
func (m *Machine) Stats() Stats { return m.stats }

// Doubtful lists the processes whose expected frames are missing: during a suspicion the suspects
// and those that have not replied, and the suspects of others. If the driver knows that one of them
// runs it calls Running.
func (m *Machine) Doubtful() []proc.ID {
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
		if at, ok := m.round.answered[q]; q != m.cfg.Self && !m.isEnded(q) &&
			(!ok || at < m.round.started || m.suspected(q)) {
			ids = append(ids, q)
		}
	}
	return ids
}

// Queried lists the processes that others have queried since the last call and that this one has
// not heard lately. If the driver knows that one of them runs it calls Running.
func (m *Machine) Queried() []proc.ID {
	asked := m.queried
	m.queried = nil
	return asked
}

func (m *Machine) suspected(id proc.ID) bool {
	i, ok := m.search(id)
	return ok && m.watches[i].queried != never
}

// Running reports that a process runs according to the kernel of a common machine: it is silent
// because it has no core. That counts as a reply from it.
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
