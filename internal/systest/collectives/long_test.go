package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// oneEach puts each rank on a node of its own, so that long buffers are segmented over any tree.
func oneEach(cfg *sim.Config) { cfg.Topology.ProcsPerNode = 1 }

// One rank calls a long reduction, blocking or not, with another length. The call returns at all
// ranks, at the root with an error unless its own buffer is empty, and the next operation has the
// right result.
func TestLongReductionsThatDoNotFit(t *testing.T) {
	lengths := []int{0, 5, 2_500, 75_000, 87_500} // in words
	ranks := []int{3, 6}
	if testing.Short() {
		ranks = ranks[:1]
	}
	for _, n := range ranks {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
			c := w.Comm()
			for i := range 2 * 3 * len(lengths) * len(lengths) {
				tree, k := []banyan.Tree{banyan.AutoTree, banyan.BinomialTree, banyan.ChainTree}[i/2%3], i/6
				usual, other, odd := lengths[k/len(lengths)], lengths[k%len(lengths)], k%n
				if err := c.SetTree(tree); err != nil {
					return err
				}
				o := ranktest.Collective{Kind: ranktest.Reduce, Number: 1, Root: (odd + 1) % n, Size: usual,
					Typed: true}
				if c.Rank() == odd {
					o.Size = other
				}
				if err := longMisfit(c, i%2 == 1, o, usual != 0, usual != other); err != nil {
					return fmt.Errorf("%s: reduce of %d words and at rank %d %d, non-blocking %v: %w",
						tree, usual, odd, other, i%2 == 1, err)
				}
			}
			return nil
		}), "%d ranks", n)
	}
}

// longMisfit reduces. It checks the error at the root if the root contributes data, and then the
// next operation.
func longMisfit(c *banyan.Comm, nonblocking bool, o ranktest.Collective, some, wrong bool) error {
	buf, want := o.Buffers(c)
	err := o.Do(c, buf, nonblocking)
	if c.Rank() == o.Root && some && errors.Is(err, banyan.ErrArgument) != wrong {
		return fmt.Errorf("at the root: %w", err)
	}
	if c.Rank() == o.Root && !wrong && !slices.Equal(buf, want) {
		return errors.New("wrong result")
	}
	return ranktest.Collective{Kind: ranktest.Allreduce, Size: 1}.Check(c, nonblocking)
}

// One rank passes no operation to a long reduction, or one that needs the whole buffer. The call
// returns at all ranks; without an operation, at that rank and at the root with an error.
func TestLongReductionsThatDiffer(t *testing.T) {
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
		c := w.Comm()
		for i := range 3 * 2 * 2 * 2 * c.Size() {
			tree := []banyan.Tree{banyan.AutoTree, banyan.BinomialTree, banyan.ChainTree}[i%3]
			if err := c.SetTree(tree); err != nil {
				return err
			}
			odd, none, order := i%c.Size(), i/3%2 == 0, banyan.Order(i/6%2)
			nonblocking, root, buf := i/12%2 == 0, (odd+1)%c.Size(), slices.Repeat([]uint32{1 << c.Rank()}, 200_000)
			op := banyan.Xor[uint32]
			if c.Rank() == odd {
				op = nil
			}
			err := do(nonblocking, func() error {
				if op == nil && !none {
					b := bytes.Repeat([]byte{1 << c.Rank(), 0, 0, 0}, len(buf))
					return c.Reduce(b, b, xor, root, order)
				}
				return banyan.Reduce(c, buf, buf, op, root, order)
			}, func() banyan.Request {
				if op == nil && !none {
					b := bytes.Repeat([]byte{1 << c.Rank(), 0, 0, 0}, len(buf))
					return c.Ireduce(b, b, xor, root, order)
				}
				return banyan.Ireduce(c, buf, buf, op, root, order)
			})
			at := c.Rank()
			if !errors.Is(err, banyan.ErrArgument) && (err != nil || none && (at == root || at == odd)) {
				return fmt.Errorf("%s, non-blocking %v, no operation: %v, %v, at rank %d: %w", tree, nonblocking,
					none, order, odd, err)
			}
			if err == nil && at == root && !slices.Equal(buf, slices.Repeat([]uint32{1<<c.Size() - 1}, len(buf))) {
				return errors.New("wrong result")
			}
			sum := []int{1}
			if err := banyan.Allreduce(c, sum, sum, banyan.Sum); err != nil || sum[0] != c.Size() {
				return fmt.Errorf("afterwards: %d: %w", sum[0], err)
			}
		}
		return c.Barrier()
	}))
}

