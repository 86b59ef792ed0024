package collectives

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// differing are programs in which rank 2 of three calls another collective than the others.
var differing = []struct {
	name string
	body func(c *banyan.Comm, odd bool) error
	want []string
}{
	{"operation", func(c *banyan.Comm, odd bool) error {
		if odd {
			return c.Barrier()
		}
		return banyan.Bcast(c, make([]float64, 4), 0)
	}, []string{"called Barrier", "called Bcast of 32 bytes with root 0"}},
	{"root", func(c *banyan.Comm, odd bool) error {
		if odd {
			return c.Bcast(make([]byte, 4), 2)
		}
		return c.Bcast(make([]byte, 4), 0)
	}, []string{"with root 0", "with root 2"}},
	{"length", func(c *banyan.Comm, odd bool) error {
		if odd {
			return c.Bcast(make([]byte, 5), 0)
		}
		return c.Bcast(make([]byte, 4), 0)
	}, []string{"of 4 bytes", "of 5 bytes"}},
	{"order", func(c *banyan.Comm, odd bool) error {
		if odd {
			return errors.Join(c.Barrier(), c.Bcast(make([]byte, 4), 0))
		}
		return errors.Join(c.Bcast(make([]byte, 4), 0), c.Barrier())
	}, []string{"called Barrier", "called Bcast"}},
	{"blocking and not", func(c *banyan.Comm, odd bool) error {
		if odd {
			_, err := c.Ibarrier().Wait()
			return err
		}
		return c.Barrier()
	}, []string{"called Ibarrier", "called Barrier"}},
	{"non-blocking", func(c *banyan.Comm, odd bool) error {
		r := []banyan.Request{{}}
		if odd {
			r[0] = c.Ibcast(make([]byte, 8), 2)
		} else {
			r[0] = c.Ibarrier()
		}
		_, _, err := banyan.WaitAny(r)
		return err
	}, []string{"called Ibarrier", "called Ibcast of 8 bytes with root 2"}},
}

// TestDifferingCollectives: every rank finds the mistake, and none waits.
func TestDifferingCollectives(t *testing.T) {
	for _, d := range differing {
		t.Run(d.name, func(t *testing.T) {
			err := banyan.Simulate(3, banyan.Simulation{Options: []banyan.Option{banyan.WithDebug(true)}}, func(w *banyan.World) error {
				err := d.body(w.Comm(), w.Comm().Rank() == 2)
				if !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("got %v, want ErrArgument", err)
				}
				for _, want := range append(d.want, "rank 2", fmt.Sprintf("rank %d", w.Comm().Rank())) {
					if !strings.Contains(err.Error(), want) {
						return fmt.Errorf("%q is not in: %w", want, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRightCollectivesUnderDebug: right programs, drawn at random, run as without debug, and the buffer of a
// request that has ended with the death of a rank is the program's.
func TestRightCollectivesUnderDebug(t *testing.T) {
	t.Setenv("BANYAN_DEBUG", "on")
	ranktest.Succeed(t, 5, "non-blocking")
	ranktest.JobsWithDeaths(t, "non-blocking, one killed", 6, 1, ranktest.JobSeeds(1, 10)...)
}

// TestViewsUnderDebug: so do all collectives and a split, blocking and not, on a communicator with a context and
// without, with a failed rank and without.
func TestViewsUnderDebug(t *testing.T) {
	debug := banyan.WithDebug(true)
	for _, bound := range []bool{false, true} {
		check := func(c *banyan.Comm, failed ...int) error {
			view := c
			if bound {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				view = c.WithContext(ctx)
			}
			for kind := range ranktest.CollectiveKinds {
				o := ranktest.Collective{Kind: kind, Number: int(kind), Size: 3, Typed: true}
				if err := errors.Join(o.Check(view, true, failed...), o.Check(view, false, failed...)); err != nil {
					return err
				}
			}
			return ranktest.CheckCollectivesAndSplit(view, failed)
		}
		t.Run(fmt.Sprintf("context %v", bound), func(t *testing.T) {
			simulated := banyan.Simulation{Options: []banyan.Option{debug}}
			if err := banyan.Simulate(5, simulated, func(w *banyan.World) error { return check(w.Comm()) }); err != nil {
				t.Error(err)
			}
			if err := ranktest.WithDeath(5, func(c *banyan.Comm) error {
				if err := ranktest.BarrierUntilError(c); !errors.Is(err, banyan.ErrProcFailed) {
					return fmt.Errorf("barrier: %w", err)
				}
				if _, err := c.Validate(); err != nil {
					return err
				}
				return check(c, 4)
			}, debug); err != nil {
				t.Error(err)
			}
		})
	}
}
