package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// writing is a collective that writes into a buffer of its caller.
type writing struct {
	// before and after are what the buffer holds, for blocks of a size; after is nil where nothing is promised.
	before, after func(c *banyan.Comm, size int) []byte
	call          func(c *banyan.Comm, buf []byte) error
}

func xor(acc, in []byte) {
	for i := range acc {
		acc[i] ^= in[i]
	}
}

func mine(c *banyan.Comm, size int) []byte { return ranktest.Pattern(c.Rank(), size) }

func foldedAll(c *banyan.Comm, size int) []byte {
	all := make([]byte, size)
	for rank := range c.Size() {
		xor(all, ranktest.Pattern(rank, size))
	}
	return all
}

func gatheredAll(c *banyan.Comm, size int) (all []byte) {
	for rank := range c.Size() {
		all = append(all, ranktest.Pattern(rank, size)...)
	}
	return all
}

// first and middle are roots: that of the tree that folds, and of 6 ranks one that only gives there.
func first(*banyan.Comm) int    { return 0 }
func middle(c *banyan.Comm) int { return c.Size() / 2 }

// writings are all collectives that write.
var writings = map[string]*writing{
	"bcast": {mine, func(c *banyan.Comm, size int) []byte { return ranktest.Pattern(middle(c), size) },
		func(c *banyan.Comm, buf []byte) error { return c.Bcast(buf, middle(c)) }},
	"bcast of numbers": {mine, func(_ *banyan.Comm, size int) []byte { return ranktest.Pattern(0, size) },
		func(c *banyan.Comm, buf []byte) error { return banyan.Bcast(c, buf, first(c)) }},
	"reduce": {mine, foldedAt(middle), func(c *banyan.Comm, buf []byte) error { return c.ReduceBytes(buf, xor, middle(c)) }},
	"reduce of numbers": {mine, foldedAt(first), func(c *banyan.Comm, buf []byte) error {
		return banyan.Reduce(c, buf, func(a, b byte) byte { return a ^ b }, first(c))
	}},
	"allreduce": {mine, foldedAll, func(c *banyan.Comm, buf []byte) error { return c.AllreduceBytes(buf, xor) }},
	"allreduce of numbers": {mine, foldedAll, func(c *banyan.Comm, buf []byte) error {
		return banyan.Allreduce(c, buf, func(a, b byte) byte { return a ^ b })
	}},
	"allgather": {
		func(c *banyan.Comm, size int) []byte { return slices.Repeat([]byte{0xee}, size*c.Size()) }, gatheredAll,
		func(c *banyan.Comm, buf []byte) error { return c.AllgatherBytes(mine(c, len(buf)/c.Size()), buf) }},
	"allgather in place": {
		func(c *banyan.Comm, size int) []byte {
			all := slices.Repeat([]byte{0xee}, size*c.Size())
			copy(all[size*c.Rank():], mine(c, size))
			return all
		}, gatheredAll,
		func(c *banyan.Comm, buf []byte) error {
			block := len(buf) / c.Size()
			return banyan.Allgather(c, buf[block*c.Rank():][:block], buf)
		}},
}

// foldedAt is what a root has; of the others nothing is promised.
func foldedAt(root func(c *banyan.Comm) int) func(c *banyan.Comm, size int) []byte {
	return func(c *banyan.Comm, size int) []byte {
		if c.Rank() == root(c) {
			return foldedAll(c, size)
		}
		return nil
	}
}

// run calls it. Wrong tells of a buffer that is not as it should be.
func (o *writing) run(c *banyan.Comm, size int) (err, wrong error) {
	buf := o.before(c, size)
	err = o.call(c, buf)
	return err, o.check(c, buf, size, err)
}

// check compares a buffer with what it should hold after an outcome.
func (o *writing) check(c *banyan.Comm, buf []byte, size int, err error) error {
	want := o.before(c, size)
	if err == nil {
		want = o.after(c, size)
	}
	if want == nil || bytes.Equal(buf, want) {
		return nil
	}
	at := 0
	for buf[at] == want[at] {
		at++
	}
	return fmt.Errorf("rank %d: error %w, and byte %d of %d is %#x, not %#x", c.Rank(), err, at, len(buf), buf[at], want[at])
}

