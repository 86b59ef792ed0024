package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// TestSpikesKeepOrder: with spikes on half of the frames, order is that of
// sending, and some frames are late.
func TestSpikesKeepOrder(t *testing.T) {
	cfg := plain(2)
	cfg.Spikes = Spikes{Chance: 0.5, Min: 100 * Nanosecond, Max: Millisecond}
	s := newSim(t, cfg)
	const frames = 500
	spawn(t, s, 0, func(p *Proc) {
		n := newNode(p)
		conn := n.connect(1)
		for i := range uint64(frames) {
			n.send(conn, i, nil)
		}
		n.prov.Depart()
	})
	got := receive(t, s, 1, 100_000_000)
	require.NoError(t, s.Run())
	require.Len(t, got.log, frames)
	for i, m := range got.log {
		require.Equal(t, uint64(i), m.imm)
	}
	require.True(t, slices.IsSorted(got.times()))
	require.Greater(t, got.log[frames-1].at, fabric.Time(1_000_000), "without spikes it takes 0.1 ms")
	require.Equal(t, []end{{0, departed}}, got.ends)
}

// TestPartition sends from 0 to 1 and from 1 to 0 during a partition from 5 to
// 20 µs.
func TestPartition(t *testing.T) {
	for name, c := range map[string]struct {
		oneWay         bool
		brk, to        fabric.Time
		forth, back    []fabric.Time // deliveries at 1 and at 0
		ends0, ends1   []end
		ended0, ended1 fabric.Time // when the evidence came
	}{
		// Sent at 10010, held until 20000: delivered L + o later.
		"both ways": {to: 20_000, forth: []fabric.Time{1030, 21_020}, back: []fabric.Time{1050, 21_020}},
		"one way":   {to: 20_000, oneWay: true, forth: []fabric.Time{1030, 21_020}, back: []fabric.Time{1050, 11_030}},
		"heals before it breaks": {to: 20_000, brk: 12_000,
			forth: []fabric.Time{1030, 21_020}, back: []fabric.Time{1050, 21_020}},
		// Both have held traffic at 10010, so both know 4 µs later.
		"breaks": {to: 20_000, brk: 4000, forth: []fabric.Time{1030}, back: []fabric.Time{1050},
			ends0: []end{{1, cutOff}}, ends1: []end{{0, cutOff}}, ended0: 14_010, ended1: 14_010},
		// Only 0 has; 1 learns it when the evidence passes.
		"breaks one way": {to: 20_000, brk: 4000, oneWay: true, forth: []fabric.Time{1030}, back: []fabric.Time{1050, 11_030},
			ends0: []end{{1, cutOff}}, ends1: []end{{0, cutOff}}, ended0: 14_010, ended1: 21_000},
		"never heals": {to: fabric.Forever, forth: []fabric.Time{1030}, back: []fabric.Time{1050}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, plain(3))
			require.NoError(t, s.Partition(Partition{A: []proc.ID{0}, B: []proc.ID{1, 2},
				From: 5000, To: c.to, OneWay: c.oneWay, Break: c.brk}))
			nodes := [2]*node{{}, {}}
			ended := [2]fabric.Time{}
			for id := range proc.ID(2) {
				spawn(t, s, id, func(p *Proc) {
					n := nodes[id]
					n.init(p)
					n.keep = true
					n.onEnd = func() { ended[id] = n.host.Now() }
					conn := n.connect(1 - id)
					for i, at := range []fabric.Time{0, 10_000} {
						n.pumpFor(at)
						p.Compute(Picos(at-n.host.Now()) * Nanosecond)
						require.True(t, conn.TrySend(fabric.ClassTest, uint64(i), nil))
					}
					n.pumpFor(quietTime)
				})
			}
			require.NoError(t, s.Run())
			require.Equal(t, c.forth, nodes[1].times()[:len(nodes[1].log)])
			require.Len(t, nodes[0].log, len(c.back))
			require.Equal(t, c.ends0, nodes[0].ends)
			require.Equal(t, c.ends1, nodes[1].ends)
			require.InDelta(t, int64(c.ended0), int64(ended[0]), 20) // up to an empty poll and a rounding
			require.InDelta(t, int64(c.ended1), int64(ended[1]), 20)
		})
	}
}

// TestEvidenceWaitsForThePartition: a death behind it is reported when it heals.
func TestEvidenceWaitsForThePartition(t *testing.T) {
	s := newSim(t, plain(2))
	require.NoError(t, s.Partition(Partition{A: []proc.ID{0}, B: []proc.ID{1}, From: 1000, To: 30_000}))
	spawn(t, s, 0, func(p *Proc) {
		newNode(p).connect(1)
		p.Compute(2 * Microsecond)
		p.Die(killed)
	})
	got := receive(t, s, 1, quietTime)
	var at fabric.Time
	got.onEnd = func() { at = got.host.Now() }
	require.NoError(t, s.Run())
	require.Equal(t, []end{{0, killed}}, got.ends)
	require.Equal(t, fabric.Time(33_000), at)
}

