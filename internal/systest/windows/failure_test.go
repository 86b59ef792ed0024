package windows

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// dying runs body on three simulated ranks, of which rank 2 leaves with an error after its part.
func dying(t *testing.T, profile banyan.Profile, body func(w *banyan.World, win *banyan.Window) error) {
	lastDies(t, 3, profile, body)
}

// lastDies is dying of the last of some ranks.
func lastDies(t *testing.T, ranks int, profile banyan.Profile, body func(w *banyan.World, win *banyan.Window) error) {
	for i, reach := range reaches {
		t.Run(fmt.Sprint(i), func(t *testing.T) { lastDiesOn(t, reach, ranks, profile, body) })
	}
}

func lastDiesOn(t *testing.T, reach func(*sim.Config), ranks int, profile banyan.Profile,
	body func(w *banyan.World, win *banyan.Window) error,
) {
	errDies := errors.New("dies")
	err := banyan.Simulate(ranks, banyan.Simulation{Seed: 3, Configure: reach, Options: []banyan.Option{banyan.WithProfile(profile),
		banyan.WithDetection(200*time.Millisecond, time.Second)}},
		func(w *banyan.World) error {
			win, err := w.Comm().AllocWindow(64, banyan.WithNotices(1))
			if err != nil {
				return err
			}
			if err := body(w, win); err != nil || w.Comm().Rank() != ranks-1 {
				return err
			}
			return errDies
		})
	assert.ErrorIs(t, err, errDies)
	assert.NotContains(t, fmt.Sprint(err), "sim:", "a rank waits for ever")
	for rank := range ranks - 1 {
		assert.NotContains(t, fmt.Sprint(err), fmt.Sprintf("rank %d:", rank))
	}
}

func await(w *banyan.World, win *banyan.Window) {
	for win.Failed().Size() == 0 {
		w.Sleep(100 * time.Millisecond)
	}
}

// exchange is a barrier of ranks 0 and 1.
func exchange(c *banyan.Comm) error {
	_, err := c.Sendrecv(nil, 1-c.Rank(), 9, nil, 1-c.Rank(), 9)
	return err
}

func failed(what string, err error) error {
	if !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// S1-22: the synchronisation that needs the failed rank reports, operations do not; later calls of any
// kind do.
func TestSynchronisationReports(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		if err := win.Fence(); err != nil || w.Comm().Rank() == 2 {
			return err
		}
		await(w, win)
		if err := errors.Join(win.Put(make([]byte, 8), 2, 0), win.Put(make([]byte, 8), 0, 0)); err != nil {
			return err
		}
		return errors.Join(failed("fence", win.Fence()), failed("put", win.Put(make([]byte, 8), 0, 0)),
			failed("lock", win.Lock(banyan.LockShared, 0)), failed("notice", win.WaitNotice(0, 1)))
	})
}

// S1-23, S1-24: the epoch completes. Puts of living ranks to living ones are complete when the
// failed synchronisation returns, and nothing else has changed.
func TestEpochCompletesDespiteAFailure(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		c := w.Comm()
		me := c.Rank()
		others := c.Group()
		if me == 2 {
			return nil
		}
		if me == 1 {
			peer, err := others.Include(0)
			if err != nil {
				return err
			}
			if err := win.Post(peer); err != nil {
				return err
			}
			if err := win.Wait(); err != nil || win.Bytes()[8] != 7 || win.Bytes()[0] != 0 {
				return fmt.Errorf("%v: %w", win.Bytes()[:16], err)
			}
			return nil
		}
		peer, err := others.Include(1)
		if err != nil {
			return err
		}
		if err := errors.Join(win.Start(peer), win.Put([]byte{7}, 1, 8)); err != nil {
			return err
		}
		await(w, win)
		return errors.Join(win.Complete(), failed("fence", win.Fence()))
	})
}

// S1-24: Start with a failed member fails, and the living target's Wait ends all the same.
func TestStartWithTheDead(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		c := w.Comm()
		if c.Rank() == 2 {
			return nil
		}
		await(w, win)
		if c.Rank() == 1 {
			peer, err := c.Group().Include(0)
			return errors.Join(err, win.Post(peer), win.Wait())
		}
		both, err := c.Group().Include(1, 2)
		return errors.Join(err, failed("start", win.Start(both)), failed("complete", win.Complete()))
	})
}

