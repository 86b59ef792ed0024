package repairs

import (
	"cmp"
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

// Some ranks have called broadcasts, up to seven more than others, before they validate. The next
// broadcast matches at all of them, and no rank gets the data of an earlier one.
func TestUnequalCallsBeforeValidate(t *testing.T) {
	for seed := range uint64(ranktest.Scaled(60, 10)) {
		rng := rand.New(rand.NewPCG(seed, 20))
		n := 2 + rng.IntN(6)
		victim := 1 + rng.IntN(n-1)
		j := ranktest.SimulatedJob{N: n, Seed: seed, Kills: map[int]time.Duration{victim: time.Millisecond}}
		j.Opts = []banyan.Option{banyan.WithProfile(ranktest.BothProfiles[seed%2]),
			banyan.WithEagerLimit(int(seed%3) * 100)}
		calls := make([]int, n)
		for i := range calls {
			calls[i] = rng.IntN(8)
		}
		got := make([]string, n)
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			text := func(s string) []byte { return slices.Repeat([]byte(s), 80) }
			for range calls[c.Rank()] {
				if err := c.Bcast(text("old"), 0); err != nil && !errors.Is(err, banyan.ErrProcFailed) {
					return err
				}
			}
			if c.Rank() == victim {
				ranktest.Linger(w)
			}
			failed, err := c.Validate()
			if err != nil {
				return err
			}
			for failed.Size() == 0 { // the validate came before the death
				w.Sleep(time.Millisecond)
				if failed, err = c.Validate(); err != nil {
					return err
				}
			}
			buf := text("...")
			if c.Rank() == 0 {
				buf = text("new")
			}
			if err := c.Bcast(buf, 0); err != nil {
				return err
			}
			got[c.Rank()] = string(buf[:3])
			d, err := c.Dup()
			if err == nil {
				err = d.Barrier()
			}
			ranktest.Linger(w)
			return err
		}), "seed %d: calls %v, rank %d dies", seed, calls, victim)
		for rank, text := range got {
			require.True(t, rank == victim || text == "new", "seed %d: rank %d got %q", seed, rank, text)
		}
	}
}

// Ranks die at any moment of blocks of collectives, each with one validate at its end. The
// validates return the same ranks at all survivors. A block whose validate returns no new rank has
// succeeded with the same outcome at all ranks; other blocks are repeated by all.
func TestBlocksOfCollectivesUnderFailures(t *testing.T) {
	repeated := 0
	for seed := range uint64(ranktest.Scaled(150, 20)) {
		rng := rand.New(rand.NewPCG(seed, 10))
		n := 2 + rng.IntN(11)
		j := ranktest.SimulatedJob{N: n, Seed: seed, Kills: map[int]time.Duration{},
			Opts: []banyan.Option{banyan.WithProfile(ranktest.BothProfiles[seed%2])}}
		for range rng.IntN(n) {
			j.Kills[rng.IntN(n)] = time.Duration(rng.Int64N(int64(400 * time.Microsecond)))
		}
		histories := make([][]string, n)
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			for block := 0; block < 4; {
				sum := []int64{int64(c.Rank()) + 1}
				err := cmp.Or(c.Bcast(make([]byte, 600), block%n), banyan.Allreduce(c, sum, sum, banyan.Sum), c.Barrier())
				before := c.FailureGetAcked().Size()
				failed, verr := c.Validate()
				if verr != nil {
					return verr
				}
				history := &histories[c.Rank()]
				if *history = append(*history, fmt.Sprint(ranktest.RanksIn(failed, c))); failed.Size() > before {
					repeated++
					continue
				}
				if err != nil {
					return fmt.Errorf("no failure is new, and yet: %w", err)
				}
				*history = append(*history, fmt.Sprint("sum ", sum[0]))
				block++
			}
			ranktest.Linger(w)
			return nil
		}), "seed %d: %v", seed, j.Kills)
		var first []string
		for rank, h := range histories {
			if _, killed := j.Kills[rank]; !killed {
				first = firstOf(first, h)
				require.Equal(t, first, h, "seed %d: rank %d, %v", seed, rank, j.Kills)
			}
		}
	}
	require.NotZero(t, repeated)
}

func firstOf(a, b []string) []string {
	if a != nil {
		return a
	}
	return b
}

// Several communicators with common members, which each rank names in its own order, and some of
// them twice. Those with the same members share an agreement.
func TestValidateMultiple(t *testing.T) {
	for seed := range uint64(ranktest.Scaled(30, 6)) {
		j := ranktest.SimulatedJob{N: 7, Seed: seed,
			Kills: map[int]time.Duration{2: 3 * time.Millisecond,
				5: 3*time.Millisecond + time.Duration(seed)*20*time.Microsecond}}
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			dup, err := c.Dup()
			if err != nil {
				return err
			}
			back, err := c.Split(0, -c.Rank())
			if err != nil {
				return err
			}
			part, err := c.Split(c.Rank()%3, 0) // 0 3 6, 1 4, 2 5
			if err != nil {
				return err
			}
			low, err := c.Split(c.Rank()/4, 0) // 0 1 2 3, 4 5 6
			if err != nil {
				return err
			}
			comms := []*banyan.Comm{c, dup, back, part, low, part}
			rng := rand.New(rand.NewPCG(seed, uint64(c.Rank())))
			rng.Shuffle(len(comms), func(a, b int) { comms[a], comms[b] = comms[b], comms[a] })
			if c.Rank() == 2 || c.Rank() == 5 {
				ranktest.Linger(w)
			}
			w.Sleep(3 * time.Millisecond)
			for {
				failed, err := banyan.ValidateMultiple(comms...)
				if err != nil {
					return err
				}
				all := 0
				for i, o := range comms {
					if o == c || o == dup || o == back {
						all += failed[i].Size()
					}
					if failed[i].Compare(o.FailureGetAcked()) > banyan.Similar {
						return fmt.Errorf("rank %d: %s: %v", c.Rank(), o.Name(), ranktest.RanksIn(failed[i], o))
					}
				}
				if all == 6 {
					break
				}
			}
			for _, o := range []*banyan.Comm{c, dup, back} {
				dead, err := o.GetFailed().Translate([]int{0, 1}, o.Group())
				if err = errors.Join(err, ranktest.CheckCollectivesAndSplit(o, dead)); err != nil {
					return fmt.Errorf("%s: %w", o.Name(), err)
				}
			}
			err = errors.Join(part.Barrier(), low.Barrier())
			ranktest.Linger(w)
			return err
		}), "seed %d", seed)
	}
}

