package bakery

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
	hasty                 // no member announces that it chooses
	impatient             // no member waits for those that choose
	lax                   // readers do not wait for a writer that chooses
	level                 // equal numbers are in no order
	blindNaps             // no member checks again after announcing its sleep
	silentReleases        // a release wakes no member
	silentChoosers        // a number wakes no member
	silentMarks           // a mark wakes no member
	greedy                // readers do not wait for writers
	unfair                // readers pass writers that wait
	reckless              // a member has the lock at once although others have a number
)

// task is the task of a member.
type task struct {
	ops     []string // by member: 's' takes the lock shared, 'x' exclusive
	crashes int
	// withdraws: a member that waits may end its request.
	withdraws bool
	broken    mutant
}

// The next step of a member.
type place uint8

const (
	begins place = iota
	looks        // for the highest number, at member k
	takes
	rouses // member k, after it has taken a number
	waits  // for member k
	dozes  // looks once more, at member k
	sleeps
	holds
	rousesNext // member k, after its release
	over
)

type actor struct {
	at       place
	op, k    int
	highest  uint64
	free     bool   // no member that it has looked at keeps it from the lock
	mine     uint64 // its word, as it was taken
	crashed  bool
	excluded bool
	woken    bool
	// ahead are the members with a number when this one began to choose: bits.
	ahead int
}

// world is a state of everything.
type world struct {
	task
	words   []Word
	lock    Lock
	actors  []actor
	crashed int
	asked   bool // the keeper has been asked to wake sleepers
	wrong   error
	text    []byte
}

func newWorld(t task) *world {
	w := &world{task: t, words: make([]Word, WordsOf(len(t.ops))), actors: make([]actor, len(t.ops))}
	w.lock = Open(w.words, len(t.ops))
	for i := range w.actors {
		if t.ops[i] == "" {
			w.actors[i].at = over
		}
	}
	return w
}

func (w *world) Clone() *world {
	c := *w
	c.actors, c.words, c.text = slices.Clone(w.actors), make([]Word, len(w.words)), nil
	for i := range c.words {
		c.words[i].v.Store(w.words[i].v.Load())
	}
	c.lock = Open(c.words, len(c.actors))
	return &c
}

var seed = maphash.MakeSeed()

// Print distinguishes states by everything that counts in them.
func (w *world) Print() uint64 {
	out := w.text[:0]
	put := func(numbers ...uint64) {
		for _, n := range numbers {
			out = binary.AppendUvarint(out, n)
		}
	}
	flags := uint64(0)
	flag := func(on bool) {
		if flags <<= 1; on {
			flags++
		}
	}
	flag(w.asked)
	for i := range w.actors {
		a := &w.actors[i]
		put(uint64(a.at), uint64(a.op), uint64(a.k), a.highest, a.mine, uint64(a.ahead))
		flag(a.free)
		flag(a.crashed)
		flag(a.excluded)
		flag(a.woken)
	}
	put(flags, uint64(w.crashed))
	for i := range w.words {
		put(w.words[i].v.Load())
	}
	w.text = out
	return maphash.Bytes(seed, out)
}

// step is one of: do 'd', crash 'c', the keeper learns of that 'l', sleep 'n', withdraw 'q', wake 'w'; the keeper wakes sleepers 'k'.
type step struct {
	what byte
	who  int
}

func (s step) String() string { return fmt.Sprintf("%c%d", s.what, s.who) }

// Steps lists the possible steps.
func (w *world) Steps() (out []step) {
	for who := range w.actors {
		a := &w.actors[who]
		if a.crashed {
			if !a.excluded {
				out = append(out, step{'l', who})
			}
			continue
		}
		if w.crashed < w.crashes && a.at != over {
			out = append(out, step{'c', who})
		}
		switch a.at {
		case waits:
			out = append(out, step{'n', who})
			if w.precedes(a.k, who) {
				break
			}
			fallthrough
		default:
			out = append(out, step{'d', who})
		case sleeps:
			if a.woken {
				out = append(out, step{'w', who})
			}
		case over:
		}
		if w.withdraws && (a.at == waits || a.at == sleeps) {
			out = append(out, step{'q', who})
		}
	}
	if w.asked {
		out = append(out, step{'k', 0})
	}
	return out
}

// kind is that of a member's op.
func (w *world) kind(who int) Kind {
	if w.ops[who][w.actors[who].op] == 'x' {
		return Exclusive
	}
	return Shared
}

