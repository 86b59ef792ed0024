package sim

import (
	"fmt"
	"syscall"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// killed is the cause of a Kill.
var killed = proc.Cause{Kind: proc.Signaled, Code: int32(syscall.SIGKILL)}

// Kill makes a process die by SIGKILL at a virtual time, or now if that is past. It has no effect
// on a process that has ended by then.
func (s *Sim) Kill(id proc.ID, at fabric.Time) error {
	if err := s.checkID(id); err != nil {
		return err
	}
	s.push(max(instant(at), s.present()), &killEvent{id})
	return nil
}

// KillAtStep makes a spawned process die by SIGKILL in place of its n-th step, counted from 1: n-1
// steps have their effect. A process that is past that step lives on. [Counters] defines a step
// and, after a run without the death, holds the number of steps.
func (s *Sim) KillAtStep(id proc.ID, n uint64) error {
	if err := s.checkID(id); err != nil {
		return err
	}
	p := s.procs[id]
	if p == nil {
		return fmt.Errorf("sim: %v has not been spawned", id)
	}
	p.deathStep = n
	return nil
}

// Ended reports whether and how a process has ended: Departed if it had departed, else Exited,
// Signaled, or the cause given to Die.
func (s *Sim) Ended(id proc.ID) (proc.Cause, bool) {
	if s.checkID(id) != nil || s.procs[id] == nil {
		return proc.Cause{}, false
	}
	c := s.procs[id].cause
	return c, c.Kind != proc.Unknown
}

// OnEnd registers fn to be called at the instant at which a process ends, in order or not. No
// activity calls it: of a host it may use Parker.Unpark and Ring.
func (s *Sim) OnEnd(fn func(proc.ID)) { s.onEnd = fn }

// killEvent is the event of a Kill.
type killEvent struct {
	id proc.ID
}

func (k *killEvent) happen(s *Sim) *task {
	if p := s.procs[k.id]; p != nil && !p.over {
		p.die(killed)
	}
	return nil
}

// exit handles the body's return.
func (p *Proc) exit() {
	if p.end.departed {
		p.markEnded(proc.Cause{Kind: proc.Departed})
		p.end.close()
		return
	}
	p.die(proc.Cause{Kind: proc.Exited})
}

// die ends the process at the present instant, with evidence.
func (p *Proc) die(cause proc.Cause) {
	p.markEnded(cause)
	p.end.fail(cause)
}

// markEnded marks the process as ended; the scheduler unwinds its activities.
func (p *Proc) markEnded(cause proc.Cause) {
	p.sim.record(traceEnd, p.id, proc.None, 0, int(cause.Kind))
	p.over = true
	p.cause = cause
	p.sim.live--
	p.sim.ended = append(p.sim.ended, p)
	if p.sim.onEnd != nil {
		p.sim.onEnd(p.id)
	}
}

// fail closes the endpoint without departure: frames in flight may be lost, and every peer learns
// of the end after its own delay.
func (e *endpoint) fail(cause proc.Cause) {
	if e.closed {
		return
	}
	e.close()
	e.cause = cause
	for _, f := range e.order {
		if f.from != f.to {
			f.lose()
			f.queueEvidence()
		}
	}
}

// lose decides which of the frames in flight still arrive: a prefix, so that order is kept.
func (f *flow) lose() {
	s := f.from.sim
	n := uint64(0)
	for fr := f.wire.first; fr != nil; fr = fr.next {
		n++
	}
	a, b := uint64(f.from.id), uint64(f.to.id)
	if n == 0 || !happens(draw(s.cfg.Seed, forLoss, a, b, 0), s.cfg.LossAtDeath) {
		return
	}
	keep := below(draw(s.cfg.Seed, forLossLength, a, b, 0), n)
	for fr := f.wire.first; fr != nil; fr = fr.next {
		if keep > 0 {
			keep--
			continue
		}
		fr.lost = true
		s.record(traceLose, f.from.id, f.to.id, fr.class, len(fr.payload))
	}
}

// queueEvidence queues the evidence of the sender's end for the flow's receiver: a departure after
// the link's latency, a failure after the observer's delay. Evidence does not cross a partition
// before it heals.
func (f *flow) queueEvidence() {
	s := f.from.sim
	at := s.passage(f.from.id, f.to.id, s.present())
	if at == never {
		return
	}
	delay := f.link.Latency
	if cause := f.from.end.cause; cause.Failed() {
		d := s.cfg.Detection
		x := draw(s.cfg.Seed, forDetection, uint64(f.from.id), uint64(f.to.id), 0)
		delay = d.Min + Picos(below(x, uint64(d.Max-d.Min)+1))
	}
	s.push(at+delay, &evidence{f, f.from.end.cause})
}

// evidence is the event by which a flow's receiver learns of its sender's end.
type evidence struct {
	flow  *flow
	cause proc.Cause
}

func (v *evidence) happen(s *Sim) *task {
	f := v.flow
	if f.shut || f.invalidated || !f.to.end.open() {
		return nil
	}
	f.shut = true
	fr := s.frames.get(0)
	fr.flow, fr.kind, fr.cause = f, frameDown, v.cause
	if !v.cause.Failed() {
		fr.kind = frameDeparture
	}
	f.to.end.enqueue(fr)
	f.to.end.endGets(f.from)
	return nil
}

// refuseSender queues the evidence for the flow's receiver that the sender counts it as dead.
func (f *flow) refuseSender() {
	s := f.from.sim
	if at := s.passage(f.from.id, f.to.id, s.present()); at < never {
		s.push(at+f.link.Latency, &evidence{f, proc.Cause{Kind: proc.Refused}})
	}
}
