package detect

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// plea is a question to be answered when something is heard of a suspect.
type plea struct {
	suspect, asker proc.ID
	until, probed  fabric.Time
}

// maxPleas bounds what a process remembers of others' questions.
const maxPleas = 4096

// heardAsk answers a question, and passes it on to the suspects.
func (m *Machine) heardAsk(from proc.ID, f *frame) {
	m.send(from, appendAnswer(nil, f.round))
	var known []entry
	for _, id := range f.ids {
		switch i, ok := m.index[id]; {
		case id == m.cfg.Self:
		case ok:
			known = append(known, m.log[i])
		case m.heardLately(id):
			m.send(from, appendVouch(nil, id))
		default:
			m.plead(id, from)
			m.asked = append(m.asked, id)
		}
	}
	if known != nil {
		m.send(from, appendTell(nil, flagLoose, 0, known))
	}
}

// heardLately reports whether something came from a process itself a short while ago.
func (m *Machine) heardLately(id proc.ID) bool {
	i, ok := m.search(id)
	return ok && m.clock()-m.watches[i].spoke < m.cfg.Period/2 && m.watches[i].asked == never
}

// plead remembers who asks for a suspect, and asks it whether it is there.
func (m *Machine) plead(suspect, asker proc.ID) {
	p := plea{suspect, asker, m.clock() + m.cfg.Timeout, m.clock()}
	probed := false
	for i := range m.pleas {
		o := &m.pleas[i]
		probed = probed || o.suspect == suspect && p.probed-o.probed < m.cfg.Period/2
		if o.suspect == suspect && o.asker == asker {
			if !probed {
				m.send(suspect, frameProbe)
				o.probed = p.probed
			}
			o.until = p.until
			return
		}
	}
	if len(m.pleas) == maxPleas {
		return
	}
	if probed {
		p.probed = never
	} else {
		m.send(suspect, frameProbe)
	}
	m.pleas = append(m.pleas, p)
}

// vouch notes that something has come from a process, and tells those who asked for it.
func (m *Machine) vouch(id proc.ID) {
	if i, ok := m.search(id); ok {
		m.watches[i].spoke = m.clock()
	}
	if len(m.pleas) == 0 {
		return
	}
	m.pleas = slices.DeleteFunc(m.pleas, func(p plea) bool {
		if p.suspect == id {
			m.send(p.asker, appendVouch(nil, id))
		}
		return p.suspect == id
	})
}
