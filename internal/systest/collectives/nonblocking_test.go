package collectives

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Operations under way continue after [Comm.Free], and no new one starts.
func TestFreeLeavesNonblockingCollectives(t *testing.T) {
	for i, size := range []int{1, 12_500, 1, 12_500} {
		level := []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives}[i/2]
		require.NoError(t, banyan.Simulate(5, banyan.Simulation{}, func(w *banyan.World) error {
			c, err := w.Comm().Dup()
			if err == nil {
				err = c.SetUniformity(level)
			}
			if err != nil {
				return err
			}
			if c.Rank() == 0 {
				w.Sleep(time.Second) // the others are in the middle of the operations
			}
			var started []underWay
			var reqs []banyan.Request
			for range 2 {
				u, _ := start(issue{Collective: ranktest.Collective{Kind: ranktest.Allreduce, Size: size}}, c)
				started, reqs = append(started, u), append(reqs, u.q)
			}
			if err := c.Free(); err != nil {
				return err
			}
			for _, err := range []error{c.Barrier(), wait(c.Ibarrier())} {
				if !errors.Is(err, banyan.ErrClosed) {
					return fmt.Errorf("started after Free: %w", err)
				}
			}
			if err := banyan.WaitAll(reqs); err != nil {
				return err
			}
			for _, u := range started {
				if err := u.check(nil); err != nil {
					return err
				}
			}
			d, err := w.Comm().Dup() // the context is usable, and no message of the freed communicator is left
			if err != nil {
				return err
			}
			return d.Barrier()
		}), "%d words, %v", size, level)
	}
}

// A revocation ends non-blocking collectives, also those that wait for a rank that has not started.
func TestRevokeEndsNonblockingCollectives(t *testing.T) {
	require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		if c.Rank() == 3 {
			w.Sleep(time.Second)
			return c.Revoke()
		}
		big := make([]byte, 200_000)
		for i, q := range []banyan.Request{c.Ibarrier(), c.Iallreduce(big, big, xor),
			c.Iallgather(big[:8], make([]byte, 48))} {
			if _, err := q.Wait(); !errors.Is(err, banyan.ErrRevoked) {
				return fmt.Errorf("operation %d: %w", i, err)
			}
		}
		if _, err := c.Ibarrier().Wait(); !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("started afterwards: %w", err)
		}
		return nil
	}))
}

// A collective cannot be cancelled; the end of a context ends only the wait.
func TestNonblockingCollectivesStay(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if c.Rank() == 1 {
			w.Sleep(time.Second)
		}
		u, _ := start(issue{Collective: ranktest.Collective{Kind: ranktest.Allreduce, Size: 1}}, c)
		u.q.Cancel()
		if c.Rank() != 1 {
			if _, err := u.q.WithContext(ctx).Wait(); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a wait that was given up: %w", err)
			}
		}
		return u.check(wait(u.q))
	}))
}

// A known failure ends non-blocking collectives, in the RTS profile at once, until a validate.
func TestNonblockingCollectivesAreInactive(t *testing.T) {
	for _, profile := range ranktest.BothProfiles {
		areInactive(t, profile)
	}
}

