package coll

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// S2-16, S2-18: a rank's place in the tree is computed at the end of a validate, and for another root on first use;
// operations reuse the result. Only rerouting computes it in each of them.
func TestPlacesAreFoundOnce(t *testing.T) {
	c := ranks(t, 1, true, false)[0].e
	comm, err := c.NewComm("wide", p2p.WorldGroup(16), 0, 7)
	require.NoError(t, err)
	c.Lock()
	require.NoError(t, comm.BeginValidate())
	require.NoError(t, comm.EndValidate(&p2p.Validation{Ended: []proc.ID{1, 2}, Epoch: 1}))
	c.Unlock()
	const scribble = -7 // which no search gives
	for _, design := range []tree.Design{tree.LookupAvoiding, tree.Rebalance, tree.Reroute} {
		ts := Trees{Choice: Choice{Design: design, Shape: tree.Binomial}}
		ts.Renew(comm)
		require.Equal(t, -1, ts.home.parent)
		require.NotEmpty(t, ts.home.children)
		ts.home.parent = scribble
		first := ts.to(5)
		require.NotEqual(t, -1, first.parent, "%v: rank 0 is the root of the tree of another one", design)
		first.parent = scribble
		for _, root := range []int{0, 5} {
			require.Equal(t, design == tree.Reroute, ts.to(root).parent != scribble, "%v, root %d", design, root)
		}
		require.NotEqual(t, scribble, ts.to(3).parent, "%v: the tree of another root", design)
		require.Equal(t, 3, ts.away.root)
	}
}

// In both trees every rank but the root has one parent, and the subtrees of the children of a rank are runs of ranks after
// it, from which a reduction folds in the order of ranks.
func TestSubtreesAreRuns(t *testing.T) {
	for n := 1; n <= 140; n++ {
		for _, root := range []int{0, n / 3, n - 1} {
			for name, place := range map[string]func(r *route, me, n int){
				"binomial": (*route).neighbours, "knomial": (*route).knomial,
			} {
				size := make([]int, n) // of subtrees, by the distance from the root
				for v := n - 1; v >= 0; v-- {
					r := route{root: root}
					place(&r, (v+root)%n, n)
					size[v] = 1
					for i := len(r.children) - 1; i >= 0; i-- {
						child := (r.children[i] - root + n) % n
						require.Equal(t, v+size[v], child, "%s: rank %d of %d", name, v, n)
						size[v] += size[child]
						back := route{root: root}
						place(&back, r.children[i], n)
						require.Equal(t, (v+root)%n, back.parent, "%s: rank %d of %d", name, v, n)
					}
					require.Equal(t, v == 0, r.parent < 0)
				}
				require.Equal(t, n, size[0], "%s of %d", name, n)
			}
		}
	}
}
