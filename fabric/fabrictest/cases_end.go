package fabrictest

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func endCases() []Case {
	return []Case{
		{Name: "depart", N: 3, Body: depart,
			About: "Departed is reported once, after all frames, and never Down, however the process ends."},
		{Name: "depart-full", N: 2, Body: departFull, Check: allOf(0, 1), Args: attentiveArg,
			About: "Frames accepted before Depart arrive, though their sender has closed and ended meanwhile."},
		{Name: "depart-in-flight", N: 3, Body: departInFlight, Check: allOf(0, 1),
			About: "A departure with traffic in flight both ways."},
		{Name: "close-in-flight", N: 3, Body: closeInFlight,
			About: "Close without Depart, with traffic in flight both ways, is a failure to peers, and frees everything."},
		{Name: "closed-connect", N: 2, Body: closedConnect,
			About: "Connect to a process that lives but has departed and closed: ErrPeerGone, or Departed follows."},
		{Name: "depart-unmet", N: 2, Repeat: true, Body: departUnmet,
			About: "A newcomer to a departed process that polls no more gets ErrPeerGone, Departed or Down of cause " +
				"Unknown."},
		{Name: "exit", N: 2, Body: exit,
			About: "Exit without Depart is Down, with the exit code if the provider knows it."},
	}
}

const burst = 200

// sendBurst sends frames of any size to every remaining peer.
func sendBurst(e *Env, n int) {
	for range n {
		e.Others(func(id proc.ID) {
			if !e.Ended(id) {
				e.Send(id, anySize(e, e.frameLimit(id)))
			}
		})
		e.pollOrYield() // an ended peer may take everything
	}
}

// greetAll connects with every peer, and returns when all are connected or dead: a medium may need
// both sides to poll before it carries anything.
func (e *Env) greetAll() {
	e.Others(func(id proc.ID) { e.SendRaw(id, rawClass, greeting, nil) })
	e.Others(func(id proc.ID) {
		e.pump(forFrames, id, func() bool { return e.peers[id].greeted || e.Ended(id) })
	})
}

// greeting is the immediate of the frames of greetAll.
const greeting = 0x6d656574

// frameLimit is the largest frame to a peer, or a small one if it has ended.
func (e *Env) frameLimit(id proc.ID) int {
	if c := e.Conn(id); c != nil {
		return c.Caps().MaxFrame
	}
	return minFrame
}

func depart(e *Env) {
	e.greetAll()
	if e.ID == 0 {
		sendBurst(e, burst)
		e.Depart()
		e.Others(func(id proc.ID) {
			e.Check(!e.peers[id].conn.TrySend(rawClass, 0, nil), "TrySend after Depart takes a frame")
			_, err := e.Provider.Connect(fabric.ConnectSpec{Peer: id, Address: e.Addrs[id]})
			e.Check(errors.Is(err, fabric.ErrClosed), "Connect after Depart: %v", err)
		})
		return
	}
	e.SleepAlways = e.ID == 1
	e.AwaitEnd(0)
	e.Check(e.Got(0) == burst, "%d frames came before Departed, %d were sent", e.Got(0), burst)
	e.Control.Await(0, SignalEnded)
	e.Linger()
}

func attentiveArg(b Budget) map[string]int64 {
	if b.Attentive {
		return map[string]int64{"attentive": 1}
	}
	return nil
}

// departFull fills up a peer that does not poll before it departs, and polls again when it has
// ended, or, if attentive, when it starts to depart.
func departFull(e *Env) {
	e.greetAll()
	if e.ID == 0 {
		fillUp(e, 1, e.frameLimit(1)/3)
		fillUp(e, 1, 0)
		e.Record("sent", int64(e.Sent(1)))
		e.Control.Signal("full")
		return
	}
	if e.Arg("attentive") > 0 {
		e.Control.Await(0, "full")
	} else {
		e.Control.Await(0, SignalEnded)
	}
	e.AwaitEnd(0)
	e.Record("got", int64(e.Got(0)))
	e.Linger()
}