// S1-25, S1-26: a lock whose holder died is acquired, as the failed rank is not the target. One of the
// failed rank's memory is an error.
func TestLockOfTheDead(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		c := w.Comm()
		if c.Rank() == 2 {
			return errors.Join(lockedAgain(win, 0), c.Barrier())
		}
		if err := c.Barrier(); err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		for range 2 {
			err := errors.Join(win.Lock(banyan.LockExclusive, 0), win.Put([]byte{1}, 0, 0), win.Unlock(0))
			if err != nil {
				return err
			}
		}
		if _, err := c.Sendrecv(nil, 1-c.Rank(), 0, nil, 1-c.Rank(), 0); err != nil { // a target that finalizes has departed
			return err
		}
		await(w, win)
		return failed("lock", win.Lock(banyan.LockShared, 2))
	})
}

// S1-43: revoke ends waits at all ranks, and the failed group can be asked for.
func TestRevokedWindow(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		c := w.Comm()
		switch c.Rank() {
		case 0:
			await(w, win)
			if err := win.Revoke(); err != nil {
				return err
			}
		case 1:
			g, err := c.Group().Include(0)
			if err := errors.Join(err, win.Start(g)); !errors.Is(err, banyan.ErrRevoked) {
				return fmt.Errorf("start: %w", err)
			}
		default:
			return nil
		}
		for what, err := range map[string]error{
			"fence": win.Fence(), "put": win.Put(nil, 0, 0), "lock": win.Lock(banyan.LockShared, 0), "flush": win.FlushAll(),
		} {
			if !errors.Is(err, banyan.ErrRevoked) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		if r := win.FailedRanks(); !win.IsRevoked() || len(r) != 1 || r[0] != 2 {
			return fmt.Errorf("failed: %v", r)
		}
		if _, err := win.Validate(); err != nil || !win.IsRevoked() {
			return fmt.Errorf("validate: %w", err)
		}
		if err := win.Free(); !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("free: %w", err)
		}
		return nil
	})
}

// S4-34: under run-through stabilization any failure makes the window invalid at once. S4-11, S4-35:
// Validate makes it valid again, also under ULFM.
func TestValidateOfAWindow(t *testing.T) {
	for _, profile := range ranktest.BothProfiles {
		dying(t, profile, func(w *banyan.World, win *banyan.Window) error {
			c := w.Comm()
			me := c.Rank()
			if err := win.Fence(); err != nil {
				return err
			}
			if me == 2 {
				return win.Put([]byte{9}, 0, 40)
			}
			await(w, win)
			if profile == banyan.RTS {
				if err := failed("put", win.Put([]byte{9}, 0, 0)); err != nil {
					return err
				}
			}
			if err := failed("fence", win.Fence()); err != nil {
				return err
			}
			g, err := win.Validate()
			if err != nil || g.Size() != 1 {
				return fmt.Errorf("validate: %v, %w", g, err)
			}
			err = errors.Join(win.Fence(), win.Put([]byte{byte(me + 1)}, 1-me, 0), win.Put([]byte{1}, 2, 0), win.Fence())
			if err != nil || win.Bytes()[0] != byte(2-me) {
				return fmt.Errorf("%v after validate: %w", win.Bytes()[:8], err)
			}
			err = errors.Join(win.Lock(banyan.LockExclusive, 0), win.Unlock(0))
			if dead := win.Flush(2); (profile == banyan.RTS) != (dead == nil) {
				return fmt.Errorf("flush of the agreed: %w", dead)
			}
			return errors.Join(err, win.Fence(), win.Free())
		})
	}
}

// S1-23, S1-24: when a call that has met the failure returns, all operations with living ranks are
// complete, and their locks have been released.
func TestEpochThatFailsIsComplete(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		c := w.Comm()
		win.Bytes()[7] = byte(c.Rank() + 5)
		if err := win.Fence(); err != nil || c.Rank() == 2 {
			return err
		}
		await(w, win)
		if c.Rank() == 1 {
			return errors.Join(exchange(c), win.Lock(banyan.LockExclusive, 1), win.Unlock(1), exchange(c))
		}
		got := make([]byte, 1)
		err := errors.Join(lockedAgain(win, 1), win.Get(got, 1, 7), failed("lock", win.Lock(banyan.LockShared, 2)))
		if err != nil || got[0] != 6 {
			return fmt.Errorf("the get has not been completed: %v, %w", got, err)
		}
		return errors.Join(exchange(c), exchange(c)) // it departs when rank 1 is through
	})
}

