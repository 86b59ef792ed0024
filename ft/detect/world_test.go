package detect

import (
	"fmt"
	"math/rand/v2"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

const ms = fabric.Time(1e6)

// Kinds of events.
const (
	evTick = iota
	evFrame
	evFence  // from refuses to, which counts as failed there
	evDied   // to gets a provider's evidence of from's failure
	evDepart // to learns that from has departed
	evCut    // the cut number arg begins
	evHeal   // it ends
	evKill   // to is killed; arg: with evidence
	evPause  // to stops
	evResume // to runs again
	evLeave  // to departs
)

type event struct {
	at       fabric.Time
	seq      int
	what     int
	from, to int
	arg      int
	payload  []byte
	cause    proc.Cause
}

// node is one process of a world.
type node struct {
	m       *Machine
	killed  bool
	ended   error // by the machine
	left    bool
	paused  bool
	proved  bool // killed, and others can prove it
	inbox   []event
	view    map[int]bool // the engine's View
	tick    fabric.Time  // when the next Tick comes
	sent    int
	noise   fabric.Time // the longest time for which it was kept from being heard
	connect map[int]bool
}

func (p *node) runs() bool { return !p.killed && p.ended == nil && !p.left }

// cut is a set of links that lose frames.
type cut struct {
	side    []bool // nil: the pair a, b only
	a, b    int
	oneWay  bool
	forever bool
}

func (c *cut) blocks(from, to int) bool {
	if c.side == nil {
		return from == c.a && to == c.b || !c.oneWay && from == c.b && to == c.a
	}
	if c.oneWay {
		return c.side[from] && !c.side[to]
	}
	return c.side[from] != c.side[to]
}

// world is a job of machines, a network and a schedule, all from one seed.
type world struct {
	rng     *rand.Rand
	cfg     Config
	nodes   []*node
	heap    []event
	seq     int
	now     fabric.Time
	delay   fabric.Time // the longest delay of a frame
	late    fabric.Time // the longest delay of a Tick
	refuse  bool        // providers of processes that condemned one refuse it
	cuts    []*cut
	open    []*cut
	last    fabric.Time // of the last disturbance
	story   []string
	wrong   []string
	frames  int
	longest int
	report  fabric.Time // of the last Report
	verbose bool
	short   bool // a process stopped for less than the timeout
	long    bool // or for longer

	judged   bool // verdicts are recorded
	torn     bool // two go on that count each other as failed, as they may
	verdicts []verdict
}

func (w *world) push(e event) {
	w.seq++
	e.seq = w.seq
	h := append(w.heap, e)
	i := len(h) - 1
	for i > 0 && before(&h[i], &h[(i-1)/2]) {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		i = (i - 1) / 2
	}
	w.heap = h
}

func before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (w *world) pop() event {
	h := w.heap
	top, n := h[0], len(h)-1
	h[0] = h[n]
	h[n] = event{}
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && before(&h[c+1], &h[c]) {
			c++
		}
		if !before(&h[c], &h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	w.heap = h
	return top
}

func (w *world) fault(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf("%6d ms: ", w.now/ms)+fmt.Sprintf(format, args...))
}

func (w *world) tell(format string, args ...any) {
	if w.verbose {
		w.story = append(w.story, fmt.Sprintf("%6d ms: ", w.now/ms)+fmt.Sprintf(format, args...))
	}
}

func (w *world) blocked(from, to int) bool {
	for _, c := range w.open {
		if c.blocks(from, to) {
			return true
		}
	}
	return false
}

func (w *world) in(max fabric.Time) fabric.Time {
	return w.now + 1 + fabric.Time(w.rng.Int64N(int64(max)))
}

// settle runs until there has been no disturbance for a time.
func (w *world) settle(quiet fabric.Time) {
	for events := 0; len(w.heap) > 0 && w.heap[0].at <= w.last+quiet; events++ {
		if events > 3e6 {
			w.fault("no end of events")
			return
		}
		e := w.pop()
		w.now = e.at
		w.handle(e)
	}
}

func (w *world) handle(e event) {
	switch e.what {
	case evCut:
		w.last = max(w.last, w.now)
		w.open = append(w.open, w.cuts[e.arg])
		w.tell("cut %+v", *w.cuts[e.arg])
		return
	case evHeal:
		w.last = max(w.last, w.now)
		for i, c := range w.open {
			if c == w.cuts[e.arg] {
				w.open = append(w.open[:i:i], w.open[i+1:]...)
				break
			}
		}
		w.tell("heal %d", e.arg)
		return
	}
	p := w.nodes[e.to]
	if !p.runs() {
		return
	}
	switch e.what {
	case evKill, evPause, evLeave, evResume:
		w.last = max(w.last, w.now)
		w.apply(p, e)
		return
	case evTick:
		if e.at != p.tick {
			return
		}
	}
	if p.paused {
		p.inbox = append(p.inbox, e)
		return
	}
	w.input(p, e)
}

// apply applies an event to a process.
func (w *world) apply(p *node, e event) {
	switch e.what {
	case evKill:
		w.tell("kill %d, evidence %d", e.to, e.arg)
		p.killed, p.proved = true, e.arg > 0
		w.evidence(e.to, e.arg)
	case evPause:
		w.tell("stop %d", e.to)
		p.paused = true
	case evLeave:
		w.tell("%d departs", e.to)
		p.left = true
		for q := range w.nodes {
			if p.connect[q] {
				w.push(event{at: w.in(w.delay), what: evDepart, from: e.to, to: q})
			}
		}
	case evResume:
		w.tell("continue %d", e.to)
		p.paused = false
		if w.rng.IntN(2) == 0 {
			w.input(p, event{at: w.now, what: evTick, to: e.to})
			if w.rng.IntN(2) == 0 && p.runs() {
				// Held up again before it has read the frames that have arrived.
				w.tell("stop %d again", e.to)
				p.paused = true
				again := w.duration() + 2*w.cfg.Period
				p.noise += again
				w.last = max(w.last, w.now+again)
				w.push(event{at: w.now + again, what: evResume, to: e.to})
				return
			}
		}
		box := p.inbox
		p.inbox = nil
		for _, e := range box {
			if p.runs() {
				w.input(p, e)
			}
		}
		if p.runs() {
			w.input(p, event{at: w.now, what: evTick, to: e.to})
		}
	}
}

// evidence lets some processes learn of a failure from their providers.
func (w *world) evidence(victims, n int) {
	cause := proc.Cause{Kind: proc.Signaled, Code: 9}
	for range n {
		if q := w.rng.IntN(len(w.nodes)); q != victims {
			w.push(event{at: w.in(w.delay), what: evDied, from: victims, to: q, cause: cause})
		}
	}
}

// input feeds a machine, performs its actions and plans its next Tick.
func (w *world) input(p *node, e event) {
	from := proc.ID(e.from)
	switch e.what {
	case evTick:
		if w.judged {
			w.trial(p, e.to)
		} else {
			p.m.Tick(w.now)
		}
		p.tick = 0
	case evFrame:
		if p.view[e.from] && w.refuse {
			if !w.blocked(e.to, e.from) {
				w.push(event{at: w.in(w.delay), what: evFence, from: e.to, to: e.from})
			}
			return
		}
		if err := p.m.Receive(from, e.payload, w.now); err != nil {
			w.fault("%d refuses a frame of %d: %v", e.to, e.from, err)
		}
	case evFence:
		p.m.Fenced(from, w.now)
	case evDied:
		// The proof of a failure is a frame, too: it does not pass a cut.
		if !p.view[e.from] && !w.blocked(e.from, e.to) {
			p.view[e.from] = true
			p.m.Died(from, e.cause, w.now)
		}
	case evDepart:
		if w.blocked(e.from, e.to) {
			e.at = w.now + 50*ms
			w.push(e)
			return
		}
		p.m.Departed(from)
	}
	w.drain(p, e.to)
	if due := p.m.Due(); due != fabric.Forever && (p.tick == 0 || due < p.tick) {
		p.tick = max(due, w.now) + fabric.Time(w.rng.Int64N(int64(w.late)))
		w.push(event{at: p.tick, what: evTick, to: e.to})
	}
}

func (w *world) drain(p *node, self int) {
	for a, ok := p.m.Next(); ok; a, ok = p.m.Next() {
		switch a.Kind {
		case Send:
			w.transmit(p, self, int(a.To), a.Payload)
		case Report:
			w.reported(p, self, int(a.Peer), a.Cause)
			p.view[int(a.Peer)] = true
			p.m.Died(a.Peer, a.Cause, w.now)
		case Die:
			w.tell("%d ends: %v", self, a.Err)
			p.ended = a.Err
			w.last = max(w.last, w.now)
			w.endedBy(self, a.Err.(*EndError))
		}
	}
}

func (w *world) transmit(p *node, from, to int, payload []byte) {
	p.sent++
	w.frames++
	w.longest = max(w.longest, len(payload))
	q := w.nodes[to]
	if w.blocked(from, to) {
		return
	}
	switch {
	case q.left:
		if !w.blocked(to, from) {
			w.push(event{at: w.in(w.delay), what: evDepart, from: to, to: from})
		}
		return
	case q.killed && q.proved && w.refuse:
		if !w.blocked(to, from) {
			w.push(event{at: w.in(w.delay), what: evDied, from: to, to: from, cause: proc.Cause{Kind: proc.Connection}})
		}
		return
	case !q.runs():
		return
	}
	p.connect[to], q.connect[from] = true, true
	w.push(event{at: w.in(w.delay), what: evFrame, from: from, to: to, payload: payload})
}
