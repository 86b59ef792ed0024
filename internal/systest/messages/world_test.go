package messages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func TestRing(t *testing.T) {
	for name, env := range map[string][]string{
		"as suggested":     nil,
		"unaware":          {ranktest.UnawareEnv + "=1"},
		"eager":            {ranktest.EagerEnv + "=10000000"},
		"rendezvous":       {ranktest.EagerEnv + "=1"},
		"streamed":         {ranktest.EagerEnv + "=1", ranktest.NoCopyEnv + "=1"},
		"no kernel copies": {ranktest.NoCopyEnv + "=1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 2, 5}[ranktest.Scaled(0, 2):] {
				ranktest.Succeed(t, n, "ring", env...)
			}
		})
	}
}

func TestOrders(t *testing.T)         { ranktest.Succeed(t, 2, "orders") }
func TestCrowd(t *testing.T)          { ranktest.Succeed(t, 8, "crowd") }
func TestWrongArguments(t *testing.T) { ranktest.Succeed(t, 2, "wrong") }
func TestThreads(t *testing.T)        { ranktest.Succeed(t, 2, "threads") }

// orders checks matching: tags, wildcards, contexts, truncation.
func orders(w *banyan.World) error {
	c := w.Comm()
	d, err := c.Dup()
	if err != nil {
		return err
	}
	me, peer := c.Rank(), 1-c.Rank()
	// All are sent before any is received; those on the duplicate come first.
	sends := []struct {
		c    *banyan.Comm
		tag  int
		text string
	}{{d, 1, "dup one"}, {c, 1, "one"}, {c, 2, "two"}, {c, 1, "one more"}, {d, 5, "dup five"}, {c, 3, "three is long"}}
	for _, s := range sends {
		if err := s.c.Send([]byte(s.text), peer, s.tag); err != nil {
			return err
		}
	}
	recv := func(c *banyan.Comm, src, tag int, want string, wantTag int) error {
		buf := make([]byte, 9)
		st, err := c.Recv(buf, src, tag)
		if got := string(buf[:st.Count]); got != want[:min(9, len(want))] || st.Tag != wantTag || st.Source != peer {
			return fmt.Errorf("rank %d: tag %d: got %q %+v, want %q", me, tag, got, st, want)
		}
		if errors.Is(err, banyan.ErrTruncate) != (len(want) > 9) {
			return fmt.Errorf("tag %d: truncation: %v", tag, err)
		}
		return nil
	}
	err = errors.Join(
		recv(c, peer, 2, "two", 2),
		recv(c, banyan.AnySource, banyan.AnyTag, "one", 1),
		recv(c, peer, 3, "three is long", 3),
		recv(c, peer, banyan.AnyTag, "one more", 1),
		recv(d, banyan.AnySource, 5, "dup five", 5),
		recv(d, peer, 1, "dup one", 1),
	)
	if _, sendErr := c.Recv(nil, banyan.ProcNull, 0); sendErr != nil {
		err = errors.Join(err, sendErr)
	}
	self := []byte("to myself")
	req := c.Isend(self, me, 8)
	if _, recvErr := c.Recv(make([]byte, 20), me, 8); recvErr != nil {
		err = errors.Join(err, recvErr)
	}
	_, sendErr := req.Wait()
	return errors.Join(err, sendErr)
}

func wrongArguments(w *banyan.World) error {
	c := w.Comm()
	_, recvErr := c.Recv(nil, 2, 0)
	_, tagErr := c.Recv(nil, 0, -5)
	_, waitErr := c.Irecv(nil, -7, 0).Wait()
	for i, err := range []error{
		c.Send(nil, 2, 0), c.Send(nil, -1, 0), c.Send(nil, 1, -1), recvErr, tagErr, waitErr,
	} {
		if !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("case %d: %v", i, err)
		}
	}
	return nil
}

