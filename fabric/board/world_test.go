package board

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
)

// mutant is a rule that is broken.
type mutant int

const (
	noMutant       mutant = iota
	silentNaps            // a sleeper is not woken
	blindNaps             // no member looks again after saying that it naps
	lateParts             // the part is written after the step has been entered
	oneTurn               // parts have one place
	endlessRoot           // no step of many roots' is for everyone
	trusting              // a missing member that is not waited for does not count
	hasty                 // a segment serves others while one that only counts as dead may write
	abrupt                // a member that learns of a death does not look once more
	silentBringers        // a member that has brought its part does not wake the member that collects
	staleSums             // a sum counts for another step
	hopeful               // a member that sees the first of a group says that all have come
)

// task is the work of the members.
type task struct {
	n int
	// ops, each of them for all: 'b' barrier, 'm' each member brings something, 'g' the first member collects it and lays the sum, 'e' and the last member brings too much, 0 … 9 a root lays
	// something.
	ops     string
	crashes int
	// zombies: a member that counts as dead goes on until it crashes.
	zombies bool
	// leaver is a member that departs after that many of its ops; 0: none.
	leaver, after int
	// early: a member that knows of a death begins no op, as in run-through stabilization.
	early bool
	// group is the size of groups; 0: GroupSize.
	group  int
	broken mutant
}

// place is the next action of a member.
type place uint8

const (
	begins place = iota
	enters
	late // only where parts are late
	looks
	naps
	dozes
	asleep
	rouses
	reads
	brings // in 'g', and the next ones
	tells
	readsLevels
	away
	failed // until all have validated
	over
)

// actor is a member.
type actor struct {
	phase       Phase
	segment     *memory
	me, n       int // in its segment, and how many are
	at          place
	op          int // the next, or the one under way
	k           int // the next member to be read or roused
	crashed     bool
	condemned   bool // counts as dead
	knows       bool // of a death that no validate has settled
	woken, told bool
	entered     int // ops of this segment
	departed    bool
	collected   bool // of 'g': the first member has the parts
	epoch       int
}

// memory is that of a segment.
type memory struct {
	slots   []Slot
	common  *Common
	buffers []Buffer
	parts   []byte // of sums only
	group   int
}

const testRoom = 2

func (w *world) newMemory(members int) *memory {
	return &memory{make([]Slot, members), new(Common), make([]Buffer, Buffers), make([]byte, 4*members*testRoom), w.group}
}

func (m *memory) segment() *Segment {
	s := Open(m.slots, m.common, m.buffers, m.parts)
	if s.room = testRoom; m.group > 0 {
		s.group = m.group
	}
	return s
}

// world is a state of everything.
type world struct {
	task
	actors  []actor
	members []int // of the current segments: actors by place
	crashed int
	wrong   error
	text    []byte // memory for print
}

func newWorld(t task) *world {
	w := &world{task: t}
	for i := range t.n {
		w.members = append(w.members, i)
	}
	w.actors = make([]actor, t.n)
	w.meet(w.newMemory(t.n))
	return w
}

// meet has the members begin in a segment.
func (w *world) meet(m *memory) {
	m.slots, m.buffers = m.slots[:len(w.members)], slices.Clone(m.buffers) // other states share them
	m.segment().Clear()
	for at, who := range w.members {
		a := &w.actors[who]
		a.segment, a.me, a.n, a.phase = m, at, len(m.slots), m.segment().Phase(at)
		a.at, a.knows, a.woken, a.entered, a.collected = begins, false, false, 0, false
		a.epoch++
	}
}

func (w *world) Clone() *world {
	c := *w
	c.actors, c.members = slices.Clone(w.actors), slices.Clone(w.members)
	copies := map[*memory]*memory{}
	for i := range c.actors {
		a := &c.actors[i]
		if copies[a.segment] == nil {
			m := w.newMemory(cap(a.segment.slots))
			m.slots, m.buffers = m.slots[:len(a.segment.slots)], a.segment.buffers
			for i := range m.common.groups {
				m.common.groups[i].n.Store(a.segment.common.groups[i].n.Load())
				for turn := range 2 {
					from, to := &a.segment.common.sums[turn][i], &m.common.sums[turn][i]
					to.step.Store(from.step.Load())
					to.length = from.length
				}
			}
			copy(m.parts, a.segment.parts)
			m.common.apart.n.Store(a.segment.common.apart.n.Load())
			for i := range m.slots {
				from, to := &a.segment.slots[i], &m.slots[i]
				to.word = from.word
				to.parts = from.parts
			}
			copies[a.segment] = m
		}
		a.segment = copies[a.segment]
		a.phase.segment = a.segment.segment()
	}
	return &c
}

