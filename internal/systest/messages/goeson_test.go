package messages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Operations that a caller has left continue: a barrier and a split that this rank does not wait for
// match those of the other ranks, a later collective waits for them, and the group without the late rank
// does not.
func TestCollectivesGoOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 2 {
			w.Sleep(time.Millisecond)
			cancel()
			w.Sleep(time.Millisecond)
			if err := errors.Join(c.Barrier(), sum(c, 3)); err != nil {
				return err
			}
			d, err := c.Split(0, 0)
			if err != nil {
				return err
			}
			return errors.Join(sum(c, 3), expect(d.Name(), "world.1"))
		}
		if err := c.WithContext(ctx).Barrier(); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("barrier: %w", err)
		}
		if _, err := c.WithContext(ctx).Split(0, 0); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("an ended context starts nothing: %w", err)
		}
		g, err := c.Group().Include(0, 1)
		if err != nil {
			return err
		}
		two, err := c.CreateGroup(g, 1)
		if err != nil {
			return err
		}
		if err := sum(two, 2); err != nil || w.Now() > 2*time.Millisecond {
			return fmt.Errorf("at %v the group is ready: %w", w.Now(), err)
		}
		if err := sum(c, 3); err != nil {
			return err
		}
		d, err := c.Split(0, 0)
		if err != nil {
			return err
		}
		return errors.Join(sum(c, 3), expect(d.Name(), "world.1"))
	}))
}

// A duplication that its caller has left while it waited for another operation takes its place among the
// communicators that are made from this one.
func TestDupThatWasLeftCounts(t *testing.T) {
	for name, of := range map[string]struct {
		level   banyan.Uniformity
		barrier bool // the duplication waits for it, else for the comparison of the debug setting
	}{
		"turn": {banyan.UniformNothing, true}, "uniform": {banyan.UniformCreation, true},
		"debug": {banyan.UniformNothing, false},
	} {
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		setting := banyan.Simulation{Options: []banyan.Option{banyan.WithDebug(!of.barrier)}}
		require.NoError(t, banyan.Simulate(3, setting, func(w *banyan.World) error {
			c := w.Comm()
			err := c.SetUniformity(of.level)
			if c.Rank() == 2 {
				for _, cancel := range []func(){cancelFirst, cancelSecond} {
					w.Sleep(time.Millisecond)
					cancel()
				}
				w.Sleep(time.Millisecond)
				if of.barrier {
					err = errors.Join(err, c.Barrier())
				}
				late, failed := c.Dup()
				err = errors.Join(err, failed, expect(late.Name(), "world.1"))
			} else {
				if left := c.WithContext(first).Barrier; of.barrier && !errors.Is(left(), context.Canceled) {
					return errors.New("the barrier was not left")
				}
				if _, left := c.WithContext(second).Dup(); !errors.Is(left, context.Canceled) {
					return fmt.Errorf("dup: %w", left)
				}
			}
			d, failed := c.Dup()
			if err = errors.Join(err, failed); err != nil {
				return err
			}
			return errors.Join(sum(d, 3), expect(d.Name(), "world.2"))
		}), name)
	}
}

// An agreement that follows a uniform barrier that its caller has left waits for it: both end with an agreement of
// the communicator, and other ranks call them in this order.
func TestAgreementsFollowUniformCollectives(t *testing.T) {
	for name, agree := range map[string]func(*banyan.Comm) error{
		"agree":    func(c *banyan.Comm) error { _, err := c.Agree(1); return err },
		"shrink":   func(c *banyan.Comm) error { _, err := c.Shrink(); return err },
		"validate": func(c *banyan.Comm) error { _, err := c.Validate(); return err },
		"multiple": func(c *banyan.Comm) error { _, err := banyan.ValidateMultiple(c); return err },
	} {
		for _, bound := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
				c, err := w.Comm().Dup()
				if err == nil {
					err = c.SetUniformity(banyan.UniformCollectives)
				}
				if err != nil {
					return err
				}
				view := c
				if bound {
					view = c.WithContext(t.Context())
				}
				if c.Rank() == 2 {
					w.Sleep(time.Millisecond)
					cancel()
					w.Sleep(time.Millisecond)
					err = c.Barrier()
				} else if left := c.WithContext(ctx).Barrier(); !errors.Is(left, context.Canceled) {
					err = fmt.Errorf("barrier: %w", left)
				}
				return errors.Join(err, agree(view), c.Barrier())
			}), "%s, bound: %v", name, bound)
		}
	}
}

