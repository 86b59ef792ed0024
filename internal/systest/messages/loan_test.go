package messages

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func init() {
	roles["loans"] = loans
	roles["loans, in place"] = loansInPlace
	roles["loans, borrower killed"] = killedBorrower
	roles["loans, lender killed"] = killedOwner
}

// allocated is memory of Alloc with a pattern.
func allocated(w *banyan.World, seed, n int) []byte {
	mem, err := banyan.Alloc[byte](w, n)
	if err != nil {
		panic(err)
	}
	copy(mem, ranktest.Pattern(seed, n))
	return mem
}

// holds is the error of a loan that is not the message with that seed.
func holds(l *banyan.Loan, src, tag, seed, n int) error {
	want := banyan.Status{Source: src, Tag: tag, Count: n}
	if st := l.Status(); st != want || !bytes.Equal(l.Bytes(), ranktest.Pattern(seed, n)) {
		return fmt.Errorf("a loan of %d bytes: %+v, want %+v, first bytes % x", len(l.Bytes()), st, want, l.Bytes()[:min(n, 8)])
	}
	return nil
}

// loans lends and sends from allocated and other memory; the receiver borrows and receives, in all combinations,
// with wildcards and by probes.
func loans(w *banyan.World) error {
	c := w.Comm()
	for seed, n := range []int{0, 1, 8, 100, 4096, 100_003, 3 << 20} {
		if c.Rank() == 0 {
			mem := allocated(w, seed, n+1)[:n] // also of no bytes
			for k := range 4 {
				buf := [][]byte{mem, ranktest.Pattern(seed, n)}[k%2]
				if err := errors.Join(c.Lend(buf, 1, 5), c.Send(buf, 1, 5), c.Lend(buf, 1, 6)); err != nil {
					return err
				}
			}
			if err := banyan.Free(w, mem[:n+1]); err != nil {
				return err
			}
			continue
		}
		buf := make([]byte, n)
		for k := range 4 {
			src := []int{0, banyan.AnySource}[k/2]
			for range 2 {
				l, err := c.Borrow(src, banyan.AnyTag)
				if err != nil {
					return err
				}
				if err := errors.Join(holds(l, 0, 5, seed, n), l.Return()); err != nil {
					return err
				}
				if l.Bytes() != nil || !errors.Is(l.Return(), banyan.ErrArgument) {
					return errors.New("a loan can be returned twice")
				}
			}
			if k%2 == 0 {
				if st, err := c.Recv(buf, src, 6); err != nil || st.Count != n || !bytes.Equal(buf, ranktest.Pattern(seed, n)) {
					return fmt.Errorf("recv of what is lent: %+v, %w", st, err)
				}
				continue
			}
			m, err := c.Mprobe(src, 6)
			if err != nil {
				return err
			}
			l, err := m.Borrow()
			if err != nil {
				return err
			}
			if _, err := m.Borrow(); !errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("a message is borrowed twice: %w", err)
			}
			if err := errors.Join(holds(l, 0, 6, seed, n), l.Return()); err != nil {
				return err
			}
		}
	}
	l, err := c.Borrow(banyan.ProcNull, 0)
	return errors.Join(err, l.Return(), c.Lend(nil, banyan.ProcNull, 0), c.Barrier())
}

func TestLoans(t *testing.T) {
	for _, env := range [][]string{nil, {"BANYAN_FABRIC=tcp"}, {"BANYAN_DEBUG=on"}, {ranktest.NoCopyEnv + "=1"}} {
		ranktest.Succeed(t, 2, "loans", env...)
	}
}

// onNode has simulated ranks share a machine.
func onNode(c *sim.Config) {
	c.Get, c.Blocks = true, true
	c.Topology.ProcsPerNode = 8
}

func TestLoansInSimulation(t *testing.T) {
	for _, configure := range []func(*sim.Config){nil, onNode} {
		for seed := range uint64(3) {
			s := banyan.Simulation{Seed: seed, Configure: configure}
			require.NoError(t, banyan.Simulate(2, s, loans))
			if configure != nil {
				require.NoError(t, banyan.Simulate(5, s, loansInPlace))
			}
		}
	}
}

// loansInPlace: rank 0 lends the same memory to all others, twice. They read it at the same time, and see
// stores after the last return, and not before.
func loansInPlace(w *banyan.World) error {
	const n = 1 << 20
	c := w.Comm()
	others := c.Size() - 1
	if c.Rank() > 0 {
		for round := range 2 {
			l, err := c.Borrow(0, round)
			if err != nil {
				return err
			}
			if err := c.Barrier(); err != nil { // all have it
				return err
			}
			if err := errors.Join(holds(l, 0, round, round, n), l.Return()); err != nil {
				return err
			}
		}
		if k := w.PeerCounters(0); k.Borrowed != 2 || k.BorrowedCopies != 0 {
			return fmt.Errorf("%+v", k)
		}
		return c.Barrier()
	}
	mem := allocated(w, 0, n)
	for round := range 2 {
		copy(mem, ranktest.Pattern(round, n))
		reqs := make([]banyan.Request, others)
		for i := range reqs {
			reqs[i] = c.Ilend(mem, 1+i, round)
		}
		if err := banyan.Free(w, mem); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("free of what is lent: %w", err)
		}
		if done, err := banyan.TestAll(reqs); done || err != nil {
			return fmt.Errorf("returned before all have it: %v, %w", done, err)
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		if err := banyan.WaitAll(reqs); err != nil {
			return err
		}
	}
	return errors.Join(banyan.Free(w, mem), c.Barrier())
}

func TestLoansInPlace(t *testing.T) {
	for _, env := range [][]string{nil, {"BANYAN_DEBUG=on"}, {ranktest.NoCopyEnv + "=1"}} {
		ranktest.Succeed(t, 5, "loans, in place", env...)
	}
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) } // cannot fail

