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

// oneEach puts each rank on a node of its own, so that long buffers go in segments over any tree.
func oneEach(cfg *sim.Config) { cfg.Topology.ProcsPerNode = 1 }

// Long reductions, begun or not, of which one rank has another length end at all ranks, at the root with an error unless its own buffer is empty, and leave nothing
// behind: what comes next has the right result.
func TestLongReductionsThatDoNotFit(t *testing.T) {
	lengths := []int{0, 40, 20_000, 600_000, 700_000}
	for _, n := range []int{3, 6} {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
			c := w.Comm()
			for _, tree := range []string{"auto", "binomial", "chain"} {
				if err := c.SetTree(tree); err != nil {
					return err
				}
				for i, usual := range lengths {
					for j, other := range lengths {
						odd, length := (i+j)%n, usual
						if c.Rank() == odd {
							length = other
						}
						for _, begun := range []bool{false, true} {
							if err := longMisfit(c, begun, length, (odd+1)%n, usual != 0, usual != other); err != nil {
								return fmt.Errorf("%s: reduce of %d and at rank %d %d, begun: %v: %w", tree, usual, odd, other, begun, err)
							}
						}
					}
				}
			}
			return nil
		}), "%d ranks", n)
	}
}

// longMisfit reduces so many bytes, and checks the error at the root where it has some, and what comes next.
func longMisfit(c *banyan.Comm, begun bool, length, root int, some, wrong bool) error {
	o, buf, n := oracle{c: c, begun: begun}, bytes.Repeat([]byte{1}, length), c.Size()
	err := o.do(func() error { return banyan.Reduce(c, buf, banyan.Sum, root, banyan.AnyOrder) },
		func() banyan.Request { return banyan.IReduce(c, buf, banyan.Sum, root, banyan.AnyOrder) })
	if c.Rank() == root && some && errors.Is(err, banyan.ErrArgument) != wrong {
		return fmt.Errorf("at the root: %w", err)
	}
	if c.Rank() == root && !wrong && !bytes.Equal(buf, bytes.Repeat([]byte{byte(n)}, length)) {
		return errors.New("wrong result")
	}
	sum := []uint32{uint32(c.Rank())}
	err = o.do(func() error { return banyan.Allreduce(c, sum, banyan.Sum) }, func() banyan.Request { return banyan.IAllreduce(c, sum, banyan.Sum) })
	if err != nil || sum[0] != uint32(n*(n-1)/2) {
		return fmt.Errorf("afterwards: %d: %w", sum[0], err)
	}
	return nil
}

// One rank has no operation for a long reduction, or one that needs the whole buffer. All of them return; where
// there is none, that one and the root with an error.
func TestLongReductionsThatDiffer(t *testing.T) {
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
		c := w.Comm()
		for i := range 3 * 2 * 2 * 2 * c.Size() {
			tree := []string{"auto", "binomial", "chain"}[i%3]
			if err := c.SetTree(tree); err != nil {
				return err
			}
			odd, none, order := i%c.Size(), i/3%2 == 0, banyan.Order(i/6%2)
			o, root, buf := oracle{c: c, begun: i/12%2 == 0}, (odd+1)%c.Size(), slices.Repeat([]uint32{1 << c.Rank()}, 200_000)
			op := banyan.Xor[uint32]
			if c.Rank() == odd {
				op = nil
			}
			err := o.do(func() error {
				if op == nil && !none {
					return c.ReduceBytes(bytes.Repeat([]byte{1 << c.Rank(), 0, 0, 0}, len(buf)), xor, root, order)
				}
				return banyan.Reduce(c, buf, op, root, order)
			}, func() banyan.Request {
				if op == nil && !none {
					return c.IReduceBytes(bytes.Repeat([]byte{1 << c.Rank(), 0, 0, 0}, len(buf)), xor, root, order)
				}
				return banyan.IReduce(c, buf, op, root, order)
			})
			at := c.Rank()
			if !errors.Is(err, banyan.ErrArgument) && (err != nil || none && (at == root || at == odd)) {
				return fmt.Errorf("%s, begun: %v, no operation: %v, %v, at rank %d: %w", tree, o.begun, none, order, odd, err)
			}
			if err == nil && at == root && !slices.Equal(buf, slices.Repeat([]uint32{1<<c.Size() - 1}, len(buf))) {
				return errors.New("wrong result")
			}
			sum := []int{1}
			if err := banyan.Allreduce(c, sum, banyan.Sum); err != nil || sum[0] != c.Size() {
				return fmt.Errorf("afterwards: %d: %w", sum[0], err)
			}
		}
		return c.Barrier()
	}))
}

