package agree

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

const (
	// MaxValue is the longest value of an agreement, in bytes.
	MaxValue = 4096
	// maxEarly bounds the frames that are kept of one peer for lines that are not
	// open yet or agreements that have not begun. Each such agreement costs a peer
	// one frame for each parent that it has had.
	maxEarly = 4096
	// earlyBytes is how long these frames may be on average; shorter ones count as long.
	earlyBytes = 2048
)

// GroupKey names the agreements of one group in one context, which its members number alike.
type GroupKey struct {
	Context uint32
	Group   uint32 // a digest of the members
}

// Group maps ranks to processes.
type Group interface {
	// Size is the number of members.
	Size() int
	// Proc gives the process of a rank of 0 … Size()-1.
	Proc(rank int) proc.ID
	// Rank gives a process's rank; -1: it is no member.
	Rank(p proc.ID) int
}

// Op folds in, of another member, into acc; both are as long as the proposal. It is
// associative and commutative, and the same operand twice is as good as once.
type Op func(acc, in []byte)

// Proposal is one process's part in an agreement.
type Proposal struct {
	// What names the operation. Members that propose different ones all learn that, in
	// Decision.Unlike.
	What byte
	// Value is copied; its length is the same at all members, at most MaxValue.
	Value []byte
	Op    Op // nil: there is no value
	// Acked reports whether the proposer has acknowledged that a member is gone; nil:
	// it acknowledges all.
	Acked   func(proc.ID) bool
	Uniform bool // alike at all members
	// Yields has a proposal of another kind that meets this one in an agreement go to the next one:
	// only the members that propose something that yields learn that they were unlike. It is for operations
	// that a member may leave out because it has met an error and recovers.
	Yields bool
	// Refuses is the part of a member that will not take part in what yields any more: whoever proposes
	// that learns so, in Decision.Refused. It yields itself.
	Refuses bool
	// Then comes back with the decision. The machine does not call it.
	Then func(*Decision)
}

// Decision is what an agreement came to: the same at all living members, and, of a
// uniform one, at all that ever got one. It belongs to who gets it, until that one releases it.
type Decision struct {
	Key GroupKey
	Seq uint32 // what Propose returned
	// Number is the agreement's, which is the same at all members also where they have not proposed the same number
	// of times.
	Number uint32
	What   byte
	// Value is the fold of the contributions.
	Value []byte
	// Ended lists by rank all members that are agreed to be gone, now or before; New those
	// that are so from this agreement on. Gone is not to be changed.
	Ended, New []Ended
	// Unacked lists of Gone whom some contributor had not acknowledged, or did
	// not know of.
	Unacked []proc.ID
	// Mismatch: not all members proposed the same operation; Value means nothing.
	Mismatch bool
	// Refused: some member refuses to take part.
	Refused bool
}

// Ended is a member that takes no part any more.
type Ended struct {
	Proc     proc.ID
	Departed bool // in good order; else it has failed
}

// Kind says what an Action asks for.
type Kind uint8

// The kinds of actions.
const (
	Send Kind = iota + 1 // Payload to To: it must arrive while both live, in the order of sending
	// Report: Peer has failed, or has Departed, as another member knows. A failure is to be entered in
	// the view and told by Died; a departure is to be told by Departed when everything that Peer
	// sent has been heard.
	Report
	Decide // Decision
	// Await: the contribution of Peer is waited for, so its death must become known here. Once for each.
	Await
)

// Action is something that the machine wants done.
type Action struct {
	Kind     Kind
	To, Peer proc.ID
	Departed bool
	Why      error  // Report: Peer has sent what is no frame; nil: it is another member's word
	Connect  bool   // Await: a connection is wanted as well
	Payload  []byte // not to be changed, and to be copied by who keeps it: its memory will be used again
	Decision *Decision
	Then     func(*Decision) // Decide: the proposal's
}

// ErrFrame is the class of errors about frames that no machine sends. Their sender is to be
// cut off.
var ErrFrame = errFrame

