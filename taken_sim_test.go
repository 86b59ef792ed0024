package banyan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/p2p"
)

const takers = 4

// makers make a communicator of all ranks, or of those of this one's side.
var makers = map[string]func(c *Comm) (*Comm, error){
	"dup":          (*Comm).Dup,
	"split":        func(c *Comm) (*Comm, error) { return c.Split(0, 0) },
	"create":       func(c *Comm) (*Comm, error) { return c.Create(c.Group()) },
	"create group": func(c *Comm) (*Comm, error) { return c.CreateGroup(c.Group(), 1) },
	"create inter": bridgeOf,
	"merge": func(c *Comm) (*Comm, error) {
		inter, err := bridgeOf(c)
		if err != nil {
			return nil, err
		}
		return inter.Merge(c.Rank()%2 == 0)
	},
}

// bridgeOf joins the even and the odd ranks.
func bridgeOf(c *Comm) (*Comm, error) {
	side, err := c.Split(c.Rank()%2, 0)
	if err != nil {
		return nil, err
	}
	return side.CreateInter(0, c, 1-c.Rank()%2, 3)
}

// making has all ranks make a communicator twice, where on rank 1 the context of the first, if it is not 0, is taken.
func making(t *testing.T, u Uniformity, taken uint32, create func(*Comm) (*Comm, error)) (first, second [takers]*Comm, errs [takers]error) {
	err := Simulate(takers, Simulation{}, func(w *World) error {
		c := w.Comm()
		if c.Rank() == 1 && taken != 0 {
			if _, err := w.job.P2P.NewComm("squatter", p2p.WorldGroup(takers), 1, taken); err != nil {
				return err
			}
		}
		err := c.SetUniformity(u)
		if err == nil {
			first[c.Rank()], errs[c.Rank()] = create(c)
			second[c.Rank()], err = create(c)
		}
		if _, alike := c.Agree(1); err == nil { // nobody leaves before all have made it
			err = alike
		}
		return err
	})
	require.NoError(t, err)
	return first, second, errs
}

// Contexts are numbers that nobody hands out, so one may be taken at some rank, by a communicator that others do not have. That rank gets an
// error that says so, and if creation is uniform nobody gets the communicator. Made once more it has another context.
func TestContextTaken(t *testing.T) {
	for name, create := range makers {
		t.Run(name, func(t *testing.T) {
			for _, u := range []Uniformity{UniformNothing, UniformCreation} {
				plain, _, errs := making(t, u, 0, create)
				require.Equal(t, [takers]error{}, errs)
				taken := plain[1].core.Context()
				first, second, errs := making(t, u, taken, create)
				for rank := range takers {
					require.Equal(t, rank != 1 && u == UniformNothing, first[rank] != nil, "rank %d: %v", rank, errs[rank])
					require.Equal(t, first[rank] == nil, errs[rank] != nil, "rank %d", rank)
					require.NotNil(t, second[rank], "rank %d", rank)
					require.NotEqual(t, taken, second[rank].core.Context())
				}
				require.ErrorContains(t, errs[1], "is taken by squatter: create it once more")
			}
		})
	}
}
