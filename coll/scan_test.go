package coll

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// compose is an operation on pairs of bytes a, b, the functions a·x + b, that is not commutative.
func compose(acc, in []byte) {
	for i := 0; i+1 < len(acc); i += 2 {
		acc[i], acc[i+1] = acc[i]*in[i], acc[i+1]*in[i]+in[i+1]
	}
}

// scanned is the fold of the buffers of so many ranks.
func scanned(ranks, length int) []byte {
	acc := scanBuffer(0, length)
	for rank := 1; rank < ranks; rank++ {
		compose(acc, scanBuffer(rank, length))
	}
	return acc
}

func scanBuffer(rank, length int) []byte {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(1 + 2*(rank+i/2%5) + i%2*i)
	}
	return b
}

// agreed is an agreement of ranks that do not fail.
type agreed struct{}

func (agreed) Outcome(_ *p2p.Comm, _ Kind, err error) error                     { return err }
func (agreed) Begin(_ *p2p.Comm, _ Kind, _ uint32, err error, done func(error)) { done(err) }

// Each algorithm of a scan folds the buffers of the ranks in their order, in place or not, and writes no buffer of a rank
// that has no result.
func TestScans(t *testing.T) {
	for _, n := range []int{1, 2, 3, 6} {
		for _, by := range []string{"doubling", "chain"} {
			table, err := choose.Parse("test", "scan * * * * "+by)
			require.NoError(t, err)
			all := ranks(t, n, true, false)
			for _, r := range all {
				r.coll.Table, r.coll.Agreement = table, agreed{}
			}
			atOnce(t, all, func(c *rank) error {
				for _, length := range []int{0, 100, 50_000} {
					for way := range 16 {
						if err := scanOnce(c, length, way&1 > 0, way&2 > 0, way&4 > 0, way&8 > 0); err != nil {
							return fmt.Errorf("%s of %d: way %d: %w", by, n, way, err)
						}
					}
				}
				return nil
			})
		}
	}
}

// scanOnce makes one scan and checks it.
func scanOnce(c *rank, length int, exclusive, inPlace, uniform, starts bool) error {
	in, k, below := scanBuffer(c.Rank(), length), Scan, c.Rank()+1
	if exclusive {
		k, below = Exscan, below-1
	}
	out := slices.Repeat([]byte{7}, length)
	if inPlace {
		out = in
	}
	want := slices.Clone(out)
	if below > 0 {
		want = scanned(below, length)
	}
	a, call := Args{In: in, Out: out, Fold: Fold{Op: compose, Unit: 2}}, Call{Uniform: uniform}
	var err error
	if starts {
		h := c.coll.Start(c.Comm, call, k, a)
		_, err = c.e.Wait(h)
	} else {
		err = c.coll.Do(c.Comm, call, k, a)
	}
	switch {
	case err != nil:
		return err
	case !slices.Equal(out, want):
		return fmt.Errorf("rank %d of %v of %d bytes: a wrong result", c.Rank(), k, length)
	case !inPlace && !slices.Equal(in, scanBuffer(c.Rank(), length)):
		return fmt.Errorf("rank %d of %v of %d bytes: its argument has changed", c.Rank(), k, length)
	}
	return nil
}

// Some rank learns of a length that differs, none waits, and the next scan works, also where the lengths go different ways.
func TestScansOfOtherLengths(t *testing.T) {
	const few, long, longer = 1000, 30_000, 40_000
	for _, n := range []int{5, 8} {
		for _, others := range []int{few, long} {
			for odd := n - 5; odd < 5; odd += 2 {
				all := ranks(t, n, true, false)
				for _, r := range all {
					r.coll.World.Crowded = true
				}
				var learned atomic.Int32 // errors of all ranks
				atOnce(t, all, func(c *rank) error {
					before := int32(0)
					for _, length := range []int{others, few + long - others, longer} {
						for _, k := range []Kind{Scan, Exscan} {
							mine := others
							if c.Rank() == odd {
								mine = length
							}
							b := make([]byte, mine)
							err := c.coll.Do(c.Comm, Call{}, k, Args{In: b, Out: b, Fold: Fold{Op: add, Unit: 1}})
							if errors.Is(err, ft.ErrArgument) {
								learned.Add(1)
							} else if err != nil {
								return err
							}
							if err := c.coll.Barrier(c.Comm, Call{}); err != nil {
								return err
							}
							now := learned.Load()
							if (now > before) != (length != others) {
								return fmt.Errorf("%v of %d: rank %d with %d bytes, the others with %d: %d errors", k, n, odd, length, others, now-before)
							}
							before = now
							err = errors.Join(c.coll.Barrier(c.Comm, Call{}), scanOnce(c, long, k == Exscan, false, false, false))
							if err != nil {
								return err
							}
						}
					}
					return nil
				})
			}
		}
	}
}
