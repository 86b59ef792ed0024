package predict

import "github.com/banyan-hpc/banyan/fabric/sim"

// turn is one message of a rank: over which edge, in which direction, and whether the rank sends it.
type turn struct {
	edge        int32
	down, sends bool
}

// turn returns the step-th message of rank v in a round: up from the children, the last in the order of
// service first, since these are leaves; up to the parent; down from it; down to the children.
func (m *machine) turn(v, step int32) (t turn, more bool) {
	children, parent := m.net.children[v], m.net.parent[v]
	n := int32(len(children))
	if m.job.Op.up() {
		if step < n {
			return turn{children[n-1-step], false, false}, true
		}
		step -= n
		if parent != none {
			if step == 0 {
				return turn{v, false, true}, true
			}
			step--
		}
	}
	if m.job.Op.down() {
		if parent != none {
			if step == 0 {
				return turn{v, true, false}, true
			}
			step--
		}
		if step < n {
			return turn{children[step], true, true}, true
		}
	}
	return turn{}, false
}

// goOn advances a rank as far as possible at this instant.
func (m *machine) goOn(v int32) {
	r := &m.ranks[v]
	r.waits = false
	for {
		if !r.started && r.begin > 0 {
			r.started = true
			m.push(m.now+r.begin, goesOn, v, false)
			return
		}
		t, more := m.turn(v, r.step)
		if !more {
			r.round, r.step, r.started = r.round+1, 0, false
			if int(r.round) == m.job.Rounds {
				m.over++
				m.last = max(m.last, m.now)
				return
			}
			continue
		}
		f := m.flow(t.edge, t.down)
		switch {
		case t.sends && int(f.used) < m.job.Machine.Credits:
			f.used++
			l := m.link(t.edge)
			m.push(m.now+r.each+l.SendOverhead+m.copying(t.edge), leaves, v, false)
			return
		case !t.sends && f.got > 0:
			f.got--
			r.step++
			continue
		}
		m.poll(v, r)
		return
	}
}

// copying is the cost of moving the payload of a message for a core.
func (m *machine) copying(edge int32) sim.Picos {
	return m.job.Machine.CPU.PerByte * sim.Picos(m.ranks[edge].bytes)
}

// poll handles the next frame that has arrived, or waits.
func (m *machine) poll(v int32, r *rank) {
	if r.head == len(r.inbox) {
		r.inbox, r.head, r.waits = r.inbox[:0], 0, true
		return
	}
	r.handles = r.inbox[r.head]
	r.head++
	edge := r.edgeOf(v)
	m.push(m.now+r.each+m.link(edge).RecvOverhead+m.copying(edge), received, v, false)
}

// edgeOf is the edge of the frame that rank v handles.
func (r *rank) edgeOf(v int32) int32 {
	if r.handles == none {
		return v
	}
	return r.handles
}

// receive ends the handling of a frame.
func (m *machine) receive(v int32) {
	r := &m.ranks[v]
	edge, down := r.edgeOf(v), r.handles == none
	m.flow(edge, down).got++
	m.push(m.now+m.link(edge).Latency, credited, edge, down)
	m.goOn(v)
}

// leave puts the frame of the current turn on the wire.
func (m *machine) leave(v int32) {
	r := &m.ranks[v]
	t, _ := m.turn(v, r.step)
	m.transmit(t.edge, t.down, v)
	r.step++
	m.goOn(v)
}

// credit returns a credit, and a waiting sender continues.
func (m *machine) credit(edge int32, down bool) {
	m.flow(edge, down).used--
	if v := m.sender(edge, down); m.ranks[v].waits {
		m.goOn(v)
	}
}

// arrive puts a frame into the inbox of its receiver.
func (m *machine) arrive(edge int32, down bool) {
	v, from := m.receiver(edge, down), edge
	if down {
		from = none
	}
	r := &m.ranks[v]
	r.inbox = append(r.inbox, from)
	if r.waits {
		m.goOn(v)
	}
}
