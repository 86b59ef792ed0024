package osu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Each rank of the first node is the center of the ranks at its place on the others.
func TestCenters(t *testing.T) {
	for _, c := range []struct{ nodes, want []int }{
		{[]int{0, 0, 0}, []int{0, 0, 0}},
		{[]int{0, 1, 2}, []int{0, 0, 0}},
		{[]int{0, 0, 1, 1, 2, 2}, []int{0, 1, 0, 1, 0, 1}},
		{[]int{7, 3, 7, 3}, []int{0, 0, 2, 2}},
	} {
		got, err := centersOf(c.nodes)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := centersOf([]int{0, 0, 1})
	require.EqualError(t, err, "nodes 0 and 1 have 2 and 1 ranks, as many are needed: start as many on each node")
}

// Several centers at once, and a message with wrong bytes.
func TestFans(t *testing.T) {
	for _, in := range []bool{true, false} {
		inSim(t, 4, func(w *banyan.World) error {
			o := Options{Max: 64, Window: 3}
			p, err := openFan(w, &o, in)
			require.NoError(t, err)
			require.Equal(t, 3, p.pairs)
			wrong, err := p.checkFan(64, 3, 1)
			require.NoError(t, err)
			require.Zero(t, wrong)
			round := byte(1)
			if w.Comm().Rank() == 2 {
				round++
			}
			if wrong, err = p.checkFan(64, 3, round); err != nil {
				return err
			}
			notices := map[bool]int{true: 0, false: 2}[in]
			require.Equal(t, map[bool]int{true: 3 * 64}[w.Comm().Rank() == notices], wrong)

			p.fan.peers = []int{w.Comm().Rank() ^ 1} // as ranks 0 and 1 on one node, 2 and 3 on others
			p.fan.sends = w.Comm().Rank()%2 == 1
			_, err = fanPass(&o).run(p, 64, 5)
			return err
		})
	}
}

// Persistent requests are made once for a size and a window, as many as are in flight.
func TestPersistent(t *testing.T) {
	inSim(t, 2, func(w *banyan.World) error {
		p, err := newPair(w, 1, &Options{Max: 16, Window: 4, Persistent: true})
		require.NoError(t, err)
		_, err = p.Latency(8, 3)
		require.NoError(t, err)
		require.Len(t, p.prepared.sends, 1)
		ping := p.prepared.sends[0]
		_, err = p.Latency(8, 3)
		require.NoError(t, err)
		require.Same(t, ping, p.prepared.sends[0])
		_, err = p.Bandwidth(16, 4, 3)
		require.NoError(t, err)
		require.Len(t, p.prepared.sends, 4)
		require.Len(t, p.prepared.recvs, 4)
		return p.sync()
	})
}
