package communicators

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// free: what is under way when a communicator is freed ends as usual, and nothing
// new begins. Two ranks.
func free(w *banyan.World) error {
	c, peer := w.Comm(), 1-w.Comm().Rank()
	for round, size := range []int{8, 5_000, 3 << 20} {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		out, in, wild := ranktest.Pattern(c.Rank(), size), make([]byte, size), make([]byte, size)
		reqs := []banyan.Request{d.Irecv(in, peer, 1), d.Irecv(wild, banyan.AnySource, 2)}
		if c.Rank() == 0 { // the other one sends when this one has freed
			if err := errors.Join(d.Free(), c.Send(nil, peer, 7)); err != nil {
				return err
			}
			if err := isClosed(d); err != nil {
				return err
			}
		} else if _, err := c.Recv(nil, peer, 7); err != nil {
			return err
		}
		e, err := c.Dup() // of another context than the receives that wait
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			err = errors.Join(e.Send(nil, peer, 2), d.Send(out, peer, 1), d.Send(out, peer, 2))
			reqs[0].Cancel()
			reqs[1].Cancel()
		} else {
			_, err = e.Recv(nil, peer, 2)
		}
		if err := errors.Join(err, banyan.WaitAll(reqs), e.Free()); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if want := ranktest.Pattern(peer, size); c.Rank() == 0 && (string(in) != string(want) || string(wild) != string(want)) {
			return fmt.Errorf("round %d: the wrong message", round)
		}
		if c.Rank() == 1 {
			if err := d.Free(); err != nil {
				return err
			}
		}
	}
	if err := c.Free(); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("the world was freed: %v", err)
	}
	if err := w.Finalize(); err != nil {
		return err
	}
	return isClosed(c)
}

// isClosed checks that nothing begins on a communicator that has been freed.
func isClosed(d *banyan.Comm) error {
	again := d.Free()
	if d.Name() == "world" {
		again = banyan.ErrClosed
	}
	_, recv := d.Recv(nil, 0, 0)
	_, probe := d.Probe(0, 0)
	_, wait := d.Isend(nil, 0, 0).Wait()
	_, irecv := d.Irecv(nil, 0, 0).Wait()
	_, start := d.SendInit(nil, 0, 0).Start().Wait()
	_, split := d.Split(0, 0)
	for i, err := range []error{again, d.Send(nil, 0, 0), recv, probe, wait, irecv, start, split, d.Barrier(), d.Ssend(nil, 0, 0)} {
		if !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("call %d on a communicator that is no more: %w", i, errors.Join(err, errors.New("want ErrClosed")))
		}
	}
	return nil
}

func TestFree(t *testing.T) { ranktest.Succeed(t, 2, "free") }

func TestFreeInASimulation(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, free))
}