func areInactive(t *testing.T, profile banyan.Profile) {
	t.Helper()
	require.NoError(t, banyan.Simulate(4, banyan.Simulation{
		Faults:  func(s *sim.Sim) error { return s.Kill(2, fabric.Time(time.Millisecond)) },
		Options: []banyan.Option{banyan.WithProfile(profile)},
	}, func(w *banyan.World) error {
		c := w.Comm()
		if _, err := c.Recv(make([]byte, 1), 2, 1); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("rank 2 should be dead: %w", err)
		}
		q := c.Ibarrier()
		_, done, err := q.Test()
		if !done && profile == banyan.ULFM {
			_, err = q.Wait()
		} else if !done {
			return errors.New("with a dead rank: it has not ended")
		}
		if !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("with a dead rank: %w", err)
		}
		if _, err := c.Validate(); err != nil {
			return err
		}
		for root := range 4 {
			if err := everyKind(c, root, 2, root, true, 2); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Mismatched lengths and wrong arguments are ErrArgument and keep no rank waiting.
func TestNonblockingCollectivesThatDoNotFit(t *testing.T) {
	for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
		require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
			c := w.Comm()
			if err := c.SetUniformity(level); err != nil {
				return err
			}
			size, odd := 16, c.Rank() == 1
			if odd {
				size = 8
			}
			met := 0
			for kind, q := range []banyan.Request{
				c.Ibcast(make([]byte, size), 0), c.Ireduce(make([]byte, size), make([]byte, size), xor, 0),
				c.Iallreduce(make([]byte, size), make([]byte, size), xor), c.Iallgather(make([]byte, size), make([]byte, 6*size)),
				c.Igather(make([]byte, size), make([]byte, 6*size), 2),
				c.Iscatter(make([]byte, 6*size), make([]byte, size), 2),
			} {
				_, err := q.Wait()
				if err != nil && !errors.Is(err, banyan.ErrArgument) || err == nil &&
					level == banyan.UniformCollectives {
					return fmt.Errorf("kind %d: %w", kind, err)
				}
				if err != nil {
					met++
				}
			}
			if odd && met == 0 {
				return errors.New("no error where the length differs")
			}
			if level != banyan.UniformNothing {
				return nil
			}
			for kind, q := range []banyan.Request{
				c.Iallreduce(nil, nil, nil), c.Ibcast(nil, 6), c.Iscatter(nil, make([]byte, 1), 3),
				c.Igather(make([]byte, 1), make([]byte, 7), 3),
			} {
				if _, err := q.Wait(); !errors.Is(err, banyan.ErrArgument) && (kind < 3 || c.Rank() == 3) {
					return fmt.Errorf("wrong argument %d: %w", kind, err)
				}
			}
			return c.Barrier()
		}), "%v", level)
	}
}

// interleavedRank runs an interleaved program on real processes.
func interleavedRank(w *banyan.World) error { return interleave(w.Comm(), 3, 150) }

func TestNonblockingCollectivesWithProcesses(t *testing.T) {
	for name, env := range map[string][]string{"as suggested": nil, "asynchronous": {ranktest.AsyncEnv + "=1"},
		"unaware": {ranktest.UnawareEnv + "=1"}} {
		t.Run(name, func(t *testing.T) { ranktest.Succeed(t, 5, "non-blocking", env...) })
	}
}

// killedRank: one rank kills itself in the middle of several operations. The others continue.
func killedRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 3))
	victim, spins := r.IntN(c.Size()), r.IntN(400_000)
	if c.Rank() == victim {
		ranktest.KillSelfAt(new(atomic.Int64), 0, spins)
	}
	var all []endedOp
	for len(all) < 400 || c.Rank() == victim {
		some, err := endure(c, seed+uint64(len(all)), 8)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	if _, err := until(c, seed, 30); err != nil {
		return err
	}
	return touched(all)
}

func TestNonblockingCollectivesAndSIGKILL(t *testing.T) {
	ranktest.JobsWithDeaths(t, "non-blocking, one killed", 6, 1, ranktest.JobSeeds(1, 30)...)
}

// nonblockingAllocs checks that an operation allocates nothing after a warm-up.
func nonblockingAllocs(w *banyan.World) error {
	c := w.Comm()
	small, big := make([]byte, 64), make([]byte, 100_000)
	all, other := make([]byte, 64*c.Size()), make([]byte, 64*c.Size())
	parts, counts := slices.Collect(slices.Chunk(all, 64)), slices.Repeat([]int{64}, c.Size())
	for kind, call := range []func() banyan.Request{
		c.Ibarrier,
		func() banyan.Request { return c.Ibcast(big, 1) },
		func() banyan.Request { return c.Iallreduce(small, small, xor) },
		func() banyan.Request { return c.Igather(small, all, 1) },
		func() banyan.Request { return c.Iscatter(all, small, 1) },
		func() banyan.Request { return c.Ialltoall(all, other) },
		func() banyan.Request { return c.Iallgatherv(small, parts) },
		func() banyan.Request { return c.Igatherv(small, parts, 1) },
		func() banyan.Request { return c.Iscatterv(parts, small, 1) },
		func() banyan.Request { return c.Ialltoallv(parts, parts) },
		func() banyan.Request { return c.IreduceScatterBlock(all, small, xor) },
		func() banyan.Request { return c.IreduceScatter(all, small, counts, xor) },
		func() banyan.Request { return c.Iscan(small, small, xor) },
		func() banyan.Request { return c.Iexscan(small, small, xor) },
	} {
		if err := w.Comm().Barrier(); err != nil {
			return err
		}
		var failed error
		again := c.Persistent(func(*banyan.Comm) banyan.Request { return call() })
		n := testing.AllocsPerRun(300, func() {
			if _, err := call().Wait(); err != nil {
				failed = err
			}
			again.Start()
			if _, err := again.Wait(); err != nil {
				failed = err
			}
			if err := c.Barrier(); err != nil { // or senders run ahead, and their messages are kept
				failed = err
			}
		})
		if failed != nil {
			return failed
		}
		if n >= 1 {
			return fmt.Errorf("kind %d allocates %v times", kind, n)
		}
	}
	return nil
}

