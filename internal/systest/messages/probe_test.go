package messages

import (
	"bytes"
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

// A probe reports the message that the next receive gets, and leaves it there. It sees messages of
// every protocol, by name and by wildcard.
func TestProbe(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		for i, size := range ranktest.Sizes {
			if c.Rank() == 0 {
				if err := errors.Join(await(c, 1), c.Send(ranktest.Pattern(0, size), 1, 10+i)); err != nil {
					return err
				}
				continue
			}
			if st, found, err := c.Iprobe(0, 10+i); found || err != nil {
				return fmt.Errorf("before the message: %+v, %v", st, err)
			}
			if err := signal(c, 0); err != nil {
				return err
			}
			for k := range 4 {
				src, tag := []int{0, banyan.AnySource}[k%2], []int{10 + i, banyan.AnyTag}[k/2]
				st, err := c.Probe(src, tag)
				if err = errors.Join(err, ranktest.WantStatus(st, 0, 10+i, size)); err != nil {
					return err
				}
				st, found, err := c.Iprobe(src, tag)
				if err = errors.Join(err, ranktest.WantStatus(st, 0, 10+i, size)); err != nil || !found {
					return fmt.Errorf("iprobe: %v, %w", found, err)
				}
			}
			if err := ranktest.ExpectPattern(c, banyan.AnySource, banyan.AnyTag, size); err != nil {
				return err
			}
		}
		return nil
	}, banyan.WithEagerLimit(50_000))
}

// A message that a matched probe has found is invisible to all others. The next one of the same
// source and tag overtakes it.
func TestMatchedProbe(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		for _, size := range ranktest.Sizes {
			if c.Rank() == 0 {
				reqs := []banyan.Request{
					c.Isend(ranktest.Pattern(0, size), 1, tagTested), c.Isend([]byte("second"), 1, tagTested),
				}
				if err := errors.Join(banyan.WaitAll(reqs), await(c, 1)); err != nil {
					return err
				}
				continue
			}
			m, err := c.Mprobe(banyan.AnySource, tagTested)
			if err != nil {
				return err
			}
			second := make([]byte, 6)
			if _, err := c.Recv(second, 0, tagTested); err != nil || string(second) != "second" {
				return fmt.Errorf("the second: %q, %w", second, err)
			}
			if _, found, err := c.Improbe(0, tagTested); found || err != nil {
				return fmt.Errorf("a third message: %w", err)
			}
			buf := make([]byte, size)
			st, err := m.Recv(buf)
			if err = errors.Join(err, ranktest.WantStatus(m.Status(), 0, tagTested, size),
				ranktest.WantStatus(st, 0, tagTested, size)); err != nil {
				return err
			}
			if !bytes.Equal(buf, ranktest.Pattern(0, size)) {
				return errors.New("wrong bytes")
			}
			if _, err := m.Irecv(buf).Wait(); !errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("received twice: %v", err)
			}
			if err := signal(c, 0); err != nil {
				return err
			}
		}
		return nil
	}, banyan.WithEagerLimit(50_000))
}

