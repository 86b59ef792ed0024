package board

import (
	"fmt"
	"slices"
)

// act does a member's next step.
func (w *world) act(who int, a *actor) {
	op := w.ops[a.op]
	switch a.at {
	case begins:
		w.begin(who, a)
	case brings:
		a.phase.Enter(a.me)
		a.entered++
		a.at = tells
	case tells:
		w.tellLeader(a)
	case enters:
		from := Everyone
		if op == 'g' && (a.me != 0 || a.collected) {
			from = a.phase.From(0)
		}
		if op >= '0' && op <= '9' {
			if from = a.phase.From(a.root(op)); w.broken == endlessRoot {
				from = a.root(op)
			}
		}
		a.phase.Enter(from)
		a.entered++
		switch a.at = looks; {
		case w.broken == lateParts:
			a.at = late
		case w.tooMuch(a, op):
			w.end(a)
		}
	case late:
		a.at = looks
		w.bring(a, op)
	case looks:
		w.look(a)
	case naps:
		a.phase.Nap()
		a.at = dozes
	case dozes:
		w.doze(a)
	case rouses:
		w.rouse(a, op)
	case reads:
		w.read(a, op)
	case readsLevels:
		w.readLevels(a)
	case away:
		if w.allAway(a) {
			w.done(a)
		} else {
			w.fail(a)
		}
	}
}

func (w *world) begin(who int, a *actor) {
	if who == w.leaver && w.leaver > 0 && a.op == w.after {
		a.phase.segment.Leave(a.me, true)
		a.departed, a.at = true, over
		return
	}
	if a.knows && w.early {
		w.fail(a)
		return
	}
	switch a.at = enters; {
	case w.ops[a.op] == 'g':
		w.beginLevels(a)
	case w.broken != lateParts:
		w.bring(a, w.ops[a.op])
	}
}

func (w *world) look(a *actor) {
	group := a.phase.group()
	if first, _ := a.phase.Members(group); w.broken == hopeful && a.phase.segment.Entered(first, a.phase.step) {
		a.phase.segment.SayGroupEntered(group, a.phase.step)
	}
	switch {
	case a.phase.Here() && !(a.knows && w.broken == abrupt):
		w.end(a)
	case a.knows:
		w.fail(a)
	default:
		a.at = naps
	}
}

func (w *world) doze(a *actor) {
	a.at = asleep
	if w.broken == blindNaps {
		return
	}
	switch saw, member := a.phase.Doze(); {
	case saw == Apart:
		w.end(a)
	case saw == Missing && (w.broken != trusting || a.phase.from == Everyone || a.phase.from == member):
		w.fail(a)
	case saw == All || a.knows || a.woken:
		a.woken, a.at = false, looks
	}
}

// partsOp is the number of an operation with parts.
const partsOp = 3

func (w *world) tooMuch(a *actor, op byte) bool { return op == 'e' && a.me == a.n-1 }

func (w *world) bring(a *actor, op byte) {
	switch {
	case w.tooMuch(a, op):
		a.phase.Bring(partsOp, make([]byte, Wide(a.n)+1))
	case op == 'b':
		a.phase.Come(partsOp + 1)
	case op == 'm' || op == 'e':
		if w.broken == oneTurn {
			a.phase.turn = 0
		}
		a.phase.Bring(partsOp, []byte{value(a.op, a.epoch, a.me)})
	case a.root(op) == a.me:
		w.lay(a, value(a.op, a.epoch, a.me))
	}
}

// lay lays a payload in buffers that other states of the world do not share.
func (w *world) lay(a *actor, value byte) {
	a.segment.buffers = slices.Clone(a.segment.buffers)
	for i := range w.actors {
		if w.actors[i].segment == a.segment {
			w.actors[i].phase.segment.buffers = a.segment.buffers
		}
	}
	a.phase.Lay([]byte{value})
}

// end follows when all that have to come have come.
func (w *world) end(a *actor) {
	if a.phase.from == Everyone && !a.condemned && !w.tooMuch(a, w.ops[a.op]) && w.ops[a.op] != 'e' {
		for _, who := range w.members {
			if o := &w.actors[who]; o.epoch == a.epoch && o.entered < a.entered {
				w.wrong = fmt.Errorf("member %d ends step %d, to which %d has not come", a.me, a.phase.step, o.me)
			}
		}
	}
	if other := a.phase.Other(); other >= 0 && !a.condemned {
		w.wrong = fmt.Errorf("member %d takes the operation of %d in step %d for another one", a.me, other, a.phase.step)
	}
	if a.phase.End(); w.ops[a.op] == 'g' && a.me != 0 {
		a.phase.Follow()
	}
	a.at, a.k = rouses, 0
}

// beginLevels begins an op in which members bring their parts to the first one, which lays the sum.
func (w *world) beginLevels(a *actor) {
	if a.me == 0 {
		a.phase.Collect(partsOp)
		a.collected = false
		return
	}
	a.phase.Bring(partsOp, []byte{value(a.op, a.epoch, a.me)})
	a.at = brings
}

// tellLeader wakes the first member if this one has come last.
func (w *world) tellLeader(a *actor) {
	if a.at = enters; !a.phase.Naps(0) || !a.phase.Last() || w.broken == silentBringers {
		return
	}
	for i := range w.actors {
		if o := &w.actors[i]; o.segment == a.segment && o.me == 0 && !o.crashed {
			o.woken = true
		}
	}
}

