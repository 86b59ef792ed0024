package topologies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/topology"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Neighbours of a failed rank get an error that names it, the others their data. The topology names it as
// before; after a validate it is blank.
func TestFailedNeighbour(t *testing.T) {
	for _, profile := range []banyan.Profile{banyan.ULFM, banyan.RTS} {
		require.NoError(t, ranktest.WithDetectedDeath(6, 3, func(w *banyan.World) error {
			g, err := ring(w, profile)
			if err != nil {
				return err
			}
			me := g.Comm().Rank()
			for len(g.Comm().FailedRanks()) == 0 {
				w.Sleep(10 * time.Millisecond)
				_, _, _ = g.Comm().Iprobe(me, 99)
			}
			err = topology.Alltoall(g, []int{me, me}, make([]int, 2))
			var failed *banyan.ProcFailedError
			switch {
			case me == 0 || me == 4:
				require.ErrorAs(t, err, &failed)
				require.Equal(t, []int{5}, failed.Ranks)
				require.ErrorContains(t, err, "NeighborAlltoall")
			case profile == banyan.ULFM:
				require.NoError(t, err, "rank %d", me)
			}
			if _, err := g.Comm().Validate(); err != nil {
				return err
			}
			s := make(system, 6)
			for rank := range s {
				n := []int{(rank + 5) % 6, (rank + 1) % 6}
				s[rank] = banyan.Neighborhood{Sources: n, Dests: n, Opposite: true}
			}
			for variant := range 12 {
				x := exchange{variant&1 == 1, variant&2 == 2, 30, variant, variant / 4}
				if err := x.check(g, s, 5); err != nil {
					return err
				}
			}
			source, dest, err := g.Shift(0, 1)
			require.NoError(t, err)
			require.Equal(t, []int{(me + 5) % 6, (me + 1) % 6}, []int{source, dest}, "Shift skips no blank rank (FT-MPI)")
			return stillNamed(g)
		}), "%v", profile)
	}
}

// ring is one of all ranks.
func ring(w *banyan.World, profile banyan.Profile) (*topology.Cart, error) {
	if err := w.Comm().SetProfile(profile); err != nil {
		return nil, err
	}
	return topology.NewCart(w.Comm(), []int{w.Comm().Size()}, []bool{true}, false)
}

// stillNamed makes topologies of a communicator with a blank rank, the last: it is named as others are, and
// exchanges leave it out.
func stillNamed(g *topology.Cart) error {
	c := g.Comm()
	n, me := c.Size(), c.Rank()
	edges := make([][]int, n)
	for i := range edges {
		edges[i] = []int{(i + n - 1) % n, (i + 1) % n}
	}
	for _, reorder := range []bool{false, true} {
		again, err := topology.NewGraph(c, edges, reorder)
		if err != nil {
			return err
		}
		got := []int{-1, -1}
		if err := topology.Allgather(again, []int{me}, got); err != nil {
			return err
		}
		want := slices.Clone(edges[me])
		for i, rank := range want {
			if rank == n-1 {
				want[i] = -1
			}
		}
		all, err := again.Neighbors(n - 1)
		if err != nil || !slices.Equal(got, want) || !slices.Equal(all, edges[n-1]) {
			return fmt.Errorf("rank %d: got %v, want %v, neighbours %v: %w", me, got, want, all, err)
		}
		dist, err := topology.NewDistGraph(c, []topology.Edge{{From: me, To: n - 1}, {From: me, To: me}}, reorder)
		if err != nil {
			return err
		}
		if got := dist.Edges().Dests; !slices.Equal(got, []int{n - 1, me}) {
			return fmt.Errorf("rank %d sends to %v", me, got)
		}
		if err := topology.Allgather(dist, []int{me}, got[:1]); err != nil || got[0] != me {
			return fmt.Errorf("rank %d has %v: %w", me, got, err)
		}
	}
	return nil
}

