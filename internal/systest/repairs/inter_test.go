package repairs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// twoSides makes an intercommunicator of the even and the odd ranks of the world.
func twoSides(w *banyan.World) (*banyan.Comm, error) {
	c := w.Comm()
	side, err := c.Split(c.Rank()%2, 0)
	if err != nil {
		return nil, err
	}
	return side.CreateInter(0, c, 1-c.Rank()%2, 9)
}

// Agree on an intercommunicator gives each side the AND of the contributions of the other side's
// living ranks. Errors are the same on both sides until both have acknowledged. Shrink keeps the
// living ranks of both.
func TestRecoveryOfTwoSides(t *testing.T) {
	for seed := range uint64(ranktest.Often(60, 2000)) {
		r := rand.New(rand.NewPCG(seed, 41))
		n := 4 + r.IntN(8)
		s := &scene{n: n, seed: seed, at: map[int]uint64{}}
		var dead []int
		for _, rank := range r.Perm(n) {
			alive := slices.DeleteFunc([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}[:n], func(o int) bool {
				return slices.Contains(dead, o) || o%2 != rank%2
			})
			if len(alive) > 1 && r.IntN(2) == 0 { // one of each side stays alive
				s.at[rank] = uint64(50 * time.Millisecond)
				dead = append(dead, rank)
			}
		}
		slices.Sort(dead)
		revoked := seed%2 == 0
		words := make(map[int]uint64)
		for rank := range n {
			words[rank] = r.Uint64() | r.Uint64()
		}
		require.NoError(t, s.run(func(w *banyan.World) error {
			me := w.Comm().Rank()
			and := func(side int, but []int) uint64 {
				all := ^uint64(0)
				for rank := range n {
					if rank%2 == side && !slices.Contains(but, rank) {
						all &= words[rank]
					}
				}
				return all
			}
			c, err := twoSides(w)
			if err != nil {
				return err
			}
			if all, err := c.Agree(words[me]); err != nil || all != and(1-me%2, nil) {
				return fmt.Errorf("agree among all: %x, %w", all, err)
			}
			if slices.Contains(dead, me) {
				w.Sleep(time.Hour)
			}
			w.Sleep(60 * time.Millisecond)
			// Some know of the deaths, others learn of them in the agreement
			if me == 0 || !slices.Contains(dead, 0) && me == 1 {
				knows(w, w.Comm(), dead...)
			}
			return mend(w, c, dead, revoked, words[me], and(1-me%2, dead))
		}), "seed %d: %d ranks, %v dead", seed, n, dead)
	}
}

// mend is the program of the living ranks of both sides.
func mend(w *banyan.World, c *banyan.Comm, dead []int, revoked bool, mine, want uint64) error {
	if len(dead) > 0 && revoked {
		if err := c.Revoke(); err != nil {
			return err
		}
	}
	for round := 0; ; round++ {
		all, err := c.Agree(mine)
		if err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		got := ranktest.RanksIn(c.GetFailed(), w.Comm())
		slices.Sort(got)
		if err == nil && round == 0 && len(dead) > 0 {
			return errors.New("no rank has acknowledged, and none gets an error")
		}
		if slices.Equal(got, dead) && all != want {
			return fmt.Errorf("agreement %d: %x, want %x", round, all, want)
		}
		if err == nil && slices.Equal(got, dead) {
			break
		}
		if err := c.FailureAck(); err != nil {
			return err
		}
		w.Sleep(100 * time.Millisecond)
	}
	left, err := c.Shrink()
	if err != nil {
		return err
	}
	for side, g := range map[int]banyan.Group{w.Comm().Rank() % 2: left.Group(),
		1 - w.Comm().Rank()%2: left.RemoteGroup()} {
		for rank := range w.Comm().Size() {
			if in := slices.Contains(ranktest.RanksIn(g, w.Comm()), rank); in != (rank%2 == side &&
				!slices.Contains(dead, rank)) {
				return fmt.Errorf("rank %d in what is left of side %d: %v", rank, side, in)
			}
		}
		if !slices.IsSorted(ranktest.RanksIn(g, w.Comm())) {
			return errors.New("the order is another one")
		}
	}
	if !left.IsInter() || left.IsRevoked() {
		return errors.New("what is left is no intercommunicator, or revoked")
	}
	all, err := left.Merge(w.Comm().Rank()%2 == 1)
	if err != nil {
		return err
	}
	return working(all)
}

// A side without living ranks: the AND over it is all ones, and Shrink returns no communicator.
func TestOneSideIsDead(t *testing.T) {
	for seed := range uint64(ranktest.Often(20, 500)) {
		n := 2 + int(seed)%7
		s := &scene{n: n, seed: seed, at: map[int]uint64{}}
		for rank := 1; rank < n; rank += 2 {
			s.at[rank] = uint64(50 * time.Millisecond)
		}
		require.NoError(t, s.run(func(w *banyan.World) error {
			c, err := twoSides(w)
			if err != nil {
				return err
			}
			if w.Comm().Rank()%2 == 1 {
				w.Sleep(time.Hour)
			}
			for c.RemoteGroupFailed().Size() < c.RemoteGroup().Size() {
				w.Sleep(time.Millisecond)
			}
			all, err := c.Agree(0)
			if !errors.Is(err, banyan.ErrProcFailed) || all != ^uint64(0) {
				return fmt.Errorf("agree: %x, %w", all, err)
			}
			if left, err := c.Ishrink().Wait(); err != nil || left != nil {
				return fmt.Errorf("shrink: %v, %w", left, err)
			}
			if left, err := c.Shrink(); err != nil || left != nil {
				return fmt.Errorf("shrink: %v, %w", left, err)
			}
			return c.Free()
		}), "seed %d", seed)
	}
}
