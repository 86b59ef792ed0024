package corrected

import (
	"bytes"
	"fmt"
	"slices"
)

// A world is the machines of all ranks, the frames between them, and the possible next events. Frames of a rank
// that has ended arrive until its end is known.

// job is the program of the ranks: all call the same operations in the same order.
type job struct {
	n       int
	ops     []call
	crashes int
	blind   bool   // no end becomes known
	first   uint32 // the number before those of the operations
	broken  mutant
}

// call is an operation: a barrier, or the broadcast of a root.
type call struct {
	barrier bool
	root    int
	long    bool // the value is offered to neighbours
}

func (c call) value(i int) []byte {
	value := []byte{byte(i), byte(c.root), 7}
	if c.long {
		value = append(value, make([]byte, inline)...)
	}
	return value
}

type world struct {
	job
	ranks   []*rank
	wires   [][][][]byte // by sender and receiver
	crashed int
	refused error
	sends   int
	done    int // outcomes that callers have got
}

type rank struct {
	m      *Machine
	dead   bool
	knows  []bool // by rank: its end
	called int
	got    []Outcome
	values [][]byte
	// entered: at an outcome of a barrier, a living rank had not called it.
	early  bool
	timers []uint32
}

func newWorld(j job) *world {
	w := &world{job: j}
	for me := range j.n {
		m := New(9, j.n, me)
		m.broken, m.base, m.called = j.broken, j.first, j.first
		w.ranks = append(w.ranks, &rank{m: m, knows: make([]bool, j.n)})
		w.wires = append(w.wires, make([][][]byte, j.n))
	}
	return w
}

// step is a possible event: 'c'all, 'd'elivery, 'l'earn, 't'imer, 'k'ill.
type step struct {
	what     byte
	at, from int
	sends    int // the rank dies after so many frames of this step; -1: it does not
}

func (s step) String() string {
	text := fmt.Sprintf("%c%d", s.what, s.at)
	if s.what == 'd' || s.what == 'l' || s.what == 't' {
		text += fmt.Sprintf("<%d", s.from)
	}
	if s.sends >= 0 {
		text += fmt.Sprintf("!%d", s.sends)
	}
	return text
}

// steps lists the events that are possible, kills included.
func (w *world) steps(out []step) []step {
	out = out[:0]
	for at, r := range w.ranks {
		if r.dead {
			continue
		}
		if r.called == len(r.got) && r.called < len(w.ops) { // blocking calls
			out = append(out, step{'c', at, 0, -1})
		}
		for i := range r.timers {
			out = append(out, step{'t', at, i, -1})
		}
		for from, o := range w.ranks {
			if len(w.wires[from][at]) > 0 && !r.knows[from] {
				out = append(out, step{'d', at, from, -1})
			}
			if o.dead && !r.knows[from] && !w.blind {
				out = append(out, step{'l', at, from, -1})
			}
		}
		if w.crashed < w.crashes {
			out = append(out, step{'k', at, 0, -1})
		}
	}
	return out
}

// do performs a step, and gives the number of frames that it has had its rank send.
func (w *world) do(s step) (sends int) {
	r := w.ranks[s.at]
	switch s.what {
	case 'k':
		w.kill(s.at)
		return 0
	case 'c':
		c := w.ops[r.called]
		r.called++
		if c.barrier {
			r.m.Barrier()
		} else {
			r.m.Bcast(c.root, c.value(r.called-1))
		}
	case 'd':
		wire := w.wires[s.from][s.at]
		w.wires[s.from][s.at] = wire[1:]
		if err := r.m.Receive(s.from, wire[0]); err != nil {
			w.refused = err
		}
	case 'l':
		r.knows[s.from] = true
		w.wires[s.from][s.at] = nil
		r.m.Ended(s.from)
	case 't':
		number := r.timers[s.from]
		r.timers = slices.Delete(r.timers, s.from, s.from+1)
		r.m.Tick(number)
	}
	return w.drain(s.at, s.sends)
}

func (w *world) kill(at int) {
	w.ranks[at].dead = true
	w.crashed++
	for from := range w.ranks {
		w.wires[from][at] = nil
	}
}

func (w *world) drain(at, most int) (sends int) {
	r := w.ranks[at]
	for {
		a, ok := r.m.Next()
		if !ok {
			return sends
		}
		switch a.Kind {
		case Send:
			if sends == most {
				w.kill(at)
				return sends
			}
			sends++
			w.sends++
			w.wires[at][a.To] = append(w.wires[at][a.To], a.Payload)
		case Timer:
			r.timers = append(r.timers, a.Number)
		case Done:
			w.ended(r, a)
		}
	}
}

// ended records an outcome.
func (w *world) ended(r *rank, a Action) {
	i := len(r.got)
	r.got, r.values = append(r.got, a.Outcome), append(r.values, a.Payload)
	w.done++
	if w.ops[i].barrier {
		r.early = r.early || slices.ContainsFunc(w.ranks, func(o *rank) bool { return !o.dead && o.called <= i })
	}
}

// wrong gives a violation of the guarantees; over: nothing can happen any more.
func (w *world) wrong(over bool) error {
	if w.refused != nil {
		return w.refused
	}
	for at, r := range w.ranks {
		if r.dead {
			continue
		}
		if r.early {
			return fmt.Errorf("a barrier ended at rank %d before a living rank had called it", at)
		}
		if over && len(r.got) < len(w.ops) {
			return fmt.Errorf("rank %d waits in operation %d for ever", at, len(r.got))
		}
		for i, got := range r.got {
			if err := w.wrongAt(at, i, got); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrongAt looks at one outcome.
func (w *world) wrongAt(at, i int, got Outcome) error {
	c := w.ops[i]
	switch {
	case got == Differs:
		return fmt.Errorf("operation %d differs at rank %d", i, at)
	case got == Lost && (c.barrier || !w.ranks[c.root].dead):
		return fmt.Errorf("operation %d is lost at rank %d", i, at)
	case got == Value && !c.barrier && !bytes.Equal(w.ranks[at].values[i], c.value(i)):
		return fmt.Errorf("operation %d has another value at rank %d", i, at)
	}
	for other, o := range w.ranks {
		if !o.dead && len(o.got) > i && o.got[i] != got {
			return fmt.Errorf("operation %d has outcome %d at rank %d, %d at rank %d", i, got, at, o.got[i], other)
		}
	}
	return nil
}

// over reports whether all that must happen has happened.
func over(steps []step) bool {
	return !slices.ContainsFunc(steps, func(s step) bool { return s.what != 'k' })
}
