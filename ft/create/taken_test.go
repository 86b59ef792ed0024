package create

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

const takers = 4

// makers make a communicator of all ranks, or of those of this one's side.
var makers = map[string]func(r rank) (*p2p.Comm, error){
	"dup": func(r rank) (*p2p.Comm, error) {
		made, err := r.Core.Dup()
		if err = r.Outcome(repair.Dup, made, err); err != nil && made != nil {
			_ = Free(r.Engine, r.Parent.Repair, made)
			made = nil
		}
		return made, err
	},
	"split":  func(r rank) (*p2p.Comm, error) { return r.Split(0, 0) },
	"create": func(r rank) (*p2p.Comm, error) { return r.Group(r.Core.Group()) },
	"create group": func(r rank) (*p2p.Comm, error) {
		g := r.Core.Group()
		return r.Among(g, 1, r.Core.CountAmong(g, 1))
	},
	"create inter": func(r rank) (*p2p.Comm, error) { return r.bridge(r.Parent) },
	"merge": func(r rank) (*p2p.Comm, error) {
		inter, err := r.bridge(r.Parent)
		if err != nil {
			return nil, err
		}
		return r.of(inter).Merge(r.Rank()%2 == 0)
	},
}

// making has all ranks make a communicator twice. On rank 1 the context of the first is taken, if it
// is not 0.
func making(t *testing.T, u p2p.Uniformity, taken uint32, make func(rank) (*p2p.Comm, error)) (first, second [takers]*p2p.Comm, errs [takers]error) {
	simulate(t, takers, nil, func(r rank) error {
		if r.Rank() == 1 && taken != 0 {
			if _, err := r.P2P.NewComm("squatter", p2p.WorldGroup(takers), 1, taken); err != nil {
				return err
			}
		}
		if err := r.World.SetUniformity(u); err != nil {
			return err
		}
		var err error
		first[r.Rank()], errs[r.Rank()] = make(r)
		second[r.Rank()], err = make(r)
		r.P2P.Lock()
		flag := uint64(1)
		promise, h := r.P2P.NewAgreement(r.World, "Agree")
		r.Job.Repair.Agree(r.World, &flag, promise) // no rank leaves before all have made it
		r.P2P.Unlock()
		if _, alike := r.P2P.Wait(h); err == nil {
			err = alike
		}
		return err
	})
	return first, second, errs
}

// Contexts are computed, so one may be taken at a rank, by a communicator that others do not have. That rank gets an
// error that reports it, and if creation is uniform no rank gets the communicator. Made once more it has another
// context.
func TestContextTaken(t *testing.T) {
	for name, maker := range makers {
		t.Run(name, func(t *testing.T) {
			for _, u := range []p2p.Uniformity{p2p.UniformNothing, p2p.UniformCreation} {
				plain, _, errs := making(t, u, 0, maker)
				require.Equal(t, [takers]error{}, errs)
				taken := plain[1].Context()
				first, second, errs := making(t, u, taken, maker)
				for rank := range takers {
					require.Equal(t, rank != 1 && u == p2p.UniformNothing, first[rank] != nil, "rank %d: %v", rank, errs[rank])
					require.Equal(t, first[rank] == nil, errs[rank] != nil, "rank %d", rank)
					require.NotNil(t, second[rank], "rank %d", rank)
					require.NotEqual(t, taken, second[rank].Context())
				}
				require.ErrorContains(t, errs[1], "is taken by squatter: create it once more")
			}
		})
	}
}
