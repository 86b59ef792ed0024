package create

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

// Merge makes one communicator of both sides of an intercommunicator: first the ranks of the side
// that gave high as false. If both gave the same the side with the lowest process comes first.
func (p Parent) Merge(high bool) (*p2p.Comm, error) {
	made, err := p.merge(high)
	return p.finish(repair.Merge, made, err)
}

func (p Parent) merge(high bool) (*p2p.Comm, error) {
	n := p.Core.Count()
	local := p.Core.Local()
	if local == nil {
		return nil, fmt.Errorf("%w: not an intercommunicator", ft.ErrArgument)
	}
	w, side := p.on(p.Core.Coll()), p.on(local)
	from, to := p.Core.Side()
	if to-from == w.Core.Size() {
		return nil, p.Core.Lost(0)
	}
	other := 0 // the first rank there, as from is here
	if from == 0 {
		other = to
	}
	word := make([]byte, 1+verdictLen) // the other side's value, or the reason for which it is missing
	var err error
	if w.Core.Rank() == from {
		mine := []byte{0}
		if high {
			mine[0] = 1
		}
		_, err = w.sendrecv(mine, word[:1], other, 0)
		encodeVerdict(word[1:], err)
	}
	if berr := side.bcast(word, local.Coll().OriginalRank(0)); berr != nil || err != nil {
		return nil, cmp.Or(err, berr)
	}
	if err := decodeVerdict(word[1:]); err != nil {
		return nil, fmt.Errorf("the first rank could not reach the other side: %w", err)
	}
	first := !high
	if high == (word[0] == 1) {
		first = slices.Min(p.Core.Group().Procs()) < slices.Min(p.Core.Peers().Procs())
	}
	return p.Core.Union(n, first)
}
