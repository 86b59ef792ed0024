package agree

import (
	"maps"
	"slices"
)

// clone copies a world; the copy is independent.
func (w *world) clone() *world {
	c := *w
	c.shelf = w.shelf.clone()
	c.procs = make([]*member, w.n)
	c.wires = make([][][][]byte, w.n)
	for r, p := range w.procs {
		q := *p
		q.m = p.m.clone()
		if p.hands != nil {
			q.hands = &ballotAccess{c.shelf, p.m.self, p.hands.met}
			q.m.Use(q.hands)
			q.m.reopen()
		}
		q.part = slices.Clone(p.part)
		for k := range q.part {
			o := &q.part[k]
			o.knew, o.got, o.notified = slices.Clone(o.knew), slices.Clone(o.got), slices.Clone(o.notified)
		}
		c.procs[r] = &q
		c.wires[r] = make([][][]byte, w.n)
		for to, wire := range w.wires[r] {
			c.wires[r][to] = slices.Clone(wire)
		}
	}
	return &c
}

func (m *Machine) clone() *Machine {
	c := New(m.self, m.shape)
	c.broken = m.broken
	c.endedProcs, c.left = slices.Clone(m.endedProcs), slices.Clone(m.left)
	c.departing = slices.Clone(m.departing)
	c.heldBytes, c.unopened = maps.Clone(m.heldBytes), maps.Clone(m.unopened)
	for id, frames := range c.unopened {
		c.unopened[id] = slices.Clone(frames)
	}
	for id, l := range m.open {
		d := *l
		d.m = c
		d.known, d.departed, d.held = slices.Clone(l.known), slices.Clone(l.departed), slices.Clone(l.held)
		d.queue, d.awaited = slices.Clone(l.queue), slices.Clone(l.awaited)
		d.cur, d.old = l.cur.clone(&d), l.old.clone(&d)
		d.below, d.frame, d.folded, d.spare = nil, nil, nil, nil
		c.open[id] = &d
	}
	for _, l := range m.atBallots {
		c.atBallots = append(c.atBallots, c.open[l.key])
	}
	return c
}

// reopen lets the sequences of a copy use the ballots of its own world.
func (m *Machine) reopen() {
	for _, l := range m.open {
		if l.ballot.Ballot != nil {
			l.ballot.Ballot = m.ballots.Open(l.ballot.from, l.ballot.name, l.group.Size())
		}
	}
}

func (i *instance) clone(l *sequence) *instance {
	if i == nil {
		return nil
	}
	c := *i
	c.s = l
	c.value, c.own, c.up, c.down = nil, nil, nil, nil // the decision is encoded again when needed
	c.gathered.value, c.gathered.unacked = slices.Clone(i.gathered.value), slices.Clone(i.gathered.unacked)
	c.counted, c.pending, c.sentTo = slices.Clone(i.counted), slices.Clone(i.pending), slices.Clone(i.sentTo)
	return &c
}