// ErrNotOpen answers a proposal on a line that is not open.
var ErrNotOpen = errors.New("agree: no such line")

// Machine is one process's part in all agreements. It is not safe for concurrent use.
type Machine struct {
	self       proc.ID
	open       map[GroupKey]*sequence
	endedProcs map[proc.ID]bool         // true: departed
	unopened   map[GroupKey][]heldFrame // frames for lines that are not open
	heldBytes  map[proc.ID]int          // bytes of frames kept back, by sender
	departing  []proc.ID                // who has departed, while a decision of theirs is kept back
	actions    []Action
	taken      int // of actions
	shape      Shape
	boards     Boards      // nil: there are none
	flat       []*sequence // those that wait at a board
	broken     mutant
}

// Shape says which tree agreements use. All members of a line have the same.
type Shape struct {
	// Digit: the tree is made of positions without their highest digit of so many bits. 1 is the
	// binomial tree, which takes the fewest steps where each member has a processor. Where they take turns
	// on some, what counts is how often each has its turn: with [Shallow] a leaf needs one for each
	// agreement, in which it takes the last decision and contributes to the next.
	Digit uint
}

// The shapes of trees.
var (
	Binomial = Shape{Digit: 1}
	// Shallow gives a parent up to 63 children for each step up: of up to 64 members a star.
	Shallow = Shape{Digit: 6}
)

// heldFrame is a frame that waits.
type heldFrame struct {
	from    proc.ID
	payload []byte
	needs   int // the rank of who has to be known to be gone first; or nobody
}

// mutant leaves out one rule, for tests that must notice.
type mutant uint8

const (
	noMutant   mutant = iota
	eagerUps          // E1: contributions are looked at although deaths that they name are unknown
	muteOwners        // E2: a decision is not sent again after a death
	unfenced          // E3: what was kept back from the dead is looked at
	openCells         // the cell of who counts as dead is not sealed before messages are used
	silentNaps        // who sleeps at a board is not woken
)

// New makes the machine of a process.
func New(self proc.ID, shape Shape) *Machine {
	return &Machine{
		self: self, shape: shape, open: make(map[GroupKey]*sequence), endedProcs: make(map[proc.ID]bool),
		unopened: make(map[GroupKey][]heldFrame), heldBytes: make(map[proc.ID]int),
	}
}

// Open begins a line. All members do it, with the same group, which this process is a member of. It
// is an error if the line is open.
func (m *Machine) Open(id GroupKey, g Group) error {
	if m.open[id] != nil {
		return fmt.Errorf("agree: line %08x of group %08x is open", id.Context, id.Group)
	}
	l := &sequence{m: m, key: id, group: g, rank: g.Rank(m.self)}
	for p := range m.endedProcs {
		if rank := g.Rank(p); rank >= 0 {
			l.known.add(rank)
		}
	}
	l.cur = l.begin(1, nil)
	m.open[id] = l
	early := m.unopened[id]
	delete(m.unopened, id)
	for _, h := range early {
		m.unkeep(h)
		l.retry(h)
	}
	return nil
}

// Close forgets a line on which this process will propose nothing more: frames for
// it are dropped. While others may still lack its last decision it must be kept open.
func (m *Machine) Close(id GroupKey) {
	if l := m.open[id]; l != nil {
		for _, h := range l.held {
			m.unkeep(h)
		}
		l.drop()
		delete(m.open, id)
	}
}

// Propose has this process take part in the line's next agreement, and gives its
// number. Decisions come in the order of numbers, and an agreement begins here when the one before has
// been decided.
//
// Preconditions: len(Value) <= MaxValue.
func (m *Machine) Propose(id GroupKey, p Proposal) (seq uint32, err error) {
	l := m.open[id]
	if l == nil {
		return 0, ErrNotOpen
	}
	return l.propose(p), nil
}

