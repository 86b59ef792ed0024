package agree

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// A world is a group of machines, the messages between them, and the events that befall both. The
// possible next events are a list of steps; an explorer chooses among them.

// members is a Group of n members whose process ids are not their ranks.
type members int

func (n members) Size() int             { return int(n) }
func (n members) Proc(rank int) proc.ID { return proc.ID(2*rank + 5) }
func (n members) Rank(p proc.ID) int {
	if r := int(p-5) / 2; p >= 5 && p%2 == 1 && r < int(n) {
		return r
	}
	return -1
}

var theGroup = GroupKey{Context: 7, Group: 9}

// groupKey is the key of a world's kth group.
func groupKey(k int) GroupKey { return GroupKey{Context: 7, Group: uint32(9 + k)} }

// job is the program of the members. Sets have a bit for each rank.
type job struct {
	n       int
	rounds  int  // agreements of each group
	more    int  // groups beside the first
	uniform bool // all agreements are uniform
	leavers uint64
	stay    int    // rounds of every group after which leavers finalize
	rude    bool   // a departure may look like a failure to a process that has received nothing from there
	odd     uint64 // members that propose another operation
	late    uint64 // members that open a group when they first propose there
	acked   uint64 // members that acknowledge all known failures
	crashes int    // at most
	// suspicions bounds the number of processes that count as failed while they live, and fail
	// because of it. Before that they learn neither of each other's failure nor of that of a
	// process that condemned them, unless mutual.
	suspicions int
	mutual     bool
	broken     mutant
	flat       bool   // there is shared memory
	unmet      uint64 // members that can reach it once they have asked for that
	wide       uint   // bits of the tree's digits beyond the first
	nodes      uint64 // two bits for each rank: its node; ranks from 32 on are on the nodes of 0 on
}

// node is the node of a process.
func (j *job) node(p proc.ID) int { return int(j.nodes >> (2 * (members(j.n).Rank(p) % 32)) & 3) }

// last is the number of rounds that a rank takes part in.
func (j *job) last(rank int) int {
	if j.leavers>>rank&1 != 0 {
		return min(j.stay, j.rounds)
	}
	return j.rounds
}

// what is the operation that a rank proposes.
func (j *job) what(rank int) byte { return 3 + byte(j.odd>>rank&1) }

func (j *job) digit() uint { return 1 + j.wide }

type world struct {
	job
	procs []*member
	shelf *ballotMemory
	// wires are the queues by sender and receiver, in order. nil: the sender has departed.
	wires   [][][][]byte
	sends   int
	crossed int // of those, to other nodes
	crashed int
	doubted int
	decided int   // decisions that members have got
	refused error // a machine's error about a frame of another machine
}

type member struct {
	m         *Machine
	hands     *ballotAccess
	naps      bool // it sleeps at a ballot
	alive     bool
	departed  bool
	condemned bool   // it counts as failed at another process
	view      uint64 // bits of the failures it knows
	left      uint64 // bits of the departures it knows
	sentTo    uint64 // bits of the processes that it has sent something to
	part      []part // by group
}

// part is a member's part in a group.
type part struct {
	proposed int // number of proposals
	knew     []uint64
	got      []*Decision
	notified []uint64 // by round: the ranks that it sent the decision to
}

func newWorld(j job) *world {
	w := &world{job: j, shelf: new(ballotMemory)}
	for r := range j.n {
		p := &member{m: New(members(j.n).Proc(r), Shape{j.digit(), j.node}), alive: true, part: make([]part, 1+j.more)}
		p.m.broken = j.broken
		if j.flat {
			p.hands = &ballotAccess{w.shelf, p.m.self, j.unmet>>r&1 == 0}
			p.m.Use(p.hands)
		}
		for k := range p.part {
			if j.late>>r&1 == 0 {
				w.open(p.m, k)
			}
		}
		w.procs = append(w.procs, p)
		w.wires = append(w.wires, make([][][]byte, j.n))
	}
	return w
}

func (w *world) open(m *Machine, k int) {
	if err := m.Open(groupKey(k), members(w.n)); err != nil {
		panic(err)
	}
}

// step is a possible event.
type step struct {
	what     byte // 'p'ropose, 'd'eliver, 'l'earn, 's'uspect, 'c'rash, 'f'inalize, l'o'ok at ballots, 'z': sleep there
	at, from int  // from: also the group of a proposal
	// sends: the process crashes after so many of the messages that this step makes it send; -1: it
	// does not.
	sends int
}

func (s step) String() string {
	text := fmt.Sprintf("%c%d", s.what, s.at)
	if s.what == 'd' || s.what == 'l' || s.what == 's' || s.what == 'p' && s.from > 0 {
		text += fmt.Sprintf("<%d", s.from)
	}
	if s.sends >= 0 {
		text += fmt.Sprintf("!%d", s.sends)
	}
	return text
}

