package windows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// All operations where ranks reach the memory of some others.
func TestOperationsOnSharedMemory(t *testing.T) {
	for _, reach := range reaches[1:] {
		for n := 1; n <= 5; n++ {
			err := banyan.Simulate(n, banyan.Simulation{Seed: 3, Configure: reach},
				func(w *banyan.World) error { return operations(w.Comm()) })
			assert.NoError(t, err, "%d ranks", n)
		}
	}
}

// withoutMessages: over shared memory operations on an allocated window take no message, and the memory of
// other ranks can be seen; over other fabrics neither.
func withoutMessages(w *banyan.World) error {
	c := w.Comm()
	route, err := w.Route(1 - c.Rank())
	if err != nil {
		return err
	}
	direct := route.Fabric == "shm"
	win, err := c.AllocWindow(1 << 20)
	if err == nil {
		err = countFrames(w, win, direct)
	}
	if err != nil {
		return err
	}
	all, err := banyan.Alloc[byte](w, 3<<20)
	if err != nil {
		return err
	}
	for i := range all {
		all[i] = byte(i >> 16)
	}
	clear(all[1<<20:][:1<<20])
	if win, err = c.NewWindow(all[1<<20:][:1<<20]); err == nil {
		err = countFrames(w, win, direct)
	}
	for i, b := range all {
		if outside := i>>20 != 1; err == nil && outside && b != byte(i>>16) {
			err = fmt.Errorf("byte %d beside the window has changed", i)
		}
	}
	return errors.Join(err, banyan.Free(w, all))
}

// countFrames works on a window of 1 MiB in which no rank has written yet.
func countFrames(w *banyan.World, win *banyan.Window, direct bool) error {
	c := w.Comm()
	if err := win.Fence(); err != nil {
		return err
	}
	seen, err := win.Shared(1 - c.Rank())
	if err != nil || (len(seen) == 1<<20) != direct {
		return fmt.Errorf("direct %t: %d bytes of the other's memory: %w", direct, len(seen), err)
	}
	if c.Rank() == 0 {
		before, buf := w.PeerCounters(1).FramesSent, make([]byte, 1<<19)
		for range 100 {
			if _, err := banyan.FetchAndOp[int64](win, 1, 1, 0, banyan.AccSum); err != nil {
				return err
			}
			if err := errors.Join(win.Put(buf, 1, 1<<19), win.Get(buf, 1, 1<<19), win.Flush(1)); err != nil {
				return err
			}
			if _, err := win.Rput(buf, 1, 1<<19).Wait(); err != nil {
				return err
			}
			if err := errors.Join(win.Lock(banyan.LockExclusive, 1), win.Unlock(1), win.LockAll(), win.UnlockAll()); err != nil {
				return err
			}
		}
		if n := w.PeerCounters(1).FramesSent - before; (n < 10) != direct { // a heartbeat may come between
			return fmt.Errorf("direct %t: %d frames", direct, n)
		}
	}
	if err := win.Fence(); err != nil {
		return err
	}
	if direct && c.Rank() == 0 && seen[0] != 100 {
		return fmt.Errorf("%d additions are seen", seen[0])
	}
	return errors.Join(win.Fence(), win.Free())
}

func TestSharedMemoryTakesNoMessages(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) { ranktest.Succeed(t, 2, "without messages", "BANYAN_FABRIC="+fabric) })
	}
}

