package banyan

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/job"
)

// The operations of the package are recognized as an application names them, and their loops give what
// they give.
func TestKernels(t *testing.T) {
	testKernels(t, Sum[float64], Prod[float64], Min[float64], Max[float64])
	testKernels(t, Sum[int32], Prod[int32], Min[int32], Max[int32])
	testKernels(t, Sum[uint8], Prod[uint8], Min[uint8], Max[uint8])
	require.Nil(t, kernels.Find(func(a, b int) int { return a + b }))
	type named float64
	require.Nil(t, kernels.Find(Sum[named]))
}

func testKernels[T Ordered](t *testing.T, ops ...func(a, b T) T) {
	for n, op := range ops {
		k := kernels.Find(op)
		require.NotNil(t, k, "operation %d on %T", n, T(0))
		for _, size := range []int{0, 1, 7, 64} {
			a, b, want := make([]T, size), make([]T, size), make([]T, size)
			for i := range a {
				a[i], b[i] = T(rand.IntN(100)), T(rand.IntN(100))
				want[i] = op(a[i], b[i])
			}
			first := slices.Clone(a)
			k(Bytes(a), Bytes(b))
			require.Equal(t, want, a)
			k(Bytes(b), Bytes(first))
			require.Equal(t, want, b, "coll.Fold.Swaps counts on it")
		}
	}
}

// A reduction finds its loop without an allocation.
func TestKernelAllocatesNothing(t *testing.T) {
	var f coll.Fold
	require.Zero(t, testing.AllocsPerRun(100, func() { f = elementwise(Sum[float64], nil) }))
	require.NotNil(t, f.Op)
}

// Minimum and maximum of what is not a number are that, as of the functions.
func TestKernelsOfNaN(t *testing.T) {
	a := []float64{math.NaN(), 1}
	elementwise(Min[float64], nil).Op(Bytes(a), Bytes([]float64{1, math.NaN()}))
	require.True(t, math.IsNaN(a[0]) && math.IsNaN(a[1]))
}

func BenchmarkFold(b *testing.B) {
	x, y := make([]float64, 4096), make([]float64, 4096)
	for name, op := range map[string]func(a, b float64) float64{
		"Sum": Sum[float64], "a function of the application": func(a, b float64) float64 { return a + b },
	} {
		b.Run(name, func(b *testing.B) {
			f := elementwise(op, nil).Op
			b.SetBytes(8 * 4096)
			for b.Loop() {
				f(Bytes(x), Bytes(y))
			}
		})
	}
}

// Whatever word a user gives for trees and their design is one that it is written as, or an error of a wrong
// argument.
func FuzzTrees(f *testing.F) {
	for _, word := range []string{"auto", "binomial", "knomial:4", "knomial:+4", "knomial:1", "node", "rebalance"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if chosen, err := ParseTree(word); err != nil {
			require.ErrorIs(t, err, ErrArgument)
		} else {
			again, err := ParseTree(chosen.String())
			require.NoError(t, err)
			require.Equal(t, chosen, again)
			choice, err := job.WithTree(coll.Choice{}, word)
			require.NoError(t, err)
			require.Equal(t, choice.Auto, chosen == AutoTree)
			if !choice.Auto {
				require.Equal(t, choice.Shape.String(), chosen.String())
			}
		}
		if d, err := ParseDesign(word); err == nil {
			require.Equal(t, word, d.String())
		} else {
			require.ErrorIs(t, err, ErrArgument)
		}
	})
}

// FuzzCollective: a member sends the others whatever it likes in the place of its messages of a collective,
// among them headers of lengths that are none, and leaves. The others come back, with an error of a class or a
// result, and write nothing beyond their buffers.
func FuzzCollective(f *testing.F) {
	const wants, long = 61, 1 << 15 // as long as a header; this and more: in segments
	header := append([]byte("banyan: a long message follows in another way; bytes:"), 0, 0, 16, 0, 0, 0, 0, 0)
	for op := range uint8(12) {
		var headers, shorts, right []byte
		for tag := range byte(8) { // one of them is the operation's
			right = append(append(append(right, tag, wants), header[:53]...), wants, 0, 0, 0, 0, 0, 0, 0)
			right = append(append(right, tag, wants), make([]byte, wants)...)
			headers = append(append(headers, tag, wants), header...)
			shorts = append(shorts, tag, 3, 1, 2, 3, tag, 0)
		}
		for _, length := range []uint16{8, wants, long} {
			f.Add(op, op%2 == 0, headers, length)
			f.Add(op, op%2 == 1, shorts, length)
		}
		f.Add(op, true, right, uint16(wants))
		header[58+op%3] += 0x7f
	}
	f.Fuzz(func(t *testing.T, op uint8, chain bool, script []byte, length uint16) {
		apart := Simulation{Configure: func(cfg *sim.Config) { cfg.Topology.ProcsPerNode = 1 }}
		require.NoError(t, Simulate(3, apart, func(w *World) error {
			c := w.Comm()
			if c.Rank() == 1 {
				return disturb(c.derived(c.core.Coll()), script)
			}
			if chain {
				if err := c.SetTree(ChainTree); err != nil {
					return err
				}
			}
			n := int(length)
			if n >= long {
				n += 512 << 10
			}
			return meddled(c, op, n)
		}))
	})
}

