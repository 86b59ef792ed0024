package agree

import (
	"fmt"
	"hash/maphash"
)

var seed = maphash.MakeSeed()

// print is a hash of the state.
func (w *world) print() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	w.shelf.print(&h)
	for r, p := range w.procs {
		if !p.alive {
			fmt.Fprint(&h, "victims")
		} else {
			fmt.Fprint(&h, "|", p.departed, p.condemned, p.view, p.left, p.naps, p.hands != nil && p.hands.met)
		}
		for k := range p.part {
			q := &p.part[k]
			fmt.Fprint(&h, "line", q.proposed, q.notified)
			for _, d := range q.got {
				fmt.Fprint(&h, d.Value, d.Ended, d.Unacked, d.Mismatch)
			}
			if !p.alive {
				continue
			}
			fmt.Fprint(&h, q.knew)
			for _, x := range p.m.unopened[groupKey(k)] {
				fmt.Fprint(&h, x.from, x.payload)
			}
			if l := p.m.open[groupKey(k)]; l != nil {
				l.print(&h)
			}
		}
		for _, wire := range w.wires[r] {
			fmt.Fprint(&h, ">", len(wire), wire)
		}
	}
	return h.Sum64()
}

func (s *sequence) print(h *maphash.Hash) {
	fmt.Fprint(h, "open", s.known, s.agreed, s.departed, len(s.queue), s.result != nil, s.ballot.name)
	for _, i := range []*instance{s.old, s.cur} {
		if i != nil {
			fmt.Fprint(h, i.seq, i.excluded, i.entered, i.decided, i.hadBallot, i.atBallot, i.gathered, i.counted,
				len(i.pending), i.sent, i.sentTo)
		}
	}
	for _, x := range s.held {
		fmt.Fprint(h, x.from, x.payload, x.needs)
	}
}
