package fabrictest

import (
	"errors"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func informCases() []Case {
	return []Case{
		{Name: "informed", N: 3, Repeat: true, Body: informed, Check: allOf(1, 0),
			About: "After Inform the frames that have arrived are delivered, then Down with that cause, then nothing."},
		{Name: "informed-unmet", N: 2, Repeat: true, Body: informedUnmet,
			About: "Inform of an unconnected peer bars it, without a report."},
		{Name: "informed-after", N: 2, Repeat: true, Body: informedAfter,
			About: "Inform of a reported end has no effect."},
	}
}

// informed makes process 0 report the end of process 1, which keeps sending.
func informed(e *Env) {
	const few = 4
	switch e.ID {
	case 0:
		e.MayEnd(1)
		e.pump(forFrames, 1, func() bool { return e.Got(1) > 0 })
		e.Control.Signal("checked")
		e.Control.Await(1, "sent")
		got := e.Got(1)
		e.Provider.Inform(1, killedCause)
		e.Provider.Inform(1, proc.Cause{Kind: proc.Exited, Code: 3}) // the first report counts
		e.Check(e.Got(1) == got, "Inform delivers")
		e.SleepAlways = e.Rand.IntN(2) == 0
		e.AwaitEnd(1)
		e.Record("got", int64(e.Got(1)))
		e.Check(e.peers[1].cause == killedCause, "Down with cause %v", e.peers[1].cause)
		e.Control.Signal("down")
		for range burst {
			e.Send(2, minFrame)
		}
		e.Control.Await(1, "silent")
		e.Finish(2)
		e.AwaitFinish(2)
		e.Linger()
	case 1:
		e.Record(recordDoomed)
		e.peers[0].mayEnd = true // it may see that it counts as dead
		e.Send(0, minFrame)
		e.Control.Await(0, "checked")
		for range few { // as far as there is credit, since the peer does not poll
			e.TrySend(0, minFrame)
		}
		e.Record("sent", int64(e.Sent(0)))
		for range 10 { // so that they arrive
			e.Linger()
		}
		e.Control.Signal("sent")
		e.Control.Await(0, "down")
		for range burst {
			e.TrySend(0, minFrame)
			e.pollOrYield()
		}
		e.Linger()
		e.Control.Signal("silent")
	default:
		e.Finish(0)
		e.AwaitFinish(0)
	}
}

// informedUnmet makes process 0 report the end of process 1 before, or while, that one connects.
func informedUnmet(e *Env) {
	other := 1 - e.ID
	if e.ID == 1 {
		e.Record(recordDoomed)
		e.peers[0].mayEnd = true
		e.Control.Await(0, "informed")
		c, err := e.Provider.Connect(fabric.ConnectSpec{Peer: 0, Address: e.Addrs[0]})
		e.Check(err == nil || errors.Is(err, fabric.ErrPeerGone) || errors.Is(err, fabric.ErrNoPath),
			"Connect to a peer that bars this process: %v", err)
		for range burst {
			if c != nil && !e.Ended(0) {
				c.TrySend(rawClass, 0, nil)
			}
			e.pollOrYield()
		}
		e.Linger()
		e.Control.Signal("tried")
		e.Control.Await(0, "checked")
		return
	}
	e.raw = func(from proc.ID, _ uint64, _ []byte) {
		e.Fail("a frame came from %v, which counts as ended", from)
	}
	e.Provider.Inform(other, killedCause)
	e.Control.Signal("informed")
	e.pump(forSignal, other, func() bool {
		return e.Control.Seen(other, "tried") || e.Control.Seen(other, SignalEnded)
	})
	e.Check(e.peers[other].end == alive, "the end of a peer that was never met has been reported")
	_, err := e.Provider.Connect(fabric.ConnectSpec{Peer: other, Address: e.Addrs[other]})
	e.Check(errors.Is(err, fabric.ErrPeerGone), "Connect to a barred peer: %v", err)
	e.Linger()
	e.Control.Signal("checked")
}

// informedAfter makes process 1 depart or die, by the seed.
func informedAfter(e *Env) {
	dies := e.Job.Seed%2 == 0
	if dies && e.ID == 0 {
		e.MayEnd(1)
	}
	e.greetAll()
	if e.ID == 1 {
		if dies {
			e.Die()
		}
		return
	}
	e.AwaitEnd(1)
	e.Provider.Inform(1, proc.Cause{Kind: proc.Exited, Code: 3})
	e.Control.Await(1, SignalEnded)
	e.Linger()
}
