package fabrictest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Setup is the driver's description of one process of a job.
type Setup struct {
	Job      Job
	ID       proc.ID
	Provider fabric.Provider
	Host     fabric.Host
	Addrs    [][]byte // of all processes, by id
	Control  Control
	Isolated bool // see [Driver]
}

// Env is the environment of a body: its setup, the connections that it made, and the state of its
// peers. Bodies call it as the engine calls a provider: one goroutine at a time.
type Env struct {
	Setup
	Rand *rand.Rand // seeded by job and process
	// SleepAlways makes the pump sleep at once wherever it may.
	SleepAlways bool

	sink      fabric.Sink
	raw       func(from proc.ID, imm uint64, payload []byte)
	peers     []peer
	callbacks int // since the Poll began
	inPoll    bool
	departed  bool
	bell      sync.Mutex // guards closed against Wake
	closed    bool
	sleeps    int
	spins     int
	yields    int
	place     waitPlace
	scratch   []byte
	filled    offered
}

// peer is a body's state of one other process.
type peer struct {
	conn        fabric.Conn
	out, in     flow
	finDue      int64 // frames that the peer has announced as sent, -1 before it has
	mayEnd      bool  // its failure is permitted
	mayDepart   bool  // its departure is permitted
	cut         bool  // Invalidate was called
	greeted     bool  // its greeting has arrived
	connectGone bool  // Connect returned ErrPeerGone: nothing may arrive from it any more
	end         peerEnd
	cause       proc.Cause
}

type peerEnd uint8

const (
	alive peerEnd = iota
	down
	departed
)

// NewEnv makes the environment of one process.
func NewEnv(s Setup) *Env {
	seed := mix(s.Job.Seed ^ uint64(s.ID))
	e := &Env{Setup: s, Rand: rand.New(rand.NewPCG(seed, 0)), peers: make([]peer, s.Job.N)}
	for i := range e.peers {
		id := proc.ID(i)
		e.peers[i] = peer{
			out: newFlow(s.Job.Seed, s.ID, id), in: newFlow(s.Job.Seed, id, s.ID),
			finDue: -1, mayDepart: true,
		}
	}
	for c := fabric.Class(1); c < fabric.NumClasses; c++ {
		e.sink.Deliver[c] = func(from proc.ID, imm uint64, payload []byte) { e.deliver(c, from, imm, payload) }
	}
	e.sink.Deliver[unhandledClass] = nil
	e.sink.Down = e.down
	e.sink.Departed = e.departedPeer
	e.spins, e.yields, _ = s.Host.Patience()
	return e
}

// Wake rings the host, from any goroutine, unless the provider has been closed: one case of its own
// checks the host after that.
func (e *Env) Wake() {
	e.bell.Lock()
	defer e.bell.Unlock()
	if !e.closed {
		e.Host.Ring()
	}
}

// Arg returns an argument of the job, 0 if it has none of that name.
func (e *Env) Arg(name string) int { return int(e.Job.Args[name]) }

// failure unwinds a body after a failed check.
type failure struct{}

// Fail records a failure and ends the body.
func (e *Env) Fail(format string, args ...any) {
	e.Control.Record(Record{Kind: recordFail, Text: fmt.Sprintf(format, args...)})
	panic(failure{})
}

// Check fails unless ok.
func (e *Env) Check(ok bool, format string, args ...any) {
	if !ok {
		e.Fail(format, args...)
	}
}

// Record stores numbers with the driver.
func (e *Env) Record(kind string, vals ...int64) {
	e.Control.Record(Record{Kind: kind, Vals: vals})
}

// Die ends this process as a kill would, and announces it.
func (e *Env) Die() {
	e.Record(recordDie)
	e.Control.Die()
}

// Exit ends this process with a code and without departing.
func (e *Env) Exit(code int) {
	e.Record(recordExit, int64(code))
	e.Control.Exit(code)
}

// Others calls fn with every process but this one.
func (e *Env) Others(fn func(id proc.ID)) {
	for i := range e.Job.N {
		if id := proc.ID(i); id != e.ID {
			fn(id)
		}
	}
}

// MayEnd announces that a peer is going to fail: without it a report of its failure is an error.
func (e *Env) MayEnd(id proc.ID) { e.peers[id].mayEnd, e.peers[id].mayDepart = true, false }

// Ended reports whether the provider has reported the peer's end, in a callback or as the result of
// Connect.
func (e *Env) Ended(id proc.ID) bool { return e.peers[id].end != alive || e.peers[id].connectGone }

// Got is the number of frames that have arrived of a peer's flow.
func (e *Env) Got(id proc.ID) int { return int(e.peers[id].in.seq) }

// Sent is the number of frames that the flow to a peer has taken.
func (e *Env) Sent(id proc.ID) int { return int(e.peers[id].out.seq) }

func (e *Env) deliver(class fabric.Class, from proc.ID, imm uint64, payload []byte) {
	e.callbacks++
	p := e.from(from, "a frame")
	switch {
	case p.end != alive:
		e.Fail("a frame from %v came after its end", from)
	case p.connectGone:
		e.Fail("a frame from %v came after Connect had returned ErrPeerGone", from)
	case class == rawClass && imm == greeting:
		p.greeted = true
	case class == rawClass && e.raw != nil:
		e.raw(from, imm, payload)
	case p.in.seq == 0 && e.Provider.Lookup(from) == nil:
		e.Fail("Lookup gives no connection to %v, of which a frame has come", from)
	case p.finDue >= 0:
		e.Fail("a frame from %v came after the last that it sent", from)
	case class == finClass:
		p.finDue = int64(imm)
		e.Check(p.finDue == int64(p.in.seq), "%v ended its flow after %d frames, %d came", from, p.finDue, p.in.seq)
	default:
		if err := p.in.check(class, imm, payload); err != nil {
			e.Fail("from %v: %v", from, err)
		}
	}
}

// from is the sender of a callback, which must be one that may send.
func (e *Env) from(id proc.ID, what string) *peer {
	e.Check(e.inPoll, "%s from %v came outside Poll", what, id)
	e.Check(!e.closed, "%s from %v came after Close", what, id)
	e.Check(int(id) < len(e.peers) && id != e.ID, "%s came from %v, of which there is none", what, id)
	p := &e.peers[id]
	e.Check(!p.cut || what != "a frame", "%s from %v came after Invalidate", what, id)
	return p
}

func (e *Env) down(id proc.ID, cause proc.Cause) {
	e.callbacks++
	p := e.from(id, "Down")
	e.Check(p.end == alive && !p.connectGone, "Down of %v after its end had been reported", id)
	unmet := cause.Kind == proc.Unknown && p.in.seq == 0 // a departed peer may be found so
	e.Check(p.mayEnd || p.cut || unmet && p.mayDepart, "Down of %v (%v), which has not failed", id, cause)
	e.Check(cause.Failed(), "Down of %v with cause %v", id, cause)
	e.Check(cause.Kind != proc.Heartbeat && (cause.Kind != proc.Corrupt || p.cut), "Down of %v with cause %v", id, cause)
	p.end, p.cause = down, cause
}

func (e *Env) departedPeer(id proc.ID) {
	e.callbacks++
	p := e.from(id, "Departed")
	e.Check(p.end == alive && !p.connectGone, "Departed of %v after its end had been reported", id)
	e.Check(p.mayDepart || p.cut, "Departed of %v, which has failed", id)
	p.end = departed
}