// S0-49: all living ranks have the result, or all have an error and their buffers as they were, whoever dies and whenever.
func TestUniformCollectivesLeaveBuffersAlone(t *testing.T) {
	marred := 0 // runs that fail without uniformity, and a buffer has changed
	for name, o := range writings {
		t.Run(name, func(t *testing.T) {
			failures := 0
			for seed := range ranktest.Seeds(30) {
				size := []int{8, 300, 90_000}[seed%3]
				for _, level := range []banyan.Uniformity{banyan.UniformCollectives, banyan.UniformCreation} {
					wrong := make([]error, 6)
					a := ranktest.WithKills(t, seed, 6, level, func(w *banyan.World) (_ *banyan.Comm, err error) {
						err, wrong[w.Comm().Rank()] = o.run(w.Comm(), size)
						return nil, err
					})
					if level != banyan.UniformCollectives {
						if errors.Join(wrong...) != nil {
							marred++
						}
						continue
					}
					require.NoError(t, errors.Join(wrong...), "seed %d", seed)
					failed, err := a.Judge()
					require.NoError(t, err, "seed %d", seed)
					if failed {
						failures++
					}
				}
			}
			ranktest.Occurred(t, failures, "none failed")
		})
	}
	ranktest.Occurred(t, marred, "the test shows nothing: no buffer changes without uniformity either")
}

// With members that are agreed to be gone as well: roots, and blocks that stay as they are.
func TestUniformCollectivesAmongTheLiving(t *testing.T) {
	for dead := range 5 {
		j := ranktest.SimulatedJob{N: 5, Kills: map[int]time.Duration{dead: time.Millisecond}}
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			failed, err := c.Validate()
			for ; err == nil && failed.Size() == 0; failed, err = c.Validate() {
				w.Sleep(time.Millisecond)
			}
			if err := errors.Join(err, c.SetUniformity(banyan.UniformCollectives)); err != nil {
				return err
			}
			err = ranktest.CheckCollectivesAndSplit(c, []int{dead})
			ranktest.Linger(w)
			return err
		}), "without rank %d", dead)
	}
}

// A rank that calls with another length than the others has all of them get ErrArgument, keep what they have, and go on.
func TestUniformCollectivesOfTwoLengths(t *testing.T) {
	for name, o := range writings {
		for odd := range 6 {
			for _, size := range []int{4, 12, 50_000} {
				require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
					c := w.Comm()
					if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
						return err
					}
					mine := 8
					if c.Rank() == odd {
						mine = size
					}
					err, wrong := o.run(c, mine)
					if !errors.Is(err, banyan.ErrArgument) || wrong != nil {
						return errors.Join(err, wrong, errors.New("want ErrArgument"))
					}
					err, wrong = o.run(c, 8)
					return errors.Join(err, wrong)
				}), "%s, rank %d with %d bytes", name, odd, size)
			}
		}
	}
}

// So does one whose own arguments do not fit each other, or are not there.
func TestUniformCollectivesWithWrongArguments(t *testing.T) {
	for name, calls := range map[string][2]func(c *banyan.Comm, buf []byte) error{
		"allreduce without operation": {
			func(c *banyan.Comm, buf []byte) error { return c.AllreduceBytes(buf, xor) },
			func(c *banyan.Comm, buf []byte) error { return c.AllreduceBytes(buf, nil) }},
		"reduce without operation": {
			func(c *banyan.Comm, buf []byte) error { return c.ReduceBytes(buf, xor, 2) },
			func(c *banyan.Comm, buf []byte) error { return c.ReduceBytes(buf, nil, 2) }},
		"allgather of a short block": {
			func(c *banyan.Comm, buf []byte) error { return c.AllgatherBytes(buf[:len(buf)/c.Size()], buf) },
			func(c *banyan.Comm, buf []byte) error { return c.AllgatherBytes(buf[:1], buf) }},
	} {
		for odd := range 6 {
			require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
					return err
				}
				call := calls[0]
				if c.Rank() == odd {
					call = calls[1]
				}
				buf := mine(c, 48)
				if err := call(c, buf); !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("want ErrArgument: %w", err)
				}
				if !bytes.Equal(buf, mine(c, 48)) {
					return errors.New("the buffer has changed")
				}
				return calls[0](c, buf)
			}), "%s at rank %d", name, odd)
		}
	}
}

// Without uniformity wrong lengths keep nobody waiting either, and no rank takes part of something for the whole.
func TestCollectivesOfTwoLengths(t *testing.T) {
	for name, o := range writings {
		for odd := range 6 {
			for _, size := range []int{4, 12} {
				errs := make([]error, 6)
				require.NoError(t, banyan.Simulate(6, banyan.Simulation{
					Configure: func(c *sim.Config) { c.MaxTime = fabric.Time(time.Minute) },
				}, func(w *banyan.World) error {
					c := w.Comm()
					mine := 8
					if c.Rank() == odd {
						mine = size
					}
					buf := o.before(c, mine)
					err := o.call(c, buf)
					if err == nil && c.Rank() != odd {
						if want := o.after(c, mine); want != nil && !bytes.Equal(buf, want) {
							return fmt.Errorf("rank %d has %x, want %x", c.Rank(), buf, want)
						}
					}
					errs[c.Rank()] = err
					return nil
				}), "%s, rank %d with %d bytes", name, odd, size)
				require.ErrorIs(t, errors.Join(errs...), banyan.ErrArgument, "%s, rank %d with %d bytes", name, odd, size)
			}
		}
	}
}