// Data that look as the mark before a long message are data, whatever they are folded with.
func TestReductionOfWhatLooksLikeAMark(t *testing.T) {
	mark := []byte("banyan: a long message follows in another way; bytes:\x00\x00\x10\x00\x00\x00\x00\x00")
	require.Len(t, mark, 61)
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
		c := w.Comm()
		for i, tree := range []string{"auto", "chain", "auto", "chain"} {
			if err := c.SetTree(tree); err != nil {
				return err
			}
			o, buf := oracle{c: c, begun: i > 1}, slices.Clone(mark)
			if err := errors.Join(o.do(func() error { return c.ReduceBytes(buf, xor, 0, banyan.AnyOrder) },
				func() banyan.Request { return c.IReduceBytes(buf, xor, 0, banyan.AnyOrder) }), c.Barrier()); err != nil {
				return err
			}
			if c.Rank() == 0 && !bytes.Equal(buf, mark) { // five of them
				return fmt.Errorf("%s, begun: %v: %q", tree, o.begun, buf)
			}
		}
		return nil
	}))
}

// A rank dies somewhere in a long reduction, begun or not. All others learn of it, validate, and reduce again.
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
		tree := []string{"auto", "binomial", "chain"}[r.IntN(3)]
		uniform, begun := r.IntN(2) == 1, r.IntN(2) == 1
		s := banyan.Simulation{
			Seed: seed, Configure: oneEach,
			Faults:  func(s *sim.Sim) error { return s.Kill(proc.ID(victim), at) },
			Options: []banyan.Option{banyan.WithDesign(design), banyan.WithTree(tree), banyan.WithDetection(10*time.Millisecond, 50*time.Millisecond)},
		}
		require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error { return longReductions(w.Comm(), victim, uniform, begun) }),
			"seed %d: %d ranks, %v %s, %d dies at %v, begun: %v", seed, n, design, tree, victim, at, begun)
	}
}

// longReductions reduces until the victim dies, and once more without it.
func longReductions(c *banyan.Comm, victim int, uniform, begun bool) error {
	if uniform {
		if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
			return err
		}
	}
	const many = 140_000
	once := func(root int, alive func(rank int) bool) error {
		mine := slices.Repeat([]uint32{1 << c.Rank()}, many)
		want := uint32(0)
		for rank := range c.Size() {
			if alive(rank) {
				want |= 1 << rank
			}
		}
		o := oracle{c: c, begun: begun}
		err := o.do(func() error { return banyan.Reduce(c, mine, banyan.Xor, root, banyan.AnyOrder) },
			func() banyan.Request { return banyan.IReduce(c, mine, banyan.Xor, root, banyan.AnyOrder) })
		switch {
		case err == nil && c.Rank() == root && !slices.Equal(mine, slices.Repeat([]uint32{want}, many)):
			return errors.New("wrong result")
		case err != nil && uniform && mine[many-1] != 1<<c.Rank():
			return errors.New("the buffer has changed though the reduction has failed")
		}
		return err
	}
	var err error
	for i := 0; err == nil; i++ {
		err = once(i%c.Size(), func(int) bool { return true })
	}
	if !errors.Is(err, banyan.ErrProcFailed) {
		return err
	}
	failed, err := c.Validate()
	if err != nil || failed.Size() != 1 {
		return fmt.Errorf("validate: %d: %w", failed.Size(), err)
	}
	left := func(rank int) bool { return rank != victim }
	for root := range c.Size() {
		if err := once(root, left); err != nil {
			return err
		}
	}
	return nil
}
