package predict

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/coll/corrected"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Undetected is the outcome of one operation that starts with dead ranks that no rank has detected.
type Undetected struct {
	// Living is the number of living ranks. Reached are those that have completed when no event is left before
	// the failures are detected; Time is the time until the last of them has.
	Living, Reached int
	Time            sim.Picos
	// Messages is their number until then.
	Messages int
	// Complete is the time until all living ranks have completed, after the detection where it is needed and, in the
	// designs of trees, a validate and the operation again among the living. 0: they never do.
	Complete sim.Picos
}

// correctionDelay is the time before a correction grows, that of package ft/control.
const correctionDelay = 200 * sim.Microsecond

// Unseen follows one barrier or broadcast of rank 0 that starts with undetected dead ranks. All living ranks detect
// all of them at the time detection. A message costs its sender and its receiver their overheads, and takes the
// latency and the bytes of the link; there are no ports and no credits. A corrected broadcast is one operation of
// package coll/corrected, so its length is bounded.
func Unseen(j Job, detection sim.Picos) (Undetected, error) {
	design, dead := j.Design, j.Dead
	if j.Design == tree.Unaware {
		j.Design = tree.Reroute // the same tree
	}
	if err := j.check(); err != nil {
		return Undetected{}, err
	}
	a := tree.Except(j.Ranks, dead...)
	if j.Op != Barrier && j.Op != Bcast || !a.Has(0) || j.Root != 0 {
		return Undetected{}, errors.New("predict: want a barrier, or a broadcast of rank 0, which lives")
	}
	if most := corrected.MaxValue - corrected.LengthBytes; design == tree.Corrected && j.Op == Bcast && j.Bytes > most {
		return Undetected{}, fmt.Errorf("predict: a corrected broadcast of %d bytes, want a --size of up to %d", j.Bytes, most)
	}
	u := &unseen{job: &j, alive: a, ranks: make([]unseenRank, j.Ranks), detection: detection}
	for rank := range u.ranks {
		u.ranks[rank].node = int32(j.node(rank))
	}
	if design == tree.Corrected {
		return u.corrected(), nil
	}
	u.tree()
	out := u.result
	if out.Reached == out.Living {
		out.Complete = out.Time
		return out, nil
	}
	if out.Complete = 0; design == tree.Unaware {
		return out, nil
	}
	again := j
	again.Rounds = 1
	op, err := Run(again)
	if err != nil {
		return out, err
	}
	again.Op = Barrier // a validate goes up and down the tree of the living
	validate, err := Run(again)
	out.Complete = detection + validate.Time + op.Time
	return out, err
}

// unseen is such an operation.
type unseen struct {
	job       *Job
	alive     *tree.Alive
	ranks     []unseenRank
	queue     queue
	frames    []unseenFrame // under way, by the number in an event
	free      []int32
	detection sim.Picos
	detected  bool
	result    Undetected
}

type unseenRank struct {
	m    *corrected.Machine
	busy sim.Picos // until when its core is
	node int32
	done bool
}

// unseenFrame is a frame of a machine; of a tree it has no payload.
type unseenFrame struct {
	from, to int32
	bytes    int
	payload  []byte
}

// cost gives the link between two ranks, and how long the bytes of a frame occupy a core and the link.
func (u *unseen) cost(from, to, bytes int) (l *sim.Link, core, wire sim.Picos) {
	a, b, class := u.ranks[from].node, u.ranks[to].node, fabric.LinkAcross
	switch perSwitch := int32(u.job.Machine.Topology.NodesPerSwitch); {
	case a == b:
		class = fabric.LinkNode
	case a/perSwitch == b/perSwitch:
		class = fabric.LinkSwitch
	}
	l = &u.job.Machine.Links[class]
	return l, u.job.Machine.CPU.PerByte * sim.Picos(bytes), l.GapPerByte * sim.Picos(bytes)
}

// send has a rank send a frame as soon as its core is free.
func (u *unseen) send(now sim.Picos, from, to, bytes int, payload []byte) {
	r := &u.ranks[from]
	l, core, wire := u.cost(from, to, bytes)
	r.busy = max(r.busy, now) + l.SendOverhead + core
	if !u.detected {
		u.result.Messages++
	}
	if !u.alive.Has(to) {
		return
	}
	slot := int32(len(u.frames))
	if n := len(u.free); n > 0 {
		slot = u.free[n-1]
		u.free = u.free[:n-1]
	} else {
		u.frames = append(u.frames, unseenFrame{})
	}
	u.frames[slot] = unseenFrame{int32(from), int32(to), bytes, payload}
	u.queue.push(event{at: r.busy + l.Latency + wire, what: arrives, rank: slot})
}

