package corrected

import "slices"

// Ask asks a rank that this one waits for whether it will call an operation.
func (m *Machine) Ask(to int, number uint32) {
	if after(number, m.base) && !after(number, m.called) {
		m.send(m.find(number), to, kindAsk, 0, nil)
	}
}

// Refuse answers a rank that has asked: this one will not call the operation.
func (m *Machine) Refuse(to int, number uint32) {
	if after(number, m.called) {
		m.send(m.find(number), to, kindQuit, 0, nil)
	}
}

// onAsk handles a question. Where this rank has called the operation it gives up only with another one.
func (m *Machine) onAsk(o *op, from int) {
	switch {
	case o.outcome != none:
	case !o.called:
		m.emit(Action{Kind: Asked, To: from, Number: o.number})
	case o.quit:
		m.send(o, from, kindQuit, 0, nil)
	case !slices.Contains(o.askers, from):
		o.askers = append(o.askers, from)
	}
}

// giveUp gives up all operations under way, as their callers do.
func (m *Machine) giveUp() {
	for _, o := range m.ops {
		if !o.called || o.outcome != none || o.quit {
			continue
		}
		o.quit = true
		for _, rank := range o.askers {
			m.send(o, rank, kindQuit, 0, nil)
		}
		o.askers = nil
	}
}
