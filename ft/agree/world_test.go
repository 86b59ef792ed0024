package agree

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/banyan-hpc/banyan/proc"
)

// A world is a group of machines, the messages between them, and what happens to both. What may happen
// next is a list of steps; who chooses among them explores.

// members is a Group of n members whose processes are not their ranks.
type members int

func (n members) Size() int             { return int(n) }
func (n members) Proc(rank int) proc.ID { return proc.ID(2*rank + 5) }
func (n members) Rank(p proc.ID) int {
	if r := int(p-5) / 2; p >= 5 && p%2 == 1 && r < int(n) {
		return r
	}
	return -1
}

var theLine = Line{Context: 7, Group: 9}

// job is what the members do.
type job struct {
	n       int
	rounds  int    // agreements of each
	uniform bool   // all of them
	truants uint64 // bit by rank: finalizes instead of proposing
	acked   uint64 // bit by rank: acknowledges what it knows
	crashes int    // at most
	broken  mutant
	wide    uint // how much longer than a bit the digits of the tree are
}

func (j *job) digit() uint { return 1 + j.wide }

type world struct {
	job
	procs []*member
	// wires by sender and receiver: in order. nil: the sender has departed.
	wires   [][][][]byte
	sends   int
	crashed int
	refused error // what a machine said to a frame of another one
}

type member struct {
	m        *Machine
	alive    bool
	departed bool
	view     uint64 // bits of the dead it knows
	left     uint64 // the same of the departed
	proposed int    // times
	knew     []uint64
	got      []*Decision
}

func newWorld(j job) *world {
	w := &world{job: j}
	for r := range j.n {
		p := &member{m: New(members(j.n).Proc(r), Shape{Digit: j.digit()}), alive: true}
		p.m.broken = j.broken
		if err := p.m.Open(theLine, members(j.n)); err != nil {
			panic(err)
		}
		w.procs = append(w.procs, p)
		w.wires = append(w.wires, make([][][]byte, j.n))
	}
	return w
}

// step is something that may happen.
type step struct {
	what     byte // 'p'ropose, 'd'eliver, 'l'earn, 'c'rash, 'f'inalize
	at, from int
	// sends: the process crashes after so many of the messages that this makes it send; -1: it goes on.
	sends int
}

func (s step) String() string {
	text := fmt.Sprintf("%c%d", s.what, s.at)
	if s.what == 'd' || s.what == 'l' {
		text += fmt.Sprintf("<%d", s.from)
	}
	if s.sends >= 0 {
		text += fmt.Sprintf("!%d", s.sends)
	}
	return text
}

// steps lists what may happen now; crashes among them.
func (w *world) steps() []step {
	var out []step
	for at, p := range w.procs {
		if !p.alive {
			continue
		}
		if w.truants>>at&1 == 0 && p.proposed < w.rounds && len(p.got) == p.proposed {
			out = append(out, step{'p', at, 0, -1})
		}
		if w.truants>>at&1 != 0 && !p.departed {
			out = append(out, step{'f', at, 0, -1})
		}
		for from, o := range w.procs {
			if p.departed || from == at {
				continue
			}
			if p.view>>from&1 == 0 && len(w.wires[from][at]) > 0 || w.broken == unfenced && len(w.wires[from][at]) > 0 {
				out = append(out, step{'d', at, from, -1})
			}
			if !o.alive && p.view>>from&1 == 0 {
				out = append(out, step{'l', at, from, -1})
			}
		}
		if w.crashed < w.crashes && !p.departed {
			out = append(out, step{'c', at, 0, 0})
		}
	}
	return out
}

