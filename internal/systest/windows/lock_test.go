package windows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// turns has ranks take the lock of rank 0 in turn, shared and exclusive, each sometimes for so long that the others
// sleep. Rank 0 calls nothing meanwhile, but looks at its memory.
func turns(w *banyan.World) error {
	const times = 60
	c := w.Comm()
	win, err := c.AllocWindow(16)
	if err == nil {
		err = win.Fence()
	}
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		for binary.NativeEndian.Uint64(win.Bytes()[8:]) != uint64(c.Size()-1) {
			w.Sleep(time.Millisecond)
		}
		if got := binary.NativeEndian.Uint64(win.Bytes()); got != uint64((c.Size()-1)*times) {
			err = fmt.Errorf("%d increments under the lock, want %d", got, (c.Size()-1)*times)
		}
		return errors.Join(err, c.Barrier(), win.Free())
	}
	for i := range times {
		long := (i+c.Rank())%16 == 0
		if err := increments(w, win, long); err != nil {
			return err
		}
		if err := readsTwice(w, win, long); err != nil {
			return err
		}
	}
	_, err = banyan.FetchAndOp[uint64](win, 1, 0, 1, banyan.AccSum)
	return errors.Join(err, win.Flush(0), c.Barrier(), win.Free())
}

// increments adds one to a number under the exclusive lock.
func increments(w *banyan.World, win *banyan.Window, long bool) error {
	v := make([]uint64, 1)
	err := errors.Join(win.Lock(banyan.LockExclusive, 0), banyan.Get(win, v, 0, 0), win.Flush(0))
	if long {
		w.Sleep(3 * time.Millisecond)
	}
	v[0]++
	return errors.Join(err, banyan.Put(win, v, 0, 0), win.Unlock(0))
}

// readsTwice reads the number twice under one shared lock: it does not change.
func readsTwice(w *banyan.World, win *banyan.Window, long bool) error {
	one, two := make([]uint64, 1), make([]uint64, 1)
	err := errors.Join(win.Lock(banyan.LockShared, 0), banyan.Get(win, one, 0, 0), win.Flush(0))
	if long {
		w.Sleep(3 * time.Millisecond)
	}
	err = errors.Join(err, banyan.Get(win, two, 0, 0), win.Flush(0), win.Unlock(0))
	if err == nil && one[0] != two[0] {
		err = fmt.Errorf("a shared lock: first %d, then %d", one[0], two[0])
	}
	return err
}

// Ranks that reach the words of a lock, ranks that ask by messages, and both at one target exclude each other, and none
// sleeps for ever.
func TestLocksInTurn(t *testing.T) {
	for name, env := range ranktest.JoinedBy(ranktest.ByFabric) {
		t.Run(name, func(t *testing.T) { ranktest.Succeed(t, 5, "turns", env...) })
	}
}

func TestLocksInTurnInASimulation(t *testing.T) {
	for i, reach := range reaches {
		for seed := range uint64(ranktest.Scaled(20, 3)) {
			err := banyan.Simulate(5, banyan.Simulation{Seed: seed, Configure: reach}, turns)
			assert.NoError(t, err, "machine %d, seed %d", i, seed)
		}
	}
}

// Only the lock's owner notifies a rank that sleeps until it has a lock of the holder's death.
func TestHolderThatDiesLetsSleepersGoOn(t *testing.T) {
	errDies := errors.New("dies")
	for i, reach := range reaches {
		err := banyan.Simulate(24, banyan.Simulation{Seed: 3, Configure: reach}, func(w *banyan.World) error {
			c := w.Comm()
			win, err := c.AllocWindow(64)
			if err == nil {
				err = win.Fence()
			}
			switch {
			case err != nil:
				return err
			case c.Rank() == 0:
				w.Sleep(time.Minute)
				_, err = c.Recv(nil, 11, 0)
			case c.Rank() == 11: // no collective has connected it to rank 23
				w.Sleep(time.Second)
				err = errors.Join(win.Lock(banyan.LockExclusive, 0), win.Unlock(0), c.Send(nil, 0, 0))
			case c.Rank() == 23:
				if err = win.Lock(banyan.LockExclusive, 0); err == nil {
					w.Sleep(10 * time.Second)
					err = errDies
				}
			}
			return err
		})
		assert.ErrorIs(t, err, errDies, "machine %d", i)
		assert.NotContains(t, fmt.Sprint(err), "\n", "another rank has an error, or waits for ever")
	}
}

