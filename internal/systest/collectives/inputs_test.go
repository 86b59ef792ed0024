package collectives

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Reductions only read their input, for every length, tree and rank.
func TestReductionsKeepTheirInput(t *testing.T) {
	for _, tree := range []banyan.Tree{banyan.AutoTree, banyan.BinomialTree, banyan.ChainTree} {
		for _, n := range []int{1, 2, 5} {
			for _, length := range []int{1, 7, 3000, 100_000} {
				require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
					c := w.Comm()
					if err := c.SetTree(tree); err != nil {
						return err
					}
					return keepsInput(c, length)
				}), "tree %v, %d ranks, %d numbers", tree, n, length)
			}
		}
	}
}

func keepsInput(c *banyan.Comm, length int) error {
	root := c.Size() - 1
	mine := slices.Repeat([]int64{int64(c.Rank()) + 1}, length)
	send, sum := slices.Clone(mine), slices.Repeat([]int64{int64(c.Size() * (c.Size() + 1) / 2)}, length)
	type reduction func(recv []int64) error
	names := []string{"allreduce", "iallreduce", "reduce", "ireduce"}
	for i, call := range []reduction{
		func(recv []int64) error { return banyan.Allreduce(c, send, recv, banyan.Sum) },
		func(recv []int64) error { return lastOf(banyan.Iallreduce(c, send, recv, banyan.Sum).Wait()) },
		func(recv []int64) error {
			return banyan.Reduce(c, send, atRoot(c, root, recv), banyan.Sum, root, banyan.AnyOrder)
		},
		func(recv []int64) error {
			return lastOf(banyan.Ireduce(c, send, atRoot(c, root, recv), banyan.Sum, root).Wait())
		},
	} {
		name, recv := names[i], make([]int64, length)
		if err := errors.Join(call(recv), c.Barrier()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !slices.Equal(send, mine) {
			return fmt.Errorf("%s at rank %d has changed its input", name, c.Rank())
		}
		if has := i < 2 || c.Rank() == root; has && !slices.Equal(recv, sum) {
			return fmt.Errorf("%s at rank %d: %d…, want %d…", name, c.Rank(), recv[0], sum[0])
		}
	}
	return nil
}

func lastOf[T any](_ T, err error) error { return err }

func atRoot(c *banyan.Comm, root int, recv []int64) []int64 {
	if c.Rank() == root {
		return recv
	}
	return nil
}

// Slices of two lengths, and slices that overlap, are errors.
func TestInputsThatDoNotFit(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c, x := w.Comm(), make([]int64, 9)
		for name, err := range map[string]error{
			"lengths": banyan.Allreduce(c, x[:3], x[4:8], banyan.Sum),
			"overlap": banyan.Allreduce(c, x[:5], x[4:], banyan.Sum),
			"none":    banyan.Allreduce(c, x, nil, banyan.Sum),
		} {
			if !errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}))
}
