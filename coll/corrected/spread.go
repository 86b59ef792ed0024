package corrected

import "slices"

// The directions of the ring.
const (
	right = iota // of higher places
	left
)

// maxOffers bounds the offers that are kept: any of them is as good as the others.
const maxOffers = 4

// side is the correction in one direction.
type side struct {
	reach int // living places at that side that have been sent to
	at    int // the distance of the last one, dead ones included
	heard int // the distance of the nearest place at that side from which a correction has come; 0: none has
}

// finish gives an operation its outcome, or gives the one that it has the stamp of a later epoch.
func (m *Machine) finish(o *op, outcome Outcome, value []byte, stamp int) {
	first := o.outcome == none
	if !first {
		o.sides = [2]side{}
	}
	o.outcome, o.stamp, o.ups, o.offers, o.steps = outcome, stamp, nil, nil, 0
	f := frame{kind: kindDown, flags: lostFlag(outcome), number: o.number, root: o.root, epoch: stamp, value: value}
	o.frame = m.encoded(o, &f)
	o.value = o.frame[HeadBytes:]
	m.spread(o)
	if !first {
		return
	}
	if o.entered {
		m.deliver(o)
	}
	if o.barrier {
		m.forget(o)
	}
	for _, p := range slices.Clone(m.ops) { // a barrier may have waited for this one
		if p.barrier && after(p.number, o.number) {
			m.step(p)
		}
	}
}

// forget drops all operations before a barrier: every living rank has their outcomes.
func (m *Machine) forget(o *op) {
	m.ops = slices.Delete(m.ops, 0, int(o.number-m.base-1))
	m.base = o.number - 1
	m.admit()
}

// spread sends an outcome to the ranks below, to those that have asked for it, and to the neighbours.
func (m *Machine) spread(o *op) {
	list := m.children(nil, o)
	for _, w := range o.wanted {
		if !slices.Contains(list, w.rank) {
			list = append(list, w.rank)
		}
	}
	o.wanted = slices.DeleteFunc(o.wanted, func(w want) bool { return w.epoch <= o.stamp })
	for _, rank := range list {
		m.down(o, rank, 0)
	}
	if m.broken == uncorrected || m.n == 1 {
		return
	}
	for d := range o.sides {
		if s := &o.sides[d]; s.heard > 0 {
			m.reply(o, d)
		} else {
			m.extend(o, d, 1)
		}
	}
	m.arm(o)
}

// down sends the outcome to a rank. All get the same memory.
func (m *Machine) down(o *op, to int, flags uint8) {
	switch {
	case flags != 0:
		m.send(o, to, kindDown, flags|lostFlag(o.outcome), o.value)
	case to != m.me && !m.ended.has(to):
		m.emit(Action{Kind: Send, To: to, Number: o.number, Payload: o.frame})
	}
}

// correct sends it to the place at a distance in a direction, as a correction.
func (m *Machine) correct(o *op, d, distance int) {
	place, flag := m.place(o, m.me), uint8(flagRight)
	switch d {
	case right:
		place = (place + distance) % m.n
	case left:
		place, flag = (place+m.n-distance)%m.n, flagLeft
	}
	if to := m.rankAt(o, place); len(o.value) > inline {
		m.send(o, to, kindOffer, flag, nil)
	} else {
		m.down(o, to, flag)
	}
}

// extend sends to that many more living places in a direction.
func (m *Machine) extend(o *op, d, more int) {
	s, me := &o.sides[d], m.place(o, m.me)
	for more > 0 && s.at < m.n-1 {
		s.at++
		place := (me + s.at) % m.n
		if d == left {
			place = (me + m.n - s.at) % m.n
		}
		if m.lives(o, place) {
			m.correct(o, d, s.at)
			s.reach++
			more--
		}
	}
}

// reply answers the nearest place that a correction has come from, unless it has been sent one: it waits for one
// from this direction. Between the two there is none that it has not sent to.
func (m *Machine) reply(o *op, d int) {
	if s := &o.sides[d]; s.heard > s.at {
		m.correct(o, d, s.heard)
		s.at = s.heard
	}
}

// open reports whether no message has come from a direction, and there are places to send to.
func (m *Machine) open(o *op, d int) bool {
	return o.sides[d].heard == 0 && o.sides[d].at < m.n-1
}

// arm has the correction go on after a while, or the outcome be asked for.
func (m *Machine) arm(o *op) {
	waits := o.outcome == none && len(o.offers) > 0 || o.outcome != none && (m.open(o, right) || m.open(o, left))
	if o.timer || !waits || m.broken == shortSighted {
		return
	}
	o.timer = true
	m.emit(Action{Kind: Timer, Number: o.number, Step: o.steps})
	o.steps++
}

// Tick reports that a timer has fired.
func (m *Machine) Tick(number uint32) {
	if number-m.base-1 >= uint32(len(m.ops)) {
		return
	}
	o := m.find(number)
	o.timer = false
	switch {
	case o.outcome == Differs:
		return
	case o.outcome == none && len(o.offers) > 0:
		last := len(o.offers) - 1
		m.send(o, o.offers[last], kindWant, 0, nil)
		o.offers = o.offers[:last]
	case o.outcome != none:
		for d := range o.sides {
			if m.open(o, d) {
				m.extend(o, d, max(1, o.sides[d].reach))
			}
		}
	}
	m.arm(o)
}

// hear records the direction from which a correction has come.
func (m *Machine) hear(o *op, from int, f *frame) {
	me, place := m.place(o, m.me), m.place(o, from)
	d, distance := right, (place-me+m.n)%m.n
	switch {
	case f.flags&flagLeft != 0:
	case f.flags&flagRight != 0:
		d, distance = left, (me-place+m.n)%m.n
	default:
		return
	}
	s := &o.sides[d]
	if s.heard == 0 || distance < s.heard {
		s.heard = distance
	}
	if o.outcome != none && o.outcome != Differs {
		m.reply(o, d)
	}
}

// onDown handles an outcome. A sealed rank takes none that is older, and none a release for which it is not ready.
func (m *Machine) onDown(o *op, from int, f *frame) {
	if f.epoch < o.sealed && m.broken != unsealed || o.barrier && o.outcome == none && !m.ready(o) {
		return
	}
	m.hear(o, from, f)
	switch {
	case o.outcome == Differs:
	case o.outcome == none && f.flags&flagLost != 0:
		m.finish(o, Lost, nil, f.epoch)
	case o.outcome == none:
		m.finish(o, Value, f.value, f.epoch)
	case !o.barrier && f.epoch > o.stamp:
		m.finish(o, o.outcome, o.value, f.epoch)
	}
}

// onOffer handles the offer of an outcome.
func (m *Machine) onOffer(o *op, from int, f *frame) {
	if f.epoch < o.sealed {
		return
	}
	m.hear(o, from, f)
	if o.outcome == none && len(o.offers) < maxOffers {
		o.offers = append(o.offers, from)
		m.arm(o)
	}
}