// steps lists the possible events, crashes included, in the memory of out.
func (w *world) steps(out []step) []step {
	out = out[:0]
	for at, p := range w.procs {
		if !p.alive || p.departed {
			continue
		}
		left := true
		for k := range p.part {
			switch q := &p.part[k]; {
			case len(q.got) < q.proposed:
				left = false
			case q.proposed < w.last(at):
				left = false
				out = append(out, step{'p', at, k, -1})
			}
		}
		if left && w.leavers>>at&1 != 0 {
			out = append(out, step{'f', at, 0, -1})
		}
		if p.m.Waits() && !p.naps {
			if p.m.ripe() {
				out = append(out, step{'o', at, 0, -1})
			}
			out = append(out, step{'z', at, 0, -1})
		}
		for from := range w.procs {
			if from != at {
				out = w.between(out, at, from)
			}
		}
		if w.crashed < w.crashes || p.condemned {
			out = append(out, step{'c', at, 0, 0})
		}
	}
	return out
}

// between appends the possible events of a living process caused by another.
func (w *world) between(out []step, at, from int) []step {
	p, o, wire := w.procs[at], w.procs[from], w.wires[from][at]
	unknown := (p.view|p.left)>>from&1 == 0
	if len(wire) > 0 && (p.view>>from&1 == 0 || w.broken == unfenced) {
		out = append(out, step{'d', at, from, -1})
	}
	switch {
	case !unknown || p.condemned && !w.mutual && w.counts(from, at):
	case !o.alive || o.condemned && !o.departed && (!p.condemned || w.mutual):
		out = append(out, step{'l', at, from, -1})
	case o.departed && w.rude && o.sentTo>>at&1 == 0:
		out = append(out, step{'l', at, from, -1})
	case !o.departed && w.doubted < w.suspicions && (!p.condemned || w.mutual):
		out = append(out, step{'s', at, from, -1})
	}
	return out
}

// counts reports whether a process acts on the failure of another one, directly or through others.
func (w *world) counts(from, at int) bool {
	var all uint64
	for next := w.procs[from].view; next != 0; next &^= all {
		r := bits.TrailingZeros64(next)
		if r == at {
			return true
		}
		all |= 1 << r
		next |= w.procs[r].view
	}
	return false
}

// do performs a step and returns the number of messages that it made its process send.
func (w *world) do(s step) int {
	p := w.procs[s.at]
	p.naps = p.naps && s.what == 'c'
	switch s.what {
	case 'o':
		p.m.Look()
	case 'z':
		p.naps = p.m.Doze()
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
		w.propose(s.at, s.from)
	case 's', 'l':
		if s.what == 's' {
			w.procs[s.from].condemned = true
			w.doubted++
		}
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
		if err := p.m.Receive(members(w.n).Proc(s.from), wire[0]); err != nil {
			w.refused = err
		}
	}
	return w.drain(s.at, s.sends)
}

func (w *world) propose(at, k int) {
	p := w.procs[at]
	q := &p.part[k]
	if w.late>>at&1 != 0 && q.proposed == 0 {
		w.open(p.m, k)
	}
	q.knew = append(q.knew, p.view|p.left)
	q.proposed++
	acked := func(proc.ID) bool { return w.acked>>at&1 != 0 }
	value := binary.LittleEndian.AppendUint64(nil, 1<<at)
	or := func(acc, in []byte) {
		for i := range acc {
			acc[i] |= in[i]
		}
	}
	if _, err := p.m.Propose(groupKey(k),
		Proposal{What: w.what(at), Value: value, Op: or, Acked: acked, Uniform: w.uniform}); err != nil {
		panic(err)
	}
}

// drain performs the actions of a process's machine.
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
			if w.node(p.m.self) != w.node(a.To) {
				w.crossed++
			}
			to := members(w.n).Rank(a.To)
			p.sentTo |= 1 << to
			w.wires[at][to] = append(w.wires[at][to], slices.Clone(a.Payload))
			if a.Payload[0] == kindDown {
				w.passed(at, to, a.Payload)
			}
		case Decide:
			q := &p.part[a.Decision.Key.Group-groupKey(0).Group]
			q.got = append(q.got, a.Decision)
			w.decided++
		case Await:
			if a.Connect {
				p.hands.met = true
			}
		case Report: // all processes learn of every end at some time
			if a.Why != nil {
				w.refused = a.Why
			}
		}
	}
}

// passed records that a process has sent its decision to another.
func (w *world) passed(at, to int, payload []byte) {
	id, seq, err := header(payload)
	if err != nil {
		panic(err)
	}
	q := &w.procs[at].part[id.Group-groupKey(0).Group]
	for len(q.notified) < int(seq) {
		q.notified = append(q.notified, 0)
	}
	q.notified[seq-1] |= 1 << to
}

func (w *world) crash(at int) {
	w.procs[at].alive = false
	if !w.procs[at].condemned {
		w.crashed++
	}
	for from := range w.procs {
		w.wires[from][at] = nil
	}
}