// threads has several goroutines of each rank communicate at once, each with its own tag.
func threads(w *banyan.World) error {
	c := w.Comm()
	const goroutines, rounds = 6, 300
	errs := make(chan error, goroutines)
	for tag := range goroutines {
		go func() {
			out, in := ranktest.Pattern(c.Rank(), 40*tag*tag*tag*tag+8), make([]byte, 40*tag*tag*tag*tag+8)
			for range rounds {
				if _, err := c.Sendrecv(out, 1-c.Rank(), tag, in, 1-c.Rank(), tag); err != nil {
					errs <- err
					return
				}
				if !bytes.Equal(in, ranktest.Pattern(1-c.Rank(), len(in))) {
					errs <- fmt.Errorf("wrong data for tag %d", tag)
					return
				}
			}
			errs <- nil
		}()
	}
	for range goroutines {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// The detector is off: it allocates a little in each period. Under debug a number for each message, see
// ranktest.Allocations.
func TestNoAllocationPerMessage(t *testing.T) {
	ranktest.Succeed(t, 2, "allocs", "BANYAN_DETECT=off")
	ranktest.Succeed(t, 2, "allocs", ranktest.UnawareEnv+"=1", "BANYAN_DETECT=off")
	ranktest.Succeed(t, 2, "allocs", ranktest.EagerEnv+"=1", "BANYAN_DETECT=off")
	ranktest.Succeed(t, 2, "allocs", ranktest.EagerEnv+"=1", ranktest.NoCopyEnv+"=1", "BANYAN_DETECT=off")
}

// allocs counts the allocations over many messages of each protocol, after a warm-up, on both
// sides.
func allocs(w *banyan.World) error {
	c := w.Comm()
	for _, size := range []int{0, 8, 48, 4000, 20_000, 300_000} {
		buf := make([]byte, size)
		reqs := make([]banyan.Request, 16)
		exchange := func() error {
			if c.Rank() == 0 {
				if err := c.Send(buf, 1, 1); err != nil {
					return err
				}
				if _, err := c.Recv(buf, 1, 1); err != nil {
					return err
				}
				for i := range reqs {
					reqs[i] = c.Isend(buf, 1, 2)
				}
				return banyan.WaitAll(reqs)
			}
			if _, err := c.Recv(buf, 0, 1); err != nil {
				return err
			}
			if err := c.Send(buf, 0, 1); err != nil {
				return err
			}
			for i := range reqs {
				reqs[i] = c.Irecv(buf, 0, 2)
			}
			return banyan.WaitAll(reqs)
		}
		rounds := 300
		if size > 10_000 {
			rounds = 100
		}
		var before, after runtime.MemStats
		for i := range 2 * rounds {
			if i == rounds {
				runtime.ReadMemStats(&before)
			}
			if err := exchange(); err != nil {
				return err
			}
		}
		runtime.ReadMemStats(&after)
		// The runtime allocates a little of its own now and then; one allocation in each exchange
		// of 34 messages would be at least as many as rounds.
		// And some once: a thread, unexpected messages
		most := uint64(rounds/2+20) + ranktest.Allocations(rounds*(2+len(reqs)))
		if n := after.Mallocs - before.Mallocs; n > most {
			return fmt.Errorf("rank %d: %d allocations in %d exchanges of %d bytes", c.Rank(), n, rounds, size)
		}
	}
	return nil
}

// The death of a rank in the middle of a stream of messages is reported with rank and cause.
// Messages that arrived before are complete.
func TestDeathInMidStream(t *testing.T) {
	for _, env := range [][]string{nil, {ranktest.NoCopyEnv + "=1"}, {ranktest.EagerEnv + "=1"}} {
		for range ranktest.Scaled(10, 2) {
			res, out := ranktest.Job(t, launch.Continue, 3, "die", env...)
			for i, e := range res.Ends {
				if i == 1 {
					require.Equal(t, syscall.SIGKILL, e.Signal, out)
				} else {
					require.False(t, e.Failed(), "%v\n%s", e, out)
				}
			}
		}
	}
}

func dieInMidStream(w *banyan.World) error {
	c := w.Comm()
	sizes := []int{8, 1000, 30_000, 500_000}
	if c.Rank() == 1 {
		go func() { // while the other goroutine sends
			buf := make([]byte, 8)
			if _, err := c.Recv(buf, 0, 9); err == nil {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}()
		for i := 0; ; i++ {
			if err := c.Send(ranktest.Pattern(1, sizes[i%len(sizes)]), i%2*2, 1); err != nil {
				return err
			}
		}
	}
	buf := make([]byte, slices.Max(sizes))
	for i := 0; ; i++ {
		if i == 20 && c.Rank() == 0 {
			if err := c.Send(buf[:8], 1, 9); err != nil && !errors.Is(err, banyan.ErrProcFailed) {
				return err
			}
		}
		st, err := c.Recv(buf, 1, 1)
		if err == nil {
			if !bytes.Equal(buf[:st.Count], ranktest.Pattern(1, st.Count)) {
				return fmt.Errorf("message %d of %d bytes is not whole", i, st.Count)
			}
			continue
		}
		var failed *banyan.ProcFailedError
		if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{1}) {
			return fmt.Errorf("the error does not name rank 1: %w", err)
		}
		if err := c.Send(buf[:8], 1, 1); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("a send to the dead: %v", err)
		}
		if _, err := c.Recv(buf, banyan.AnySource, 7); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("a receive from any source: %v", err)
		}
		return survivors(c)
	}
}

