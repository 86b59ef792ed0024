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
	// maxEarly bounds the frames held of one peer, for groups that are not open or agreements that
	// have not started here. Each such agreement costs a peer one frame for each parent that it has
	// had.
	maxEarly = 4096
	// earlyBytes is the average length of these frames in the bound; shorter ones count as long.
	earlyBytes = 2048
)

// GroupKey identifies the agreements of one group in one context; all members number them alike.
type GroupKey struct {
	Context uint32
	Group   uint32 // a digest of the members
}

// Group maps ranks to processes.
type Group interface {
	// Size is the number of members.
	Size() int
	// Proc returns the process with a rank of 0 … Size()-1.
	Proc(rank int) proc.ID
	// Rank returns a process's rank, or -1.
	Rank(p proc.ID) int
}

// Op reduces a member's value into acc; both are as long as the proposal. It is associative,
// commutative and idempotent.
type Op func(acc, in []byte)

// Proposal is one process's part in an agreement.
type Proposal struct {
	// What identifies the operation. If members propose different ones, all get Decision.Mismatch.
	What byte
	// Value is copied; its length is the same at all members, at most MaxValue bytes.
	Value []byte
	Op    Op // nil: there is no value
	// Acked reports whether the proposer has acknowledged a member's end; nil: it acknowledges all.
	Acked   func(proc.ID) bool
	Uniform bool // failed members have not decided differently
	// Yields gives way to proposals of other kinds: if one meets this proposal in an agreement, it
	// moves to the next agreement, and only the members that yielded get Mismatch. It is for
	// operations that a member may skip because it recovers from an error.
	Yields bool
	// Refuses is the proposal of a member that takes no part in yielding operations any more: all
	// that propose one get Decision.Refused. It yields itself.
	Refuses bool
	// Then is passed on with the decision. The machine does not call it.
	Then func(*Decision)
}

// Decision is the outcome of an agreement: the same at all living members and, of a uniform one, at
// all members that got one. Its receiver owns it until Release.
type Decision struct {
	Key GroupKey
	Seq uint32 // the result of Propose
	// Number is the agreement's number, which is the same at all members even if they have not
	// proposed equally often.
	Number uint32
	What   byte
	// Value is the reduction of the contributions.
	Value []byte
	// Ended lists by rank all members that have been agreed to have ended, New those that this
	// agreement added. The receiver does not change Ended.
	Ended, New []Ended
	// Unacked lists the ended members whose failure some contributor had not acknowledged or did
	// not know of.
	Unacked []proc.ID
	// Mismatch: not all members proposed the same operation; Value means nothing.
	Mismatch bool
	// Refused: a member refuses to take part.
	Refused bool
}

// Ended is a member that takes no part any more.
type Ended struct {
	Proc     proc.ID
	Departed bool // it finalized; else it failed
}

// Kind is the kind of an Action.
type Kind uint8

// The kinds of actions.
const (
	Send Kind = iota + 1 // Payload to To, reliably while both live, in the order of sending
	// Report: another member reports that Peer has failed or Departed. The driver enters a failure
	// in the view and calls Died; it calls Departed when everything that Peer sent has been
	// received.
	Report
	Decide // Decision
	// Await: this process waits for the contribution of Peer, so it must learn of Peer's failure.
	// Once for each.
	Await
)

// Action is an output of the machine.
type Action struct {
	Kind     Kind
	To, Peer proc.ID
	Departed bool
	Why      error  // Report: Peer sent a malformed frame; nil: another member reports Peer
	Connect  bool   // Await: this process must connect as well
	Payload  []byte // valid until the next call: its memory is reused
	Decision *Decision
	Then     func(*Decision) // Decide: the proposal's Then
}

// ErrFrame is the class of errors about frames that no correct machine sends. Their sender is to be
// cut off.
var ErrFrame = errFrame

// ErrNotOpen is the error of a proposal in a group that is not open.
var ErrNotOpen = errors.New("agree: no such line")

