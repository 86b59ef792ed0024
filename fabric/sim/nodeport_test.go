package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// sharing is plain with two processes to a node, whose port they share: g 100, G 2 per byte.
func sharing(procs, ackEvery int) Config {
	cfg := plain(procs)
	cfg.Topology = Topology{ProcsPerNode: 2, NodesPerSwitch: procs}
	cfg.NodePort = NodePort{Shared: true, AckEvery: ackEvery}
	return cfg
}

// sendAll makes a process send empty frames, one to each of the others named.
func sendAll(t *testing.T, s *Sim, id proc.ID, to ...proc.ID) {
	spawn(t, s, id, func(p *Proc) {
		n := newNode(p)
		for _, peer := range to {
			require.True(t, n.connect(peer).TrySend(fabric.ClassTest, 0, nil))
		}
	})
}

// Frames of two processes of a node leave one after another, and pass the receiver's node in their
// order.
func TestNodePort(t *testing.T) {
	t.Run("out", func(t *testing.T) {
		s := newSim(t, sharing(6, 0))
		sendAll(t, s, 0, 2)
		sendAll(t, s, 1, 4)
		first, second := receive(t, s, 2, 9000), receive(t, s, 4, 9000)
		require.NoError(t, s.Run())
		// o 10, L 1000, g 100 at the receiver's node, o_recv 20; the second leaves 100 later.
		require.Equal(t, []fabric.Time{1130}, first.times())
		require.Equal(t, []fabric.Time{1230}, second.times())
	})
	t.Run("in", func(t *testing.T) {
		s := newSim(t, sharing(6, 0))
		sendAll(t, s, 0, 4)
		sendAll(t, s, 2, 5)
		first, second := receive(t, s, 4, 9000), receive(t, s, 5, 9000)
		require.NoError(t, s.Run())
		require.Equal(t, []fabric.Time{1130}, first.times())
		require.Equal(t, []fabric.Time{1230}, second.times())
	})
	t.Run("within the node", func(t *testing.T) {
		s := newSim(t, sharing(2, 0))
		sendAll(t, s, 0, 1)
		got := receive(t, s, 1, 9000)
		require.NoError(t, s.Run())
		require.Equal(t, []fabric.Time{fabric.Time((10*Nanosecond + 56*Nanosecond + 20*Nanosecond) / Nanosecond)},
			got.times())
	})
}

// A frame without an answer is acknowledged: that keeps the engines of both nodes busy.
func TestNodePortAcknowledges(t *testing.T) {
	late := func(ackEvery int) fabric.Time {
		s := newSim(t, sharing(4, ackEvery))
		spawn(t, s, 0, func(p *Proc) {
			n := newNode(p)
			conn := n.connect(2)
			require.True(t, conn.TrySend(fabric.ClassTest, 0, nil))
			p.Compute(2115 * Nanosecond) // the acknowledgement comes to this node at 2110: it left at 1110
			require.True(t, conn.TrySend(fabric.ClassTest, 0, nil))
		})
		got := receive(t, s, 2, 9000)
		require.NoError(t, s.Run())
		return got.times()[1]
	}
	without, with := late(0), late(1)
	require.Equal(t, fabric.Time(10+2115+10+1000+100+20), without)
	require.Greater(t, with, without)
	require.Equal(t, late(2), without, "the second frame is not yet there")
}