// until makes exchanges until one fails, and revokes the communicator then. Successful ones are
// right.
func until(c *banyan.Comm, seed uint64, times int) error {
	var t topology.Topology
	t, err := random(c, seed)
	var s system
	if err == nil && t != nil {
		s, err = systemOf(t)
	}
	if t == nil && err == nil {
		return c.Barrier()
	}
	r := rand.New(rand.NewPCG(seed, 2))
	for i := 0; i < times && err == nil; i++ {
		x := exchange{r.IntN(2) == 0, r.IntN(2) == 0, []int{0, 1, 50, 5000}[r.IntN(4)], i, r.IntN(3)}
		err = x.check(t, s)
	}
	if err != nil && !banyan.IsFailure(err) {
		return err
	}
	if err != nil {
		_ = c.Revoke()
		if t != nil {
			_ = t.Comm().Revoke()
		}
		return err
	}
	return c.Barrier()
}

// Ranks die at any point of making topologies and of exchanges: no rank waits for ever, and each has the right
// data or an error.
func TestDeathsAmongNeighbours(t *testing.T) {
	failed := atomic.Int64{}
	for seed := range ranktest.Seeds(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := 2 + r.IntN(6)
		j := ranktest.SimulatedJob{N: n, Seed: seed, Kills: map[int]time.Duration{
			r.IntN(n): time.Duration(r.IntN(2000)) * time.Microsecond,
		}}
		require.NoError(t, j.Run(func(w *banyan.World) error {
			err := until(w.Comm(), seed, 60)
			if err == nil {
				return nil
			}
			if !banyan.IsFailure(err) {
				return err
			}
			failed.Add(1)
			_ = w.Comm().Revoke()
			left, err := w.Comm().Shrink()
			if err != nil {
				return err
			}
			ranktest.Linger(w)
			return several(left, seed, 1)
		}), "seed %d", seed)
	}
	ranktest.Occurred(t, int(failed.Load()), "no rank has met a death")
}

// killedRank is a real process, one of which is killed in an exchange.
func killedRank(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 5))
	dies := r.IntN(w.Comm().Size())
	g, err := topology.NewCart(w.Comm(), []int{w.Comm().Size()}, []bool{true}, false)
	if err != nil {
		return err
	}
	s, err := systemOf(g) // which fails where others know of the death and have revoked before it ends here
	if w.Comm().Rank() == dies && err == nil {
		var step atomic.Int64
		ranktest.KillSelfAt(&step, 1, r.IntN(1000))
		step.Store(1)
	}
	for i := 0; err == nil; i++ { // until it is killed, or knows
		x := exchange{i%2 == 0, i%3 == 0, []int{1, 100, 20_000}[i%3], i, i % 3}
		err = x.check(g, s)
	}
	if !banyan.IsFailure(err) {
		return err
	}
	if err := g.Comm().Revoke(); err != nil {
		return err
	}
	left, err := g.Comm().Shrink()
	if err != nil {
		return err
	}
	return several(left, seed, 3)
}

func TestExchangesAndSIGKILL(t *testing.T) {
	ranktest.JobsWithDeaths(t, "neighbours, one killed", 5, 1, ranktest.JobSeeds(1, 6)...)
}

// A revocation ends an exchange that waits, and so does a context, which leaves it under way.
func TestExchangesEnd(t *testing.T) {
	for _, way := range []string{"revoke", "context"} {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
			g, err := topology.NewCart(w.Comm(), []int{3}, []bool{true}, false)
			require.NoError(t, err)
			if g.Comm().Rank() == 2 { // it does not take part
				w.Sleep(time.Second)
				if cancel(); way == "revoke" {
					require.NoError(t, g.Comm().Revoke())
				}
				w.Sleep(time.Second)
				return w.Comm().Barrier()
			}
			err = topology.Alltoall(g.WithContext(ctx), []int{1, 2}, []int{3, 4})
			if way == "revoke" {
				err = topology.Alltoall(g, []int{1, 2}, []int{3, 4})
				require.ErrorIs(t, err, banyan.ErrRevoked)
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			require.NoError(t, w.Comm().Barrier())
			return errors.Join(g.Comm().Revoke())
		}), way)
		cancel()
	}
}
