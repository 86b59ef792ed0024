package agree

import "slices"

// decision is the decision that the caller gets.
func (s *sequence) decision(i *instance) *Decision {
	d := s.spare
	if s.spare = nil; d == nil {
		d = new(Decision)
	}
	value := append(d.Value[:0], i.gathered.value...)
	*d = Decision{}
	d.Key, d.Seq, d.Number, d.What, d.Value = s.key, i.mine.number, i.seq, i.gathered.what, value
	d.Mismatch = i.gathered.flags&flagMismatch != 0
	d.Refused = i.gathered.flags&flagRefused != 0
	if len(s.agreed) > 0 || len(s.carried)+len(i.gathered.ended) > 0 || len(i.gathered.unacked) > 0 {
		s.listEnded(d, i)
	}
	return d
}

// listEnded puts the ended members into a decision.
func (s *sequence) listEnded(d *Decision, i *instance) {
	if len(s.endedList) != len(s.agreed) {
		s.endedList = make([]Ended, 0, len(s.agreed))
		for _, rank := range s.agreed {
			// This process's own knowledge may differ from the other members'.
			who := s.group.Proc(int(rank))
			s.endedList = append(s.endedList, Ended{who, s.departed.has(int(rank))})
		}
	}
	d.Ended = slices.Clip(s.endedList)
	if len(s.carried)+len(i.gathered.ended) > 0 {
		for _, e := range unite(s.carried, i.gathered.ended) {
			d.New = append(d.New, Ended{s.group.Proc(int(e.rank)), e.departed})
		}
		s.carried = nil
	}
	for _, rank := range i.gathered.unacked {
		d.Unacked = append(d.Unacked, s.group.Proc(int(rank)))
	}
}
