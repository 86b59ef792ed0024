package collectives

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// The error range reaches ranks that do not communicate with the failed one: on a communicator with
// the range, on one derived from it, and, if the range is the universe, on one without the failed
// rank. All shrink, and the new communicators work although they have the same range.
func TestErrorRangeReachesTheUninvolved(t *testing.T) {
	for _, r := range []banyan.ErrorRange{banyan.ErrorsGroup, banyan.ErrorsUniverse} {
		for seed := range ranktest.Seeds(10) {
			require.NoError(t, ranktest.WithDetectedDeath(6, seed, func(w *banyan.World) error {
				c := w.Comm()
				d, err := c.Group().Include(0, 1, 2, 3, 4)
				if err != nil || c.SetErrorRange(r) != nil {
					return errors.Join(err, errors.New("no range"))
				}
				few, err := c.CreateGroup(d, 1)
				if err != nil || few.ErrorRange() != r {
					return errors.Join(err, errors.New("the range is not inherited"))
				}
				next := (c.Rank() + 1) % 5
				other := few.Irecv(nil, next, 1)
				if _, err := c.Recv(nil, next, 1); !errors.Is(err, banyan.ErrRevoked) || !c.IsRevoked() {
					return fmt.Errorf("a receive from a living rank: %w", err)
				} else if !banyan.IsFailure(err) || banyan.ClassOf(err) != banyan.ClassRevoked {
					return fmt.Errorf("class %v: %w", banyan.ClassOf(err), err)
				} else if r == banyan.ErrorsGroup && ranktest.WantFailed(err, 5) != nil {
					return fmt.Errorf("the failure is not named: %w", err)
				}
				if r == banyan.ErrorsUniverse {
					if _, err := other.Wait(); !errors.Is(err, banyan.ErrRevoked) {
						return fmt.Errorf("without the dead: %w", err)
					}
				} else if few.IsRevoked() {
					return errors.New("without the dead: revoked")
				}
				left, err := c.Shrink()
				if err != nil || left.Size() != 5 || left.ErrorRange() != r {
					return fmt.Errorf("shrink: %w", err)
				}
				return left.Barrier()
			}), "%v, seed %d", r, seed)
		}
	}
}

// ULFM 17.2.2: after an error of a collective at some rank, a barrier fails at all ranks, at each
// level of uniformity. The collective may have succeeded at others.
func TestBarrierAfterAnError(t *testing.T) {
	uneven := 0
	for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
		for seed := range ranktest.Seeds(80) {
			second := make([]error, 6)
			a := ranktest.WithKills(t, seed, 6, level, func(w *banyan.World) (*banyan.Comm, error) {
				first := collectives[[]string{"bcast", "reduce", "allgather", "bcast of much"}[seed%4]](w.Comm())
				second[w.Comm().Rank()] = w.Comm().Barrier()
				return nil, first
			})
			failed, err := a.Judge()
			if err != nil {
				uneven++
				failed = true
			}
			for rank := range 6 {
				if failed && a.Lived[rank] {
					require.ErrorIs(t, second[rank], banyan.ErrProcFailed, "seed %d, rank %d", seed, rank)
				}
			}
		}
	}
	ranktest.Occurred(t, uneven, "no broadcast succeeded at some ranks only")
}

// With a member known to have failed no communicator of all members is created. One of the living
// ranks can be, but not in the RTS profile.
func TestUniformCreationAfterAFailure(t *testing.T) {
	for _, profile := range []banyan.Profile{banyan.ULFM, banyan.RTS} {
		require.NoError(t, ranktest.WithDetectedDeath(4, 1, func(w *banyan.World) error {
			c := w.Comm()
			if _, err := c.Recv(nil, 3, 1); err == nil {
				return errors.New("the dead has sent")
			}
			ranktest.LingerUntil(w, 5*time.Second) // all know of the death
			if err := c.SetUniformity(banyan.UniformCreation); err != nil {
				return err
			}
			alive, err := c.Group().Exclude(3)
			if err != nil {
				return err
			}
			for name, create := range map[string]func() (*banyan.Comm, error){
				"dup": c.Dup, "split": func() (*banyan.Comm, error) { return c.Split(0, 0) },
				"create": func() (*banyan.Comm, error) { return c.Create(c.Group()) },
			} {
				if _, err := create(); ranktest.WantFailed(err, 3) != nil {
					return fmt.Errorf("%s: %w", name, ranktest.WantFailed(err, 3))
				}
			}
			d, err := c.Create(alive)
			if profile == banyan.RTS {
				return ranktest.WantFailed(err, 3)
			}
			if err == nil {
				err = d.Barrier()
			}
			return err
		}, banyan.WithProfile(profile)), "%v", profile)
	}
}

// A rank that meets an error elsewhere and then revokes, or recovers, keeps no rank waiting in a
// uniform operation: neither one that has yet to learn of the revocation nor one that has done its
// part.
func TestUniformOperationsEndWhenTheOthersRecover(t *testing.T) {
	for name, leave := range map[string]func(c *banyan.Comm) error{
		"shrink": func(c *banyan.Comm) error {
			left, err := c.Shrink()
			if err != nil {
				return err
			}
			return left.Barrier()
		},
		"agree":   func(c *banyan.Comm) error { _, err := c.Agree(1); return err },
		"nothing": func(*banyan.Comm) error { return nil },
		"free":    func(c *banyan.Comm) error { return c.Free() },
	} {
		for _, stay := range []string{"bcast", "barrier", "dup", "create group"} {
			for _, revokes := range []bool{true, false} {
				if !revokes && (name == "nothing" || name == "free" || stay != "dup") {
					continue // the others wait as they would without uniformity
				}
				for seed := range uint64(ranktest.Scaled(4, 2)) {
					require.NoError(t, abandoned(seed, leave, stay, revokes),
						"%s while others %s, revokes %v, seed %d", name, stay, revokes, seed)
				}
			}
		}
	}
}

// abandoned has rank 2 of 5 leave the others in an operation whose root waits for no one.
func abandoned(seed uint64, leave func(c *banyan.Comm) error, stay string, revokes bool) error {
	return banyan.Simulate(5, banyan.Simulation{Seed: seed,
		Configure: func(c *sim.Config) { c.MaxTime = fabric.Time(time.Minute) }}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
			return err
		}
		defer ranktest.LingerUntil(w, 20*time.Second)
		if c.Rank() == 2 {
			w.Sleep(time.Duration(seed) * 3 * time.Microsecond)
			if revokes {
				if err := c.Revoke(); err != nil {
					return err
				}
			}
			return leave(c)
		}
		switch stay {
		case "dup":
			_, err = c.Dup()
		case "create group":
			_, err = c.CreateGroup(c.Group(), 1)
		case "barrier":
			err = c.Barrier()
		default:
			err = c.Bcast(make([]byte, 8), 0)
		}
		if err == nil {
			return errors.New("succeeded without rank 2")
		}
		if revokes && !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("want ErrRevoked, got: %w", err)
		}
		if revokes && c.Bcast(make([]byte, 8), 0) == nil {
			return errors.New("a revoked communicator works")
		}
		return leave(c)
	})
}