// do has a step happen, and gives the number of messages that it made its process send.
func (w *world) do(s step) int {
	p := w.procs[s.at]
	switch s.what {
	case 'c':
		w.crash(s.at)
		return 0
	case 'f':
		p.departed = true
		for to := range w.procs {
			w.wires[s.at][to] = append(w.wires[s.at][to], nil)
		}
		return 0
	case 'p':
		w.propose(s.at)
	case 'l':
		p.view |= 1 << s.from
		if w.broken != unfenced {
			w.wires[s.from][s.at] = nil
		}
		p.m.Died(members(w.n).Proc(s.from))
	case 'd':
		wire := w.wires[s.from][s.at]
		w.wires[s.from][s.at] = wire[1:]
		if wire[0] == nil {
			p.left |= 1 << s.from
			p.m.Departed(members(w.n).Proc(s.from))
			break
		}
		if err := p.m.Heard(members(w.n).Proc(s.from), wire[0]); err != nil {
			w.refused = err
		}
	}
	return w.drain(s.at, s.sends)
}

func (w *world) propose(at int) {
	p := w.procs[at]
	p.knew = append(p.knew, p.view|p.left)
	p.proposed++
	acked := func(proc.ID) bool { return w.acked>>at&1 != 0 }
	value := binary.LittleEndian.AppendUint64(nil, 1<<at)
	or := func(acc, in []byte) {
		for i := range acc {
			acc[i] |= in[i]
		}
	}
	if _, err := p.m.Propose(theLine, Proposal{What: 3, Value: value, Op: or, Acked: acked, Uniform: w.uniform}); err != nil {
		panic(err)
	}
}

// drain does what the machine of a process asks for.
func (w *world) drain(at, most int) (sends int) {
	p := w.procs[at]
	for {
		a, ok := p.m.Next()
		if !ok {
			return sends
		}
		switch a.Kind {
		case Send:
			if sends == most {
				w.crash(at)
				return sends
			}
			sends++
			w.sends++
			to := members(w.n).Rank(a.To)
			w.wires[at][to] = append(w.wires[at][to], slices.Clone(a.Payload))
		case Decide:
			p.got = append(p.got, a.Decision)
		case Report: // everybody learns of every death some time
		}
	}
}

func (w *world) crash(at int) {
	w.procs[at].alive = false
	w.crashed++
	for from := range w.procs {
		w.wires[from][at] = nil
	}
}

// living lists who is alive and has not departed.
func (w *world) living() []int {
	var out []int
	for r, p := range w.procs {
		if p.alive && !p.departed {
			out = append(out, r)
		}
	}
	return out
}

// wrong says what the world has done that it must not, as far as can be said now; at the end of
// everything also what it has not done.
func (w *world) wrong(end bool) error {
	if w.refused != nil {
		return w.refused
	}
	for round := range w.rounds {
		if err := w.wrongRound(round, end); err != nil {
			return fmt.Errorf("agreement %d: %w", round, err)
		}
	}
	for _, r := range w.living() {
		p := w.procs[r]
		if end && (len(p.m.lines[theLine].waiting) > 0 || len(p.m.early) > 0) {
			return fmt.Errorf("rank %d keeps frames for ever", r)
		}
	}
	return nil
}

func (w *world) wrongRound(round int, end bool) error {
	var first *Decision
	by := -1
	for r, p := range w.procs {
		if len(p.got) <= round {
			if end && p.alive && !p.departed && w.truants == 0 {
				return fmt.Errorf("rank %d never decides", r)
			}
			continue
		}
		d := p.got[round]
		if err := w.wrongDecision(r, round, d); err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		if !p.alive && !w.uniform { // it may have been alone with it
			continue
		}
		if first == nil {
			first, by = d, r
		} else if !alike(first, d) {
			return fmt.Errorf("ranks %d and %d decide %+v and %+v", by, r, first, d)
		}
	}
	return nil
}

func alike(a, b *Decision) bool {
	return slices.Equal(a.Value, b.Value) && slices.Equal(a.Gone, b.Gone) && slices.Equal(a.New, b.New) &&
		slices.Equal(a.Unacked, b.Unacked) && a.Unlike == b.Unlike && a.Seq == b.Seq
}