// TestGet reads from the peer's memory: o 10, L 1000 there, L 1000 and 2 ns a
// byte back, o 20.
func TestGet(t *testing.T) {
	cfg := plain(2)
	cfg.Get = true
	s := newSim(t, cfg)
	exposed := []byte("the banyan tree")
	spawn(t, s, 0, func(p *Proc) {
		n := newNode(p)
		conn := n.connect(1)
		region, err := conn.Expose(exposed)
		require.NoError(t, err)
		require.Equal(t, uint64(len(exposed)), region.Len)
		again, err := conn.Expose(exposed)
		require.NoError(t, err)
		require.Equal(t, region, again, "one buffer, one number")
		other, err := conn.Expose(exposed[:3])
		require.NoError(t, err)
		require.NotEqual(t, region, other)
		n.pumpFor(20_000)
	})
	spawn(t, s, 1, func(p *Proc) {
		n := newNode(p)
		conn := n.connect(0)
		p.Compute(Microsecond)
		start := n.host.Now()
		local := make([]byte, 6)
		require.NoError(t, conn.Get(local, fabric.Region{Addr: 0, Len: 15}, 4))
		require.Equal(t, "banyan", string(local))
		require.Equal(t, fabric.Time(10+1000+1000+12+20), n.host.Now()-start)

		require.ErrorContains(t, conn.Get(local, fabric.Region{Addr: 0}, 10), "6 bytes at offset 10 lie outside")
		require.ErrorContains(t, conn.Get(local, fabric.Region{Addr: 0}, 1<<63), "lie outside")
		require.ErrorContains(t, conn.Get(local, fabric.Region{Addr: 2}, 0), "region 2 is not exposed")

		p.Compute(50 * Microsecond) // the peer has ended
		require.ErrorIs(t, conn.Get(local, fabric.Region{}, 0), fabric.ErrPeerGone)
		require.NoError(t, n.prov.Close())
		require.ErrorIs(t, conn.Get(local, fabric.Region{}, 0), fabric.ErrClosed)
		_, err := conn.Expose(local)
		require.ErrorIs(t, err, fabric.ErrClosed)
	})
	require.NoError(t, s.Run())
}

// TestGetFromADyingPeer: a Get ends also if the data never come.
func TestGetFromADyingPeer(t *testing.T) {
	cfg := plain(2)
	cfg.Get = true
	for _, heals := range []fabric.Time{10_000, fabric.Forever} {
		s := newSim(t, cfg)
		require.NoError(t, s.Partition(Partition{A: []proc.ID{1}, B: []proc.ID{0}, From: 0, To: heals, OneWay: true}))
		spawn(t, s, 0, func(p *Proc) {
			p.Compute(2 * Microsecond)
			p.Die(killed)
		})
		spawn(t, s, 1, func(p *Proc) {
			err := newNode(p).connect(0).Get(make([]byte, 1), fabric.Region{}, 0)
			require.ErrorIs(t, err, fabric.ErrPeerGone)
			require.Less(t, p.Host().Now(), fabric.Time(5100), "death at 2000, evidence at 5000")
		})
		require.NoError(t, s.Run())
	}
}

func TestGetUnsupported(t *testing.T) {
	cfg := plain(1)
	cfg.Get = false
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) {
		conn := newNode(p).connect(0)
		require.False(t, conn.Caps().Get)
		_, err := conn.Expose(nil)
		require.ErrorIs(t, err, fabric.ErrUnsupported)
		require.ErrorIs(t, conn.Get(nil, fabric.Region{}, 0), fabric.ErrUnsupported)
	})
	require.NoError(t, s.Run())
}

// TestRegionsAreBounded: the oldest exposure is forgotten.
func TestRegionsAreBounded(t *testing.T) {
	var table regionTable
	memory := make([]byte, maxRegions+1)
	for i := range memory {
		require.Equal(t, uint64(i), table.expose(memory[i:i+1]))
	}
	_, err := table.find(fabric.Region{Addr: 0}, 0, 1)
	require.ErrorContains(t, err, "region 0 is not exposed")
	buf, err := table.find(fabric.Region{Addr: maxRegions}, 0, 1)
	require.NoError(t, err)
	require.Same(t, &memory[maxRegions], &buf[0])
	require.Len(t, table.number, maxRegions)
}