// S1-43: a revocation ends requests and operations at once.
func TestRevocationEndsRequests(t *testing.T) {
	waited := func(r banyan.Request) func() error {
		return func() error { _, err := r.Wait(); return err }
	}
	for name, start := range map[string]func(win *banyan.Window, buf []byte) []func() error{
		"requests": func(win *banyan.Window, buf []byte) []func() error {
			return []func() error{waited(win.Rget(make([]byte, 1<<20), 1, 0)), waited(win.Rput(buf, 1, 0))}
		},
		"put": func(win *banyan.Window, buf []byte) []func() error {
			err := win.Put(buf, 1, 0)
			return []func() error{func() error { return errors.Join(err, win.Flush(1)) }}
		},
	} {
		err := banyan.Simulate(2, banyan.Simulation{Seed: 3}, func(w *banyan.World) error { return revokes(w, start) })
		assert.NoError(t, err, name)
	}
}

// revokes has rank 0 start operations on rank 1 that read a buffer, and revoke the window. The operations have ends.
func revokes(w *banyan.World, start func(win *banyan.Window, buf []byte) (ends []func() error)) error {
	c := w.Comm()
	win, err := c.AllocWindow(1 << 20)
	if err == nil {
		err = win.Fence()
	}
	if err != nil {
		return err
	}
	if c.Rank() == 1 {
		err := c.Barrier()
		w.Sleep(time.Second)
		if slices.Contains(win.Bytes(), 1) {
			return errors.New("an operation has used its buffer after its end")
		}
		return err
	}
	buf := make([]byte, 1<<20)
	ends := start(win, buf)
	if err := win.Revoke(); err != nil {
		return err
	}
	for _, end := range ends {
		if err := end(); !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("end: %w", err)
		}
	}
	for i := range buf {
		buf[i] = 1 // it is ours again
	}
	err = c.Barrier()
	w.Sleep(time.Second)
	return err
}

// Windows of a validated communicator work without the ranks that the validate has agreed on.
func TestWindowsAfterAValidate(t *testing.T) {
	for _, profile := range ranktest.BothProfiles {
		for _, end := range []error{nil, errors.New("dies")} {
			err := banyan.Simulate(4, banyan.Simulation{Seed: 3, Options: []banyan.Option{banyan.WithProfile(profile),
				banyan.WithDetection(200*time.Millisecond, time.Second)}}, func(w *banyan.World) error {
				c := w.Comm()
				if err := c.Barrier(); err != nil {
					return err
				}
				if c.Rank() == 1 {
					return end
				}
				w.Sleep(3 * time.Second)
				dead, err := c.Validate()
				if err != nil || (dead.Size() == 1) != (end != nil) {
					return fmt.Errorf("validate: %v, %w", dead, err)
				}
				err = windowWithoutRank1(c, profile == banyan.RTS && end != nil)
				ranktest.Linger(w)
				return err
			})
			want := "<nil>"
			if end != nil {
				want = "rank 1: dies"
			}
			assert.Equal(t, want, fmt.Sprint(err), profile)
		}
	}
}

// windowWithoutRank1 uses windows of a communicator whose rank 1 has ended. Null: operations on it do nothing.
func windowWithoutRank1(c *banyan.Comm, null bool) error {
	win, err := c.AllocWindow(64)
	if err != nil {
		return err
	}
	err = errors.Join(win.LockAll(), win.Put([]byte{7}, 0, c.Rank()), win.FlushAll(), win.UnlockAll(), win.Fence())
	if err != nil {
		return err
	}
	err = win.Lock(banyan.LockShared, 1)
	if ended := errors.Is(err, banyan.ErrDeparted) || errors.Is(err, banyan.ErrProcFailed); ended == null || (err == nil) != null {
		return fmt.Errorf("lock of the ended: %w", err)
	}
	if err := win.Free(); err != nil {
		return err
	}
	dynamic, err := c.NewDynamicWindow()
	return errors.Join(err, dynamic.Fence(), dynamic.Free())
}
