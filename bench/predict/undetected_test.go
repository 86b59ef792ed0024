package predict

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/corrected"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// With undetected failures a corrected broadcast reaches all living ranks, and one down a tree the ranks without a
// dead ancestor. A barrier waits for the detection in all designs, and is not repeated in the corrected one.
func TestUnseen(t *testing.T) {
	const ranks, detection = 300, 100 * sim.Millisecond
	m := profile(t, "infiniband", ranks)
	for _, order := range []kill.Order{kill.Random, kill.Worst, kill.Best} {
		for _, failures := range []int{0, 1, 17, 90} {
			j := Job{Machine: m, Ranks: ranks, Dead: order.Victims(ranks, failures), Op: Bcast, Bytes: 8, Design: tree.Corrected}
			c, err := Unseen(j, detection)
			require.NoError(t, err)
			require.Equal(t, ranks-failures, c.Living)
			require.Equal(t, c.Living, c.Reached, "%v, %d dead", order, failures)
			require.Equal(t, c.Time, c.Complete)
			require.Less(t, c.Time, detection)
			j.Design = tree.Rebalance
			r, err := Unseen(j, detection)
			require.NoError(t, err)
			if failures == 0 {
				require.Equal(t, ranks, r.Reached)
				require.Equal(t, ranks-1, r.Messages)
				require.LessOrEqual(t, c.Messages, 3*ranks)
			} else if order == kill.Worst || order == kill.Random && failures > 1 {
				require.Less(t, r.Reached, c.Reached)
				require.Greater(t, r.Complete, detection)
			}
			j.Design = tree.Unaware
			u, err := Unseen(j, detection)
			require.NoError(t, err)
			require.Equal(t, r.Reached, u.Reached)
			require.Equal(t, u.Reached == u.Living, u.Complete > 0)

			j.Op, j.Design = Barrier, tree.Corrected
			c, err = Unseen(j, detection)
			require.NoError(t, err)
			require.Equal(t, failures == 0, c.Reached == c.Living)
			j.Design = tree.Rebalance
			r, err = Unseen(j, detection)
			require.NoError(t, err)
			if failures > 0 {
				require.Zero(t, r.Reached)
				require.Greater(t, r.Complete, detection)
				require.Greater(t, c.Complete, detection)
			}
		}
	}
	_, err := Unseen(Job{Machine: m, Op: Reduce}, detection)
	require.Error(t, err)
	j := Job{Machine: m, Op: Bcast, Bytes: corrected.MaxValue, Design: tree.Corrected} // takes two operations
	_, err = Unseen(j, detection)
	require.ErrorContains(t, err, "--size of up to 65528")
	j.Ranks, j.Bytes = 2, corrected.MaxValue-corrected.LengthBytes
	_, err = Unseen(j, detection)
	require.NoError(t, err)
}

// Both cores of a link are charged for the bytes, and so is the link.
func TestUnseenBytes(t *testing.T) {
	const bytes = 64 << 10
	m := profile(t, "infiniband", 2)
	m.Topology.ProcsPerNode, m.Topology.NodesPerSwitch = 1, 2
	l := m.Links[fabric.LinkSwitch]
	u, err := Unseen(Job{Machine: m, Op: Bcast, Bytes: bytes, Design: tree.Rebalance}, sim.Second)
	require.NoError(t, err)
	require.Equal(t, l.SendOverhead+l.RecvOverhead+l.Latency+bytes*(2*m.CPU.PerByte+l.GapPerByte), u.Time)
}
