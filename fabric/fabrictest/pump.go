package fabrictest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// wait is the reason of a body's wait.
type wait uint32

const (
	running wait = iota
	forCredit
	forFrames
	forFin
	forEnd
	forSignal
	forReply
	forSilence
)

var waitNames = [...]string{
	"runs", "waits for credit from", "waits for frames from", "waits for the end of the flow from",
	"waits for the end of", "waits for a signal from", "waits for a reply from", "listens for what must not come from",
}

// waitPlace is a wait and a process, readable while the body hangs. The body writes it, the
// driver's side reads it for the watchdog.
type waitPlace struct{ v atomic.Uint64 }

func (w *waitPlace) set(why wait, who proc.ID) { w.v.Store(uint64(why)<<32 | uint64(who)) }

// Where describes the body's wait. Any goroutine may call it.
func (e *Env) Where() string {
	v := e.place.v.Load()
	if wait(v>>32) == running {
		return waitNames[running]
	}
	return fmt.Sprintf("%s %v", waitNames[v>>32], proc.ID(uint32(v)))
}

// poll is one Poll with the contract's checks of its result.
func (e *Env) poll() int {
	e.callbacks, e.inPoll = 0, true
	n := e.Provider.Poll(&e.sink)
	e.inPoll = false
	if n < e.callbacks || n > pollBound {
		e.Fail("Poll answered %d after %d callbacks", n, e.callbacks)
	}
	return n
}

// pollBound is far above the frames of one bounded Poll.
const pollBound = 1 << 20

// pump makes progress until cond holds, and waits in between as the engine must: spin, yield, arm,
// poll once more, sleep. cond may send.
func (e *Env) pump(why wait, who proc.ID, cond func() bool) {
	e.place.set(why, who)
	e.pumpUntil(fabric.Forever, cond)
	e.place.set(running, 0)
}

// pumpUntil gives up at the deadline; it reports whether cond holds.
func (e *Env) pumpUntil(deadline fabric.Time, cond func() bool) bool {
	spins, yields := e.spins, e.yields
	if e.SleepAlways {
		spins, yields = 0, 0
	}
	for idle := 0; !cond(); idle++ {
		if e.poll() > 0 {
			idle = -1
			continue
		}
		if deadline != fabric.Forever && e.Host.Now() >= deadline {
			return cond()
		}
		switch {
		case idle < spins:
		case idle < spins+yields:
			e.Host.Yield()
		case e.sleepUnless(deadline, cond):
			return true
		}
	}
	return true
}

// sleepUnless is the one place where a body sleeps. It reports whether cond holds after arming.
// Ready comes last: a send in cond may be refused, and from then on the provider owes a ring.
func (e *Env) sleepUnless(deadline fabric.Time, cond func() bool) bool {
	e.Host.Arm()
	held := cond()
	if held || e.Provider.Ready() {
		e.Host.Disarm()
		return held
	}
	e.Host.Sleep(deadline)
	e.sleeps++
	return false
}

// Conn returns the connection to a peer, made on the first call. It is nil if the peer may have
// failed and has: then its end counts as known.
func (e *Env) Conn(id proc.ID) fabric.Conn {
	p := &e.peers[id]
	if p.conn != nil || e.Ended(id) {
		return p.conn
	}
	c, err := e.Provider.Connect(fabric.ConnectSpec{Peer: id, Address: e.Addrs[id]})
	if err != nil {
		e.Check(p.mayEnd && errors.Is(err, fabric.ErrPeerGone), "Connect to %v: %v", id, err)
		p.connectGone = true
		return nil
	}
	e.Check(c.Peer() == id, "Connect to %v gave a connection to %v", id, c.Peer())
	e.checkCaps(c.Caps())
	p.conn = c
	return c
}

func (e *Env) checkCaps(c fabric.Caps) {
	e.Check(c.MaxFrame >= minFrame && c.Inline >= 0 && c.Inline <= c.MaxFrame && c.Eager >= 0,
		"capabilities make no sense: %+v", c)
}

// minFrame is the length of the suite's own frames.
const minFrame = 64

// Send sends the next frame of the flow to a peer, with n bytes, and makes progress until there is
// credit. It reports false if the peer has ended.
func (e *Env) Send(id proc.ID, n int) bool {
	e.place.set(forCredit, id)
	ok := e.pumpUntil(fabric.Forever, func() bool { return e.Ended(id) || e.TrySend(id, n) })
	e.place.set(running, 0)
	return ok && !e.Ended(id)
}

// TrySend offers the next frame of the flow to a peer, with n bytes, once.
func (e *Env) TrySend(id proc.ID, n int) bool {
	c := e.Conn(id)
	if c == nil {
		return false
	}
	f := &e.peers[id].out
	buf := e.buffer(n)
	if offer := (offered{id, f.seq, n}); e.filled != offer { // a refused frame is still there
		f.fill(f.seq, buf)
		e.filled = offer
	}
	if !c.TrySend(f.class(f.seq), f.imm(f.seq, n), buf) {
		return false
	}
	clear(buf) // the provider must have its own copy by now
	e.filled = offered{to: proc.None}
	f.seq++
	return true
}

// offered is the frame whose contents are in Env.scratch.
type offered struct {
	to  proc.ID
	seq uint32
	n   int
}

func (e *Env) buffer(n int) []byte {
	if n > len(e.scratch) {
		e.filled = offered{to: proc.None}
		e.scratch = make([]byte, n)
	}
	return e.scratch[:n]
}

// SendRaw sends one frame of a class outside the flows. It reports false if the peer has ended.
func (e *Env) SendRaw(id proc.ID, class fabric.Class, imm uint64, payload []byte) bool {
	e.pump(forCredit, id, func() bool {
		if e.Ended(id) {
			return true
		}
		c := e.Conn(id)
		return c != nil && c.TrySend(class, imm, payload)
	})
	return !e.Ended(id)
}

// Finish ends the flow to a peer: the frame carries the number of frames before it.
func (e *Env) Finish(id proc.ID) { e.SendRaw(id, finClass, uint64(e.Sent(id)), nil) }

// AwaitFinish waits until a peer has ended its flow, or has ended itself. Each arrival is checked,
// so the flow is complete.
func (e *Env) AwaitFinish(id proc.ID) {
	e.pump(forFin, id, func() bool { return e.peers[id].finDue >= 0 || e.Ended(id) })
	p := &e.peers[id]
	e.Check(p.finDue >= 0 || p.mayEnd, "%v has ended before its flow has", id)
}

// AwaitEnd waits until the provider reports the peer's end.
func (e *Env) AwaitEnd(id proc.ID) {
	e.pump(forEnd, id, func() bool { return e.Ended(id) })
}

// Linger polls for a while after the peers have ended, so that a duplicate report can arrive.
func (e *Env) Linger() {
	const while = 2_000_000 // ns
	e.place.set(forSilence, proc.None)
	e.pumpUntil(e.Host.Now()+while, func() bool { return false })
	e.place.set(running, 0)
}
