package windows

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Every operation and synchronisation, in the simulator and over every fabric.
func TestOperations(t *testing.T) {
	ranktest.EverySize(t, operations)
}

func TestOperationsOfProcesses(t *testing.T) {
	for name, env := range ranktest.JoinedBy(ranktest.ByFabric) {
		t.Run(name, func(t *testing.T) { ranktest.Succeed(t, 4, "operations", env...) })
	}
}

func operations(c *banyan.Comm) error {
	for _, test := range []func(*banyan.Comm, *banyan.Window) error{
		fences, locks, groups, notices, accumulates, localFlushes, requests, refusals,
	} {
		w, err := c.AllocWindow(3*longPut, banyan.WithNotices(2))
		if err != nil {
			return err
		}
		if err := test(c, w); err != nil {
			return err
		}
		if err := w.Free(); err != nil {
			return err
		}
		if err := w.Put(nil, 0, 0); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("a put after Free: %w", err)
		}
	}
	return dynamic(c)
}

// longPut takes several frames on every fabric.
const longPut = 300_000

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	const period = 1 << 16
	for i := range b[:min(n, period)] {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	for i := period; i < n; i *= 2 {
		copy(b[i:], b[:i])
	}
	return b
}

// fences: each rank puts to the next one, and reads from the one after that.
func fences(c *banyan.Comm, w *banyan.Window) error {
	if err := w.Fence(); err != nil {
		return err
	}
	n := c.Size()
	for round, size := range []int{8, 5000, longPut} {
		next := (c.Rank() + 1) % n
		err := w.Put(pattern(size, c.Rank()+round), next, 16)
		if err := errors.Join(err, w.Fence()); err != nil {
			return err
		}
		if want := pattern(size, (c.Rank()+n-1)%n+round); !bytes.Equal(w.Bytes()[16:16+size], want) {
			return fmt.Errorf("round %d: wrong data", round)
		}
		got := make([]byte, size)
		err = w.Get(got, (c.Rank()+2)%n, 16)
		if err := errors.Join(err, w.Fence()); err != nil {
			return err
		}
		if want := pattern(size, next+round); !slices.Equal(got, want) {
			return fmt.Errorf("round %d: got wrong data", round)
		}
	}
	return nil
}

