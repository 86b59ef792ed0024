package fabrictest

import "github.com/banyan-hpc/banyan/internal/proc"

func cutCases() []Case {
	return []Case{
		{Name: "invalidate", N: 3, Body: invalidate, Repeat: true,
			About: "After Invalidate nothing from the peer is delivered and nothing is sent to it; others go on."},
		{Name: "invalidate-unmet", N: 2, Body: invalidateUnmet, Repeat: true,
			About: "Invalidate holds also for a peer without arrived frames, whether it has sent or will."},
	}
}

// invalidateUnmet makes process 0 invalidate a process from which nothing has arrived: by the seed
// before that one connects, or after it has sent, whichever of them connected first.
func invalidateUnmet(e *Env) {
	const few = 4
	other := 1 - e.ID
	order := e.Job.Seed % 3
	if e.ID == 1 {
		e.peers[0].mayEnd = true // it may see that it has been cut off
		if order > 0 {
			e.Control.Await(0, "ready")
		}
		for range few {
			e.TrySend(0, anySize(e, minFrame))
		}
		e.Control.Signal("sent")
		e.Control.Await(0, "checked")
		return
	}
	if order == 0 {
		e.Control.Await(other, "sent")
	}
	c := e.Conn(other)
	if order == 1 {
		e.Control.Signal("ready")
		e.Control.Await(other, "sent")
	}
	c.Invalidate()
	e.peers[other].cut = true
	e.Control.Signal("ready")
	e.Control.Await(other, "sent")
	e.Linger()
	e.Control.Signal("checked")
}

// invalidate makes process 0 cut off process 1 in the middle of its flow.
func invalidate(e *Env) {
	switch e.ID {
	case 0:
		until := e.Rand.IntN(burst)
		e.pump(forFrames, 1, func() bool { return e.Got(1) > until })
		cut := e.Conn(1)
		cut.Invalidate()
		e.peers[1].cut = true
		for range burst {
			cut.TrySend(rawClass, 0, nil) // must not arrive
			e.Send(2, minFrame)
			e.pollOrYield()
		}
		e.Control.Signal("cut")
		e.Finish(2)
		e.AwaitFinish(2)
		e.Control.Signal("finished")
		e.Control.Await(1, "silent")
		e.Linger()
	case 1:
		e.peers[0].mayEnd = true // it may see that it has been cut off
		e.raw = func(from proc.ID, _ uint64, _ []byte) { e.Fail("a frame came from %v, which has cut us off", from) }
		cut := func() bool { return e.Control.Seen(0, "cut") || e.Ended(0) }
		for !cut() {
			e.pump(forCredit, 0, func() bool { return cut() || e.TrySend(0, anySize(e, minFrame)) })
			e.pollOrYield()
		}
		e.Control.Await(0, "finished")
		e.Linger()
		e.Control.Signal("silent")
	default:
		for range 10 * burst {
			e.Send(0, minFrame)
		}
		e.Finish(0)
		e.AwaitFinish(0)
	}
}