// Print tells a state from others by all that counts in it.
func (w *world) Print() uint64 {
	out := w.text[:0]
	put := func(numbers ...uint64) {
		for _, n := range numbers {
			out = binary.AppendUvarint(out, n)
		}
	}
	put(uint64(len(w.members)), uint64(w.crashed))
	for i := range w.actors {
		a := &w.actors[i]
		v := &a.phase
		put(v.step, v.complete, v.parts, v.stamped, uint64(v.stamp), uint64(v.other+1), uint64(v.turn), uint64(v.from+1), uint64(v.groups), uint64(v.next), uint64(a.me), uint64(a.at), uint64(a.op), uint64(a.k), uint64(a.entered), uint64(a.epoch))
		for _, yes := range []bool{a.crashed, a.condemned, a.knows, a.woken, a.told, a.departed, a.collected} {
			out = append(out, '0')
			if yes {
				out[len(out)-1] = '1'
			}
		}
		if i > 0 && a.segment == w.actors[0].segment {
			continue
		}
		for k := range a.segment.slots {
			s := &a.segment.slots[k]
			put(s.word)
			for _, p := range s.parts {
				put(uint64(p.length), uint64(p.stamp), uint64(p.data[0]))
			}
		}
		for k := range a.segment.common.groups {
			put(a.segment.common.groups[k].n.Load(), a.segment.common.sums[0][k].step.Load(), a.segment.common.sums[1][k].step.Load())
		}
		out = append(out, a.segment.parts...)
		put(a.segment.common.apart.n.Load())
		for k := range a.segment.buffers {
			s := &a.segment.buffers[k]
			put(s.word, uint64(s.data[0]))
		}
	}
	w.text = out
	return maphash.Bytes(seed, out)
}

var seed = maphash.MakeSeed()

// step is one of: do 'd', crash 'c', be taken for dead 'z', learn 'l', be told of a departure 't', wake 'w', validate 'v'.
type step struct {
	what byte
	who  int
}

func (s step) String() string { return fmt.Sprintf("%c%d", s.what, s.who) }

// Steps lists the possible steps.
func (w *world) Steps() (out []step) {
	settled := true
	for who := range w.actors {
		a := &w.actors[who]
		if a.crashed {
			continue
		}
		if (w.crashed < w.crashes || a.condemned) && a.at != over {
			if out = append(out, step{'c', who}); w.zombies && !a.condemned {
				out = append(out, step{'z', who})
			}
		}
		if w.can(a) {
			out = append(out, step{'d', who})
		}
		if a.condemned {
			continue
		}
		if settled = settled && (a.at == failed || a.at == over); !a.knows && w.missesDeath(a) {
			out = append(out, step{'l', who})
		}
		if w.leaver > 0 && w.actors[w.leaver].departed && !a.told {
			out = append(out, step{'t', who})
		}
		if a.at == asleep && a.woken {
			out = append(out, step{'w', who})
		}
	}
	if settled && slices.ContainsFunc(w.actors, func(a actor) bool { return a.at == failed && !a.crashed && !a.condemned && w.lost() }) {
		out = append(out, step{'v', 0})
	}
	return out
}

// lost reports whether a member of the segments counts as dead.
func (w *world) lost() bool {
	return slices.ContainsFunc(w.members, func(who int) bool { return w.actors[who].crashed || w.actors[who].condemned })
}

// missesDeath reports whether a member has something to learn: one of its segment counts as dead.
func (w *world) missesDeath(a *actor) bool { return a.at != over && w.lost() }

// can reports whether a member has something to do that changes anything.
func (w *world) can(a *actor) bool {
	switch a.at {
	case asleep, failed, over:
		return false
	case away:
		return a.knows || w.allAway(a) || a.told // by the message that it waits for
	}
	return true
}

func (w *world) allAway(a *actor) bool {
	return !slices.ContainsFunc(w.members, func(who int) bool {
		o := &w.actors[who]
		return o.op < a.op || o.op == a.op && o.at != away
	})
}

// value is the byte that a member brings or lays in an op.
func value(op, epoch, who int) byte { return byte(1 + op*16 + epoch*5 + who) }

// root is the member that lays something in an op: its place in the segment.
func (a *actor) root(op byte) int { return int(op-'0') % a.n }

// Do has a step happen.
func (w *world) Do(s step) {
	a := &w.actors[s.who]
	switch s.what {
	case 'c':
		if a.crashed = true; !a.condemned {
			w.crashed++
		}
	case 'z':
		a.condemned = true
		w.crashed++
	case 'l':
		a.knows, a.woken = true, true
	case 't':
		a.told, a.woken = true, true
	case 'w':
		a.woken, a.at = false, looks
	case 'v':
		w.validate()
	default:
		w.act(s.who, a)
	}
}

// validate has those that live begin anew, in the memory of before if no member can write to it any more.
func (w *world) validate() {
	was := w.actors[w.members[0]].segment
	free := true
	w.members = slices.DeleteFunc(w.members, func(who int) bool {
		a := &w.actors[who]
		if gone := a.crashed || a.condemned; !gone {
			a.phase.segment.Leave(a.me, false)
		}
		return a.crashed || a.condemned
	})
	furthest := 0
	for i := range w.actors {
		if a := &w.actors[i]; a.segment == was && !a.crashed && a.condemned {
			free = w.broken == hasty
		}
		furthest = max(furthest, w.actors[i].op)
	}
	for _, who := range w.members { // how many each has called does not count
		w.actors[who].op = min(furthest, len(w.ops)-1)
	}
	if !free {
		was = w.newMemory(len(w.members))
	}
	w.meet(was)
}