// Operations that their caller has left continue after Free, also those that wait for others.
func TestFreeLeavesWhatGoesOn(t *testing.T) {
	for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
			c, err := w.Comm().Dup()
			if err == nil {
				err = c.SetUniformity(level)
			}
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				for _, cancel := range []func(){cancelFirst, cancelSecond} {
					w.Sleep(time.Millisecond)
					cancel()
				}
				w.Sleep(time.Millisecond)
				err = errors.Join(c.Barrier(), c.Barrier())
				flag, failed := c.Agree(3)
				return errors.Join(err, failed, expect(flag, 1), w.Comm().Barrier())
			}
			for _, ctx := range []context.Context{first, second} {
				if err := c.WithContext(ctx).Barrier(); !errors.Is(err, context.Canceled) {
					return fmt.Errorf("barrier: %w", err)
				}
			}
			agreed := c.Iagree(1)
			if err := c.Free(); err != nil {
				return err
			}
			flag, err := agreed.Wait()
			return errors.Join(err, expect(flag, 1), w.Comm().Barrier())
		}), "%v", level)
	}
}

// Collectives of the corrected design under way, and those that wait for them, end with the revocation of a
// communicator that this rank has freed.
func TestRevocationEndsWhatFreeLeaves(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{
		Options: []banyan.Option{banyan.WithDesign(banyan.Corrected)},
	}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			w.Sleep(time.Millisecond)
			return errors.Join(c.Revoke(), w.Comm().Barrier())
		}
		under := []banyan.Request{c.Ibcast(make([]byte, 8), 0), c.Ibarrier()}
		err = c.Free()
		for _, q := range under {
			if _, failed := q.Wait(); !errors.Is(failed, banyan.ErrRevoked) {
				err = errors.Join(err, fmt.Errorf("under way: %w", failed))
			}
		}
		return errors.Join(err, w.Comm().Barrier())
	}))
}

// The same between processes, where small collectives go through shared memory: calls with and without
// a context fit, and rank 1 comes after rank 0 has left.
func TestProcessesLeaveCollectives(t *testing.T) { ranktest.Succeed(t, 2, "left") }

func left(w *banyan.World) error {
	c := w.Comm()
	live, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range 8 {
		mine := c
		if i%2 == c.Rank() {
			mine = c.WithContext(live)
		}
		if err := errors.Join(mine.Barrier(), sum(mine, 2)); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if c.Rank() == 1 {
			if _, err := c.Recv(nil, 0, 1); err != nil {
				return err
			}
			if err := errors.Join(c.Barrier(), sum(c, 2)); err != nil {
				return fmt.Errorf("round %d, late: %w", i, err)
			}
			continue
		}
		soon, stop := context.WithTimeout(live, time.Millisecond)
		err := c.WithContext(soon).Barrier()
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("round %d: rank 1 is late: %w", i, err)
		}
		if strings.Contains(err.Error(), "not started") { // the time was over before the call
			err = errors.Join(c.Send(nil, 1, 1), c.Barrier())
		} else {
			err = c.Send(nil, 1, 1)
		}
		if err := errors.Join(err, sum(c, 2)); err != nil {
			return fmt.Errorf("round %d, after: %w", i, err)
		}
	}
	return nil
}

// A communicator that comes out of a creation that its caller has left is freed, and the next creation
// gives the next one at all ranks.
func TestLateCommunicatorsAreFreed(t *testing.T) {
	for name, create := range map[string]func(*banyan.Comm) (*banyan.Comm, error){
		"split":  func(c *banyan.Comm) (*banyan.Comm, error) { return c.Split(0, 0) },
		"shrink": (*banyan.Comm).Shrink, "dup": (*banyan.Comm).Dup,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
			c := w.Comm()
			if err := c.SetUniformity(banyan.UniformCreation); err != nil {
				return err
			}
			if c.Rank() == 0 {
				if d, err := create(c.WithContext(ctx)); d != nil || !errors.Is(err, context.Canceled) {
					return fmt.Errorf("%v: %w", d, err)
				}
			} else {
				w.Sleep(time.Millisecond)
				cancel()
				w.Sleep(time.Millisecond)
				d, err := create(c)
				if err != nil {
					return err
				}
				defer d.Free()
			}
			d, err := create(c)
			if err != nil {
				return err
			}
			return sum(d, 2)
		}), name)
	}
}

// sum checks a collective of n ranks.
func sum(c *banyan.Comm, n int) error {
	one := []int{1}
	if err := banyan.Allreduce(c, one, one, banyan.Sum); err != nil {
		return fmt.Errorf("sum on %s: %w", c.Name(), err)
	}
	return expect(one[0], n)
}

func expect[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}
