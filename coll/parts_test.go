package coll

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/ft"
)

// meetInMemory has the ranks find out that they share memory.
func meetInMemory(c *rank) error {
	err := errors.Join(c.coll.Barrier(c.Comm, Call{}), c.coll.Barrier(c.Comm, Call{}))
	if err == nil && c.coll.segment == nil {
		return errors.New("by messages")
	}
	return err
}

// Blocks of any lengths go to the right ranks, where all ranks have few bytes, where some have more than memory has room for,
// and in place.
func TestBlocksOfAnyLength(t *testing.T) {
	for _, shape := range [][2]int{{4, 40}, {4, 9000}, {2, 40}, {2, 9000}} {
		n, most := shape[0], shape[1]
		atOnce(t, ranks(t, n, true, false), func(c *rank) error {
			r := rand.New(rand.NewPCG(1, uint64(most))) // the same at all ranks
			if err := meetInMemory(c); err != nil {
				return err
			}
			for call := range 60 {
				if err := alltoallv(c, r, call, most); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// alltoallv sends a random number of bytes from each rank to each.
func alltoallv(c *rank, r *rand.Rand, call, most int) error {
	n, me := c.Size(), c.Rank()
	from, to := make([][]byte, n), make([][]byte, n)
	for src := range n {
		for dst := range n {
			block := make([]byte, r.IntN(most))
			fill(block, call+10*src+dst)
			if src == me {
				from[dst] = block
			}
			if dst == me {
				to[src] = make([]byte, len(block))
			}
		}
	}
	if err := c.coll.Do(c.Comm, Call{}, Alltoallv, Args{From: BlocksOf(from), To: BlocksOf(to)}); err != nil {
		return err
	}
	for src, got := range to {
		want := make([]byte, len(got))
		if fill(want, call+10*src+me); !slices.Equal(want, got) {
			return fmt.Errorf("call %d, rank %d: not the %d bytes of rank %d", call, me, len(want), src)
		}
	}
	return nil
}

// A block that its receiver does not expect is an error there alone, and the next operation works.
func TestBlocksThatDoNotFit(t *testing.T) {
	atOnce(t, ranks(t, 4, true, false), func(c *rank) error {
		if err := meetInMemory(c); err != nil {
			return err
		}
		for _, odd := range []int{0, 3, 5, 30_000} {
			from, to := make([][]byte, 4), make([][]byte, 4)
			for i := range from {
				from[i], to[i] = make([]byte, 4), make([]byte, 4)
			}
			if c.Rank() == 2 {
				from[1] = make([]byte, odd)
			}
			err := c.coll.Do(c.Comm, Call{}, Alltoallv, Args{From: BlocksOf(from), To: BlocksOf(to)})
			if errors.Is(err, ft.ErrArgument) != (c.Rank() == 1) {
				return fmt.Errorf("rank %d, where rank 2 has sent %d bytes: %w", c.Rank(), odd, err)
			}
			if err := alltoallv(c, rand.New(rand.NewPCG(1, 1)), 0, 40); err != nil {
				return err
			}
		}
		return nil
	})
}

// Buffers keep their contents where some rank comes with another length, which all detect.
func TestBuffersOfOtherLengths(t *testing.T) {
	const n = 4
	atOnce(t, ranks(t, n, true, false), func(c *rank) error {
		if err := meetInMemory(c); err != nil {
			return err
		}
		for _, k := range []Kind{Alltoall, ReduceScatterBlock} {
			for _, odd := range []int{0, 1, 3, 9000} {
				size := 2
				if c.Rank() == 2 {
					size = odd
				}
				out := size
				if k == Alltoall {
					out *= n
				}
				a := Args{In: slices.Repeat([]byte{1}, n*size), Out: slices.Repeat([]byte{9}, out), Fold: Fold{Op: add, Unit: 1}}
				err := c.coll.Do(c.Comm, Call{}, k, a)
				if !errors.Is(err, ft.ErrArgument) || odd < 9000 && slices.ContainsFunc(a.Out, func(b byte) bool { return b != 9 }) {
					return fmt.Errorf("%v at rank %d, where rank 2 has blocks of %d bytes, has %v: %w", k, c.Rank(), odd, a.Out, err)
				}
				if err := c.coll.Barrier(c.Comm, Call{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Counts that differ are detected, and no rank waits, with lengths around the longest in memory: also counts of one block
// length, which need no sum to be divided, beside others of as many bytes less as a sum has.
func TestCountsAtTheEndOfMemory(t *testing.T) {
	const n = 4
	wide := sm.Wide(n)
	equal := func(total int) []int { return slices.Repeat([]int{total / n}, n) }
	skew := func(total int) []int {
		counts := equal(total)
		counts[0], counts[1] = counts[0]-1, counts[1]+1
		return counts
	}
	for _, odd := range []func(int) []int{equal, skew} {
		for _, others := range []func(int) []int{equal, skew} {
			atOnce(t, ranks(t, n, true, false), func(c *rank) error {
				if err := meetInMemory(c); err != nil {
					return err
				}
				for _, base := range []int{64, wide} {
					for _, more := range []int{-16, -12, -8, -4, 0, 4, 8} {
						for _, more2 := range []int{-16, -12, -8, -4, 0, 4, 8} {
							counts := others(base + more)
							if c.Rank() == 2 {
								counts = odd(base + more2)
							}
							same := slices.Equal(others(base+more), odd(base+more2))
							if err := scattered(c, counts, same, max(more, more2) <= -8 || base == 64); err != nil {
								return err
							}
						}
					}
				}
				return nil
			})
		}
	}
}

// scattered calls a ReduceScatter where all ranks have the same counts or not. InMemory: then all learn of it.
func scattered(c *rank, counts []int, same, inMemory bool) error {
	total := 0
	for _, count := range counts {
		total += count
	}
	a := Args{In: make([]byte, total), Out: make([]byte, counts[c.Rank()]), Fold: Fold{Op: add, Unit: 1}, Counts: counts}
	err := c.coll.Do(c.Comm, Call{}, ReduceScatter, a)
	if wrong := errors.Is(err, ft.ErrArgument); wrong && same || !wrong && err != nil || inMemory && wrong == same {
		return fmt.Errorf("rank %d with counts %v, all with the same: %v: %w", c.Rank(), counts, same, err)
	}
	return c.coll.Barrier(c.Comm, Call{})
}

// Ranks agree on the length of long buffers by a length header in memory. Lengths that do not fit are an error at all
// ranks, also where some have few bytes, or as many as a header has.
func TestHeadersInMemory(t *testing.T) {
	atOnce(t, ranks(t, 4, true, false), func(c *rank) error {
		for _, lengths := range [][2]int{{20_000, 20_000}, {8, 20_000}, {20_000, 8}, {headerLen, 20_000}, {20_000, headerLen},
			{20_000, 24_000}, {3000, 20_000}, {20_000, 3000}, {20_000, 0}, {headerLen, headerLen}} {
			if err := meetInMemory(c); err != nil {
				return err
			}
			mine := slices.Repeat([]byte{1}, lengths[0])
			if c.Rank() == 2 {
				mine = slices.Repeat([]byte{1}, lengths[1])
			}
			err := c.coll.Allreduce(c.Comm, Call{}, mine, mine, Fold{Op: add, Unit: 1})
			if same := lengths[0] == lengths[1]; errors.Is(err, ft.ErrArgument) == same || same && mine[len(mine)-1] != 4 {
				return fmt.Errorf("rank %d with lengths %v: %w", c.Rank(), lengths, err)
			}
		}
		return nil
	})
}

// With any bytes in a part, a block lies in it or there is none.
func FuzzBlockIn(f *testing.F) {
	good := []byte{7, 8, 9, 2, 0, 0, 0, 1, 0, 0, 0}
	f.Add(good, uint8(2), uint8(1))
	f.Add(good[:9], uint8(2), uint8(0))
	f.Add(slices.Repeat([]byte{255}, 16), uint8(4), uint8(3))
	f.Add([]byte{}, uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, part []byte, n, rank uint8) {
		ranks := 1 + int(n)
		block, length := blockIn(part, ranks, int(rank)%ranks)
		if length < 0 {
			require.Empty(t, block)
			return
		}
		require.Len(t, block, length)
		require.EqualValues(t, length, binary.LittleEndian.Uint32(part[len(part)-(ranks-int(rank)%ranks)*lengthBytes:]))
	})
}

// A rank that names a root that cannot be gets an error, and its next operation is that of the others.
func TestFlatWrongRoot(t *testing.T) {
	atOnce(t, ranks(t, 4, false, false), func(c *rank) error {
		if err := meetInMemory(c); err != nil {
			return err
		}
		for range 10 {
			buf, root, want := make([]byte, 8), 0, error(nil)
			if c.Rank() == 2 {
				root, want = 99, ft.ErrArgument
			}
			if err := c.coll.Bcast(c.Comm, Call{}, buf, root); !errors.Is(err, want) {
				return fmt.Errorf("bcast from %d at rank %d: %w", root, c.Rank(), err)
			}
			if err := c.coll.Allreduce(c.Comm, Call{}, buf, buf, Fold{Op: add}); err != nil {
				return err
			}
		}
		return nil
	})
}
