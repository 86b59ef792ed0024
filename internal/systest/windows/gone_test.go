package windows

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// uses want something of rank 0, which peer is.
var uses = map[string]func(w *banyan.World, win *banyan.Window, peer banyan.Group) error{
	"lock": func(_ *banyan.World, win *banyan.Window, _ banyan.Group) error { return win.Lock(banyan.LockShared, 0) },
	"flush": func(_ *banyan.World, win *banyan.Window, _ banyan.Group) error {
		return errors.Join(win.Put([]byte{1}, 0, 0), win.Flush(0))
	},
	"fence": func(_ *banyan.World, win *banyan.Window, _ banyan.Group) error {
		return errors.Join(win.Put([]byte{1}, 0, 0), win.Fence())
	},
	"start": func(_ *banyan.World, win *banyan.Window, peer banyan.Group) error { return win.Start(peer) },
	"wait": func(_ *banyan.World, win *banyan.Window, peer banyan.Group) error {
		return errors.Join(win.Post(peer), win.Wait())
	},
	"test": func(w *banyan.World, win *banyan.Window, peer banyan.Group) error {
		err := win.Post(peer)
		for done := false; err == nil && !done; w.Sleep(time.Millisecond) {
			done, err = win.Test()
		}
		return err
	},
}

// A rank whose Free has found a failure has no window any more. Operations of living ranks on it end
// with an error, whether they start before or after.
func TestFreeAfterAFailureEndsOthers(t *testing.T) {
	const early, late = true, false
	for name, use := range uses {
		for _, when := range []bool{early, late} {
			t.Run(fmt.Sprintf("%s, early %v", name, when), func(t *testing.T) {
				dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
					c := w.Comm()
					if err := win.Fence(); err != nil || c.Rank() == 2 {
						return err
					}
					if c.Rank() == 0 {
						await(w, win)
						if when == early {
							w.Sleep(time.Second)
						}
						if err := failed("free", win.Free()); err != nil {
							return err
						}
						_, err := c.Sendrecv([]byte{1}, 1, 0, make([]byte, 1), 1, 0) // it stays until the other is through
						return err
					}
					peer, err := c.Group().Include(0)
					if err == nil && when == late {
						_, err = c.Recv(make([]byte, 1), 0, 0)
					}
					if err != nil {
						return err
					}
					err = use(w, win, peer) // early: a use that does not wait for rank 0 may succeed
					if !errors.Is(err, banyan.ErrDeparted) && !errors.Is(err, banyan.ErrProcFailed) && (err != nil || when == late) {
						return fmt.Errorf("%s: %v", name, err)
					}
					err = nil
					if when == early {
						_, err = c.Recv(make([]byte, 1), 0, 0)
					}
					return errors.Join(err, c.Send([]byte{1}, 0, 0))
				})
			})
		}
	}
}

// The same for a rank that is not connected to the one without a window, so that it has not been
// notified.
func TestFreeAfterAFailureEndsTheUnconnected(t *testing.T) {
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			lastDies(t, 24, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
				c := w.Comm()
				if err := win.Fence(); err != nil || c.Rank() == 23 {
					return err
				}
				await(w, win)
				switch c.Rank() {
				case 0:
					if err := failed("free", win.Free()); err != nil {
						return err
					}
					w.Sleep(time.Minute)
					_, err := c.Recv(nil, 11, 0) // rank 11 is through
					return err
				case 11: // no collective has connected it to rank 0
					w.Sleep(10 * time.Second)
					if n := w.PeerCounters(0); n.FramesSent+n.FramesReceived > 0 {
						return fmt.Errorf("connected: %+v", n)
					}
					peer, err := c.Group().Include(0)
					if err != nil {
						return err
					}
					mem, err := win.Shared(0)
					if mem != nil && name == "flush" { // it needs no other rank
						return errors.Join(err, c.Send(nil, 0, 0))
					}
					if err := use(w, win, peer); !errors.Is(err, banyan.ErrDeparted) && !errors.Is(err, banyan.ErrProcFailed) {
						return fmt.Errorf("%s: %v", name, err)
					}
					return errors.Join(err, c.Send(nil, 0, 0))
				}
				return nil
			})
		})
	}
}

