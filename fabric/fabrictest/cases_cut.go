package fabrictest

import "github.com/banyan-hpc/banyan/proc"

func cutCases() []Case {
	return []Case{
		{Name: "invalidate", N: 3, Body: invalidate, Repeat: true,
			About: "After Invalidate nothing from the peer is delivered and nothing is sent to it; others go on."},
	}
}

// invalidate has process 0 cut off process 1 in the middle of its flow.
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
			e.breathe()
		}
		e.Control.Signal("cut")
		e.Finish(2)
		e.AwaitFinish(2)
		e.Control.Signal("finished")
		e.Control.Await(1, "silent")
		e.Linger()
	case 1:
		e.peers[0].mayEnd = true // it may learn that it has been cut off
		e.raw = func(from proc.ID, _ uint64, _ []byte) { e.Fail("a frame came from %v, which has cut us off", from) }
		cut := func() bool { return e.Control.Seen(0, "cut") || e.Ended(0) }
		for !cut() {
			e.pump(forCredit, 0, func() bool { return cut() || e.TrySend(0, anySize(e, minFrame)) })
			e.breathe()
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