// Machine is one process's part in all agreements. It is not safe for concurrent use.
type Machine struct {
	self       proc.ID
	open       map[GroupKey]*sequence
	endedProcs procSet
	left       procSet                  // the departed processes in ended
	unopened   map[GroupKey][]heldFrame // frames for groups that are not open
	heldBytes  map[proc.ID]int          // bytes of held frames, by sender
	departing  []proc.ID                // departed processes of which a decision is held
	actions    []Action
	taken      int // number of actions that Next has returned
	shape      Shape
	ballots    Ballots     // nil: no shared memory
	atBallots  []*sequence // sequences that wait at a ballot
	broken     mutant
}

// Shape selects the tree of agreements. It is the same at all members.
type Shape struct {
	// Digit is the size in bits of the digits of positions: a parent's position is the child's
	// without its highest digit. 1 is the binomial tree, which takes the fewest steps if each
	// member has a processor. If members share processors, the number of times that each must run
	// counts: with [Shallow] a leaf runs once for each agreement, in which it receives the last
	// decision and contributes to the next.
	Digit uint
	// Node gives the number of a process's node; nil: nodes count for nothing.
	Node func(proc.ID) int
}

// The shapes of trees.
var (
	Binomial = Shape{Digit: 1}
	// Shallow gives a parent up to 63 children for each step up; a tree of up to 64 members is a
	// star.
	Shallow = Shape{Digit: 6}
)

// heldFrame is a frame that waits.
type heldFrame struct {
	from    proc.ID
	payload []byte
	needs   int // the rank whose end must be known first; or noRank
}

// mutant leaves out one rule, for tests that must notice.
type mutant uint8

const (
	noMutant   mutant = iota
	eagerUps          // E1: contributions are handled although ends that they name are unknown
	muteOwners        // E2: a decision is not sent again after an end
	unfenced          // E3: held frames of failed processes are handled
	openCells         // E4: cells of ended members are not closed
	silentNaps        // E5: sleeping members are not woken
	hastySums         // a sum is laid although not all of the section have posted
)

// New makes a process's machine.
func New(self proc.ID, shape Shape) *Machine {
	return &Machine{
		self: self, shape: shape, open: make(map[GroupKey]*sequence),
	}
}

