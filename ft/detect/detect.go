package detect

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Kind is the kind of an Action.
type Kind uint8

const (
	// Send: send Payload to To, as a frame of fabric.ClassDetect. The driver may drop a frame that
	// it cannot send at once.
	Send Kind = iota
	// Report: Peer has failed with the given Cause. The driver reports it to the engine, and calls
	// Died once the failure is in the View.
	Report
	// Departed: another process has reported that Peer has departed.
	Departed
	// Die: this process counts as failed elsewhere, or lost a partition. The driver ends it with
	// Err. It is the last action.
	Die
)

// Action is an output for the driver.
type Action struct {
	Kind    Kind
	To      proc.ID    // of Send
	Payload []byte     // of Send; shared with other Sends, not to be changed
	Patient bool       // of Send: may wait for a connection, as To may learn it otherwise or needs it later only
	Peer    proc.ID    // of Report and Departed
	Cause   proc.Cause // of Report
	// Silent, of Report, is the duration of Peer's silence if this process passed the verdict; else
	// 0.
	Silent fabric.Time
	Err    error // of Die: an *EndError
}

// Machine is the detector of one process. Its methods are not safe for concurrent use. After each
// input the driver drains Next.
//
// Times do not decrease from one input to the next; a lower one is taken for the last.
type Machine struct {
	cfg         Config
	now         fabric.Time // of the last input
	heldTotal   fabric.Time // total time for which this process did not run
	heldLongest fabric.Time // the longest such time
	due         fabric.Time // when the next Tick is needed
	stats       Stats
	next        fabric.Time // when the next heartbeats are due

	// log has every known end, in the order in which this process learned of them.
	log        []entry
	index      map[proc.ID]int
	counted    int  // processes of the job that have neither departed nor provably failed
	newDeaths  bool // the log has failures that have not been sent to the neighbours
	stale      bool // neighbours, succ and far must be chosen again
	neighbours []neighbour

	succ, far proc.ID // receivers of heartbeats
	watches   []watch // in ascending order of id
	probes    []probe
	queried   []proc.ID // see Queried
	round     round

	unreachable []proc.ID // alive, but unreachable from here
	missing     map[proc.ID]bool

	reports, sends []Action // reports: includes notices to condemned processes, each before its Report
	reported, sent int      // how many of them Next has returned
	endErr         *EndError
	ended          bool

	in     frame
	cache  encodedUpdate
	broken mutant
}

// mutant leaves out a part of the protocol. Tests show that each part is needed and that its
// absence is found.
type mutant struct {
	hurried bool // no regard for its own lateness
	forget  bool // new neighbours do not get the log
	alone   bool // no counting of sides
	silent  bool // nothing is repeated
}

