package agree

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// living lists the members that have neither failed nor departed.
func (w *world) living() []int {
	var out []int
	for r, p := range w.procs {
		if p.alive && !p.departed {
			out = append(out, r)
		}
	}
	return out
}

// wrong returns a violation of safety so far and, at the end, of liveness.
func (w *world) wrong(end bool) error {
	if w.refused != nil {
		return w.refused
	}
	for k := range 1 + w.more {
		for round := range w.rounds {
			if err := w.wrongRound(k, round, end); err != nil {
				return fmt.Errorf("line %d, agreement %d: %w", k, round, err)
			}
		}
	}
	for _, r := range w.living() {
		m := w.procs[r].m
		for _, l := range m.open {
			if end && len(l.held) > 0 {
				return fmt.Errorf("rank %d keeps frames for ever", r)
			}
		}
		if end && len(m.unopened) > 0 {
			return fmt.Errorf("rank %d keeps early frames for ever", r)
		}
	}
	return nil
}

func (w *world) wrongRound(k, round int, end bool) error {
	var first *Decision
	by := -1
	for r, p := range w.procs {
		q := &p.part[k]
		if len(q.got) <= round {
			if end && p.alive && !p.departed && round < w.last(r) {
				return fmt.Errorf("rank %d never decides", r)
			}
			continue
		}
		d := q.got[round]
		if err := w.wrongDecision(k, r, round, d); err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		if !w.binds(k, r, round) {
			continue
		}
		if first == nil {
			first, by = d, r
		} else if !alike(first, d) {
			return fmt.Errorf("ranks %d and %d decide %+v and %+v", by, r, first, d)
		}
	}
	return nil
}

// binds reports whether all other decisions must equal a rank's: it lives, or has departed after it
// sent the decision to a living member; or the agreement is uniform and has no mismatch. The
// decision of a condemned process that does not know it does not count.
func (w *world) binds(k, rank, round int) bool {
	p := w.procs[rank]
	switch {
	case p.condemned:
		return false
	case w.uniform && w.odd == 0:
		return true
	case !p.alive:
		return false
	case !p.departed || w.uniform:
		return !w.uniform || !p.departed
	}
	if told := p.part[k].notified; len(told) > round {
		for r, o := range w.procs {
			if told[round]>>r&1 != 0 && o.alive && !o.departed && !o.condemned {
				return true
			}
		}
	}
	return false
}

func alike(a, b *Decision) bool {
	return slices.Equal(a.Value, b.Value) && slices.Equal(a.Ended, b.Ended) && slices.Equal(a.New, b.New) &&
		slices.Equal(a.Unacked, b.Unacked) && a.Mismatch == b.Mismatch && a.Seq == b.Seq
}

// wrongDecision checks one decision by itself: validity.
func (w *world) wrongDecision(k, rank, round int, d *Decision) error {
	value := binary.LittleEndian.Uint64(d.Value)
	var ended, failed, unacked uint64
	for _, g := range d.Ended {
		ended |= 1 << members(w.n).Rank(g.Proc)
		if !g.Departed {
			failed |= 1 << members(w.n).Rank(g.Proc)
		}
	}
	for _, p := range d.Unacked {
		unacked |= 1 << members(w.n).Rank(p)
	}
	switch p := w.procs[rank]; {
	case d.Mismatch && w.odd == 0:
		return fmt.Errorf("all proposed alike, and it says they did not")
	case failed&^(p.view|p.left) != 0 && p.alive:
		return fmt.Errorf("decided %#x failed before it knows more than %#x", failed, p.view)
	case unacked&^ended != 0:
		return fmt.Errorf("%#x are not acknowledged, but %#x are ended", unacked, ended)
	}
	for r, p := range w.procs {
		q := &p.part[k]
		switch had := value>>r&1 != 0; {
		case d.Mismatch: // without a value
		case had && q.proposed <= round:
			return fmt.Errorf("rank %d's value is in it and was not proposed", r)
		case had && w.what(r) != d.What:
			return fmt.Errorf("rank %d has proposed something else, without a mismatch", r)
		case !had && ended>>r&1 == 0:
			return fmt.Errorf("rank %d's value is missing, and it is not said to be ended", r)
		}
		counted := p.alive && !p.departed && !p.condemned && q.proposed > round
		switch {
		case failed>>r&1 != 0 && p.alive && !p.condemned && !p.departed || ended&^failed>>r&1 != 0 && !p.departed:
			return fmt.Errorf("rank %d is said to be ended and lives", r)
		case counted && q.knew[round]&^ended != 0:
			return fmt.Errorf("rank %d knew of %#x, decided are %#x", r, q.knew[round], ended)
		case counted && w.acked>>r&1 == 0 && q.knew[round]&failed&^unacked != 0:
			return fmt.Errorf("rank %d has acknowledged nothing, unacknowledged are only %#x of %#x", r, unacked, ended)
		}
	}
	return nil
}