// A mismatch is an error at all ranks and changes nothing.
func TestValidateThatDoesNotFit(t *testing.T) {
	require.NoError(t, ranktest.SimulatedJob{N: 3,
		Kills: map[int]time.Duration{2: time.Millisecond}}.Run(func(w *banyan.World) error {
		c := w.Comm()
		d, err := c.Dup()
		if err != nil {
			return err
		}
		w.Sleep(2 * time.Second)
		if c.Rank() == 0 {
			_, err = banyan.ValidateMultiple(c, d)
		} else {
			_, err = c.Validate()
		}
		if !errors.Is(err, banyan.ErrArgument) || c.FailureGetAcked().Size() != 0 {
			return fmt.Errorf("other communicators: %w", err)
		}
		if c.Rank() == 0 {
			_, err = c.Agree(0)
		} else {
			_, err = c.Validate()
		}
		if !errors.Is(err, banyan.ErrArgument) || !errors.Is(c.Barrier(), banyan.ErrProcFailed) {
			return fmt.Errorf("another operation: %w", err)
		}
		if failed, err := c.Validate(); err != nil || failed.Size() != 1 {
			return fmt.Errorf("%d failed: %w", failed.Size(), err)
		}
		if none, err := banyan.ValidateMultiple(); err != nil || len(none) != 0 {
			return fmt.Errorf("of nothing: %v, %w", none, err)
		}
		if err := d.Free(); err != nil {
			return err
		}
		if _, err = banyan.ValidateMultiple(c, d); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("freed: %w", err)
		}
		err = c.Barrier() // and c was not left in an operation
		ranktest.Linger(w)
		return err
	}))
}

// Both sides of an intercommunicator agree. The lowest living ranks lead the creation of
// communicators. A failed leader is an error for all of its side.
func TestValidateOfBothSides(t *testing.T) {
	for seed := range uint64(4) {
		j := ranktest.SimulatedJob{N: 6, Seed: seed,
			Kills: map[int]time.Duration{0: 5 * time.Millisecond, 1: 5 * time.Millisecond, 4: 5 * time.Millisecond}}
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			side, err := c.Split(c.Rank()%2, 0) // 0 2 4, 1 3 5
			if err != nil {
				return err
			}
			inter, err := side.CreateInter(0, c, 1-c.Rank()%2, 7)
			if err != nil {
				return err
			}
			w.Sleep(3 * time.Second)
			if _, err := inter.Merge(false); !errors.Is(err, banyan.ErrProcFailed) {
				return fmt.Errorf("merge before the validate: %w", err)
			}
			failed, err := inter.Validate()
			if err != nil {
				return err
			}
			if got := ranktest.RanksIn(failed, c); !slices.Equal(got, []int{0, 1, 4}) {
				return fmt.Errorf("agreed on %v", got)
			}
			all, err := inter.Merge(c.Rank()%2 == 0)
			if err != nil {
				return err
			}
			if got := ranktest.RanksIn(all.Group(), c); !slices.Equal(got, []int{1, 3, 5, 0, 2, 4}) {
				return fmt.Errorf("merged %v", got)
			}
			if err := ranktest.CheckCollectivesAndSplit(all, []int{0, 3, 5}); err != nil {
				return fmt.Errorf("merged: %w", err)
			}
			if _, err := banyan.ValidateMultiple(c, side); err != nil {
				return err
			}
			if _, err := side.CreateInter(0, c, 3, 8); !errors.Is(err, banyan.ErrProcFailed) {
				return fmt.Errorf("led by the dead: %w", err)
			}
			leader, remote := 1, 2+(1-c.Rank()%2) // ranks 2 and 3
			again, err := side.CreateInter(leader, c, remote, 9)
			if err != nil {
				return err
			}
			_, err = again.Validate()
			if err == nil {
				_, err = again.Merge(true)
			}
			ranktest.Linger(w)
			return err
		}), "seed %d", seed)
	}
}

// Finalized ranks are excluded as well, and are no failures.
func TestValidateWithoutTheDeparted(t *testing.T) {
	require.NoError(t, ranktest.SimulatedJob{N: 4}.Run(func(w *banyan.World) error {
		c := w.Comm()
		if err := c.Barrier(); err != nil || c.Rank() == 1 {
			return err
		}
		w.Sleep(time.Second)
		failed, err := c.Validate()
		if err != nil || failed.Size() != 0 {
			return fmt.Errorf("%d failed: %w", failed.Size(), err)
		}
		err = ranktest.CheckCollectivesAndSplit(c, []int{1})
		if _, lost := c.Dup(); lost != nil {
			err = errors.Join(err, lost)
		}
		ranktest.Linger(w)
		return err
	}))
}
