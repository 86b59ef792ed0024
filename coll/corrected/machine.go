package corrected

import (
	"fmt"
	"slices"
)

const (
	// MaxValue is the longest value of a broadcast, in bytes.
	MaxValue = 64 << 10
	// LengthBytes is the room that a caller takes of a value, for the length of all values that make up its data.
	LengthBytes = 8
	// Period is the distance of the barriers of the machine's own, in operations.
	Period = 16
	// window is how far a rank may be ahead of the last barrier that it has seen.
	window = 2 * Period
	// maxAhead bounds the operations of other ranks that have not been called here: none is further ahead than the
	// window, counted from a barrier to which this rank has contributed.
	maxAhead = 2 * window
	// inline is the longest value that a correction carries, in bytes. A longer one is offered.
	inline = LengthBytes + 1024
)

// Outcome is the outcome of an operation at this rank.
type Outcome uint8

// The outcomes.
const (
	none    Outcome = iota
	Value           // of a barrier: it is released
	Lost            // the root has ended, and no living rank has the value
	Differs         // other ranks have called another operation, or named another root
)

// Kind is the kind of an Action.
type Kind uint8

// The kinds of actions.
const (
	// Send: Payload to the rank To, reliably while both live, in the order of sending.
	Send Kind = iota + 1
	// Done: the operation Number has an Outcome, with the value in Payload. Once for each call.
	Done
	// Timer: Tick(Number) is to be called after a while, which doubles with each Step from 0.
	Timer
	// Await: this rank waits for To in the operation Number, and must learn of its end. Needed: and of whether To will
	// call the operation, by Ask, where ranks may give up.
	Await
	// Asked: the rank To waits for this one in the operation Number, which has not been called here.
	Asked
	// Quit: the rank To has given up the operation Number, for which this one waits; so has this one, and all others
	// under way.
	Quit
)

// Action is an output of the machine.
type Action struct {
	Kind    Kind
	To      int
	Number  uint32
	Step    int
	Needed  bool
	Outcome Outcome
	// Payload is valid until the next call of Next; of Done, until the machine is called.
	Payload []byte
}

// Machine is one rank's part in the operations of a communicator. It is not safe for concurrent use.
type Machine struct {
	context uint32 // of all frames
	n, me   int
	ended   ranks
	lent    bool   // its words belong to the caller of EndedSet
	ops     []*op  // those since the last barrier that has been released here, including it
	base    uint32 // the number of the operation before them
	called  uint32 // the number of the last operation that has been called here
	actions []Action
	taken   int
	list    []int // scratch
	broken  mutant
}

// op is an operation.
type op struct {
	number  uint32
	root    int
	barrier bool
	known   bool // kind and root, from a call or a frame
	called  bool
	own     bool // called by the machine
	entered bool // called, and within the window
	outcome Outcome
	stamp   int    // the epoch of the outcome
	value   []byte // of the outcome; before it, of the caller at the root
	frame   []byte // of the outcome and its stamp, without flags of a direction

	// The gathering; see gather.go.
	ups    []up
	to     int // the place and the epoch of the last contribution, and whether it had an outcome
	at     int
	had    bool
	asked  int // the place that has been asked for the outcome
	sealed int
	wanted []want // of ranks that have asked for it
	awaits bool   // this rank has named the ranks that it waits for
	askers []int  // ranks that wait for this one, and have asked whether it has given up
	quit   bool   // it has, since another rank has

	// The correction; see spread.go.
	sides  [2]side
	steps  int   // of the timer
	timer  bool  // it runs
	offers []int // ranks that have offered the outcome
}

// want is the request of a rank for an outcome of an epoch or a later one.
type want struct{ rank, epoch int }

// up is the last contribution of a rank.
type up struct {
	rank, epoch int
	have        bool
	outcome     Outcome
	value       []byte
}

// mutant leaves out one rule, for tests that must notice.
type mutant uint8

const (
	noMutant     mutant = iota
	uncorrected         // no correction
	shortSighted        // it does not grow
	unsealed            // a rank that has contributed nothing takes an old value
	speechless          // an orphan does not ask
	hasty               // a barrier does not wait for the ranks below
	forgetful           // a rank that has returned does not serve others
)

// New makes the machine of a rank among n. Its frames begin with the context, 4 bytes.
func New(context uint32, n, me int) *Machine { return &Machine{context: context, n: n, me: me} }

// Barrier calls the next operation, a barrier, and gives its number.
func (m *Machine) Barrier() uint32 { return m.call(true, 0, nil) }

// Bcast calls the next operation, a broadcast. Value counts at the root only and is copied; it has up to MaxValue
// bytes.
func (m *Machine) Bcast(root int, value []byte) uint32 {
	if root != m.me {
		return m.call(false, root, nil)
	}
	return m.call(false, root, slices.Clone(value))
}

func (m *Machine) call(barrier bool, root int, value []byte) uint32 {
	if (m.called+1)%Period == 0 {
		m.begin(true, 0, nil).own = true
		m.admit()
	}
	o := m.begin(barrier, root, value)
	if m.admit(); !o.entered {
		for _, p := range slices.Clone(m.ops) { // the ranks that the caller waits for, now that there is one
			p.awaits = false
			m.step(p)
		}
	}
	return o.number
}

