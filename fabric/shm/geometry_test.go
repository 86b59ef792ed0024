package shm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// open makes an endpoint that ends with the test.
func open(t testing.TB, cfg Config) *Provider {
	t.Helper()
	p, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// A frame goes into a slot of the peer's geometry, so the peer determines its longest length.
func TestSlotsOfDifferentSize(t *testing.T) {
	small := open(t, Config{Self: 0, MaxProcs: 2, Lines: 64, BulkBytes: 16 << 10})
	large := open(t, Config{Self: 1, MaxProcs: 3, Lines: 128, BulkBytes: 1 << 20})
	for _, way := range []struct{ from, to *Provider }{{small, large}, {large, small}} {
		c, err := way.from.Dial(fabric.ConnectSpec{Peer: way.to.cfg.Self, Address: way.to.Address()})
		require.NoError(t, err)
		most := way.to.own.maxFrame()
		require.Equal(t, most, c.Caps().MaxFrame)
		frame := make([]byte, most)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range frame {
			frame[i] = byte(rng.Uint32())
		}
		var sink fabric.Sink
		got := 0
		sink.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, p []byte) {
			require.True(t, bytes.Equal(frame, p))
			got++
		}
		sink.Down = func(id proc.ID, cause proc.Cause) { t.Fatalf("%v: %v", id, cause) }
		for sent := 0; got < 100; {
			if sent < 100 && c.TrySend(fabric.ClassTest, 0, frame) {
				sent++
			}
			way.to.Poll(&sink)
		}
	}
}

// A peer with fewer slots than there are processes has none for this one.
func TestPeerWithoutSlotForUs(t *testing.T) {
	for name, dir := range map[string]string{"memfd": "", "file": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			few := open(t, Config{Self: 0, MaxProcs: 64, Dir: dir})
			p := open(t, Config{Self: 1 << 17, MaxProcs: 1 << 18, Lines: 64, BulkBytes: 16 << 10, Dir: dir})
			_, err := p.Dial(fabric.ConnectSpec{Peer: 0, Address: few.Address()})
			require.ErrorContains(t, err, "MaxProcs")
			require.Nil(t, p.Lookup(0))
		})
	}
}

// The limits of a connection are those of its provider.
func TestEagerLimitsOfConfig(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2, EagerNear: 9000, EagerFar: 10_000})
	q := open(t, Config{Self: 1, MaxProcs: 2})
	c, err := p.Dial(fabric.ConnectSpec{Peer: 1, Address: q.Address()})
	require.NoError(t, err)
	require.Equal(t, shortFrame, c.AlwaysEager(), "without a long ring")
	require.Equal(t, 9000, c.Caps().Eager)
	require.True(t, c.lengthen(true))
	require.True(t, c.Eager(9000), "the far limit is no more than the near one")
	require.False(t, c.Eager(9001))

	_, err = Open(Config{Self: 0, MaxProcs: 2, EagerNear: -1})
	require.ErrorContains(t, err, "eager limits")
}
