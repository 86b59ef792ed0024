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

// working checks the operations of a communicator.
func working(c *banyan.Comm) error {
	sum := []int64{int64(c.Rank())}
	if err := banyan.Allreduce(c, sum, sum, banyan.Sum); err != nil {
		return err
	}
	if n := int64(c.Size()); sum[0] != n*(n-1)/2 {
		return fmt.Errorf("%s: sum of ranks %d among %d", c.Name(), sum[0], n)
	}
	flag, err := c.Agree(^(uint64(1) << c.Rank()))
	if err != nil || flag != ^(uint64(1)<<c.Size()-1) {
		return fmt.Errorf("%s: agree: %x, %w", c.Name(), flag, err)
	}
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	in := make([]byte, 50_000)
	st, err := c.Sendrecv(ranktest.Pattern(c.Rank(), len(in)), next, 3, in, banyan.AnySource, 3)
	if err != nil || st.Source != before || !slices.Equal(in, ranktest.Pattern(before, len(in))) {
		return fmt.Errorf("%s: round the ring: from %d, %w", c.Name(), st.Source, err)
	}
	node, err := c.SplitByNode(-c.Rank())
	if err != nil {
		return err
	}
	dup, err := node.Dup()
	if err != nil {
		return err
	}
	odd, err := c.Split(c.Rank()%2, 0)
	if err != nil {
		return err
	}
	return errors.Join(dup.Barrier(), odd.Barrier(), node.Free(), dup.Free(), odd.Free())
}

// For every set of failed ranks of up to six ranks, the survivors keep their order, if only one of
// them knew of the failures. The new communicator works, beside and after the old one.
func TestShrinkKeepsTheOrder(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for set := range 1<<n - 1 {
			s := &scene{n: n, seed: uint64(set), at: map[int]uint64{}}
			var dead, left []int
			for rank := range n {
				if set>>rank&1 != 0 {
					s.at[rank] = uint64(time.Millisecond)
					dead = append(dead, rank)
				} else {
					left = append(left, rank)
				}
			}
			require.NoError(t, s.run(func(w *banyan.World) error {
				if slices.Contains(dead, w.Comm().Rank()) {
					w.Sleep(time.Hour)
				}
				if w.Comm().Rank() == left[set%len(left)] {
					knows(w, w.Comm(), dead...)
				}
				c, err := w.Comm().Shrink()
				if err != nil {
					return err
				}
				switch got := ranktest.RanksIn(c.Group(), w.Comm()); {
				case !slices.Equal(got, left):
					return fmt.Errorf("left are %v, want %v", got, left)
				case c.GetFailed().Size() != 0 || c.IsRevoked() || c.IsInter():
					return errors.New("something is left of the old one")
				case c.Name() != "world.left1":
					return errors.New(c.Name())
				}
				if err := working(c); err != nil {
					return err
				}
				if again, err := c.Shrink(); err != nil || c.Compare(again) != banyan.Congruent {
					return fmt.Errorf("no rank has died since: %w", err)
				}
				return c.Free()
			}), "%d ranks, %v dead", n, dead)
		}
	}
}

// A failure that one rank got as an error of its own receive is left out, though no other rank knew
// of it.
func TestShrinkLeavesOutWhoWasReported(t *testing.T) {
	for seed := range uint64(ranktest.Often(60, 2000)) {
		r := rand.New(rand.NewPCG(seed, 31))
		n := 3 + r.IntN(9)
		victim, witness := r.IntN(n), r.IntN(n)
		if victim == witness {
			continue
		}
		s := &scene{n: n, seed: seed, at: map[int]uint64{victim: uint64(time.Millisecond)}}
		knew := 0
		require.NoError(t, s.run(func(w *banyan.World) error {
			c := w.Comm()
			switch c.Rank() {
			case victim:
				w.Sleep(time.Hour)
			case witness:
				_, err := c.Recv(nil, victim, 1)
				if err := ranktest.WantFailed(err, victim); err != nil {
					return err
				}
			default:
				w.Sleep(2 * time.Millisecond) // without progress: this rank does not know of the death
			}
			left, err := c.Shrink()
			if err != nil {
				return err
			}
			if left.Size() == n-1 && !slices.Contains(ranktest.RanksIn(left.Group(), w.Comm()), victim) {
				knew++
			}
			return nil
		}))
		require.Equal(t, n-1, knew, "seed %d: %d of %d", seed, victim, n)
	}
}