// locks: a counter that is no atomic one, under an exclusive lock; readers share.
func locks(c *banyan.Comm, w *banyan.Window) error {
	const rounds = 10
	for range rounds {
		for rank := range c.Size() {
			value := make([]uint64, 1)
			err := errors.Join(w.Lock(banyan.LockExclusive, rank), banyan.Get(w, value, rank, 0), w.Flush(rank))
			value[0]++
			if err := errors.Join(err, banyan.Put(w, value, rank, 0), w.Unlock(rank)); err != nil {
				return err
			}
		}
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	if err := w.LockAll(); err != nil {
		return err
	}
	all := make([]uint64, c.Size())
	for rank := range all {
		if err := banyan.Get(w, all[rank:rank+1], rank, 0); err != nil {
			return err
		}
	}
	if err := errors.Join(w.FlushAll(), w.UnlockAll()); err != nil {
		return err
	}
	for rank, v := range all {
		if v != uint64(rounds*c.Size()) {
			return fmt.Errorf("rank %d counted %d", rank, v)
		}
	}
	return nil
}

// groups: each rank exposes its memory to the one before it.
func groups(c *banyan.Comm, w *banyan.Window) error {
	n := c.Size()
	to, err1 := c.Group().Include((c.Rank() + 1) % n)
	from, err2 := c.Group().Include((c.Rank() + n - 1) % n)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for round := range 5 {
		err := errors.Join(w.Post(from), w.Start(to),
			banyan.Put(w, []int64{int64(100*round + c.Rank())}, (c.Rank()+1)%n, 3), w.Complete())
		if err != nil {
			return err
		}
		if round%2 == 0 {
			err = w.Wait()
		}
		for done := round%2 == 0; !done && err == nil; {
			done, err = w.Test()
		}
		if err != nil {
			return err
		}
		if got := w.Bytes()[24]; got != byte(100*round+(c.Rank()+n-1)%n) {
			return fmt.Errorf("round %d: %d", round, got)
		}
	}
	return nil
}

// notices: the data are there when the counter has its value.
func notices(c *banyan.Comm, w *banyan.Window) error {
	if err := w.LockAll(); err != nil {
		return err
	}
	n := c.Size()
	for round := range 3 {
		err := w.PutNotify(pattern(longPut, c.Rank()+round), (c.Rank()+1)%n, 0, 1)
		if err := errors.Join(err, w.WaitNotice(1, 1)); err != nil {
			return err
		}
		if !bytes.Equal(w.Bytes()[:longPut], pattern(longPut, (c.Rank()+n-1)%n+round)) {
			return fmt.Errorf("round %d: wrong data", round)
		}
		if ok, err := w.TestNotice(0, 1); ok || err != nil {
			return fmt.Errorf("the other counter: %v, %w", ok, err)
		}
		if err := errors.Join(w.FlushAll(), c.Barrier()); err != nil {
			return err
		}
	}
	return w.UnlockAll()
}

func accumulates(c *banyan.Comm, w *banyan.Window) error {
	if err := w.LockAll(); err != nil {
		return err
	}
	n, ones := c.Size(), make([]float64, 20_000)
	for i := range ones {
		ones[i] = 1
	}
	if err := banyan.Accumulate(w, ones, 0, 0, banyan.AccSum); err != nil {
		return err
	}
	seen := uint64(0)
	for i := range 10 {
		old, err := banyan.FetchAndOp(w, uint64(1), n-1, 25_000, banyan.AccSum)
		if err != nil || i > 0 && old <= seen {
			return fmt.Errorf("fetched %d after %d: %w", old, seen, err)
		}
		seen = old
	}
	for done := false; !done; {
		old, err := banyan.FetchAndOp(w, int32(0), 0, 60_000, banyan.AccNoOp)
		if err != nil {
			return err
		}
		was, err := banyan.CompareAndSwap(w, old, old+1, 0, 60_000)
		if err != nil {
			return err
		}
		done = was == old
	}
	err := banyan.Accumulate(w, []int16{int16(c.Rank())}, 0, 104_000, banyan.AccMax)
	if err := errors.Join(err, w.UnlockAll(), c.Barrier(), w.LockAll()); err != nil {
		return err
	}
	sums, old, count, most, swaps := make([]float64, len(ones)), make([]float64, 5), []uint64{0}, []int16{0}, []int32{0}
	err = errors.Join(banyan.Get(w, sums, 0, 0), banyan.GetAccumulate(w, make([]float64, 5), old, 0, 0, banyan.AccNoOp),
		banyan.Get(w, count, n-1, 25_000), banyan.Get(w, most, 0, 104_000), banyan.Get(w, swaps, 0, 60_000), w.UnlockAll())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(append(sums, old...), func(v float64) bool { return v != float64(n) }) ||
		count[0] != uint64(10*n) || most[0] != int16(n-1) || swaps[0] != int32(n) {
		return fmt.Errorf("%v %v, count %d, most %d, swaps %d", sums[:3], old, count, most, swaps)
	}
	return nil
}

// localFlushes: buffers may be used again before the operations are complete at the target.
func localFlushes(c *banyan.Comm, w *banyan.Window) error {
	if err := w.Fence(); err != nil {
		return err
	}
	right := (c.Rank() + 1) % c.Size()
	buf := make([]byte, longPut)
	for k := range 3 {
		copy(buf, pattern(longPut, k))
		if err := errors.Join(w.Put(buf, right, k*longPut), w.FlushLocal(right)); err != nil {
			return err
		}
		clear(buf)
	}
	if err := errors.Join(w.Sync(), w.Fence()); err != nil {
		return err
	}
	for k := range 3 {
		if !bytes.Equal(w.Bytes()[k*longPut:][:longPut], pattern(longPut, k)) {
			return fmt.Errorf("put %d has read its buffer after the local flush", k)
		}
	}
	got := make([]byte, longPut)
	if err := errors.Join(w.Get(got, right, longPut), w.FlushLocalAll()); err != nil {
		return err
	}
	if !bytes.Equal(got, pattern(longPut, 1)) {
		return errors.New("a local flush has not waited for what is read")
	}
	return w.Fence()
}

func requests(c *banyan.Comm, w *banyan.Window) error {
	if err := w.LockAll(); err != nil {
		return err
	}
	data, got := pattern(longPut, c.Rank()), make([]byte, longPut)
	to := (c.Rank() + 1) % c.Size()
	if _, err := w.Rput(data, to, 0).Wait(); err != nil {
		return err
	}
	_, err := w.Rget(got, to, 0).Wait()
	if err != nil || !slices.Equal(got, data) {
		return fmt.Errorf("wrong data: %w", err)
	}
	sum, old := []int32{5, 7}, make([]int32, 2)
	if _, err = banyan.Raccumulate(w, sum, to, longPut/4, banyan.AccSum).Wait(); err != nil {
		return err
	}
	_, err = banyan.RgetAccumulate(w, sum, old, to, longPut/4, banyan.AccProd).Wait()
	if err != nil || !slices.Equal(old, sum) {
		return fmt.Errorf("%v after %v: %w", old, sum, err)
	}
	_, err = banyan.RgetAccumulate(w, sum, old, to, longPut/4, banyan.AccNoOp).Wait()
	if err != nil || old[0] != 25 || old[1] != 49 {
		return fmt.Errorf("squares %v: %w", old, err)
	}
	return w.UnlockAll()
}

// refusals: a wrong argument is an error at once, and changes nothing.
func refusals(c *banyan.Comm, w *banyan.Window) error {
	buf := make([]byte, 8)
	if err := w.Put(buf, 0, 0); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("a put outside of an epoch: %w", err)
	}
	for i, err := range []error{w.Flush(0), w.FlushLocal(0), w.FlushAll(), w.FlushLocalAll()} {
		if !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("flush %d outside of an epoch: %w", i, err)
		}
	}
	if err := w.Fence(); err != nil {
		return err
	}
	end := w.SizeAt(0)
	_, err := banyan.FetchAndOp(w, 1.5, 0, 0, banyan.AccXor)
	for what, err := range map[string]error{
		"rank": w.Put(buf, c.Size(), 0), "beyond": w.Put(buf, 0, end-7), "negative": w.Get(buf, 0, -1),
		"far": w.Get(buf, 0, 1<<62), "counter": w.PutNotify(buf, 0, 0, 2), "xor of floats": err,
		"notice": w.WaitNotice(5, 1), "unlock": w.Unlock(0), "lock": w.Lock(7, 0),
		"element": banyan.Put(w, []int64{1}, 0, 1<<61),
	} {
		if !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := banyan.Put(w, []int64{1}, 0, -1); !strings.HasSuffix(err.Error(), "a negative offset or index, or one beyond all memory") {
		return fmt.Errorf("a negative index: %w", err)
	}
	if err := errors.Join(w.Put(buf, 0, end-8), w.Put(buf, banyan.ProcNull, 0), w.Fence()); err != nil {
		return err
	}
	var absent *banyan.Window
	if err := errors.Join(absent.Fence()); !errors.Is(err, banyan.ErrArgument) || absent.Bytes() != nil {
		return fmt.Errorf("no window: %w", err)
	}
	wrong := 8
	if c.Rank() == 0 {
		wrong = -1
	}
	if _, err := c.AllocWindow(wrong); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("a wrong argument of one rank: %w", err)
	}
	return nil
}

// A target that computes answers (passive target).
func TestTargetThatComputes(t *testing.T) {
	assert.NoError(t, banyan.Simulate(2, banyan.Simulation{Seed: 1}, func(w *banyan.World) error {
		c := w.Comm()
		win, err := c.AllocWindow(8)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			w.Sleep(1e9)
			return win.Free()
		}
		err = errors.Join(win.Lock(banyan.LockExclusive, 1), banyan.Put(win, []uint64{1}, 1, 0), win.Unlock(1))
		if err == nil && w.Now() >= 1e9 {
			err = errors.New("the target answered only when it called")
		}
		return errors.Join(err, win.Free())
	}))
}
