package progress

import "github.com/banyan-hpc/banyan/internal/proc"

// peerEnd is the end of a peer that the listeners of OnEndLater have not been told.
type peerEnd struct {
	ep    *Endpoint
	cause proc.Cause
}

// OnEnd registers a function that is called, with the lock held, when a peer has departed or
// failed; once per peer, in the order of registration.
func (e *Engine) OnEnd(fn func(*Endpoint, proc.Cause)) { e.ended = append(e.ended, fn) }

// OnEndLater is OnEnd for listeners that no waiting goroutine depends on. They are called after those of
// OnEnd: at once, or as PostponeEnds says.
func (e *Engine) OnEndLater(fn func(*Endpoint, proc.Cause)) { e.endedLater = append(e.endedLater, fn) }

// PostponeEnds has the listeners of OnEndLater called for a failure at the beginning of the next round, or by
// FinishEnds, so that an operation that needs the failed peer returns first. It is for jobs on one machine, where
// the kernel notifies every process that was connected to the peer: on other machines processes may wait for
// messages of a listener. A peer that counts this process as failed is reported at once, as this process may have to
// end itself. It is called before there are peers.
func (e *Engine) PostponeEnds() { e.postponeEnds = true }

func (e *Engine) notifyEnd(ep *Endpoint, cause proc.Cause) {
	for _, fn := range e.ended {
		fn(ep, cause)
	}
	if len(e.endedLater) == 0 {
		return
	}
	e.ends = append(e.ends, peerEnd{ep, cause})
	if !e.postponeEnds || !cause.Failed() || cause.Kind == proc.Refused {
		e.FinishEnds()
	}
}

// explain learns how a process of this machine has ended whose end was reported before that was known.
func (e *Engine) explain(end *peerEnd) {
	if end.cause.Kind != proc.Unknown || e.shm == nil || end.ep.by != e.shm {
		return
	}
	if end.cause = e.shm.ExitCause(end.ep.Proc); end.cause.Kind != proc.Unknown {
		e.view.Explain(end.ep.Proc, end.cause)
	}
}

// FinishEnds calls the listeners of OnEndLater for the failures that they have not been told, in the order
// of these. It does nothing if such a listener calls it. Precondition: the lock is held.
func (e *Engine) FinishEnds() {
	if e.finishing {
		return
	}
	e.finishing = true
	for i := 0; i < len(e.ends); i++ { // a listener may report an end
		e.explain(&e.ends[i])
		for _, fn := range e.endedLater {
			fn(e.ends[i].ep, e.ends[i].cause)
		}
	}
	clear(e.ends)
	e.ends, e.finishing = e.ends[:0], false
}