// ULFM 17.3.1: on a revoked communicator Agree and Shrink work and no other operation does. The new
// communicator is not revoked.
func TestRecoveryOnTheRevoked(t *testing.T) {
	for seed := range uint64(ranktest.Often(40, 1000)) {
		r := rand.New(rand.NewPCG(seed, 32))
		n := 2 + r.IntN(10)
		victim := r.IntN(n)
		s := &scene{n: n, seed: seed, at: map[int]uint64{victim: uint64(time.Millisecond)}}
		revoker := (victim + 1) % n
		require.NoError(t, s.run(func(w *banyan.World) error {
			c, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			under, flag := c.Iagree(0), uint64(5)
			if c.Rank() == victim {
				w.Sleep(time.Hour)
			}
			if c.Rank() == revoker {
				knows(w, c, victim)
				if err := c.Revoke(); err != nil {
					return err
				}
			}
			if _, err := under.Wait(); errors.Is(err, banyan.ErrRevoked) {
				return err
			}
			if c.Rank() != revoker {
				if _, err := c.Recv(nil, revoker, 1); !errors.Is(err, banyan.ErrRevoked) {
					return err
				}
			}
			flag, err = c.Agree(flag)
			if flag != 5 || ranktest.WantFailed(err, victim) != nil {
				return fmt.Errorf("agree: %d, %w", flag, err)
			}
			if err := c.Barrier(); !errors.Is(err, banyan.ErrRevoked) {
				return fmt.Errorf("barrier: %w", err)
			}
			left, err := c.Shrink()
			if err != nil {
				return err
			}
			if left.IsRevoked() || left.Size() != n-1 {
				return errors.New("the new one is revoked")
			}
			return errors.Join(c.Free(), working(left), left.Free())
		}), "seed %d", seed)
	}
}

// rebuild goes on with the survivors, as in the example of ULFM 17.3: a rank with an error revokes,
// and all shrink, until a barrier succeeds.
func rebuild(c *banyan.Comm) (*banyan.Comm, error) {
	for {
		err := c.Barrier()
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, banyan.ErrProcFailed) && !errors.Is(err, banyan.ErrRevoked) {
			return nil, err
		}
		if err := c.Revoke(); err != nil {
			return nil, err
		}
		left, err := c.Shrink()
		if err != nil {
			return nil, err
		}
		c = left
	}
}

// Two or three ranks die at every step of shrinks, the second and third while the others handle the
// first. In the end the survivors, and only they, have a working communicator.
func TestShrinkAndDeathAtEveryStep(t *testing.T) {
	const n = 6
	for step := uint64(1); step < 700; step += stride(11) {
		r := rand.New(rand.NewPCG(step, 34))
		s := &scene{n: n, seed: step, step: map[int]uint64{}}
		victims := r.Perm(n)[:2+r.IntN(2)]
		for i, rank := range victims {
			s.step[rank] = step + uint64(i*r.IntN(40))
		}
		var names []string
		require.NoError(t, s.run(func(w *banyan.World) error {
			c := w.Comm()
			if slices.Contains(victims, c.Rank()) {
				for {
					c, _ = rebuild(c) // it dies on the way, or idles until it dies
				}
			}
			for {
				var err error
				if c, err = rebuild(c); err != nil {
					return err
				}
				if c.Size() == n-len(victims) {
					break
				}
				w.Sleep(time.Millisecond)
			}
			names = append(names, c.Name())
			return working(c)
		}), "deaths at steps %v", s.step)
		require.Len(t, names, n-len(victims))
		require.Len(t, slices.Compact(names), 1, "%v", names)
	}
}

// A shrunken communicator inherits handler and profile, and no attributes, like others that are not
// duplicates.
func TestShrinkInheritsHandlerAndProfile(t *testing.T) {
	key := banyan.NewKey(banyan.CopyValue[int], nil)
	s := &scene{n: 3, at: map[int]uint64{1: uint64(time.Millisecond)}}
	require.NoError(t, s.run(func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 1 {
			w.Sleep(time.Hour)
		}
		told := 0
		c.SetErrorHandler(func(*banyan.Comm, error) { told++ })
		if err := errors.Join(banyan.SetAttr(c, key, 7), c.SetProfile(banyan.RTS)); err != nil {
			return err
		}
		knows(w, c, 1)
		left, err := c.Shrink()
		if err != nil || told != 0 {
			return fmt.Errorf("shrink: %d errors told, %w", told, err)
		}
		_, has := banyan.Attr(left, key)
		_, err = left.Recv(nil, 7, 1)
		if has || left.Profile() != banyan.RTS || !errors.Is(err, banyan.ErrArgument) || told != 1 {
			return fmt.Errorf("attribute %v, profile %v, %d told: %w", has, left.Profile(), told, err)
		}
		return nil
	}))
}