// A probed message that is longer than the buffer is truncated.
func TestMatchedProbeTruncates(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 1, func(c *banyan.Comm) error {
		for _, size := range ranktest.Sizes[1:] {
			r := c.Isend(ranktest.Pattern(0, size), 0, tagTested)
			m, err := c.Mprobe(0, tagTested)
			if err != nil {
				return err
			}
			buf := make([]byte, size-1)
			st, err := m.Recv(buf)
			if !errors.Is(err, banyan.ErrTruncate) || st.Count != size-1 ||
				!bytes.Equal(buf, ranktest.Pattern(0, size)[:size-1]) {
				return fmt.Errorf("%d bytes: %+v, %v", size, st, err)
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestProbeOfNobody(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 1, func(c *banyan.Comm) error {
		st, err := c.Probe(banyan.ProcNull, 4)
		m, merr := c.Mprobe(banyan.ProcNull, 4)
		if err = errors.Join(err, merr, ranktest.WantStatus(st, banyan.ProcNull, banyan.AnyTag, 0)); err != nil {
			return err
		}
		st, err = m.Recv(nil)
		if err = errors.Join(err, ranktest.WantStatus(st, banyan.ProcNull, banyan.AnyTag, 0)); err != nil {
			return err
		}
		_, _, tagErr := c.Iprobe(0, -7)
		_, rankErr := c.Mprobe(9, 0)
		if !errors.Is(tagErr, banyan.ErrArgument) || !errors.Is(rankErr, banyan.ErrArgument) {
			return fmt.Errorf("wrong arguments: %v, %v", tagErr, rankErr)
		}
		return nil
	})
}

// A waiting probe ends with the failure when the rank dies, also by wildcard, and so do later
// probes.
func TestProbeOfTheDead(t *testing.T) {
	for _, src := range []int{2, banyan.AnySource} {
		for _, claim := range []bool{false, true} {
			require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
				// This rank must know of the failed rank, or a wildcard does not learn of the
				// death.
				if c.Rank() == 0 {
					c.Irecv(nil, 2, 8)
				} else {
					return nil
				}
				for range 3 {
					var err error
					if claim {
						_, err = c.Mprobe(src, 5)
					} else {
						_, err = c.Probe(src, 5)
					}
					if src == banyan.AnySource && !errors.Is(err, banyan.ErrProcFailed) {
						return fmt.Errorf("probe of any source: %v", err)
					}
					if src == 2 {
						if err := ranktest.WantFailed(err, 2); err != nil {
							return err
						}
					}
				}
				if _, found, err := c.Iprobe(src, 5); found || err == nil {
					return errors.New("iprobe has found the dead")
				}
				return nil
			}), "source %d, matched %v", src, claim)
		}
	}
}

// A probed message whose sender has died is delivered if it was complete. Otherwise its receive
// fails.
func TestProbedMessageOfTheDead(t *testing.T) {
	whole, lost := 0, 0
	for _, size := range ranktest.Sizes {
		for step := uint64(2); step < 90; step++ {
			err := probedDeath(size, step, &whole, &lost)
			require.NoError(t, err, "%d bytes, step %d", size, step)
		}
	}
	require.NotZero(t, whole)
	require.NotZero(t, lost)
}

func probedDeath(size int, step uint64, whole, lost *int) error {
	return banyan.Simulate(2, banyan.Simulation{
		Seed:    step,
		Options: []banyan.Option{banyan.WithEagerLimit(50_000)},
		Faults: func(s *sim.Sim) error { // at the step, or while it waits
			return errors.Join(s.KillAtStep(1, step), s.Kill(1, fabric.Time(time.Millisecond)))
		},
	}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 1 {
			return errors.Join(c.Send(ranktest.Pattern(1, size), 0, tagTested), await(c, 0))
		}
		m, err := c.Mprobe(1, tagTested)
		if err != nil {
			return ranktest.WantFailed(err, 1)
		}
		if _, err := c.Recv(nil, 1, 77); ranktest.WantFailed(err, 1) != nil { // until it has died
			return err
		}
		buf := make([]byte, size)
		if _, err = m.Recv(buf); err != nil {
			*lost++
			return ranktest.WantFailed(err, 1)
		}
		*whole++
		if !bytes.Equal(buf, ranktest.Pattern(1, size)) {
			return errors.New("half a message")
		}
		return nil
	})
}

// After Finalize a message that was taken out of matching is not received any more: no frame would answer.
func TestProbedMessagesAfterFinalize(t *testing.T) {
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		r := c.Issend([]byte{1}, 0, 1)
		m, err := c.Mprobe(0, 1)
		if err = errors.Join(err, w.Finalize()); err != nil {
			return err
		}
		for _, want := range []error{banyan.ErrClosed, banyan.ErrArgument} { // it is received once
			if _, err := m.Recv(make([]byte, 1)); !errors.Is(err, want) {
				return fmt.Errorf("got %v, want %w", err, want)
			}
		}
		if _, err := r.Wait(); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("the send: %v", err)
		}
		return nil
	}))
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		large := make([]byte, 1<<20)
		if c.Rank() == 0 {
			c.Isend(large, 1, 1)
			c.Ilend(large, 1, 1)
			return nil
		}
		sent, err := c.Mprobe(0, 1)
		lent, failed := c.Mprobe(0, 1)
		if err = errors.Join(err, failed, w.Finalize()); err != nil {
			return err
		}
		for _, m := range []*banyan.Message{sent, lent} {
			if _, err := m.Borrow(); !errors.Is(err, banyan.ErrClosed) {
				return fmt.Errorf("borrow: %v", err)
			}
		}
		return nil
	}))
}
