package windows

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Puts before a notice, and with it, are complete when the notice comes, once. From then on the memory is the
// target's: puts whose moves were lost, although they had been done, are not done again.
func TestNoticesOfLostMoves(t *testing.T) {
	for seed := range uint64(60) {
		configure := func(c *sim.Config) { slowMoves(c); c.MoveLoss = 0.15 }
		err := banyan.Simulate(2, banyan.Simulation{Seed: seed, Configure: configure}, func(w *banyan.World) error {
			win, err := w.Comm().AllocWindow(3*noticed, banyan.WithNotices(1))
			if err != nil {
				return err
			}
			err = win.LockAll()
			for round := byte(1); round < 20 && err == nil; round++ {
				if w.Comm().Rank() == 0 {
					err = putsAndNotice(w.Comm(), win, round)
				} else {
					err = takesNotice(w, win, round)
				}
			}
			err = errors.Join(err, win.FlushAll(), w.Comm().Barrier())
			if more, wrong := win.TestNotice(0, 1); more || wrong != nil {
				err = errors.Join(err, fmt.Errorf("a notice more: %t, %w", more, wrong))
			}
			return errors.Join(err, win.UnlockAll(), win.Free())
		})
		require.NoError(t, err, "seed %d", seed)
	}
}

// noticed is the length of a put; they are moves of several parts.
const noticed = 250

// putsAndNotice puts before a notice, with it, and behind it.
func putsAndNotice(c *banyan.Comm, win *banyan.Window, round byte) error {
	data := bytes.Repeat([]byte{round}, noticed)
	err := errors.Join(win.Put(data, 1, 0), win.PutNotify(data, 1, noticed, 0), win.Put(data, 1, 2*noticed))
	if err != nil {
		return err
	}
	_, err = c.Recv(nil, 1, 1)
	return errors.Join(err, win.Flush(1), c.Send(nil, 1, 2))
}

// takesNotice takes the memory for itself after a notice, for as long as the puts may be under way.
func takesNotice(w *banyan.World, win *banyan.Window, round byte) error {
	if err := win.WaitNotice(0, 1); err != nil {
		return err
	}
	mem := win.Bytes()[:2*noticed]
	if n := bytes.Count(mem, []byte{round}); n != len(mem) {
		return fmt.Errorf("round %d: %d bytes are there at the notice", round, n)
	}
	mine := 255 - round
	for i := range mem {
		mem[i] = mine
	}
	w.Sleep(3 * time.Millisecond)
	c := w.Comm()
	err := c.Send(nil, 0, 1)
	if err == nil {
		_, err = c.Recv(nil, 0, 2)
	}
	if n := bytes.Count(mem, []byte{mine}); n != len(mem) {
		err = errors.Join(err, fmt.Errorf("round %d: %d bytes were written after the notice", round, len(mem)-n))
	}
	if n := bytes.Count(win.Bytes()[2*noticed:], []byte{round}); n != noticed {
		err = errors.Join(err, fmt.Errorf("round %d: %d bytes of the last put are there", round, n))
	}
	return err
}

// A rank that polls for a notice gets to know of a failure, as one that waits for it does.
func TestPollForNoticeEndsByAFailure(t *testing.T) {
	dying(t, banyan.ULFM, func(w *banyan.World, win *banyan.Window) error {
		if w.Comm().Rank() == 2 {
			return nil
		}
		await(w, win)
		ok, err := win.TestNotice(0, 1)
		if ok {
			return errors.New("a notice that nobody has sent")
		}
		return failed("notice", err)
	})
}