// readLevels has the first member read the part of another one, and lay the sum after the last; the others read it.
func (w *world) readLevels(a *actor) {
	sum := byte(0)
	for member := range a.n {
		sum += value(a.op, a.epoch, member)
	}
	switch {
	case a.me != 0:
		if b, _, ok := a.phase.Laid(0); !a.condemned && (!ok || b[0] != sum) {
			w.wrong = fmt.Errorf("member %d takes in op %d what is not the sum: %v %v", a.me, a.op, b, ok)
		}
		w.done(a)
	case a.collected:
		w.done(a)
	case a.k == 0 && a.n > 1:
		a.k = 1
	default:
		if b, _ := a.phase.Brought(a.k % a.n); a.n > 1 && !a.condemned && (len(b) != 1 || b[0] != value(a.op, a.epoch, a.k)) {
			w.wrong = fmt.Errorf("member 0 collects in op %d what %d has not brought: %v", a.op, a.k, b)
		}
		if a.k++; a.k >= a.n {
			w.lay(a, sum)
			a.collected, a.at, a.k = true, enters, 0
		}
	}
}

// adjacent reports whether two members wake each other: they are neighbours in a binomial tree, as in package sm.
func adjacent(a, b int) bool { return a != b && (a&(a-1) == b || b&(b-1) == a) }

// rouse looks at one of those that the member wakes.
func (w *world) rouse(a *actor, op byte) {
	for !adjacent(a.me, a.k) && a.k < a.n {
		a.k++
	}
	if to := a.k; to < a.n && a.phase.Naps(to) && w.broken != silentNaps {
		for i := range w.actors {
			if o := &w.actors[i]; o.segment == a.segment && o.me == to && !o.crashed {
				o.woken = true
			}
		}
	}
	if a.k++; a.k < a.n {
		return
	}
	switch a.k = 0; {
	case op == 'b':
		w.done(a)
	case op == 'g':
		a.at = readsLevels
	case op == 'e' && (w.tooMuch(a, op) || a.phase.Apart()):
		a.at = away
	default:
		a.at = reads
	}
}

// read looks at the part that one member has brought, or the root has laid.
func (w *world) read(a *actor, op byte) {
	from := a.k
	if op >= '0' && op <= '9' {
		from = a.root(op)
		if b, _, ok := a.phase.Laid(from); !a.condemned && (!ok || b[0] != value(a.op, a.epoch, from)) {
			w.wrong = fmt.Errorf("member %d reads in op %d what %d has not laid there: %v %v", a.me, a.op, from, b, ok)
		}
		w.done(a)
		return
	}
	if b, _ := a.phase.Brought(from); !a.condemned && (len(b) != 1 || b[0] != value(a.op, a.epoch, from)) {
		w.wrong = fmt.Errorf("member %d reads in op %d what %d has not brought there: %v", a.me, a.op, from, b)
	}
	if a.k++; a.k == a.n {
		w.sums(a)
		w.done(a)
	}
}

// sums has a member look at the sums of all groups, and lay those that are missing.
func (w *world) sums(a *actor) {
	for group := range a.phase.Groups() {
		want := byte(0)
		for member, end := a.phase.Members(group); member < end; member++ {
			want += value(a.op, a.epoch, member)
		}
		switch got, ok := a.phase.Sum(group); {
		case !ok:
			a.phase.LaySum(group, []byte{want, 1})
		case !a.condemned && (len(got) != 2 || got[0] != want):
			w.wrong = fmt.Errorf("member %d reads in op %d what is not the sum of group %d: %v, want %d", a.me, a.op, group, got, want)
		}
		if w.broken == staleSums {
			a.phase.segment.common.sums[a.phase.parts&1][group].step.Store(a.phase.parts + 2)
		}
	}
}

func (w *world) done(a *actor) {
	a.at, a.k = begins, 0
	if a.op++; a.op == len(w.ops) {
		a.at = over
	}
}

func (w *world) fail(a *actor) {
	a.at = failed
	if !a.condemned && !w.lost() && !(w.leaver > 0 && w.actors[w.leaver].departed) {
		w.wrong = fmt.Errorf("member %d ends with an error, and none is gone", a.me)
	}
	if !a.condemned && !w.early && w.lost() && !w.owed(a) {
		w.wrong = fmt.Errorf("member %d ends op %d with an error, which all that are gone had completed", a.me, a.op)
	}
}

// owed reports whether a member that is gone had not completed a member's op.
func (w *world) owed(a *actor) bool {
	return slices.ContainsFunc(w.members, func(who int) bool {
		o := &w.actors[who]
		return (o.crashed || o.condemned) && o.at != over && o.op <= a.op
	})
}

// Check gives the fault of a state in which these steps are possible, or nil.
func (w *world) Check(steps []step) error {
	if w.wrong != nil || slices.ContainsFunc(steps, func(s step) bool { return s.what != 'c' && s.what != 'z' }) {
		return w.wrong
	}
	for who := range w.actors {
		a := &w.actors[who]
		if ended := a.at == over || a.at == failed && (w.leaver > 0 || w.finished()); !a.crashed && !a.condemned && !ended {
			return fmt.Errorf("member %d waits for ever: at %d in op %d", who, a.at, a.op)
		}
	}
	return nil
}

// finished reports whether a member has done all, so that members whose op failed find none to validate with.
func (w *world) finished() bool {
	return slices.ContainsFunc(w.actors, func(a actor) bool { return a.at == over })
}
