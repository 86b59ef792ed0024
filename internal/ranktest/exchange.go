package ranktest

import (
	"slices"

	"github.com/banyan-hpc/banyan"
)

// piece is what a rank sends to another one.
func (o Collective) piece(from, to int) []uint64 {
	o.Number += 4096 * (to + 1)
	return o.Block(from)
}

// inPlace: what is sent lies where the result goes. Half of the calls are.
func (o Collective) inPlace() bool { return o.Number%4 < 2 }

// sent is what a rank sends to all.
func (o Collective) sent(n, from int) (all []uint64) {
	for to := range n {
		all = append(all, o.piece(from, to)...)
	}
	return all
}

// exchanged is Buffers of an exchange of all with all.
func (o Collective) exchanged(n, me int, failed []int) (buf, want []uint64) {
	if buf = o.sent(n, me); !o.inPlace() {
		buf = Blank(len(buf))
	}
	want = slices.Clone(buf)
	at := 0
	for from := range n {
		piece := o.piece(from, me)
		if !slices.Contains(failed, from) {
			copy(want[at:], piece)
		}
		at += len(piece)
	}
	return buf, want
}

// outgoing is what this rank gives in an exchange whose result goes to buf.
func (o Collective) outgoing(c *banyan.Comm, buf []uint64) []uint64 {
	if o.inPlace() {
		return buf
	}
	return o.sent(c.Size(), c.Rank())
}
