package detect

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// probe is an indirect probe: the asker is notified when a frame of the suspect arrives.
type probe struct {
	suspect, asker proc.ID
	until, probed  fabric.Time
}

// maxProbes bounds the indirect probes that a process remembers.
const maxProbes = 4096

// onQuery replies to a query and probes the suspects.
func (m *Machine) onQuery(from proc.ID, f *frame) {
	m.send(from, appendReply(nil, f.round))
	var known []entry
	for _, id := range f.ids {
		switch i, ok := m.index[id]; {
		case id == m.cfg.Self:
		case ok:
			known = append(known, m.log[i])
		case m.heardRecently(id):
			m.send(from, appendAlive(nil, id))
		default:
			m.indirectProbe(id, from)
			m.queried = append(m.queried, id)
		}
	}
	if known != nil {
		m.send(from, appendUpdate(nil, flagDirect, 0, known))
	}
}

// heardRecently reports whether a frame came from the process itself a short while ago.
func (m *Machine) heardRecently(id proc.ID) bool {
	i, ok := m.search(id)
	return ok && m.clock()-m.watches[i].lastFrame < m.cfg.Period/2 && m.watches[i].queried == never
}

// indirectProbe records that a process asks for a suspect, and pings the suspect.
func (m *Machine) indirectProbe(suspect, asker proc.ID) {
	p := probe{suspect, asker, m.clock() + m.cfg.Timeout, m.clock()}
	probed := false
	for i := range m.probes {
		o := &m.probes[i]
		probed = probed || o.suspect == suspect && p.probed-o.probed < m.cfg.Period/2
		if o.suspect == suspect && o.asker == asker {
			if !probed {
				m.send(suspect, pingFrame)
				o.probed = p.probed
			}
			o.until = p.until
			return
		}
	}
	if len(m.probes) == maxProbes {
		return
	}
	if probed {
		p.probed = never
	} else {
		m.send(suspect, pingFrame)
	}
	m.probes = append(m.probes, p)
}

// confirmAlive records a frame from a process, and notifies the processes that asked for it.
func (m *Machine) confirmAlive(id proc.ID) {
	if i, ok := m.search(id); ok {
		m.watches[i].lastFrame = m.clock()
	}
	if len(m.probes) == 0 {
		return
	}
	m.probes = slices.DeleteFunc(m.probes, func(p probe) bool {
		if p.suspect == id {
			m.send(p.asker, appendAlive(nil, id))
		}
		return p.suspect == id
	})
}