// A creation may succeed at one rank and fail at another, as no agreement decides it. Operations of the
// one on the other, which has no window, end.
func TestCreationThatFailedElsewhere(t *testing.T) {
	uses := []func(win *banyan.Window, other int, peer banyan.Group) error{
		func(win *banyan.Window, other int, _ banyan.Group) error { return win.Lock(banyan.LockShared, other) },
		func(win *banyan.Window, _ int, peer banyan.Group) error { return win.Start(peer) },
		func(win *banyan.Window, _ int, peer banyan.Group) error {
			return errors.Join(win.Post(peer), win.Wait())
		},
	}
	mixed := make([]int, len(uses))
	for seed := range uint64(ranktest.Scaled(20, 10)) {
		for step := uint64(1); step <= 60; step++ {
			k := int(step+seed) % len(uses)
			err := banyan.Simulate(3, banyan.Simulation{Seed: seed, Faults: banyan.Faults(banyan.KillAtStep(2, step)),
				Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)}},
				func(w *banyan.World) error {
					c := w.Comm()
					win, err := c.AllocWindow(64)
					if c.Rank() == 2 {
						w.Sleep(5 * time.Second)
						return nil
					}
					other := 1 - c.Rank()
					mine, theirs := []byte{flagByte(err)}, []byte{0}
					if _, err := c.Sendrecv(mine, other, 0, theirs, other, 0); err != nil {
						return err
					}
					if mine[0] == 0 && theirs[0] == 1 {
						mixed[k]++
						peer, err := c.Group().Include(other)
						if err != nil {
							return err
						}
						if err := uses[k](win, other, peer); err == nil {
							return errors.New("a rank without a window has taken part")
						}
					}
					return exchange(c)
				})
			assert.NoError(t, err, "seed %d, step %d", seed, step)
		}
	}
	for k, n := range mixed {
		assert.Positive(t, n, "use %d: no creation had different outcomes", k)
	}
}

func flagByte(err error) byte {
	if err != nil {
		return 1
	}
	return 0
}

// A creation that the context of one rank has ended may still give the others a window. It is revoked.
func TestCreationThatOneRankHasLeft(t *testing.T) {
	assert.NoError(t, banyan.Simulate(3, banyan.Simulation{Seed: 3}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			_, err := c.WithContext(ranktest.EndsOnceAsked()).AllocWindow(64)
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("create: %w", err)
			}
			return c.Barrier()
		}
		w.Sleep(2 * time.Second)
		win, err := c.AllocWindow(64)
		if err == nil {
			err = win.Fence()
		}
		if !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("fence: %w", err)
		}
		return c.Barrier()
	}))
}

// A Start that fails because a validate has agreed on a member leaves no target in the epoch: the next
// Complete notifies none.
func TestStartThatFailsLeavesNoAccess(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		c := w.Comm()
		if err := win.Fence(); err != nil || c.Rank() == 2 {
			return err
		}
		await(w, win)
		if _, err := win.Validate(); err != nil {
			return err
		}
		if c.Rank() == 1 {
			peer, err := c.Group().Include(0)
			if err := errors.Join(err, win.Post(peer), exchange(c)); err != nil {
				return err
			}
			if done, err := win.Test(); done || err != nil {
				return fmt.Errorf("an epoch that has not started has ended: %v %w", done, err)
			}
			return errors.Join(exchange(c), win.Wait())
		}
		both, err := c.Group().Include(1, 2)
		if err := errors.Join(err, failed("start", win.Start(both)), win.Complete(), exchange(c), exchange(c)); err != nil {
			return err
		}
		peer, err := c.Group().Include(1)
		return errors.Join(err, win.Start(peer), win.Complete())
	})
}

