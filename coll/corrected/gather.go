package corrected

import "slices"

// step takes the next actions of an operation after a change.
func (m *Machine) step(o *op) {
	if !o.known || o.outcome == Differs {
		return
	}
	switch e := m.acting(o); {
	case o.barrier && o.outcome != none:
		if m.orphaned(o) && m.parent(o) >= 0 { // which may wait for this rank
			m.contribute(o, 0)
		}
	case o.barrier:
		if m.ready(o) && m.complete(o, 0) {
			m.contribute(o, 0)
		}
	case e == 0:
		m.ask(o)
	case o.outcome != none && o.stamp >= e:
	case o.outcome != none || m.offered(o, e) != nil:
		m.contribute(o, e)
	case o.entered && m.complete(o, e):
		if m.broken != unsealed {
			o.sealed = e
		}
		m.contribute(o, e)
	}
}

// ready reports whether this rank has called a barrier, and all operations before it have outcomes here. Each rank
// contributes then, so a barrier is not released before, unless this rank counts as failed elsewhere.
func (m *Machine) ready(o *op) bool {
	if !o.entered {
		return false
	}
	for _, p := range m.ops[:o.number-m.base-1] {
		if p.outcome == none {
			return false
		}
	}
	return true
}

// complete reports whether all ranks below have contributed to the epoch.
func (m *Machine) complete(o *op, epoch int) bool {
	if m.broken == hasty {
		return true
	}
	m.list = m.children(m.list[:0], o)
	all := true
	for _, child := range m.list {
		if i, found := o.upOf(child); !found || o.ups[i].epoch != epoch {
			if all = false; o.awaits {
				break
			}
			m.await(o, child, true)
		}
	}
	o.awaits = true
	return all
}

// upOf returns the index of a rank's contribution among the received ones.
func (o *op) upOf(rank int) (i int, found bool) {
	return slices.BinarySearchFunc(o.ups, rank, func(u up, rank int) int { return u.rank - rank })
}

// offered is a contribution to the epoch that has an outcome, of a rank that lives.
func (m *Machine) offered(o *op, epoch int) *up {
	i := slices.IndexFunc(o.ups, func(u up) bool { return u.have && u.epoch == epoch && !m.ended.has(u.rank) })
	if i < 0 {
		return nil
	}
	return &o.ups[i]
}

// contribute sends this rank's contribution to the epoch up, once to each parent; at the acting root it decides.
func (m *Machine) contribute(o *op, epoch int) {
	outcome, value := o.outcome, o.value
	if outcome == none {
		value = nil
		if u := m.offered(o, epoch); u != nil {
			outcome, value = u.outcome, u.value
		}
	}
	have := outcome != none
	parent := m.parent(o)
	if parent < 0 {
		switch {
		case o.barrier:
			m.finish(o, Value, nil, epoch)
		case have:
			m.finish(o, outcome, value, epoch)
		default:
			m.finish(o, Lost, nil, epoch)
		}
		return
	}
	m.await(o, m.rankAt(o, parent), true)
	if o.to == parent && o.at == epoch && o.had == have {
		return
	}
	o.to, o.at, o.had = parent, epoch, have
	f := frame{kind: kindUp, number: o.number, root: o.root, epoch: epoch}
	if have {
		f.flags, f.value = flagHave|lostFlag(outcome), value
	}
	m.sendFrame(o, m.rankAt(o, parent), &f)
}

func (m *Machine) await(o *op, rank int, needed bool) {
	if o.outcome == none {
		m.emit(Action{Kind: Await, To: rank, Number: o.number, Needed: needed})
	}
}

func lostFlag(outcome Outcome) uint8 {
	if outcome == Lost {
		return flagLost
	}
	return 0
}

// ask has an orphan ask its new parent for the outcome.
func (m *Machine) ask(o *op) {
	if o.outcome != none || !o.entered || m.broken == speechless {
		return
	}
	parent := m.parent(o)
	if !o.awaits {
		o.awaits = true
		m.await(o, o.root, true)
		m.await(o, m.rankAt(o, parent), false)
	}
	if parent == o.asked || !m.orphaned(o) {
		return
	}
	o.asked = parent
	m.send(o, m.rankAt(o, parent), kindWant, 0, nil)
}

// onUp handles a contribution.
func (m *Machine) onUp(o *op, from int, f *frame) {
	u := up{rank: from, epoch: f.epoch, have: f.flags&flagHave != 0}
	if u.have {
		u.outcome, u.value = Value, slices.Clone(f.value)
		if f.flags&flagLost != 0 {
			u.outcome, u.value = Lost, nil
		}
	}
	if i, found := o.upOf(from); found {
		o.ups[i] = u
	} else {
		o.ups = slices.Insert(o.ups, i, u)
	}
	switch {
	case !u.have:
		m.want(o, from, f.epoch)
	case o.barrier && o.outcome == none && m.ready(o):
		m.finish(o, Value, nil, 0)
	}
	if o.outcome == none || !o.barrier {
		m.step(o)
	}
}

// want has a rank get the outcome, now or later: one of the epoch or a later one.
func (m *Machine) want(o *op, from, epoch int) {
	switch {
	case o.outcome == Differs:
		m.send(o, from, kindDiffers, 0, nil)
	case o.outcome != none && (o.barrier || o.stamp >= epoch) && m.broken != forgetful:
		m.down(o, from, 0)
	default:
		i := slices.IndexFunc(o.wanted, func(w want) bool { return w.rank == from })
		if i < 0 {
			o.wanted = append(o.wanted, want{from, epoch})
			return
		}
		o.wanted[i].epoch = max(o.wanted[i].epoch, epoch)
	}
}
