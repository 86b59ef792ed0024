package shm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/proc"
)

// Two processes whose rings differ in size: the longest frame is what the
// receiver's ring takes, in both directions, and arrives whole.
func TestUnequalRings(t *testing.T) {
	cfgs := [2]Config{
		{Self: 0, MaxProcs: 2, Lines: 64, BulkBytes: 16 << 10},
		{Self: 1, MaxProcs: 2, Lines: 1024, BulkBytes: 1 << 20},
	}
	var p [2]*Provider
	var c [2]fabric.Conn
	for i := range p {
		var err error
		p[i], err = Open(cfgs[i])
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p[i].Close()) })
	}
	for i := range c {
		var err error
		c[i], err = p[i].Connect(fabric.ConnectSpec{Peer: proc.ID(1 - i), Address: p[1-i].Address()})
		require.NoError(t, err)
	}
	for i := range p {
		longest := c[i].Caps().MaxFrame
		require.Equal(t, cfgs[1-i].BulkBytes/4-lineBytes, longest)
		var got []byte
		var s fabric.Sink
		s.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, b []byte) { got = bytes.Clone(b) }
		s.Down = func(proc.ID, proc.Cause) { t.Error("the peer was taken for dead") }
		for lap := range 500 {
			want := bytes.Repeat([]byte{byte(lap)}, longest-lap%3)
			for !c[i].TrySend(fabric.ClassTest, 0, want) {
				p[1-i].Poll(&s)
			}
			for got = nil; got == nil; {
				p[1-i].Poll(&s)
			}
			require.Equal(t, want, got)
		}
	}
}

// The limits of a connection are those of its provider.
func TestEagerLimitsOfConfig(t *testing.T) {
	p, err := Open(Config{Self: 0, MaxProcs: 2, EagerNear: 9000, EagerFar: 10_000})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	q, err := Open(Config{Self: 1, MaxProcs: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	c, err := p.Dial(fabric.ConnectSpec{Peer: 1, Address: q.Address()})
	require.NoError(t, err)
	require.Equal(t, 9000, c.Sure(), "the far limit is no more than the near one")
	require.Equal(t, 9000, c.Caps().Eager)
	require.True(t, c.Eager(9000))
	require.False(t, c.Eager(9001))

	_, err = Open(Config{Self: 0, MaxProcs: 2, EagerNear: -1})
	require.ErrorContains(t, err, "eager limits")
}
