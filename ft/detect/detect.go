package detect

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Kind says what an Action asks of the driver.
type Kind uint8

const (
	// Send: send Payload to To, as a frame of fabric.ClassDetect. What cannot be
	// sent at once may be dropped.
	Send Kind = iota
	// Report: Peer is dead, for the reason Cause. The driver reports it to the
	// engine, which answers with Died once it stands in the View.
	Report
	// Die: this process counts as dead elsewhere, or lost a partition. The driver
	// ends it with Err. Nothing comes after it.
	Die
)

// Action is something that the driver is to do.
type Action struct {
	Kind    Kind
	To      proc.ID    // of Send
	Payload []byte     // of Send; shared with other Sends, not to be changed
	Patient bool       // of Send: may wait a while for a connection, as To may learn it by itself or needs it for later
	Peer    proc.ID    // of Report
	Cause   proc.Cause // of Report
	// Silent, of Report, is how long nothing was heard of a Peer that this process itself
	// has found dead by silence; else 0.
	Silent fabric.Time
	Err    error // of Die: an *EndError
}

// Machine is the detector of one process. Its methods must not be called at the
// same time: the driver holds a lock, or is alone. After each input the driver
// drains Next.
//
// Times never go backwards from one input to the next; one that does is taken
// for the last.
type Machine struct {
	cfg         Config
	now         fabric.Time // of the last input
	heldTotal   fabric.Time // how long in all this process was held up
	heldLongest fabric.Time // the longest time at once
	due         fabric.Time // when Tick is wanted
	stats       Stats
	next        fabric.Time // when the next heartbeats are due

	// log has every end that is known, in the order in which it came to be known.
	log        []entry
	index      map[proc.ID]int
	counted    int  // of the processes of the job, those neither departed nor proven dead
	newDeaths  bool // the log has deaths that the neighbours are yet to be told
	stale      bool // near, succ and far may be gone
	neighbours []neighbour

	succ, far proc.ID // where heartbeats go
	watches   []watch // in ascending order of id
	probes    []probe
	queried   []proc.ID // see Asked
	round     round

	unreachable []proc.ID // who cannot be reached from here, and lives
	missing     map[proc.ID]bool

	reports, sends []Action // reports: also obituaries, each before its Report
	reported, sent int      // how many of them Next has given
	endErr         *EndError
	ended          bool

	in     frame
	cache  encodedUpdate
	broken mutant
}

// mutant leaves out parts of the protocol, for the tests that show that each of
// them is needed, and that its want would be found.
type mutant struct {
	hurried bool // no regard for the own lateness
	forget  bool // new neighbours are not told what is known already
	alone   bool // no counting of the silent
	silent  bool // nothing is repeated
}

// New makes the detector of one process. It begins to send heartbeats within a
// Period, and expects those of others as if all had just been heard: who has been
// silent from its first moment on is found as soon as anybody else.
//
// Preconditions: cfg.Check() == nil.
func New(cfg Config, now fabric.Time) *Machine {
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	m := &Machine{cfg: cfg, now: now, index: make(map[proc.ID]int), counted: cfg.Procs,
		succ: proc.None, far: proc.None, stale: true}
	m.rebuild()
	m.sends = m.sends[:0] // the greetings: all at once would connect while all start
	m.next = now + 1 + fabric.Time(mix(cfg.Seed^uint64(cfg.Self))%uint64(cfg.Period))
	m.plan()
	return m
}

// mix spreads neighbouring numbers (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Tick tells the time. It is wanted at Due; called earlier it does no harm,
// called later the machine knows that its own process was held up.
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

// Due is when Tick is wanted next: at most a Period ahead. It may come nearer
// with every input. fabric.Forever: never again.
func (m *Machine) Due() fabric.Time { return m.due }

// Receive takes a frame of fabric.ClassDetect that came from a process. An error
// says that the frame is none that a correct process sends: nothing in it was
// believed, and the sender may be cut off as corrupt.
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
	if i, gone := m.index[from]; gone {
		// Only what is sent unasked is answered: where two sides each count the
		// other as dead, obituaries would answer obituaries for ever.
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

// dispatch acts on a frame of somebody alive.
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

// Died says that a death stands in the View of this process: by a provider's
// evidence, or as the answer to a Report. A death that the machine did not know
// is on its way to the others when Next has been drained. Unreachable is no
// death, but a matter between two processes that the others do reach: it is told
// to nobody.
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

// Departed says that a process has finalized in order: no heartbeat is expected
// from it, and it is never reported.
func (m *Machine) Departed(peer proc.ID) {
	if m.ended || !m.other(peer) {
		return
	}
	m.record(peer, proc.Cause{Kind: proc.Departed}, proc.None)
	m.rebuild()
}

// Fenced says that another process refuses this one because it counts as dead
// there. Unless the other counts as dead or unreachable here, this process ends
// itself.
func (m *Machine) Fenced(by proc.ID, now fabric.Time) {
	if m.advance(now) && !m.hasFailed(by) && !slices.Contains(m.unreachable, by) {
		m.end(&EndError{By: by})
	}
}

// Ended reports whether the end of a process is known: it has died or departed, though it may be unreachable here.
func (m *Machine) Ended(id proc.ID) bool { return m.isEnded(id) }

func (m *Machine) other(id proc.ID) bool {
	return int64(id) < int64(m.cfg.Procs) && id != m.cfg.Self
}

// advance takes note of the time, and of how much of it this process has
// missed: then its clock stands still, since what was late here is no silence
// there. Who missed much may not have read the answers to its questions either:
// they are asked again. It reports whether the machine still runs.
func (m *Machine) advance(now fabric.Time) bool {
	if m.ended {
		return false
	}
	now = max(now, m.now)
	if late := now - max(m.due, m.now); late > m.cfg.Period/8 && m.due != fabric.Forever && !m.broken.hurried {
		m.heldTotal += late
		m.heldLongest = max(m.heldLongest, late)
		if late > m.cfg.Period/2 {
			for i := range m.watches {
				m.watches[i].queried = never
			}
		}
	}
	m.now = now
	return true
}

// plan finds when Tick is wanted next.
func (m *Machine) plan() {
	m.due = fabric.Forever
	if len(m.log) == m.cfg.Procs-1 {
		return
	}
	m.wake(m.next)
	for _, w := range m.watches {
		if w.queried == never {
			m.wake(w.heard + m.cfg.patience() + m.heldTotal)
		} else {
			m.wakeFor(max(w.heard+m.cfg.Timeout, w.queried+m.cfg.window()) + m.heldTotal)
		}
	}
	if m.round.open {
		m.wake(m.round.repeated + m.cfg.window()/2 + m.heldTotal)
	}
}

// wake wants a Tick at t at the latest.
func (m *Machine) wake(t fabric.Time) { m.due = min(m.due, max(t, m.now)) }

// wakeFor wants a Tick at t for a verdict. If that is past, it waits for answers, which come
// by themselves, and is looked at again with the next questions.
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

// Next gives what is to be done, one action after the other; false when nothing
// is left. Inputs may come between two calls: Reports come before the Sends that
// pass them on, so that deaths that the engine confirms at once travel in one
// message. A Send to somebody about to be reported comes just before the Report.
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

// pop takes the first action that is left in a queue.
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