// Open opens a group's agreements. All members do it, with the same group. Opening twice is an
// error.
//
// Precondition: this process is a member.
func (m *Machine) Open(id GroupKey, g Group) error {
	if m.open[id] != nil {
		return fmt.Errorf("agree: line %08x of group %08x is open", id.Context, id.Group)
	}
	l := &sequence{m: m, key: id, group: g, rank: g.Rank(m.self)}
	for p := range m.endedProcs.all() {
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

// Close forgets a group in which this process proposes nothing more; later frames for it are
// dropped. It must stay open while other members may lack its last decision.
func (m *Machine) Close(id GroupKey) {
	if l := m.open[id]; l != nil {
		for _, h := range l.held {
			m.unkeep(h)
		}
		l.dropBallot()
		delete(m.open, id)
	}
}

// Propose lets this process take part in the group's next agreement, and returns its number.
// Decisions come in the order of numbers, and an agreement starts here when the one before has been
// decided.
//
// Preconditions: len(Value) <= MaxValue.
func (m *Machine) Propose(id GroupKey, p Proposal) (seq uint32, err error) {
	l := m.open[id]
	if l == nil {
		return 0, ErrNotOpen
	}
	return l.propose(&p), nil
}

// Receive handles a frame. Error: ErrFrame.
func (m *Machine) Receive(from proc.ID, payload []byte) error {
	if m.endedProcs.has(from) && m.broken != unfenced {
		return nil
	}
	id, _, err := header(payload)
	if err != nil {
		return fromError(from, err)
	}
	if l := m.open[id]; l != nil {
		return l.receive(from, payload)
	}
	if payload[0] != kindUp {
		return nil // a decision goes to members that have proposed, so the group has been closed
	}
	return m.receiveEarly(from, id, payload)
}

//go:noinline
func fromError(from proc.ID, err error) error { return fmt.Errorf("from %v: %w", from, err) }

// receiveEarly keeps a frame for a group that is not open.
func (m *Machine) receiveEarly(from proc.ID, id GroupKey, payload []byte) error {
	h, err := m.keep(from, payload, noRank)
	if err != nil {
		return err
	}
	if m.unopened == nil {
		m.unopened = make(map[GroupKey][]heldFrame)
	}
	m.unopened[id] = append(m.unopened[id], h)
	return nil
}

// keep holds a frame and counts it.
func (m *Machine) keep(from proc.ID, payload []byte, needs int) (heldFrame, error) {
	h := heldFrame{from, payload, needs}
	if m.heldBytes[from]+h.cost() > maxEarly*earlyBytes {
		return heldFrame{}, fmt.Errorf("from %v: %w: more than %d frames, or %d bytes, for agreements that have not started",
			from, errFrame, maxEarly, maxEarly*earlyBytes)
	}
	if m.heldBytes == nil {
		m.heldBytes = make(map[proc.ID]int)
	}
	m.heldBytes[from] += h.cost()
	h.payload = slices.Clone(payload)
	return h, nil
}

// unkeep undoes keep.
func (m *Machine) unkeep(h heldFrame) { m.heldBytes[h.from] -= h.cost() }

// cost is the size of a held frame in the bound.
func (h *heldFrame) cost() int { return max(len(h.payload), earlyBytes) }

// Died reports that a failure has entered this process's view.
func (m *Machine) Died(p proc.ID) { m.ended(p, false) }

// Departed reports that a process has finalized and takes no part any more. The frames that it sent
// before have been received, and count.
func (m *Machine) Departed(p proc.ID) {
	if m.holdsDecisionOf(p) {
		m.departing = append(m.departing, p)
	} else {
		m.ended(p, true)
	}
}

// holdsDecisionOf reports whether a decision from a process waits for the ends that it names to be
// known.
func (m *Machine) holdsDecisionOf(p proc.ID) bool {
	for _, l := range m.open {
		if slices.ContainsFunc(l.held, func(h heldFrame) bool { return h.from == p && h.payload[0] == kindDown }) {
			return true
		}
	}
	return false
}

func (m *Machine) ended(p proc.ID, departed bool) {
	if m.endedProcs.has(p) {
		return
	}
	if m.endedProcs.add(p); departed {
		m.left.add(p)
	}
	for _, id := range m.sortedKeys() {
		m.open[id].ended(p)
	}
	if k := slices.IndexFunc(m.departing, func(p proc.ID) bool { return !m.holdsDecisionOf(p) }); k >= 0 {
		p := m.departing[k]
		m.departing = slices.Delete(m.departing, k, k+1)
		m.ended(p, true)
	}
}

// Release returns a decision's memory for reuse. It is optional.
func (m *Machine) Release(d *Decision) {
	if l := m.open[d.Key]; l != nil {
		d.Ended, d.New, d.Unacked = nil, nil, nil
		l.spare = d
	}
}

// sortedKeys lists the open groups in the same order in every run, for replay.
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

// fewActions is the memory for actions that is kept.
const fewActions = 64

// Next returns the next action; the driver performs them in order.
func (m *Machine) Next() (Action, bool) {
	if m.taken == len(m.actions) {
		clear(m.actions)
		m.actions, m.taken = m.actions[:0], 0
		if cap(m.actions) > fewActions {
			m.actions = nil // thousands of ends were reported at once
		}
		return Action{}, false
	}
	m.taken++
	return m.actions[m.taken-1], true
}

// reuse returns a frame's memory for reuse, or none if that frame is still to be sent.
func (m *Machine) reuse(frame []byte) []byte {
	for _, a := range m.actions[m.taken:] {
		if len(frame) > 0 && a.Kind == Send && &a.Payload[0] == &frame[0] {
			return nil
		}
	}
	return frame[:0]
}

// emit adds an action of a kind, for its caller to fill in. Inlined it would put an Action on the stack of
// each caller, and simulated ranks have small stacks.
//
//go:noinline
func (m *Machine) emit(k Kind) *Action {
	m.actions = append(m.actions, Action{Kind: k})
	return &m.actions[len(m.actions)-1]
}
