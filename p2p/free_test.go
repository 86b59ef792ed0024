package p2p

import (
	"errors"
	"fmt"
	"testing"

	"github.com/banyan-hpc/banyan/ft"
)

// A context is not used again while a receive on the freed communicator waits for a message with
// it.
func TestContextOfAFreedCommunicator(t *testing.T) {
	simulated(t, 1, Limits{}, func(e *Engine, c *Comm) error {
		const ctx = 0x1234
		a, err := e.NewComm("a", WorldGroup(1), 0, ctx)
		if err != nil {
			return err
		}
		h := Irecv[Aware](a, nil, 0, 1)
		if err := errors.Join(a.Free(), e.idle(ctx)); err == nil {
			return errors.New("the context was given away with a receive waiting")
		}
		if err := a.Free(); !errors.Is(err, ft.ErrClosed) {
			return fmt.Errorf("freed twice: %v", err)
		}
		e.Cancel(h)
		if _, err := e.Wait(h); err != nil {
			return err
		}
		return e.idle(ctx)
	})
}

// idle makes and frees a communicator with a context.
func (e *Engine) idle(ctx uint32) error {
	c, err := e.NewComm("idle", WorldGroup(1), 0, ctx)
	if err != nil {
		return err
	}
	return c.Free()
}