// allAdd has all ranks add to numbers of every size in one rank's memory at once, some by their own loads
// and stores, some by messages.
func allAdd(w *banyan.World) error {
	const times = 2000
	c := w.Comm()
	win, err := c.AllocWindow(64)
	if err == nil {
		err = win.Fence()
	}
	if err != nil {
		return err
	}
	for range times {
		_, one := banyan.FetchAndOp[int64](win, 1, 0, 0, banyan.AccSum)
		_, two := banyan.FetchAndOp[uint16](win, 1, 0, 4, banyan.AccSum)
		err := errors.Join(one, two, banyan.Accumulate(win, []uint16{1}, 0, 5, banyan.AccSum),
			banyan.Accumulate(win, []uint8{1}, 0, 12, banyan.AccSum), banyan.Accumulate(win, []uint8{1}, 0, 13, banyan.AccXor),
			banyan.Accumulate(win, []float32{1}, 0, 4, banyan.AccSum), banyan.Accumulate(win, []float64{1}, 0, 3, banyan.AccSum),
			banyan.Accumulate(win, []complex64{1i}, 0, 4, banyan.AccSum),
			banyan.Accumulate(win, []complex128{1i}, 0, 3, banyan.AccSum))
		if err != nil {
			return err
		}
	}
	if err := win.Fence(); err != nil {
		return err
	}
	sum := times * c.Size()
	if c.Rank() == 0 {
		for name, err := range map[string]error{
			"int64": is(win, 0, int64(sum)), "uint16": is(win, 4, uint16(sum)), "uint16 beside": is(win, 5, uint16(sum)),
			"uint8": is(win, 12, uint8(sum)), "xor": is(win, 13, uint8(0)), "float32": is(win, 4, float32(sum)),
			"float64": is(win, 3, float64(sum)), "complex64": is(win, 4, complex(0, float32(sum))),
			"complex128": is(win, 3, complex(0, float64(sum))),
		} {
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return errors.Join(win.Fence(), win.Free())
}

// is compares a number of this rank's memory.
func is[T banyan.Number](win *banyan.Window, i int, want T) error {
	got := make([]T, 1)
	if err := errors.Join(banyan.Get(win, got, 0, i), win.Flush(0)); err != nil || got[0] != want {
		return fmt.Errorf("%v, want %v: %w", got[0], want, err)
	}
	return nil
}

func TestAccumulatesAreAtomic(t *testing.T) {
	for name, env := range ranktest.JoinedBy(ranktest.ByFabric) {
		t.Run(name, func(t *testing.T) { ranktest.Succeed(t, 4, "all add", env...) })
	}
}

// An operation on memory that is reached at once is refused as any other when its epoch ends, the window
// is revoked, or a failure has been found.
func TestReachedMemoryHasEpochs(t *testing.T) {
	refused := func(what string, win *banyan.Window, want error) error {
		if err := win.Put([]byte{1}, 0, 0); !errors.Is(err, want) {
			return fmt.Errorf("%s: %v, want %w", what, err, want)
		}
		return nil
	}
	put := func(win *banyan.Window) error { return win.Put([]byte{1}, 0, 0) }
	for _, profile := range ranktest.BothProfiles {
		dying(t, profile, func(w *banyan.World, win *banyan.Window) error {
			c := w.Comm()
			if c.Rank() == 1 {
				err := errors.Join(win.Lock(banyan.LockExclusive, 0), put(win), win.Unlock(0),
					refused("unlock", win, banyan.ErrArgument))
				peer, gerr := c.Group().Include(0)
				if err := errors.Join(err, gerr, win.Start(peer), put(win), win.Complete()); err != nil {
					return err
				}
				if err := refused("complete", win, banyan.ErrArgument); err != nil {
					return err
				}
			}
			if c.Rank() == 0 {
				peer, err := c.Group().Include(1)
				if err := errors.Join(err, win.Post(peer), win.Wait()); err != nil {
					return err
				}
			}
			if err := errors.Join(win.Fence(), put(win)); err != nil || c.Rank() == 2 {
				return err
			}
			await(w, win)
			if profile == banyan.RTS {
				if err := refused("failure", win, banyan.ErrProcFailed); err != nil {
					return err
				}
			}
			err := errors.Join(failed("fence", win.Fence()), refused("fence", win, banyan.ErrProcFailed))
			if _, verr := win.Validate(); err != nil || verr != nil {
				return errors.Join(err, verr)
			}
			if err := errors.Join(refused("validate", win, banyan.ErrArgument), win.Fence(), put(win), win.Fence()); err != nil {
				return err
			}
			if c.Rank() == 0 {
				err = win.Revoke()
			} else {
				for !win.IsRevoked() {
					w.Sleep(time.Millisecond)
				}
			}
			return errors.Join(err, refused("revoke", win, banyan.ErrRevoked))
		})
	}
}