// The same for a member that has departed.
func TestStartWithTheDeparted(t *testing.T) {
	assert.NoError(t, banyan.Simulate(3, banyan.Simulation{Seed: 3}, func(w *banyan.World) error {
		c := w.Comm()
		win, err := c.AllocWindow(64)
		if err == nil {
			err = win.Fence()
		}
		if err != nil || c.Rank() == 2 {
			return err
		}
		if c.Rank() == 1 {
			peer, err := c.Group().Include(0)
			if err := errors.Join(err, win.Post(peer), exchange(c)); err != nil {
				return err
			}
			if done, err := win.Test(); done || err != nil {
				return fmt.Errorf("an epoch that has not started has ended: %v %w", done, err)
			}
			return errors.Join(exchange(c), win.Wait())
		}
		both, err := c.Group().Include(1, 2)
		if err := errors.Join(err, win.Start(both)); !errors.Is(err, banyan.ErrDeparted) {
			return fmt.Errorf("start: %w", err)
		}
		peer, err := c.Group().Include(1)
		return errors.Join(err, win.Complete(), exchange(c), exchange(c), win.Start(peer), win.Complete())
	}))
}

// A departed origin ends no more than its own part of an exposure epoch: Post or Wait reports it once.
func TestPostForTheDeparted(t *testing.T) {
	for _, before := range []bool{true, false} {
		assert.NoError(t, banyan.Simulate(3, banyan.Simulation{Seed: 3}, func(w *banyan.World) error {
			c := w.Comm()
			win, err := c.AllocWindow(64)
			if err != nil || c.Rank() == 2 {
				w.Sleep(time.Second)
				return err
			}
			if before {
				w.Sleep(2 * time.Second)
			}
			peer, err := c.Group().Include(1 - c.Rank())
			if c.Rank() == 1 {
				return errors.Join(err, win.Start(peer), win.Complete(), win.Start(peer), win.Complete(), exchange(c))
			}
			both, wrong := c.Group().Include(1, 2)
			err = errors.Join(err, wrong, win.Post(both))
			if !before && err == nil {
				w.Sleep(2 * time.Second)
				_, err = win.Test()
			}
			if !errors.Is(err, banyan.ErrDeparted) {
				return fmt.Errorf("post or test: %w", err)
			}
			return errors.Join(win.Wait(), win.Post(peer), win.Wait(), exchange(c))
		}), "departed before Post: %v", before)
	}
}

// Many long operations that read are within the rules, though each takes several answers.
func TestManyLongOperations(t *testing.T) {
	assert.NoError(t, banyan.Simulate(2, banyan.Simulation{Seed: 3}, func(w *banyan.World) error { return longOperations(w.Comm()) }))
}

func TestManyLongOperationsOfProcesses(t *testing.T) {
	for name, env := range ranktest.JoinedBy(ranktest.ByFabric) {
		t.Run(name, func(t *testing.T) { ranktest.Succeed(t, 2, "long operations", append(env, ranktest.Steady...)...) })
	}
}

func longOperations(c *banyan.Comm) error {
	const n, each = 300, 400 << 10
	win, err := c.AllocWindow(each)
	if err != nil {
		return err
	}
	if err := win.Fence(); err != nil {
		return err
	}
	data, old := make([]byte, each), make([]byte, each)
	if c.Rank() == 0 {
		for i := range data {
			data[i] = 1
		}
		for k := range n {
			op := func() error { return banyan.GetAccumulate(win, data, old, 1, 0, banyan.AccSum) }
			if k%2 == 1 {
				op = func() error { return win.Get(old, 1, 0) }
			}
			if err := op(); err != nil {
				return err
			}
		}
		if err := win.Flush(1); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
	if err := win.Fence(); err != nil {
		return err
	}
	if want := byte(n / 2); c.Rank() == 1 && (win.Bytes()[0] != want || win.Bytes()[each-1] != want) {
		return fmt.Errorf("%d and %d, want %d", win.Bytes()[0], win.Bytes()[each-1], want)
	}
	return win.Free()
}
