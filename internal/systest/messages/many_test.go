package messages

import (
	"errors"
	"fmt"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Receives are reported in the order of arrival, each once; then no request is active.
func TestWaitAny(t *testing.T) {
	order := []int{3, 0, 4, 1, 2}
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		for _, size := range ranktest.Sizes {
			if c.Rank() == 1 {
				for _, tag := range order {
					if err := errors.Join(await(c, 0), c.Send(ranktest.Pattern(1, size), 0, 10+tag)); err != nil {
						return err
					}
				}
				continue
			}
			reqs := make([]banyan.Request, 2*len(order)) // every other one is zero
			for tag := range order {
				reqs[2*tag+1] = c.Irecv(make([]byte, size), 1, 10+tag)
			}
			for _, tag := range order {
				if i, _, done, err := banyan.TestAny(reqs); i != -1 || done || err != nil {
					return fmt.Errorf("before the message: %d, %v, %v", i, done, err)
				}
				if err := signal(c, 1); err != nil {
					return err
				}
				i, st, err := banyan.WaitAny(reqs)
				if err = errors.Join(err, ranktest.WantStatus(st, 1, 10+tag, size)); err != nil || i != 2*tag+1 {
					return fmt.Errorf("index %d, tag %d: %w", i, tag, err)
				}
			}
			if i, _, err := banyan.WaitAny(reqs); i != -1 || err != nil {
				return fmt.Errorf("with none active: %d, %v", i, err)
			}
			if i, _, done, err := banyan.TestAny(reqs); i != -1 || !done || err != nil {
				return fmt.Errorf("with none active: %d, %v, %v", i, done, err)
			}
		}
		return nil
	})
}

// Sends that complete at once are reported like others, once.
func TestWaitAnyReportsSendsThatWereComplete(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 1, func(c *banyan.Comm) error {
		reqs := []banyan.Request{c.Isend(nil, 0, 1), c.Isend(nil, 0, 1), {}}
		for _, index := range []int{0, 1, -1} {
			if i, _, err := banyan.WaitAny(reqs); i != index || err != nil {
				return fmt.Errorf("got %d, %v, want %d", i, err, index)
			}
		}
		return nil
	})
}

func TestWaitSome(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		const n = 20
		if c.Rank() == 1 {
			for i := range n {
				if err := c.Send(ranktest.Pattern(1, ranktest.Sizes[i%len(ranktest.Sizes)]), 0, i); err != nil {
					return err
				}
			}
			return nil
		}
		reqs, seen := make([]banyan.Request, n), make([]bool, n)
		for i := range reqs {
			reqs[i] = c.Irecv(make([]byte, ranktest.Sizes[i%len(ranktest.Sizes)]), 1, i)
		}
		var out []banyan.Outcome
		left, turn := n, 0
		for left > 0 {
			var err error
			if turn++; turn%2 == 0 {
				out, err = banyan.WaitSome(reqs, out[:0])
				if len(out) == 0 {
					return errors.New("woken for nothing")
				}
			} else {
				var active int
				if out, active, err = banyan.TestSome(reqs, out[:0]); active != left-len(out) {
					return fmt.Errorf("%d active, want %d", active, left-len(out))
				}
			}
			if err != nil {
				return err
			}
			for _, o := range out {
				err := errors.Join(o.Err, ranktest.WantStatus(o.Status, 1, o.Index,
					ranktest.Sizes[o.Index%len(ranktest.Sizes)]))
				if err != nil || seen[o.Index] {
					return fmt.Errorf("request %d again: %v, %w", o.Index, seen[o.Index], err)
				}
				seen[o.Index] = true
			}
			left -= len(out)
		}
		out, err := banyan.WaitSome(reqs, out[:0])
		if len(out) != 0 || err != nil {
			return fmt.Errorf("with none active: %v, %v", out, err)
		}
		return nil
	})
}