// receive gives the frame of an event, and when its receiver has handled it.
func (u *unseen) receive(e event) (f unseenFrame, at sim.Picos) {
	f = u.frames[e.rank]
	u.frames[e.rank] = unseenFrame{}
	u.free = append(u.free, e.rank)
	l, core, _ := u.cost(int(f.from), int(f.to), f.bytes)
	r := &u.ranks[f.to]
	r.busy = max(r.busy, e.at) + l.RecvOverhead + core
	return f, r.busy
}

// completed notes that a rank has completed.
func (u *unseen) completed(rank int, at sim.Picos) {
	if r := &u.ranks[rank]; !r.done {
		r.done = true
		u.result.Complete = max(u.result.Complete, at)
		if !u.detected {
			u.result.Reached++
			u.result.Time = max(u.result.Time, at)
		}
	}
}

// tree follows a broadcast down the tree of all ranks. A barrier there ends at no rank if one is dead.
func (u *unseen) tree() {
	u.result.Living = u.alive.Count()
	if u.job.Op == Barrier && len(u.job.Dead) > 0 {
		return
	}
	if u.job.Op == Barrier {
		r, err := Run(*u.job)
		if err == nil {
			u.result.Reached, u.result.Time, u.result.Messages = u.result.Living, r.Time/sim.Picos(r.Rounds), r.Messages
		}
		return
	}
	var p tree.Plan
	all := tree.All(u.job.Ranks)
	spread := func(rank int, at sim.Picos) {
		u.completed(rank, at)
		tree.Build(&p, tree.Unaware, u.job.Shape, all, u.job.node, 0, rank)
		for _, child := range p.Children {
			u.send(at, rank, child, u.job.Header+u.job.Bytes, nil)
		}
	}
	for spread(0, 0); len(u.queue.heap) > 0; {
		f, at := u.receive(u.queue.pop())
		spread(int(f.to), at)
	}
}

// corrected follows the machines of package coll/corrected.
func (u *unseen) corrected() Undetected {
	u.result.Living = u.alive.Count()
	value := make([]byte, corrected.LengthBytes+u.job.Bytes)
	for rank := range u.ranks {
		if !u.alive.Has(rank) {
			continue
		}
		m := corrected.New(0, u.job.Ranks, rank)
		u.ranks[rank].m = m
		if u.job.Op == Barrier {
			m.Barrier()
		} else {
			m.Bcast(0, value)
		}
		u.perform(rank, 0)
	}
	u.settle(true)
	if u.detected = true; u.result.Reached < u.result.Living {
		u.detect()
		u.settle(false)
	}
	return u.result
}

// settle lets everything happen that follows without the detection, or before it.
func (u *unseen) settle(before bool) {
	for len(u.queue.heap) > 0 {
		if before && u.queue.heap[0].at >= u.detection && u.result.Reached < u.result.Living {
			return
		}
		e := u.queue.pop()
		if e.what != arrives { // a timer, of a rank
			u.ranks[e.rank].m.Tick(1)
			u.perform(int(e.rank), e.at)
			continue
		}
		f, at := u.receive(e)
		if err := u.ranks[f.to].m.Receive(int(f.from), f.payload); err == nil {
			u.perform(int(f.to), at)
		}
	}
}

// detect reports all dead ranks to all living ones.
func (u *unseen) detect() {
	words := u.alive.Words()
	for i := range words {
		words[i] = ^words[i]
	}
	for rank := range u.ranks {
		if m := u.ranks[rank].m; m != nil {
			m.EndedSet(words)
			u.perform(rank, max(u.ranks[rank].busy, u.detection))
		}
	}
}

// perform performs the actions of a machine.
func (u *unseen) perform(rank int, now sim.Picos) {
	m := u.ranks[rank].m
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		switch a.Kind {
		case corrected.Send:
			u.send(now, rank, a.To, len(a.Payload), a.Payload)
		case corrected.Timer:
			u.queue.push(event{at: now + correctionDelay<<min(a.Step, 8), what: goesOn, rank: int32(rank)})
		case corrected.Done:
			u.completed(rank, max(now, u.ranks[rank].busy))
		}
	}
}
