package shm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Poll stops reading rings that deliver nothing, reads them again with the next frame, and misses
// none: neither a sleeping process nor a polling one.
func TestQuietRings(t *testing.T) {
	const peers = 9
	cfg := Config{MaxProcs: peers + 1, Lines: 64, BulkBytes: 16 << 10}
	p := open(t, cfg)
	var conns []*Conn
	for i := range peers {
		cfg.Self = proc.ID(i + 1)
		c, err := open(t, cfg).Dial(fabric.ConnectSpec{Peer: 0, Address: p.Address()})
		require.NoError(t, err)
		conns = append(conns, c)
	}
	obs := newObserver()
	p.Poll(&obs.Sink)
	require.Len(t, p.inbound, peers)
	quiet := func() {
		for range 3 * coolReads {
			require.Zero(t, p.Poll(&obs.Sink))
		}
		require.LessOrEqual(t, len(p.inbound), keptHot)
	}
	quiet()
	for i, c := range conns {
		require.False(t, p.Ready())
		require.True(t, c.TrySend(fabric.ClassTest, uint64(i), nil))
		require.True(t, p.Ready())
		require.Equal(t, 1, p.Poll(&obs.Sink))
	}
	require.Len(t, p.inbound, peers)
	quiet()
	for range 100 { // a slow frame, and one by the short path
		for i, c := range conns {
			require.True(t, c.TrySend(fabric.ClassTest, uint64(i), make([]byte, i*40)))
		}
		for range peers {
			p.Poll(&obs.Sink)
		}
	}
	require.Len(t, obs.got, peers+100*peers)
	quiet()
	conns[3].p.Depart()
	for len(obs.ends) == 0 {
		p.Poll(&obs.Sink)
	}
	require.False(t, p.conns[4].hot)
}

// Frames that race with the search for quiet rings arrive.
func TestQuietRingsRace(t *testing.T) {
	const peers, frames = 4, 20_000
	cfg := Config{MaxProcs: peers + 1, Lines: 64, BulkBytes: 16 << 10}
	p := open(t, cfg)
	obs := newObserver()
	done := make(chan struct{})
	for i := range peers {
		cfg.Self = proc.ID(i + 1)
		q := open(t, cfg)
		c, err := q.Dial(fabric.ConnectSpec{Peer: 0, Address: p.Address()})
		require.NoError(t, err)
		go func() {
			defer func() { done <- struct{}{} }()
			var nothing fabric.Sink
			nothing.Down = func(proc.ID, proc.Cause) {}
			nothing.Departed = func(proc.ID) {}
			for n := range frames {
				for !c.TrySend(fabric.ClassTest, uint64(n), nil) {
					q.Poll(&nothing)
				}
			}
		}()
	}
	for len(obs.got) < peers*frames {
		p.Poll(&obs.Sink)
		p.looks = coolReads // search each time
	}
	for range peers {
		<-done
	}
}
