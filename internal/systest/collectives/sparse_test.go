package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/job"
)

// A sparse engine, as those of large simulated jobs are, does the same as any other: the same frames at
// the same times, with failures too.
func TestSparseEnginesDoTheSame(t *testing.T) {
	const ranks = 70 // more than a page of a table
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			plain := traceOf(t, ranks, seed)
			dense(t, 0)
			sparse := traceOf(t, ranks, seed)
			require.True(t, bytes.Contains(plain, []byte(" down ")))
			require.True(t, bytes.Equal(plain, sparse), "the traces differ")
		})
	}
}

// dense has the engines of simulated ranks be dense in jobs of up to so many ranks, until the test ends.
func dense(t *testing.T, ranks int) {
	before := job.DenseRanks
	job.DenseRanks = ranks
	t.Cleanup(func() { job.DenseRanks = before })
}

// traceOf is the trace of a job of which two ranks die early.
func traceOf(t *testing.T, ranks int, seed uint64) []byte {
	var trace bytes.Buffer
	require.NoError(t, banyan.Simulate(ranks, banyan.Simulation{
		Seed: seed, Configure: func(c *sim.Config) { c.Trace = &trace },
		Faults:  banyan.Faults(banyan.Kill(5, time.Duration(seed)*3*time.Microsecond), banyan.Kill(66, 300*time.Microsecond)),
		Options: []banyan.Option{banyan.WithDetection(50*time.Millisecond, 200*time.Millisecond)},
	}, sparseBody))
	return trace.Bytes()
}

// sparseBody uses everything that has tables by rank: messages of all protocols, wildcards, collectives,
// agreement, validate and shrink. Errors of the failed ranks are expected.
func sparseBody(w *banyan.World) error {
	c := w.Comm()
	n, me := c.Size(), c.Rank()
	expected := func(err error) error {
		if errors.Is(err, banyan.ErrProcFailed) || errors.Is(err, banyan.ErrProcFailedPending) {
			return nil
		}
		return err
	}
	for _, size := range []int{0, 8, 3000, 14_000, 200_000} {
		buf, in := make([]byte, size), make([]byte, size)
		for _, d := range []int{1, 3, 65} {
			r := c.Irecv(in, (me+n-d)%n, 1)
			s := c.Isend(buf, (me+d)%n, 1)
			_, err := r.Wait()
			_, serr := s.Wait()
			if err := errors.Join(expected(err), expected(serr)); err != nil {
				return err
			}
		}
	}
	for range 3 {
		if err := expected(c.Barrier()); err != nil {
			return err
		}
	}
	if me == 0 {
		for range 8 { // too few for all: the others' stay unexpected
			if _, err := c.Recv(nil, banyan.AnySource, 2); expected(err) != nil {
				return err
			}
		}
	} else if err := expected(c.Send(nil, 0, 2)); err != nil {
		return err
	}
	w.Sleep(time.Second - w.Now())
	_, err := c.Validate()
	if err := expected(err); err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	left, err := c.Shrink()
	if err != nil {
		return err
	}
	sum := []int{1}
	if err := banyan.Allreduce(left, sum, sum, banyan.Sum); err != nil || sum[0] != n-2 {
		return fmt.Errorf("%d survivors: %w", sum[0], err)
	}
	return nil
}

// heapInUse is the size of all objects that are reachable. The second collection frees objects that the first
// has found unreachable and had to finalize.
func heapInUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// The memory of a sparse rank does not grow with the job, and a failure of which it has been notified
// takes some bytes, not an endpoint and a link.
func TestMemoryOfSparseRanks(t *testing.T) {
	for _, c := range []struct{ ranks, failures, most int }{{3000, 0, 18 << 10}, {1200, 300, 40 << 10}} {
		var faults []banyan.Fault
		for i := range c.failures {
			faults = append(faults, banyan.Kill(1+i, time.Second/2))
		}
		each := 0
		dense(t, 0)
		before := heapInUse() // of the tests before
		require.NoError(t, banyan.Simulate(c.ranks, banyan.Simulation{Faults: banyan.Faults(faults...)},
			func(w *banyan.World) error {
				if _, err := w.Comm().Agree(1); err != nil {
					return err
				}
				w.Sleep(time.Second - w.Now())
				failed, err := w.Comm().Validate()
				if err != nil || failed.Size() != c.failures {
					return fmt.Errorf("%d failures: %w", failed.Size(), err)
				}
				if w.Sleep(2*time.Second - w.Now()); w.Comm().Rank() == 0 {
					each = (heapInUse() - before) / c.ranks
				}
				w.Sleep(3*time.Second - w.Now())
				return nil
			}))
		require.Less(t, each, c.most, "bytes of heap for each of %d ranks, %d of which failed", c.ranks, c.failures)
		t.Logf("%d ranks, %d failed: %d bytes each", c.ranks, c.failures, each)
	}
}
