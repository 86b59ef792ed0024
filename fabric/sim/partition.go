package sim

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Partition stops the traffic that leaves a port between From and To from A to B and, unless
// OneWay, from B to A: frames, credits, the traffic of Get, and evidence of an end. Frames on the
// wire still arrive.
type Partition struct {
	A, B []proc.ID
	// From and To bound it; To may be fabric.Forever.
	From, To fabric.Time
	OneWay   bool
	// Break is the sender's patience. 0: traffic is held until the partition heals, as by a
	// reliable transport. Otherwise a connection with traffic that is held longer than Break
	// breaks: the sender gets evidence with cause proc.Connection then, its peer when the evidence
	// can pass the network, and nothing of either arrives any more.
	Break fabric.Time
}

// partitionEntry is a Partition in the form for lookups.
type partitionEntry struct {
	a, b               ft.Set
	from, to, patience Picos
	oneWay             bool
}

// Partition adds a partition; it affects later traffic.
func (s *Sim) Partition(pt Partition) error {
	if pt.From < 0 || pt.To <= pt.From || pt.Break < 0 {
		return fmt.Errorf("sim: partition from %d to %d ns, break %d ns", pt.From, pt.To, pt.Break)
	}
	sp := &partitionEntry{from: instant(pt.From), to: instant(pt.To), patience: instant(pt.Break), oneWay: pt.OneWay}
	for _, side := range []struct {
		ids []proc.ID
		set *ft.Set
	}{{pt.A, &sp.a}, {pt.B, &sp.b}} {
		for _, id := range side.ids {
			if err := s.checkID(id); err != nil {
				return err
			}
			side.set.Add(id)
		}
	}
	s.partitions = append(s.partitions, sp)
	return nil
}

// stops reports whether the partition stops traffic between two processes at an instant.
func (sp *partitionEntry) stops(from, to proc.ID, at Picos) bool {
	if at < sp.from || at >= sp.to {
		return false
	}
	return sp.a.Has(from) && sp.b.Has(to) || !sp.oneWay && sp.b.Has(from) && sp.a.Has(to)
}

// passage is the first instant, not before at, at which nothing stops traffic from one process to
// another. It grows with at, so it keeps order.
func (s *Sim) passage(from, to proc.ID, at Picos) Picos {
	for again := len(s.partitions) > 0; again; {
		again = false
		for _, sp := range s.partitions {
			if sp.stops(from, to, at) {
				at = sp.to
				again = at < never
			}
		}
	}
	return at
}

// hold is passage for traffic that leaves at an instant and for which the sender waits: it may
// break the connection.
func (f *flow) hold(at Picos) Picos {
	s := f.from.sim
	through := s.passage(f.from.id, f.to.id, at)
	if through == at {
		return through
	}
	for _, sp := range s.partitions {
		if sp.patience > 0 && sp.stops(f.from.id, f.to.id, at) && through-at > sp.patience {
			s.push(at+sp.patience, (*breaking)(f))
		}
	}
	return through
}

// breaking is the event by which a connection breaks after the sender's patience.
type breaking flow

func (b *breaking) happen(s *Sim) *task {
	f := (*flow)(b)
	lost := proc.Cause{Kind: proc.Connection}
	if !f.broken {
		f.broken, f.back.broken = true, true
		s.record(traceBreak, f.from.id, f.to.id, 0, 0)
		if at := s.passage(f.from.id, f.to.id, s.now); at < never {
			s.push(at+f.link.Latency, &evidence{f, lost})
		}
	}
	// Each end may break by itself before it learns of the other's break.
	return (&evidence{f.back, lost}).happen(s)
}