// The death of a rank that has nothing to do with a lock leaves it to its holder, until the holder knows: under RTS all
// windows fail, and a call of the holder says so.
func TestHolderKeepsItsLockAtADeath(t *testing.T) {
	for seed := range uint64(20) {
		err := banyan.Simulate(3, banyan.Simulation{Seed: seed, Configure: reaches[1], Faults: banyan.Kill(2, time.Second),
			Options: []banyan.Option{banyan.WithProfile(banyan.RTS), banyan.WithDetection(200*time.Millisecond, time.Second)}},
			func(w *banyan.World) error {
				c := w.Comm()
				win, err := c.AllocWindow(8)
				switch {
				case err != nil:
					return err
				case c.Rank() == 1:
					return holdsLock(w, win)
				case c.Rank() == 0:
					w.Sleep(500 * time.Millisecond)
					if err := win.Lock(banyan.LockExclusive, 0); err == nil {
						win.Bytes()[0] = 2
						_ = win.Unlock(0) // the window may have failed
					}
				}
				w.Sleep(10 * time.Second)
				return nil
			})
		require.NoError(t, err, "seed %d", seed)
	}
}

// holdsLock changes memory under the lock of rank 0, beyond the death of rank 2.
func holdsLock(w *banyan.World, win *banyan.Window) error {
	mem, err := win.Shared(0)
	if err := errors.Join(err, win.Lock(banyan.LockExclusive, 0)); err != nil {
		return err
	}
	for range 5000 {
		mem[0] = 1
		w.Sleep(time.Millisecond)
		if mem[0] != 1 {
			return errors.New("another rank has had the lock")
		}
	}
	return failed("unlock", win.Unlock(0))
}

// lockedAgain takes a lock for the second time: words that this process reaches by then need no engine's lock.
func lockedAgain(win *banyan.Window, rank int) error {
	return errors.Join(win.Lock(banyan.LockExclusive, rank), win.Unlock(rank), win.Lock(banyan.LockExclusive, rank))
}

// Each call after a lock that was taken again knows of it.
func TestLocksTakenAgain(t *testing.T) {
	refused := func(err error) error {
		if errors.Is(err, banyan.ErrArgument) {
			return nil
		}
		return fmt.Errorf("not refused: %w", err)
	}
	waited := func(r banyan.Request) error {
		_, err := r.Wait()
		return err
	}
	for i, reach := range reaches {
		err := banyan.Simulate(2, banyan.Simulation{Seed: 3, Configure: reach}, func(w *banyan.World) error {
			c := w.Comm()
			win, err := c.AllocWindow(64, banyan.WithNotices(1))
			if err != nil {
				return err
			}
			for rank := range 2 {
				if err := errors.Join(lockedAgain(win, rank), refused(win.Lock(banyan.LockShared, rank)),
					waited(win.Rput([]byte{1}, rank, c.Rank())), win.PutNotify([]byte{1}, rank, c.Rank(), 0), win.Unlock(rank),
					refused(win.Unlock(rank)), refused(win.Put([]byte{1}, rank, 0))); err != nil {
					return err
				}
				if err := errors.Join(lockedAgain(win, rank), win.UnlockAll(), lockedAgain(win, rank), win.Put([]byte{2}, rank, 0),
					win.Unlock(rank), refused(win.Unlock(rank))); err != nil {
					return err
				}
			}
			if err := errors.Join(win.WaitNotice(0, 2), c.Barrier(), lockedAgain(win, c.Rank())); err != nil {
				return err
			}
			_, err = win.Validate() // no lock is left
			return errors.Join(err, lockedAgain(win, 1-c.Rank()), win.Unlock(1-c.Rank()), win.Fence(), lockedAgain(win, c.Rank()),
				win.Unlock(c.Rank()), win.Put([]byte{3}, 0, c.Rank()), win.Fence(), win.Free())
		})
		assert.NoError(t, err, "machine %d", i)
	}
}

// An Unlock returns when all operations of this rank on the target are complete there, also those that it started
// before the Lock, by messages: numbers of 16 bytes are updated by their owner.
func TestUnlockWaitsForMessages(t *testing.T) {
	for i, reach := range reaches[1:3] { // ranks reach each other's memory
		err := banyan.Simulate(2, banyan.Simulation{Seed: 3, Configure: reach}, func(w *banyan.World) error {
			c := w.Comm()
			win, err := c.AllocWindow(16)
			if err == nil {
				err = win.Fence()
			}
			if err != nil || c.Rank() == 0 {
				return errors.Join(err, c.Barrier(), win.Free())
			}
			mem, err := win.Shared(0)
			if err != nil {
				return err
			}
			for k := range 4 {
				err := errors.Join(lockedAgain(win, 0), win.Unlock(0))
				add := func() error { return banyan.Accumulate(win, []complex128{1}, 0, 0, banyan.AccSum) }
				if k%2 == 0 {
					err = errors.Join(err, add(), win.Lock(banyan.LockShared, 0), win.Unlock(0))
				} else {
					err = errors.Join(err, win.Lock(banyan.LockShared, 0), add(), win.Unlock(0))
				}
				if err != nil {
					return err
				}
				if got := math.Float64frombits(binary.NativeEndian.Uint64(mem)); got != float64(k+1) {
					return fmt.Errorf("the owner has %v after %d accumulates under a lock", got, k+1)
				}
			}
			return errors.Join(c.Barrier(), win.Free())
		})
		assert.NoError(t, err, "machine %d", i)
	}
}
