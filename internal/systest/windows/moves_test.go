package windows

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// slowMoves has adapters that take a hundred microseconds for a hundred bytes.
func slowMoves(c *sim.Config) {
	c.Moves = true
	c.Topology.ProcsPerNode = 1
	c.Links[fabric.LinkSwitch].GapPerByte = sim.Microsecond
}

// A window that is revoked while adapters use a buffer of the application returns the buffer with the error: nothing
// is written to it afterwards, and its puts do not change.
func TestRevokedWindowReturnsBuffers(t *testing.T) {
	const n = 5000
	for name, ends := range map[string]func(*banyan.Window, []byte) error{
		"flush":   func(win *banyan.Window, buf []byte) error { return errors.Join(win.Get(buf, 1, 0), win.Flush(1)) },
		"request": func(win *banyan.Window, buf []byte) error { _, err := win.Rget(buf, 1, 0).Wait(); return err },
		"other call": func(win *banyan.Window, buf []byte) error {
			err := win.Get(buf, 1, 0)
			for err == nil {
				err = win.Sync()
			}
			return err
		},
		"put": func(win *banyan.Window, buf []byte) error { return errors.Join(win.Put(buf, 1, 0), win.Flush(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			err := banyan.Simulate(2, banyan.Simulation{Seed: 1, Configure: slowMoves}, func(w *banyan.World) error {
				win, err := w.Comm().AllocWindow(n + 1)
				if err == nil {
					err = win.Fence()
				}
				if err != nil {
					return err
				}
				if w.Comm().Rank() == 1 {
					w.Sleep(700 * time.Microsecond)
					err = win.Revoke()
					w.Sleep(20 * time.Millisecond)
					if m := win.Bytes(); name == "put" && bytes.Count(m, []byte{1})+bytes.Count(m, []byte{0}) != len(m) {
						return fmt.Errorf("memory has been written after the call: %v", m)
					}
					_ = win.Free() // revoked
					return err
				}
				buf := bytes.Repeat([]byte{1}, n)
				if err := ends(win, buf); !errors.Is(err, banyan.ErrRevoked) {
					return fmt.Errorf("%w, want that the window has been revoked", err)
				}
				if name != "put" && (buf[0] != 0 || buf[n-1] != 1) {
					return fmt.Errorf("the get was over, or had not begun: the test shows nothing")
				}
				for i := range buf {
					buf[i] = 2
				}
				w.Sleep(20 * time.Millisecond)
				if bytes.Count(buf, []byte{2}) != n {
					return errors.New("the buffer has been written after the call")
				}
				_ = win.Free() // revoked
				return nil
			})
			assert.NoError(t, err)
		})
	}
}

// A flush of moves alone takes no frame, for any action of the target.
func TestMovesTakeNoFrames(t *testing.T) {
	err := banyan.Simulate(2, banyan.Simulation{Seed: 1, Configure: slowMoves}, func(w *banyan.World) error {
		win, err := w.Comm().AllocWindow(1 << 10)
		if err == nil {
			err = win.Fence()
		}
		if err == nil && w.Comm().Rank() == 0 {
			out, in := ranktest.Pattern(3, 1<<10), make([]byte, 1<<10)
			before := w.PeerCounters(1).FramesSent
			_, putErr := win.Rput(out, 1, 0).Wait()
			_, getErr := win.Rget(in, 1, 0).Wait()
			err = errors.Join(putErr, win.Put(out[:8], 1, 0), win.Flush(1), getErr, win.FlushLocal(1), ranktest.CheckEqual(in, out))
			if n := w.PeerCounters(1).FramesSent - before; err == nil && n > 2 { // a heartbeat may come between
				err = fmt.Errorf("%d frames", n)
			}
		}
		return errors.Join(err, win.Fence(), win.Free())
	})
	assert.NoError(t, err)
}