// allOf checks that the receiver got as many frames as the sender sent.
func allOf(sender, receiver int) func([]Outcome) error {
	return func(outs []Outcome) error {
		sent, got := outs[sender].Vals("sent"), outs[receiver].Vals("got")
		if len(sent) != 1 || len(got) != 1 || sent[0] != got[0] {
			return fmt.Errorf("sent %v frames before departing, got %v", sent, got)
		}
		return nil
	}
}

func departInFlight(e *Env) {
	e.greetAll()
	if e.ID == 0 {
		sendBurst(e, e.Rand.IntN(burst))
		e.Record("sent", int64(e.Sent(1)))
		return
	}
	floodUntilEnd(e, 0)
	e.Record("got", int64(e.Got(0)))
}

// floodUntilEnd sends to all peers until one of them has ended, then finishes with the others.
func floodUntilEnd(e *Env, id proc.ID) {
	for !e.Ended(id) {
		sendBurst(e, 1)
	}
	e.Others(func(other proc.ID) {
		if other != id {
			e.Finish(other)
		}
	})
	e.Others(func(other proc.ID) {
		if other != id {
			e.AwaitFinish(other)
		}
	})
	e.Control.Await(id, SignalEnded)
	e.Linger()
}

// closeInFlight closes while the process stays alive until peers know.
func closeInFlight(e *Env) {
	if e.ID != 0 {
		e.MayEnd(0) // it may have closed before all others have connected
	}
	e.greetAll()
	if e.ID == 0 {
		sendBurst(e, e.Rand.IntN(burst))
		e.Close()
		e.Others(func(id proc.ID) { e.Control.Await(id, "know") })
		return
	}
	for !e.Ended(0) {
		sendBurst(e, 1)
	}
	e.Control.Signal("know")
	floodUntilEnd(e, 0)
}

func closedConnect(e *Env) {
	if e.ID == 0 {
		e.Depart()
		e.Close()
		e.Control.Signal("closed")
		e.Control.Await(1, "connected")
		return
	}
	e.peers[0].mayEnd = true // a late newcomer may not learn that the departure was in order
	e.Control.Await(0, "closed")
	if e.Conn(0) != nil {
		e.AwaitEnd(0)
	}
	e.Control.Signal("connected")
	e.Linger()
}

// departUnmet makes process 1 connect when process 0 has departed, closed, or is about to, by the
// seed.
func departUnmet(e *Env) {
	order := e.Job.Seed % 3
	if e.ID == 0 {
		randomDelay(e)
		e.Depart()
		if order == 1 {
			e.Control.Signal("departed")
			e.Control.Await(1, "knows")
			return
		}
		e.Close()
		e.Control.Signal("departed")
		e.Control.Await(1, "knows")
		return
	}
	e.peers[0].mayEnd = true // for ErrPeerGone
	if order > 0 {
		e.Control.Await(0, "departed")
	}
	randomDelay(e)
	if e.Conn(0) != nil {
		e.AwaitEnd(0)
	}
	p := &e.peers[0]
	e.Check(p.end != down || p.cause.Kind == proc.Unknown, "a departure is reported as failure: %v", p.cause)
	e.Control.Signal("knows")
	e.Linger()
}

func exit(e *Env) {
	if e.ID != 0 {
		e.MayEnd(0)
	}
	e.greetAll()
	const code = 3
	if e.ID == 0 {
		sendBurst(e, burst)
		e.Exit(code)
	}
	e.seeEnd(proc.Cause{Kind: proc.Exited, Code: code})
}

// seeEnd waits for the end of process 0, checks its cause, and lets a second report arrive.
func (e *Env) seeEnd(want proc.Cause) {
	e.AwaitEnd(0)
	e.checkCause(0, want)
	e.Control.Await(0, SignalEnded)
	e.Linger()
}

// checkCause accepts the true cause, and less specific ones.
func (e *Env) checkCause(id proc.ID, want proc.Cause) {
	p := &e.peers[id]
	if p.end != down {
		return // Connect has returned ErrPeerGone
	}
	ok := p.cause == want || p.cause.Kind == proc.Unknown || p.cause.Kind == proc.Connection
	e.Check(ok, "Down of %v: %v, but it %v", id, p.cause, want)
}