// Receive takes in a frame. Error: ErrFrame.
func (m *Machine) Receive(from proc.ID, payload []byte) error {
	if _, gone := m.endedProcs[from]; gone && m.broken != unfenced {
		return nil
	}
	id, _, err := header(payload)
	if err != nil {
		return fmt.Errorf("from %v: %w", from, err)
	}
	if l := m.open[id]; l != nil {
		return l.receive(from, payload)
	}
	if payload[0] != kindUp {
		return nil // a decision is about those who have proposed: the line is closed
	}
	h, err := m.keep(from, payload, noRank)
	if err == nil {
		m.unopened[id] = append(m.unopened[id], h)
	}
	return err
}

// keep makes and accounts for a frame that is kept back.
func (m *Machine) keep(from proc.ID, payload []byte, needs int) (heldFrame, error) {
	h := heldFrame{from, payload, needs}
	if m.heldBytes[from]+h.cost() > maxEarly*earlyBytes {
		return heldFrame{}, fmt.Errorf("from %v: %w: more than %d frames, or %d bytes, for agreements that have not begun", from, errFrame, maxEarly, maxEarly*earlyBytes)
	}
	m.heldBytes[from] += h.cost()
	h.payload = slices.Clone(payload)
	return h, nil
}

// unkeep accounts for a frame that is not kept back any more.
func (m *Machine) unkeep(h heldFrame) { m.heldBytes[h.from] -= h.cost() }

// cost is what a frame counts for.
func (h *heldFrame) cost() int { return max(len(h.payload), earlyBytes) }

// Died says that a death has entered the view of this process.
func (m *Machine) Died(p proc.ID) { m.ended(p, false) }

// Departed says that a process has finalized: it takes no part any more. What it sent before
// has been heard, and counts.
func (m *Machine) Departed(p proc.ID) {
	if m.holdsDecisionOf(p) {
		m.departing = append(m.departing, p)
	} else {
		m.ended(p, true)
	}
}

// holdsDecisionOf reports whether a decision that a process has sent is kept back until the ends that it names are known.
func (m *Machine) holdsDecisionOf(p proc.ID) bool {
	for _, l := range m.open {
		if slices.ContainsFunc(l.held, func(h heldFrame) bool { return h.from == p && h.payload[0] == kindDown }) {
			return true
		}
	}
	return false
}

func (m *Machine) ended(p proc.ID, departed bool) {
	if _, known := m.endedProcs[p]; known {
		return
	}
	m.endedProcs[p] = departed
	for _, id := range m.sortedKeys() {
		m.open[id].ended(p)
	}
	if k := slices.IndexFunc(m.departing, func(p proc.ID) bool { return !m.holdsDecisionOf(p) }); k >= 0 {
		p := m.departing[k]
		m.departing = slices.Delete(m.departing, k, k+1)
		m.ended(p, true)
	}
}

// Release gives a decision back, for its memory to be used again. Who keeps decisions does not call it.
func (m *Machine) Release(d *Decision) {
	if l := m.open[d.Key]; l != nil {
		l.spare = d
	}
}

// sortedKeys lists the lines in one order everywhere, for the sake of replay.
func (m *Machine) sortedKeys() []GroupKey {
	out := make([]GroupKey, 0, len(m.open))
	for id := range m.open {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b GroupKey) int {
		if a.Context != b.Context {
			return int(int64(a.Context) - int64(b.Context))
		}
		return int(int64(a.Group) - int64(b.Group))
	})
	return out
}

// Next gives the next action, in the order in which they are to be done.
func (m *Machine) Next() (Action, bool) {
	if m.taken == len(m.actions) {
		clear(m.actions)
		m.actions, m.taken = m.actions[:0], 0
		return Action{}, false
	}
	m.taken++
	return m.actions[m.taken-1], true
}

// reuse gives the memory of a frame to be used again: other memory, if that frame is still to be sent.
func (m *Machine) reuse(frame []byte) []byte {
	for _, a := range m.actions[m.taken:] {
		if len(frame) > 0 && a.Kind == Send && &a.Payload[0] == &frame[0] {
			return nil
		}
	}
	return frame[:0]
}

func (m *Machine) emit(a Action) { m.actions = append(m.actions, a) }