// meddled does a collective of n bytes in which others do what they like.
func meddled(c *Comm, op uint8, n int) error {
	memory := slices.Repeat([]byte{0xa5}, 5*n+64)
	buf, all := memory[:n:n], memory[2*n:5*n:5*n]
	fold := func(acc, in []byte) { copy(acc, in) }
	wait := func(r Request) error { _, err := r.Wait(); return err }
	err := [...]func() error{
		func() error { return c.Bcast(buf, 1) },
		func() error { return c.Reduce(buf, buf, fold, 0) },
		func() error { return c.Allreduce(buf, buf, fold) },
		func() error { return c.Gather(buf, all, 0) },
		func() error { return c.Scatter(all, buf, 1) },
		func() error { return c.Allgather(buf, all) },
		func() error { return wait(c.Ibcast(buf, 1)) },
		func() error { return wait(c.Ireduce(buf, buf, fold, 0)) },
		func() error { return wait(c.Iallreduce(buf, buf, fold)) },
		func() error { return wait(c.Igather(buf, all, 0)) },
		func() error { return wait(c.Iscatter(all, buf, 1)) },
		func() error { return wait(c.Iallgather(buf, all)) },
	}[op%12]()
	beyond := func(part []byte) bool { return bytes.Count(part, []byte{0xa5}) != len(part) }
	if beyond(memory[n:2*n]) || beyond(memory[5*n:]) {
		return fmt.Errorf("bytes beyond the buffers are written")
	}
	if err != nil && !slices.ContainsFunc([]error{ErrProcFailed, ErrDeparted, ErrRevoked, ErrClosed, ErrArgument}, func(class error) bool { return errors.Is(err, class) }) {
		return err
	}
	return nil
}

// disturb sends messages to all others: tag, length, bytes.
func disturb(c *Comm, script []byte) error {
	for len(script) >= 2 {
		n := min(int(script[1]), len(script)-2)
		for _, to := range []int{0, 2} {
			c.Isend(script[2:2+n], to, int(script[0]%8))
		}
		script = script[2+n:]
	}
	return nil
}

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
			dense, sparse := traceOf(t, ranks, seed, false), traceOf(t, ranks, seed, true)
			require.True(t, bytes.Contains(dense, []byte(" down ")))
			require.True(t, bytes.Equal(dense, sparse), "the traces differ")
		})
	}
}

// traceOf is the trace of a job of which two ranks die early.
func traceOf(t *testing.T, ranks int, seed uint64, sparse bool) []byte {
	var trace bytes.Buffer
	kill := Faults(Kill(5, time.Duration(seed)*3*time.Microsecond), Kill(66, 300*time.Microsecond))
	err := job.Simulate(ranks, job.Simulation{
		Seed: seed, Sparse: sparse, Configure: func(c *sim.Config) { c.Trace = &trace }, Faults: kill,
	}, &job.Options{Detection: &job.DetectionTimes{Period: 50 * time.Millisecond, Timeout: 200 * time.Millisecond}}, func(j *job.Job) error {
		w := newWorld(j)
		return errors.Join(sparseBody(w), w.Finalize())
	})
	require.NoError(t, err)
	return trace.Bytes()
}

// sparseBody uses what has tables by rank: messages of all protocols, wildcards, collectives, agreement,
// validate and shrink. Errors of the failed ranks are expected.
func sparseBody(w *World) error {
	c := w.Comm()
	n, me := c.Size(), c.Rank()
	expected := func(err error) error {
		if errors.Is(err, ErrProcFailed) || errors.Is(err, ErrProcFailedPending) {
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
			if _, err := c.Recv(nil, AnySource, 2); expected(err) != nil {
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
	if err := Allreduce(left, sum, sum, Sum); err != nil || sum[0] != n-2 {
		return fmt.Errorf("%d survivors: %w", sum[0], err)
	}
	return nil
}

// The memory of a sparse rank does not grow with the job, and a failure of which it has been told takes
// some bytes, not an endpoint and a link.
func TestMemoryOfSparseRanks(t *testing.T) {
	for _, c := range []struct{ ranks, failures, most int }{{3000, 0, 18 << 10}, {1200, 300, 40 << 10}} {
		var faults []Fault
		for i := range c.failures {
			faults = append(faults, Kill(1+i, time.Second/2))
		}
		each := 0
		err := job.Simulate(c.ranks, job.Simulation{Sparse: true, Faults: Faults(faults...)}, new(job.Options),
			func(j *job.Job) error {
				w := newWorld(j)
				if _, err := w.Comm().Agree(1); err != nil {
					return err
				}
				w.Sleep(time.Second - w.Now())
				failed, err := w.Comm().Validate()
				if err != nil || failed.Size() != c.failures {
					return fmt.Errorf("%d failures: %w", failed.Size(), err)
				}
				if w.Sleep(2*time.Second - w.Now()); w.Comm().Rank() == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					each = int(m.HeapAlloc) / c.ranks
				}
				w.Sleep(3*time.Second - w.Now())
				return w.Finalize()
			})
		require.NoError(t, err)
		require.Less(t, each, c.most, "bytes of heap for each of %d ranks, %d of which failed", c.ranks, c.failures)
		t.Logf("%d ranks, %d failed: %d bytes each", c.ranks, c.failures, each)
	}
}