// Data that equal the length header before a long message are data, combined
// with any others.
func TestReductionOfWhatLooksLikeAMark(t *testing.T) {
	mark := []byte("banyan: a long message follows in another way; bytes:\x00\x00\x10\x00\x00\x00\x00\x00")
	require.Len(t, mark, 61)
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
		c := w.Comm()
		for i, tree := range []banyan.Tree{banyan.AutoTree, banyan.ChainTree, banyan.AutoTree, banyan.ChainTree} {
			if err := c.SetTree(tree); err != nil {
				return err
			}
			nonblocking, buf := i > 1, slices.Clone(mark)
			if err := errors.Join(do(nonblocking, func() error { return c.Reduce(buf, buf, xor, 0, banyan.AnyOrder) },
				func() banyan.Request {
					return c.Ireduce(buf, buf, xor, 0,
						banyan.AnyOrder)
				}), c.Barrier()); err != nil {
				return err
			}
			if c.Rank() == 0 && !bytes.Equal(buf, mark) { // five of them
				return fmt.Errorf("%s, non-blocking %v: %q", tree, nonblocking, buf)
			}
		}
		return nil
	}))
}

// A rank dies during a long reduction, blocking or not. All others get the error, validate, and
// reduce again.
func TestLongReductionsAndDeaths(t *testing.T) {
	seeds := uint64(ranktest.Scaled(5, 2))
	if os.Getenv("BANYAN_LONG") != "" {
		seeds = 500
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 11))
		n := 3 + r.IntN(5)
		victim, at := r.IntN(n), fabric.Time(100_000+r.IntN(3_000_000))
		design := []banyan.Design{banyan.Rebalance, banyan.LookupAvoiding, banyan.Reroute}[r.IntN(3)]
		tree := []banyan.Tree{banyan.AutoTree, banyan.BinomialTree, banyan.ChainTree}[r.IntN(3)]
		uniform, nonblocking := r.IntN(2) == 1, r.IntN(2) == 1
		s := banyan.Simulation{
			Seed: seed, Configure: oneEach,
			Faults: func(s *sim.Sim) error { return s.Kill(proc.ID(victim), at) },
			Options: []banyan.Option{banyan.WithDesign(design), banyan.WithTree(tree),
				banyan.WithDetection(10*time.Millisecond, 50*time.Millisecond)},
		}
		require.NoError(t, banyan.Simulate(n, s,
			func(w *banyan.World) error { return longReductions(w.Comm(), victim, uniform, nonblocking) }),
			"seed %d: %d ranks, %v %s, %d dies at %v, non-blocking %v", seed, n, design, tree, victim, at, nonblocking)
	}
}

// longReductions reduces until the victim dies, and then among the living ranks.
func longReductions(c *banyan.Comm, victim int, uniform, nonblocking bool) error {
	if uniform {
		if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
			return err
		}
	}
	once := func(root int, failed ...int) error {
		o := ranktest.Collective{Kind: ranktest.Reduce, Number: 1, Root: root, Size: 70_000, Typed: true}
		buf, want := o.Buffers(c, failed...)
		before := slices.Clone(buf)
		err := o.Do(c, buf, nonblocking)
		switch {
		case err == nil && want != nil && !slices.Equal(buf, want):
			return errors.New("wrong result")
		case err != nil && uniform && !slices.Equal(buf, before):
			return errors.New("the buffer has changed though the reduction has failed")
		}
		return err
	}
	var err error
	for i := 0; err == nil; i++ {
		err = once(i % c.Size())
	}
	if !errors.Is(err, banyan.ErrProcFailed) {
		return err
	}
	failed, err := c.Validate()
	if err != nil || failed.Size() != 1 {
		return fmt.Errorf("validate: %d: %w", failed.Size(), err)
	}
	for root := range c.Size() {
		if err := once(root, victim); err != nil {
			return err
		}
	}
	return nil
}