func TestNonblockingCollectivesAllocateNothing(t *testing.T) {
	ranktest.Succeed(t, 3, "non-blocking allocs", "BANYAN_DETECT=off", "BANYAN_DEBUG=off")
}

// absentRank has rank 2, between rank 0 and rank 3 in the tree, compute outside the library
// until rank 3 has the broadcast.
func absentRank(w *banyan.World) error {
	for _, size := range []int{8, 2 << 20} {
		c := w.Comm()
		if err := c.Barrier(); err != nil { // so that rank 2 leaves the library without the data
			return err
		}
		if c.Rank() == 0 {
			if _, err := c.Recv(nil, 2, 1); err != nil {
				return err
			}
		}
		buf := ranktest.Pattern(c.Rank(), size)
		q := c.Ibcast(buf, 0)
		switch c.Rank() {
		case 2:
			if err := c.Send(nil, 0, 1); err != nil {
				return err
			}
			if _, err := os.ReadFile(os.Getenv(ranktest.FIFOEnv)); err != nil {
				return err
			}
		case 3:
			if _, err := q.Wait(); err != nil {
				return err
			}
			if err := os.WriteFile(os.Getenv(ranktest.FIFOEnv), []byte("go"), 0o600); err != nil {
				return err
			}
		}
		if _, err := q.Wait(); err != nil {
			return err
		}
		if err := ranktest.CheckEqual(buf, ranktest.Pattern(0, size)); err != nil {
			return err
		}
	}
	return nil
}

// With asynchronous progress a computing rank forwards data.
func TestNonblockingCollectivesWhileComputing(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	ranktest.Succeed(t, 4, "non-blocking, one computes", ranktest.AsyncEnv+"=1", ranktest.FIFOEnv+"="+fifo)
}

// Persistent collectives give the results of their non-blocking forms at each start: with other contents of the same
// buffers, and among the living after a failure.
func TestPersistentCollectives(t *testing.T) {
	require.NoError(t, ranktest.SimulatedJob{N: 5, Kills: map[int]time.Duration{3: 50 * time.Millisecond}}.Run(func(w *banyan.World) error {
		c := w.Comm()
		var all []*banyan.Persistent
		var bufs, fresh, wants [][]uint64
		for kind := range ranktest.CollectiveKinds {
			if kind == ranktest.Barrier {
				continue
			}
			o := ranktest.Collective{Kind: kind, Number: 2, Root: 1, Size: 3}
			buf, want := o.Buffers(c)
			all = append(all, c.Persistent(func(c *banyan.Comm) banyan.Request { return o.Start(c, buf) }))
			bufs, fresh, wants = append(bufs, buf), append(fresh, slices.Clone(buf)), append(wants, want)
		}
		round := func() (err error) {
			for i, p := range all {
				copy(bufs[i], fresh[i])
				p.Start()
				_, failed := p.Wait()
				if failed == nil && wants[i] != nil && !slices.Equal(bufs[i], wants[i]) {
					return fmt.Errorf("rank %d: collective %d: %x, want %x", c.Rank(), i, bufs[i], wants[i])
				}
				err = errors.Join(err, failed)
			}
			return err
		}
		for range 3 {
			if err := round(); err != nil {
				return err
			}
		}
		w.Sleep(100 * time.Millisecond)
		if err := round(); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("after a failure: %w", err)
		}
		if _, err := c.Validate(); err != nil {
			return err
		}
		sum := []uint64{1}
		p := c.Persistent(func(c *banyan.Comm) banyan.Request { return banyan.Iallreduce(c, sum, sum, banyan.Sum) })
		for want := uint64(4); want <= 16; want *= 4 {
			p.Start()
			if _, err := p.Wait(); err != nil || sum[0] != want {
				return fmt.Errorf("sum among the living: %d, want %d, %w", sum[0], want, err)
			}
		}
		return p.Free()
	}))
}