// wrongDecision looks at one decision by itself: validity.
func (w *world) wrongDecision(rank, round int, d *Decision) error {
	value := binary.LittleEndian.Uint64(d.Value)
	var gone, failed, unacked uint64
	for _, g := range d.Gone {
		gone |= 1 << members(w.n).Rank(g.Proc)
		if !g.Departed {
			failed |= 1 << members(w.n).Rank(g.Proc)
		}
	}
	for _, p := range d.Unacked {
		unacked |= 1 << members(w.n).Rank(p)
	}
	switch p := w.procs[rank]; {
	case d.Unlike:
		return fmt.Errorf("all proposed alike, and it says they did not")
	case failed&^p.view != 0 && p.alive:
		return fmt.Errorf("decided %#x failed before it knows more than %#x", failed, p.view)
	case unacked&^gone != 0:
		return fmt.Errorf("%#x are not acknowledged, but %#x are gone", unacked, gone)
	}
	for r, p := range w.procs {
		switch had := value>>r&1 != 0; {
		case had && p.proposed <= round:
			return fmt.Errorf("rank %d's value is in it and was not proposed", r)
		case !had && gone>>r&1 == 0:
			return fmt.Errorf("rank %d's value is missing, and it is not said to be gone", r)
		case failed>>r&1 != 0 && p.alive || gone&^failed>>r&1 != 0 && !p.departed:
			return fmt.Errorf("rank %d is said to be gone and lives", r)
		case p.alive && p.proposed > round && p.knew[round]&^gone != 0:
			return fmt.Errorf("rank %d knew of %#x, decided are %#x", r, p.knew[round], gone)
		case p.alive && p.proposed > round && !p.departed && w.acked>>r&1 == 0 && p.knew[round]&gone&^unacked != 0:
			return fmt.Errorf("rank %d has acknowledged nothing, unacknowledged are only %#x of %#x", r, unacked, gone)
		}
	}
	return nil
}

// clone copies a world: what happens to the copy does not happen to this one.
func (w *world) clone() *world {
	c := *w
	c.procs = make([]*member, w.n)
	c.wires = make([][][][]byte, w.n)
	for r, p := range w.procs {
		q := *p
		q.m = p.m.clone()
		q.knew, q.got = slices.Clone(p.knew), slices.Clone(p.got)
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
	for p, departed := range m.gone {
		c.gone[p] = departed
	}
	for p, n := range m.owed {
		c.owed[p] = n
	}
	for id, l := range m.lines {
		d := *l
		d.m = c
		d.gone, d.waiting = slices.Clone(l.gone), slices.Clone(l.waiting)
		d.queue = slices.Clone(l.queue)
		d.cur, d.old = l.cur.clone(&d), l.old.clone(&d)
		d.below, d.frame = nil, frame{}
		c.lines[id] = &d
	}
	return c
}

func (i *instance) clone(l *line) *instance {
	if i == nil {
		return nil
	}
	c := *i
	c.l = l
	c.value, c.up, c.down = nil, nil, nil // the decision is encoded again when it is asked for
	c.has.value, c.has.unacked = slices.Clone(i.has.value), slices.Clone(i.has.unacked)
	c.from, c.early, c.told = slices.Clone(i.from), slices.Clone(i.early), slices.Clone(i.told)
	return &c
}

var seed = maphash.MakeSeed()

// print is a number that other states hardly ever share.
func (w *world) print() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for r, p := range w.procs {
		if !p.alive {
			fmt.Fprint(&h, "dead", len(p.got))
		} else {
			fmt.Fprint(&h, "|", p.departed, p.view, p.left, p.proposed, p.knew)
			l := p.m.lines[theLine]
			fmt.Fprint(&h, l.gone, l.base, len(l.queue), l.result != nil)
			for _, i := range []*instance{l.old, l.cur} {
				if i != nil {
					slices.Sort(i.told)
					slices.Sort(i.from)
					fmt.Fprint(&h, i.seq, i.base, i.entered, i.decided, i.has, i.from, len(i.early), i.sent, i.parent, i.told)
				}
			}
			for _, x := range l.waiting {
				fmt.Fprint(&h, x.from, x.payload)
			}
		}
		for _, d := range p.got {
			fmt.Fprint(&h, d.Value, d.Gone, d.Unacked)
		}
		for _, wire := range w.wires[r] {
			fmt.Fprint(&h, ">", len(wire), wire)
		}
	}
	return h.Sum64()
}