// survivors checks that ranks 0 and 2 still communicate.
func survivors(c *banyan.Comm) error {
	peer := 2 - c.Rank()
	out, in := ranktest.Pattern(c.Rank(), 70_000), make([]byte, 70_000)
	if _, err := c.Sendrecv(out, peer, 4, in, peer, 4); err != nil {
		return err
	}
	if !bytes.Equal(in, ranktest.Pattern(peer, len(in))) {
		return errors.New("the survivors' message is wrong")
	}
	return nil
}

// A rank that returns without Finalize has failed. Finalize of the others returns.
func TestEndWithoutFinalize(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 2, "early end")
	require.Equal(t, 3, res.Ends[1].Code)
	require.False(t, res.Ends[0].Failed(), "%v\n%s", res.Ends[0], out)
}

func earlyEnd(w *banyan.World) error {
	c := w.Comm()
	if c.Rank() == 1 {
		return errors.New("I am leaving")
	}
	if _, err := c.Recv(make([]byte, 8), 1, 0); !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("receive from a rank that left: %v", err)
	}
	return nil
}

func TestAloneInTheWorld(t *testing.T) {
	w, err := banyan.Init()
	require.NoError(t, err)
	require.Equal(t, 1, w.Comm().Size())
	req := w.Comm().Isend([]byte("echo"), 0, 1)
	buf := make([]byte, 10)
	st, err := w.Comm().Recv(buf, banyan.AnySource, banyan.AnyTag)
	require.NoError(t, err)
	require.Equal(t, "echo", string(buf[:st.Count]))
	_, err = req.Wait()
	require.NoError(t, err)
	require.NoError(t, w.Finalize())
	require.NoError(t, w.Finalize())
}

func TestOptions(t *testing.T) {
	for _, o := range []banyan.Option{
		banyan.WithFabrics("carrier pigeon"), banyan.WithFabrics("shm", "sim"), banyan.WithFabrics(), banyan.WithEagerLimit(-1),
	} {
		_, err := banyan.Init(o)
		require.ErrorIs(t, err, banyan.ErrArgument)
	}
}

func TestMissingRankIsNamed(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	var out bytes.Buffer
	_, err = launch.Run(context.Background(), launch.Spec{
		N: 3, Argv: []string{"/bin/sh", "-c", `test "$PMI_RANK" = 2 && exit 5; exec ` + exe},
		Env: append(os.Environ(), ranktest.RoleEnv+"=ring"), Stdout: io.Discard, Stderr: &out,
	})
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out.String(), "rank 2 exited with code 5 before it joined"), out.String())
}