// killedBorrower: the death of one borrower returns its loan, with an error, and those of others stay.
func killedBorrower(w *banyan.World) error {
	const n = 1 << 20
	c := w.Comm()
	if c.Rank() > 0 {
		l, err := c.Borrow(0, 1)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			if err := c.Send(nil, 0, 2); err != nil {
				return err
			}
			die()
		}
		_, err = c.Recv(nil, 0, 3)
		return errors.Join(err, holds(l, 0, 1, 4, n), l.Return())
	}
	mem := allocated(w, 4, n)
	first, second := c.Ilend(mem, 1, 1), c.Ilend(mem, 2, 1)
	if _, err := c.Recv(nil, 1, 2); err != nil && !banyan.IsFailure(err) {
		return err
	}
	if _, err := first.Wait(); !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("the loan of the dead: %w", err)
	}
	if _, done, err := second.Test(); done || err != nil {
		return fmt.Errorf("the loan of the living: %v, %w", done, err)
	}
	if err := c.Send(nil, 2, 3); err != nil {
		return err
	}
	_, err := second.Wait()
	return errors.Join(err, banyan.Free(w, mem))
}

func TestBorrowerDies(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 3, "loans, borrower killed", "BANYAN_PROFILE=ulfm")
	for _, rank := range []int{0, 2} {
		require.False(t, res.Ends[rank].Failed(), "%v\n%s", res.Ends[rank], out)
	}
}

// killedOwner: the bytes stay with the borrower when the lender is dead, also after other loans.
func killedOwner(w *banyan.World) error {
	const n = 1 << 20
	c := w.Comm()
	if c.Rank() == 0 {
		mem := allocated(w, 9, n)
		c.Ilend(mem, 1, 1)
		if _, err := c.Recv(nil, 1, 2); err != nil {
			return err
		}
		die()
	}
	l, err := c.Borrow(0, 1)
	if err != nil {
		return err
	}
	if err := c.Send(nil, 0, 2); err != nil {
		return err
	}
	if _, err := c.Borrow(0, 2); !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("borrow of the dead: %w", err)
	}
	return errors.Join(holds(l, 0, 1, 9, n), l.Return())
}

func TestLenderDies(t *testing.T) {
	for _, debug := range []string{"off", "on"} {
		res, out := ranktest.Job(t, launch.Continue, 2, "loans, lender killed", "BANYAN_PROFILE=ulfm", "BANYAN_DEBUG="+debug)
		require.False(t, res.Ends[1].Failed(), "%v\n%s", res.Ends[1], out)
	}
}

// A revocation ends a loan that has not been received at once, and the other when it is returned.
func TestRevokedLoans(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{Configure: onNode}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			mem := allocated(w, 3, 5000)
			taken, other := c.Ilend(mem, 1, 1), c.Ilend(mem, 1, 2)
			for _, r := range []banyan.Request{other, taken} {
				if _, err := r.Wait(); !errors.Is(err, banyan.ErrRevoked) {
					return fmt.Errorf("lend: %w", err)
				}
			}
			return banyan.Free(w, mem)
		}
		l, err := c.Borrow(0, 1)
		if err != nil {
			return err
		}
		if err := c.Revoke(); err != nil {
			return err
		}
		if _, err := c.Borrow(0, 2); !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("borrow: %w", err)
		}
		w.Sleep(1e9)
		return errors.Join(holds(l, 0, 1, 3, 5000), l.Return())
	}))
}

// A message that is longer than the limit of Alloc is no loan, and its sender does not wait.
func TestBorrowWithoutMemory(t *testing.T) {
	s := banyan.Simulation{Options: []banyan.Option{banyan.WithMemoryLimit(1 << 20)}}
	require.NoError(t, banyan.Simulate(2, s, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			return errors.Join(c.Ssend(make([]byte, 2<<20), 1, 1), c.Ssend(make([]byte, 1<<20), 1, 1))
		}
		if _, err := c.Borrow(0, 1); !errors.Is(err, banyan.ErrNoMemory) {
			return fmt.Errorf("borrow: %w", err)
		}
		l, err := c.Borrow(0, 1)
		return errors.Join(err, l.Return())
	}))
}

// Numbers are looked at in place, where they are aligned and whole.
func TestBorrowedNumbers(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{Configure: onNode}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			mem, err := banyan.Alloc[float64](w, 100)
			if err != nil {
				return err
			}
			mem[99] = 7
			b := banyan.Bytes(mem)
			return errors.Join(c.Lend(b, 1, 1), c.Lend(b[1:9], 1, 1), c.Lend(b[:9], 1, 1))
		}
		for k := range 3 {
			l, err := c.Borrow(0, 1)
			if err != nil {
				return err
			}
			got, err := banyan.Borrowed[float64](l)
			if ok := err == nil; ok != (k == 0) || ok && (len(got) != 100 || got[99] != 7) {
				return fmt.Errorf("loan %d: %v, %w", k, got, err)
			}
			if err := l.Return(); err != nil {
				return err
			}
		}
		return nil
	}))
}

// An ordinary send from allocated memory is no loan: it does not wait for a Return.
func TestBorrowOfASend(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{Configure: onNode}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			mem := allocated(w, 2, 1<<20)
			return errors.Join(c.Ssend(mem, 1, 1), c.Send(nil, 1, 2), banyan.Free(w, mem))
		}
		l, err := c.Borrow(0, 1)
		if err != nil {
			return err
		}
		if _, err := c.Recv(nil, 0, 2); err != nil {
			return err
		}
		return errors.Join(holds(l, 0, 1, 2, 1<<20), l.Return())
	}))
}
