package drill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// smaller removes parts of a failing plan as long as it fails.
func (p *plan) smaller(fails func(*plan) bool) *plan {
	for again := true; again; {
		again = false
		for _, next := range p.parts() {
			if fails(next) {
				p, again = next, true
				break
			}
		}
	}
	return p
}

// parts are the plans that lack one part of this one.
func (p *plan) parts() (out []*plan) {
	without := func(change func(*plan)) {
		q := *p
		q.phases, q.doomed, q.naps = slices.Clone(p.phases), maps.Clone(p.doomed), slices.Clone(p.naps)
		change(&q)
		out = append(out, &q)
	}
	for i := range p.phases {
		if len(p.phases) > 1 {
			without(func(q *plan) { q.removePhase(i) })
		}
	}
	for i, ph := range p.phases {
		if ph.shared.kind != noKind {
			without(func(q *plan) { q.phases[i].shared.kind = noKind })
		}
		if ph.repair != nil {
			without(func(q *plan) { q.phases[i].repair = nil })
		}
		if ph.validation != nil {
			without(func(q *plan) { q.phases[i].validation = nil })
		}
		if ph.interplay != nil {
			without(func(q *plan) { q.phases[i].interplay = nil })
		}
		if len(ph.transfers) > 0 {
			without(func(q *plan) { q.phases[i].transfers = nil })
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(p.doomed)) {
		without(func(q *plan) { delete(q.doomed, rank) })
	}
	for i := range p.naps {
		without(func(q *plan) { q.naps = slices.Delete(q.naps, i, i+1) })
	}
	if p.farewell != nil {
		without(func(q *plan) { q.farewell = nil })
	}
	return out
}

// removePhase removes a phase, and has deaths in later ones follow it.
func (p *plan) removePhase(i int) {
	p.phases = slices.Delete(p.phases, i, i+1)
	for rank, d := range p.doomed {
		if d.in > i {
			d.in--
			p.doomed[rank] = d
		}
	}
	for k := range p.naps {
		if p.naps[k].at > i {
			p.naps[k].at--
		}
	}
}

// String lists the parts of a plan.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d ranks, fabric %s, profile %v, aim %v\n", p.n, p.fabric, p.profile, p.Aim)
	for i, ph := range p.phases {
		fmt.Fprintf(&b, "  phase %d: %d transfers, %v", i, len(ph.transfers), ph.waits)
		if ph.shared.kind != noKind {
			fmt.Fprintf(&b, "; %+v", ph.shared)
		}
		if ph.repair != nil {
			fmt.Fprintf(&b, "; repair %+v", *ph.repair)
		}
		if ph.validation != nil {
			fmt.Fprintf(&b, "; validation %+v", *ph.validation)
		}
		if ph.interplay != nil {
			fmt.Fprintf(&b, "; interplay %+v", *ph.interplay)
		}
		b.WriteByte('\n')
	}
	for _, rank := range slices.Sorted(maps.Keys(p.doomed)) {
		fmt.Fprintf(&b, "  rank %d dies: %+v\n", rank, p.doomed[rank])
	}
	for _, n := range p.naps {
		fmt.Fprintf(&b, "  rank %d sleeps: %+v\n", n.rank, n)
	}
	if p.farewell != nil {
		fmt.Fprintf(&b, "  farewell %+v\n", *p.farewell)
	}
	return b.String()
}