// TestAll ends all requests or none.
func TestTestAll(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		if c.Rank() == 1 {
			return errors.Join(c.Send(nil, 0, 1), signal(c, 0), await(c, 0), c.Send(nil, 0, 3))
		}
		reqs := []banyan.Request{c.Irecv(nil, 1, 1), {}, c.Irecv(nil, 1, 3)}
		if err := await(c, 1); err != nil {
			return err
		}
		for range 2 {
			if done, err := banyan.TestAll(reqs); done || err != nil || reqs[0] == (banyan.Request{}) {
				return fmt.Errorf("with one outstanding: %v, %v", done, err)
			}
		}
		if err := signal(c, 1); err != nil {
			return err
		}
		for {
			done, err := banyan.TestAll(reqs)
			if err != nil {
				return err
			}
			if done {
				break
			}
		}
		if done, err := banyan.TestAll(reqs); !done || err != nil {
			return fmt.Errorf("with none active: %v, %v", done, err)
		}
		return nil
	})
}

// A failure is the outcome of the request that it concerns.
func TestWaitAnyOfTheDead(t *testing.T) {
	err := ranktest.WithDeath(2, func(c *banyan.Comm) error {
		reqs := []banyan.Request{c.Irecv(nil, 0, 5), c.Irecv(nil, 1, 5)}
		i, _, err := banyan.WaitAny(reqs)
		if i != 1 {
			return fmt.Errorf("request %d", i)
		}
		return ranktest.WantFailed(err, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A cancelled receive gets no message; the next receive does. A receive with a message keeps it.
func TestCancel(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		for _, size := range ranktest.Sizes {
			if c.Rank() == 1 {
				if err := await(c, 0); err != nil {
					return err
				}
				r := c.Issend(ranktest.Pattern(1, size), 0, tagTested)
				if err := signal(c, 0); err != nil {
					return err
				}
				if _, err := r.Wait(); err != nil {
					return err
				}
				continue
			}
			named, wild := c.Irecv(nil, 1, tagTested), c.Irecv(nil, banyan.AnySource, banyan.AnyTag)
			named.Cancel()
			wild.Cancel()
			wild.Cancel()
			buf := make([]byte, size)
			kept := c.Irecv(buf, 1, tagTested)
			if err := signal(c, 1); err != nil {
				return err
			}
			for _, r := range []banyan.Request{named, wild} {
				st, done, err := r.Test()
				if st != (banyan.Status{Cancelled: true}) || !done || err != nil {
					return fmt.Errorf("taken back: %+v, %v, %w", st, done, err)
				}
				r.Cancel() // has ended: nothing happens
			}
			if err := await(c, 1); err != nil { // the message has been matched
				return err
			}
			kept.Cancel()
			st, err := kept.Wait()
			if err = errors.Join(err, ranktest.WantStatus(st, 1, tagTested, size)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Both halves of a persistent exchange start repeatedly, with the current contents of the buffer.
// Misuse is an error without further effect.
func TestPersistent(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		peer := 1 - c.Rank()
		for _, size := range ranktest.Sizes[1:] {
			out, in := make([]byte, size), make([]byte, size)
			send, recv := c.SendInit(out, peer, 5), c.RecvInit(in, peer, 5)
			sync := c.SsendInit(out, peer, 5)
			reqs := make([]banyan.Request, 2)
			for round := range 6 {
				out[size-1] = byte(10*round + c.Rank())
				from := []*banyan.Persistent{send, sync}[round%2]
				banyan.StartAll([]*banyan.Persistent{recv, from}, reqs)
				if err := banyan.WaitAll(reqs); err != nil {
					return err
				}
				if in[size-1] != byte(10*round+peer) {
					return fmt.Errorf("round %d: %d", round, in[size-1])
				}
			}
			if err := errors.Join(send.Free(), sync.Free()); err != nil {
				return err
			}
			if _, err := send.Start().Wait(); !errors.Is(err, banyan.ErrClosed) {
				return fmt.Errorf("started after free: %v", err)
			}
			r := recv.Start()
			_, again := recv.Start().Wait()
			if free := recv.Free(); !errors.Is(again, banyan.ErrArgument) || !errors.Is(free, banyan.ErrArgument) {
				return fmt.Errorf("while active: start %v, free %v", again, free)
			}
			r.Cancel()
			st, err := recv.Wait()
			if !st.Cancelled || err != nil {
				return fmt.Errorf("taken back: %+v, %v", st, err)
			}
			if _, err := recv.Wait(); err != nil { // nothing was started
				return err
			}
			if err := recv.Free(); err != nil {
				return err
			}
		}
		return nil
	})
}
