package sim

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
)

// host is fabric.Host for one process.
type host struct {
	p     *Proc
	armed bool
	rung  bool
	// sleeper is the activity in Sleep; deadline is the end of its sleep.
	sleeper  *task
	deadline Picos
	// alarm is the instant of the earliest queued event of the host's timer, or 0. There are rarely
	// two: one that fires early queues itself again.
	alarm Picos
}

// Now lets earlier events happen first, so that a loop on the clock sees their effects.
func (h *host) Now() fabric.Time {
	h.p.step()
	h.p.settle()
	return h.p.clock.time()
}

func (h *host) Go(fn func()) {
	h.p.step()
	h.p.start(fn, false)
}

// Pause lets time pass for this activity alone.
func (h *host) Pause(d fabric.Time) {
	p := h.p
	p.step()
	p.settle()
	t := p.sim.running
	p.sim.push(p.clock+min(max(instant(d), 0), maxLength), (*pauseEnd)(t))
	t.block(forTime)
}

// pauseEnd is an activity as an event: its pause is over.
type pauseEnd task

func (t *pauseEnd) happen(*Sim) *task {
	if !t.p.over {
		(*task)(t).wake()
	}
	return nil
}

// Patience is zero: in virtual time polling again at once finds nothing new.
func (h *host) Patience() (spins, yields int, most fabric.Time) { return 0, 0, fabric.Forever }

func (h *host) Yield() {
	h.p.step()
	h.p.clock += h.p.sim.cfg.CPU.Yield
	h.p.settle()
}

func (h *host) Relax() { h.Yield() }

// Wanted implements fabric.Host: activities have no processors.
func (h *host) Wanted() bool { return false }

func (h *host) Arm() {
	h.p.step()
	h.armed, h.rung = true, false
}

func (h *host) Disarm() {
	if !h.p.over {
		h.armed, h.rung = false, false
	}
}

func (h *host) Sleep(until fabric.Time) {
	p := h.p
	p.step()
	h.armed = true // a sleep without Arm counts from here
	p.settle()
	if h.sleeper != nil {
		panic(fmt.Sprintf("sim: two activities of %v sleep at once", p.id))
	}
	if deadline := instant(until); !h.rung && deadline > p.clock {
		h.sleeper, h.deadline = p.sim.running, deadline
		h.setAlarm()
		h.sleeper.block(forBell)
	}
	h.armed, h.rung = false, false
}

// Ring may come from an activity of any process.
func (h *host) Ring() {
	if h.p.over || !h.armed || h.rung {
		return
	}
	h.rung = true
	h.endSleep()
}

func (h *host) endSleep() {
	if t := h.sleeper; t != nil {
		h.sleeper = nil
		t.wake()
	}
}

func (h *host) setAlarm() {
	if h.deadline < never && (h.alarm == 0 || h.deadline < h.alarm) {
		h.alarm = h.deadline
		h.p.sim.push(h.deadline, (*timer)(h))
	}
}

// timer is the host as an event: the alarm fires.
type timer host

func (t *timer) happen(s *Sim) *task {
	h := (*host)(t)
	if h.p.over || h.alarm != s.now {
		return nil // an earlier alarm has been set since
	}
	h.alarm = 0
	switch {
	case h.sleeper == nil:
	case h.deadline > s.now:
		h.setAlarm()
	default:
		h.endSleep()
	}
	return nil
}

// parker is fabric.Parker.
type parker struct {
	p      *Proc
	waiter *task
	token  bool   // an Unpark without a Park
	parks  uint64 // number of Parks that waited
}

func (h *host) NewParker() fabric.Parker { return &parker{p: h.p} }

func (k *parker) Park() { k.ParkUntil(fabric.Forever) }

func (k *parker) ParkUntil(deadline fabric.Time) {
	k.p.step()
	k.p.settle()
	if k.token {
		k.token = false
		return
	}
	if k.waiter != nil {
		panic(fmt.Sprintf("sim: two activities of %v on one parker", k.p.id))
	}
	k.parks++
	until := instant(deadline)
	if until <= k.p.clock {
		return
	}
	k.p.sim.push(until, &parked{k, k.parks}) // nothing at never
	k.waiter = k.p.sim.running
	k.waiter.block(forUnpark)
}

// parked is the event by which a park with a deadline ends.
type parked struct {
	k    *parker
	park uint64
}

func (d *parked) happen(*Sim) *task {
	if k := d.k; k.waiter != nil && k.parks == d.park && !k.p.over {
		t := k.waiter
		k.waiter = nil
		t.wake()
	}
	return nil
}

func (k *parker) Unpark() {
	if k.p.over {
		return
	}
	t := k.waiter
	if t == nil {
		k.token = true
		return
	}
	k.waiter = nil
	t.wake()
}