// precedes is that of the lock, by the broken rules.
func (w *world) precedes(other, who int) bool {
	if other == who {
		return false
	}
	mine, theirs := w.words[who].v.Load(), w.words[other].v.Load()
	switch {
	case w.broken == impatient && theirs&choosing != 0,
		w.broken == lax && theirs&choosing != 0 && mine&kindMask == uint64(Shared),
		w.broken == greedy && mine&kindMask == uint64(Shared):
		return false
	case w.broken == unfair && mine&kindMask == uint64(Shared) && theirs&kindMask == uint64(Exclusive) && theirs&choosing == 0:
		return w.actors[other].at == holds
	case w.broken == level && theirs/numberUnit == mine/numberUnit && theirs&choosing == 0:
		return false
	}
	return w.lock.precedes(other, who, mine)
}

// Do has a step happen.
func (w *world) Do(s step) {
	a := &w.actors[s.who]
	switch s.what {
	case 'c':
		a.crashed = true
		w.crashed++
	case 'l':
		a.excluded = true
		if w.lock.Exclude(s.who); w.broken != silentMarks {
			w.asked = true
		}
	case 'n':
		a.at = dozes
		if w.lock.Sleep(s.who); w.broken == blindNaps {
			a.at = sleeps
		}
	case 'q':
		w.release(s.who)
	case 'w':
		a.at, a.woken = waits, false
	case 'k':
		w.asked = false
		for who := range w.actors {
			if w.lock.kept(who) {
				w.actors[who].woken = true
			}
		}
	default:
		w.act(s.who, a)
	}
}

// act takes the next step of a member.
func (w *world) act(who int, a *actor) {
	n := len(w.actors)
	switch a.at {
	case begins:
		a.ahead = w.waiting()
		if a.at, a.k, a.highest, a.free = looks, 0, 0, true; w.broken != hasty {
			w.lock.choose(who, w.kind(who))
		}
	case looks:
		number, compatible := w.lock.ask(a.k, who, w.kind(who))
		a.highest, a.free = max(a.highest, number), a.free && (compatible || w.broken == reckless && number > 0)
		switch a.k++; {
		case a.k == n && a.free && !w.lock.Excluded(who):
			w.enter(who, a)
		case a.k == n:
			a.at = takes
		}
	case takes:
		w.lock.take(who, w.kind(who), a.highest)
		a.at, a.k = rouses, 0
	case rouses, rousesNext:
		if silent := w.broken == silentChoosers && a.at == rouses || w.broken == silentReleases && a.at == rousesNext; !silent && w.lock.kept(a.k) {
			w.asked = true
		}
		if a.k++; a.k == n {
			w.roused(who, a)
		}
	case waits, dozes:
		if w.precedes(a.k, who) {
			a.at = sleeps // it dozes
			return
		}
		if a.k++; a.k == n {
			w.enter(who, a)
		}
	case holds:
		w.release(who)
	}
}

// waiting are the members that have a number, as bits.
func (w *world) waiting() (bits int) {
	for who := range w.actors {
		if at := w.actors[who].at; at >= rouses && at <= sleeps {
			bits |= 1 << who
		}
	}
	return bits
}

func (w *world) roused(who int, a *actor) {
	a.k = 0
	switch {
	case a.at == rouses:
		a.at = waits
	case a.op == len(w.ops[who]):
		a.at = over
	default:
		a.at = begins
	}
}

// enter checks the guarantees for a member that has the lock.
func (w *world) enter(who int, a *actor) {
	w.lock.awake(who)
	a.at = holds
	for other := range w.actors {
		o := &w.actors[other]
		if other == who || o.excluded || w.kindOf(other) == Shared && w.kind(who) == Shared {
			continue
		}
		if o.at == holds {
			w.wrong = fmt.Errorf("members %d and %d hold the lock", other, who)
		}
		if a.ahead>>other&1 != 0 && o.at >= rouses && o.at <= sleeps {
			w.wrong = fmt.Errorf("member %d passes member %d", who, other)
		}
	}
}

// kindOf is kind, also of a member that has done all.
func (w *world) kindOf(who int) Kind {
	if w.actors[who].op == len(w.ops[who]) {
		return Shared
	}
	return w.kind(who)
}

// release ends a member's hold or wait.
func (w *world) release(who int) {
	a := &w.actors[who]
	w.lock.Release(who)
	for i := range w.actors { // it blocks no member any more
		w.actors[i].ahead &^= 1 << who
	}
	a.at, a.k, a.ahead, a.woken = rousesNext, 0, 0, false
	a.op++
}

// Check returns the fault of a state in which these steps are possible.
func (w *world) Check(steps []step) error {
	if w.wrong != nil || slices.ContainsFunc(steps, func(s step) bool { return s.what != 'c' && s.what != 'n' && s.what != 'q' }) {
		return w.wrong
	}
	for who := range w.actors {
		if a := &w.actors[who]; !a.crashed && a.at != over {
			return fmt.Errorf("member %d waits for ever: at %d in op %d", who, a.at, a.op)
		}
	}
	return nil
}