// New makes the detector of one process. It sends its first heartbeat within a Period, and expects
// those of others as if all had just been received: a process that is silent from the start is
// found as soon as any other.
//
// Preconditions: cfg.Check() == nil.
func New(cfg Config, now fabric.Time) *Machine {
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	m := &Machine{cfg: cfg, now: now, index: make(map[proc.ID]int), counted: cfg.Procs,
		succ: proc.None, far: proc.None, stale: true}
	m.rebuild()
	m.sends = m.sends[:0] // first heartbeats: all at once would connect while all start
	m.next = now + 1 + fabric.Time(mix(cfg.Seed^uint64(cfg.Self))%uint64(cfg.Period))
	m.plan()
	return m
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Tick advances the clock. It is needed at Due. An earlier call does no harm; after a later one the
// machine knows that its process did not run.
func (m *Machine) Tick(now fabric.Time) {
	if m.due != fabric.Forever {
		m.stats.Late = max(m.stats.Late, now-m.due)
	}
	if !m.advance(now) {
		return
	}
	m.checkSilence()
	m.passVerdicts()
	if m.ended {
		return
	}
	m.rebuild()
	m.sendHeartbeats()
	m.plan()
}

// Due is the time of the next Tick, at most a Period ahead; every input may move it forward.
// fabric.Forever: no Tick is needed any more.
func (m *Machine) Due() fabric.Time { return m.due }

// Receive handles a frame of fabric.ClassDetect. An error means that no correct process sends such
// a frame: all of it was ignored, and the sender may be cut off as corrupt.
func (m *Machine) Receive(from proc.ID, payload []byte, now fabric.Time) error {
	if !m.advance(now) {
		return nil
	}
	f := &m.in
	if err := f.decode(payload, m.cfg.Procs); err != nil {
		return fmt.Errorf("%w, from %v", err, from)
	}
	if int64(from) >= int64(m.cfg.Procs) || from == m.cfg.Self {
		return fmt.Errorf("%w: from %v", errFrame, from)
	}
	if f.mentions(from) {
		return fmt.Errorf("%w: %v speaks of itself", errFrame, from)
	}
	if i, ended := m.index[from]; ended {
		// Answer unsolicited frames only: if two sides each count the other as failed, their
		// notices would answer each other for ever.
		if e := m.log[i]; e.cause.Failed() && (f.kind == kindHeartbeat || f.kind == kindQuery) {
			m.send(from, appendUpdate(nil, flagDirect, 0, []entry{e}))
		}
		return nil
	}
	m.alive(from)
	m.confirmAlive(from)
	err := m.dispatch(from, f)
	m.rebuild()
	return err
}

// dispatch handles a frame of a living process.
func (m *Machine) dispatch(from proc.ID, f *frame) error {
	switch f.kind {
	case kindHeartbeat:
		if f.flags&flagFar != 0 {
			m.observe(from, watchFar, m.clock())
		}
	case kindUpdate:
		m.onUpdate(from, f)
	case kindAck:
		return m.onAck(from, f)
	case kindQuery:
		m.onQuery(from, f)
	case kindReply:
		if m.round.open && f.round == m.round.id {
			m.round.answered[from] = m.clock()
		}
	case kindPing:
		m.send(from, pingAckFrame)
	case kindAlive:
		m.alive(f.ids[0])
	}
	return nil
}

// Died reports that a failure is in this process's View, because of a provider's evidence or of a
// Report. A new one has been sent to the others when Next has been drained. Unreachable is not a
// failure but concerns two processes that the others do reach, so it is not forwarded.
func (m *Machine) Died(peer proc.ID, cause proc.Cause, now fabric.Time) {
	if !m.advance(now) || !m.other(peer) || !cause.Failed() {
		return
	}
	if cause.Kind == proc.Unreachable {
		m.unreachable = append(m.unreachable, peer)
		return
	}
	m.record(peer, cause, proc.None)
	m.rebuild()
}

// Departed reports that a process has finalized: no heartbeat is expected from it, and it is never
// reported.
func (m *Machine) Departed(peer proc.ID) {
	if m.ended || !m.other(peer) {
		return
	}
	m.record(peer, proc.Cause{Kind: proc.Departed}, proc.None)
	m.rebuild()
}

// Fenced reports that another process refuses this one because it counts as failed there. This
// process ends itself unless the other one has failed or is unreachable here.
func (m *Machine) Fenced(by proc.ID, now fabric.Time) {
	if m.advance(now) && !m.hasFailed(by) && !slices.Contains(m.unreachable, by) {
		m.end(&EndError{By: by})
	}
}

// Ended reports whether a process is known to have failed or departed, even if it is unreachable
// here.
func (m *Machine) Ended(id proc.ID) bool { return m.isEnded(id) }

func (m *Machine) other(id proc.ID) bool {
	return int64(id) < int64(m.cfg.Procs) && id != m.cfg.Self
}

// advance updates the time and reports whether the machine still runs. If the input is late, this
// process did not run, and its clock stands still for that time: lateness here is no silence there.
// After a long time answers to its queries may be unread, so they are sent again.
func (m *Machine) advance(now fabric.Time) bool {
	if m.ended {
		return false
	}
	now = max(now, m.now)
	if late := now - max(m.due, m.now); late > m.cfg.Period/8 && m.due != fabric.Forever && !m.broken.hurried {
		m.hold(late)
	}
	m.now = now
	return true
}

// Deaf reports that this process has received nothing since the last input, as if it had not run. Its heartbeats
// are sent.
func (m *Machine) Deaf(now fabric.Time) {
	if now > m.now && !m.ended {
		m.hold(now - m.now)
		m.now = now
	}
}

// hold has the clock stand still for a time that has passed.
func (m *Machine) hold(t fabric.Time) {
	m.heldTotal += t
	m.heldLongest = max(m.heldLongest, t)
	if t > m.cfg.Period/2 {
		for i := range m.watches {
			m.watches[i].queried = never
		}
	}
}

// plan sets the time of the next Tick.
func (m *Machine) plan() {
	m.due = fabric.Forever
	if len(m.log) == m.cfg.Procs-1 {
		return
	}
	m.wake(m.next)
	for _, w := range m.watches {
		if w.queried == never {
			m.wake(w.lastSeen + m.cfg.patience() + m.heldTotal)
		} else {
			m.wakeFor(max(w.lastSeen+m.cfg.Timeout, w.queried+m.cfg.window()) + m.heldTotal)
		}
	}
	if m.round.open {
		m.wake(m.round.repeated + m.cfg.window()/2 + m.heldTotal)
	}
}

// wake moves the next Tick to t at the latest.
func (m *Machine) wake(t fabric.Time) { m.due = min(m.due, max(t, m.now)) }

// wakeFor moves the next Tick to t for a verdict. If t has passed, the verdict waits for answers,
// which are inputs, or for the next queries.
func (m *Machine) wakeFor(t fabric.Time) {
	if t > m.now {
		m.wake(t)
	}
}

func (m *Machine) send(to proc.ID, payload []byte) {
	m.sends = append(m.sends, Action{Kind: Send, To: to, Payload: payload})
}

func (m *Machine) report(id proc.ID, cause proc.Cause, silent fabric.Time) {
	m.reports = append(m.reports, Action{Kind: Report, Peer: id, Cause: cause, Silent: silent})
}

func (m *Machine) end(err *EndError) {
	err.Stopped, err.Timeout = m.heldLongest, m.cfg.Timeout
	m.endErr, m.ended, m.due = err, true, fabric.Forever
}

// Next returns the next action; false: there is none. Inputs may come between two calls. Reports
// come before the Sends that forward them, so that failures which the engine confirms at once are
// sent in one frame. The notice to a condemned process comes just before its Report.
func (m *Machine) Next() (Action, bool) {
	if m.ended {
		err := m.endErr
		m.endErr = nil
		if err == nil {
			return Action{}, false
		}
		return Action{Kind: Die, Err: err}, true
	}
	if a, ok := pop(&m.reports, &m.reported); ok {
		return a, true
	}
	m.flush()
	return pop(&m.sends, &m.sent)
}

// pop removes the first action of a queue.
func pop(queue *[]Action, given *int) (Action, bool) {
	if *given == len(*queue) {
		*queue, *given = (*queue)[:0], 0
		return Action{}, false
	}
	a := (*queue)[*given]
	(*queue)[*given] = Action{}
	*given++
	return a, true
}
