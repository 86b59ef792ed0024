package shm

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// asymmetricPair are two endpoints of which the first can never map the second, whose segment is
// not sealed, and the second could map the first.
func asymmetricPair(t *testing.T) (cannot, can *Provider) {
	t.Helper()
	return open(t, Config{Self: 0, MaxProcs: 2}), open(t, Config{Self: 1, MaxProcs: 2, Dir: "/dev/shm"})
}

func to(p *Provider, id proc.ID) fabric.ConnectSpec {
	return fabric.ConnectSpec{Peer: id, Address: p.Address()}
}

// A process that can never map its peer bars it, though the peer could map it; both get the same
// error from then on.
func TestNoPathOneWayIsNoPathBothWays(t *testing.T) {
	cannot, can := asymmetricPair(t)
	_, err := cannot.Dial(to(can, 1))
	require.ErrorIs(t, err, fabric.ErrNoPath)
	require.ErrorContains(t, err, "not sealed")
	for range 2 {
		_, err = can.Dial(to(cannot, 0))
		require.ErrorIs(t, err, fabric.ErrNoPath)
		require.ErrorContains(t, err, "cannot map")
		_, err = cannot.Dial(to(can, 1))
		require.ErrorIs(t, err, fabric.ErrNoPath)
	}
	require.Nil(t, can.Lookup(0))
	require.Nil(t, cannot.Lookup(1))
	e := newObserver()
	require.Zero(t, cannot.Poll(&e.Sink), "no peer has knocked")
}

// A process that finds a newcomer that it can never map reports it at once, and does not return
// ErrNoPath: the newcomer has a path.
func TestNewcomerThatCanNeverBeMapped(t *testing.T) {
	cannot, can := asymmetricPair(t)
	out, err := can.Dial(to(cannot, 0))
	require.NoError(t, err)
	require.True(t, out.TrySend(fabric.ClassTest, 7, nil))
	_, err = cannot.Dial(to(can, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, fabric.ErrNoPath)
	here, there := newObserver(), newObserver()
	for len(here.ends) == 0 || len(there.ends) == 0 {
		cannot.Poll(&here.Sink)
		can.Poll(&there.Sink)
	}
	require.Equal(t, []uint64{7}, here.got)
	require.Equal(t, proc.Unreachable, here.ends[0].Kind)
	require.Equal(t, proc.Unreachable, there.ends[0].Kind)
}

// In any order of the two calls, both have a path or neither has.
func TestAsymmetricPairConnectsToItself(t *testing.T) {
	count := map[bool]int{}
	for range 200 {
		cannot, can := asymmetricPair(t)
		var errs [2]error
		start := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { <-start; _, errs[0] = cannot.Dial(to(can, 1)) })
		wg.Go(func() { <-start; _, errs[1] = can.Dial(to(cannot, 0)) })
		close(start)
		wg.Wait()
		require.Error(t, errs[0])
		none := errs[1] != nil
		if none {
			require.ErrorIs(t, errs[1], fabric.ErrNoPath)
			require.ErrorIs(t, errs[0], fabric.ErrNoPath)
		} else {
			require.NotErrorIs(t, errs[0], fabric.ErrNoPath)
		}
		count[none]++
		require.NoError(t, cannot.Close())
		require.NoError(t, can.Close())
	}
	t.Logf("no path: %d of 200", count[true])
}