// after compares numbers, of which 0 follows the highest.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// begin numbers a call.
func (m *Machine) begin(barrier bool, root int, value []byte) *op {
	m.called++
	o := m.find(m.called)
	o.called = true
	switch {
	case !o.known:
		o.known, o.barrier, o.root = true, barrier, root
	case o.barrier != barrier || o.root != root:
		m.differ(o)
	}
	if o.outcome == none {
		o.value = value
	}
	return o
}

// find gives an operation after base, and makes it.
func (m *Machine) find(number uint32) *op {
	for uint32(len(m.ops)) < number-m.base {
		m.ops = append(m.ops, &op{number: m.base + uint32(len(m.ops)) + 1, to: -1, asked: -1})
	}
	return m.ops[number-m.base-1]
}

// admit enters the calls that are within the window.
func (m *Machine) admit() {
	for i := 0; i < len(m.ops); i++ {
		o := m.ops[i]
		if !o.called || after(o.number, m.base+window) {
			return
		}
		if o.entered {
			continue
		}
		o.entered = true
		if o.outcome != none {
			m.deliver(o)
		} else if !o.barrier && o.root == m.me {
			m.finish(o, Value, o.value, 0)
		} else {
			m.step(o)
		}
		i = -1 // a release has moved the window and the list
	}
}

// deliver gives the outcome to the caller.
func (m *Machine) deliver(o *op) {
	if !o.own {
		m.emit(Action{Kind: Done, Number: o.number, Outcome: o.outcome, Payload: o.value})
	}
}

// Ended reports that a rank has failed or departed. Later frames from it are dropped.
func (m *Machine) Ended(rank int) {
	if rank == m.me || m.ended.has(rank) {
		return
	}
	if m.lent {
		m.ended, m.lent = slices.Clone(m.ended), false
	}
	m.ended.add(rank, m.n)
	m.goOn()
}

// EndedSet is Ended for many ranks: those whose bits are set. The machine keeps the words, which must not change
// any more. Precondition: none of them was known to have ended.
func (m *Machine) EndedSet(words []uint64) {
	if m.ended != nil {
		for rank := range m.n {
			if ranks(words).has(rank) {
				m.Ended(rank)
			}
		}
		return
	}
	m.ended, m.lent = words, true
	m.goOn()
}

// goOn goes on without the ranks that have ended.
func (m *Machine) goOn() {
	for _, o := range slices.Clone(m.ops) {
		o.awaits = false
		o.offers = slices.DeleteFunc(o.offers, m.ended.has)
		m.step(o)
	}
}

// Receive handles a frame of another rank. Error: ErrFrame.
func (m *Machine) Receive(from int, payload []byte) error {
	var f frame
	if err := f.decode(payload, m.n); err != nil {
		return err
	}
	switch {
	case m.ended.has(from) || !after(f.number, m.base):
		return nil
	case after(f.number, m.called+maxAhead):
		return fmt.Errorf("%w: operation %d, and %d have been called here", ErrFrame, f.number, m.called)
	}
	o := m.find(f.number)
	barrier := f.flags&flagBarrier != 0
	if !o.known {
		o.known, o.barrier, o.root = true, barrier, f.root
	}
	if f.kind == kindDiffers || o.barrier != barrier || o.root != f.root {
		m.onDiffers(o, from, &f)
		return nil
	}
	switch f.kind {
	case kindUp:
		m.onUp(o, from, &f)
	case kindDown:
		m.onDown(o, from, &f)
	case kindOffer:
		m.onOffer(o, from, &f)
	case kindWant:
		m.want(o, from, o.stamp)
	case kindAsk:
		m.onAsk(o, from)
	case kindQuit:
		if o.called && o.outcome == none && !o.quit {
			m.emit(Action{Kind: Quit, To: from, Number: o.number})
			m.giveUp()
		}
	}
	return nil
}

// onDiffers handles a frame of another operation with the same number.
func (m *Machine) onDiffers(o *op, from int, f *frame) {
	if f.kind == kindUp || f.kind == kindWant {
		m.send(o, from, kindDiffers, 0, nil)
	}
	if o.called && o.outcome == none {
		m.differ(o)
		if o.entered {
			m.deliver(o)
		}
	}
}

// differ ends an operation for this rank, and for the ranks that wait for it.
func (m *Machine) differ(o *op) {
	o.outcome, o.value = Differs, nil
	for _, u := range o.ups {
		m.send(o, u.rank, kindDiffers, 0, nil)
	}
	for _, w := range o.wanted {
		m.send(o, w.rank, kindDiffers, 0, nil)
	}
}

// Next gives the next action.
func (m *Machine) Next() (Action, bool) {
	if m.taken == len(m.actions) {
		clear(m.actions)
		m.actions, m.taken = m.actions[:0], 0
		return Action{}, false
	}
	m.taken++
	return m.actions[m.taken-1], true
}

func (m *Machine) emit(a Action) { m.actions = append(m.actions, a) }

// send sends a frame about an operation.
func (m *Machine) send(o *op, to int, k kind, flags uint8, value []byte) {
	f := frame{kind: k, flags: flags, number: o.number, root: o.root, epoch: o.stamp, value: value}
	m.sendFrame(o, to, &f)
}

func (m *Machine) sendFrame(o *op, to int, f *frame) {
	if to == m.me || m.ended.has(to) {
		return
	}
	m.emit(Action{Kind: Send, To: to, Number: o.number, Payload: m.encoded(o, f)})
}

func (m *Machine) encoded(o *op, f *frame) []byte {
	if o.barrier {
		f.flags |= flagBarrier
	}
	return f.encode(m.context)
}
