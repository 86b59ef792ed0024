package repairs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// disaster is a job of real processes of which some kill themselves, drawn from a seed by all ranks
// and the test.
type disaster struct {
	n      int
	doomed map[int]time.Duration
	revoke bool
}

func newDisaster(seed uint64) *disaster {
	r := rand.New(rand.NewPCG(seed, 61))
	d := &disaster{n: 4 + r.IntN(5), doomed: map[int]time.Duration{}, revoke: r.IntN(2) == 0}
	for _, rank := range r.Perm(d.n)[:1+r.IntN(d.n-2)] {
		d.doomed[rank] = time.Duration(r.IntN(20_000)) * time.Microsecond
	}
	return d
}

// survive agrees repeatedly while ranks die, and goes on with the survivors, on both sides.
func survive(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	d, c := newDisaster(seed), w.Comm()
	me := c.Rank()
	inter, err := twoSides(w)
	if err != nil {
		return err
	}
	if err := c.Barrier(); err != nil && !errors.Is(err, banyan.ErrProcFailed) { // some die early
		return err
	}
	if delay, doomed := d.doomed[me]; doomed {
		time.AfterFunc(delay, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }) // cannot fail
	}
	var log []said
	for range 40 {
		if err := insist(c, &log); err != nil {
			return err
		}
	}
	for c.Size() > d.n-len(d.doomed) {
		if c, err = rebuild(c); err != nil {
			return err
		}
	}
	if err := sameLog(c, log); err != nil {
		return err
	}
	if d.revoke {
		if err := inter.Revoke(); err != nil {
			return err
		}
	}
	if _, err = inter.Agree(1); !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("agree of two sides, of which none has acknowledged: %w", err)
	}
	left, err := inter.Shrink()
	if err != nil {
		return err
	}
	if left == nil {
		return working(c)
	}
	all, err := left.Merge(false)
	if err != nil {
		return err
	}
	return errors.Join(working(all), working(c))
}

// sameLog checks that the survivors have had the same agreements.
func sameLog(c *banyan.Comm, log []said) error {
	h := fnv.New64()
	for _, s := range log {
		fmt.Fprint(h, s.flag, s.failed)
	}
	low, high := []uint64{h.Sum64()}, []uint64{h.Sum64()}
	err := errors.Join(banyan.Allreduce(c, low, low, banyan.Min), banyan.Allreduce(c, high, high, banyan.Max))
	if err == nil && low[0] != high[0] {
		err = errors.New("the agreements were not the same at all ranks")
	}
	return err
}

// everyFabric has the environments that join ranks by memory, by sockets, and as on several
// machines.
var everyFabric = map[string][]string{
	"shm": {"BANYAN_FABRIC=shm"}, "tcp": {"BANYAN_FABRIC=tcp"}, "mixed": {ranktest.Nodes("a;b;a;c;b;a;c;c;b")},
}

// Real processes over every fabric, some of which die by SIGKILL while all agree.
func TestSurvivorsAgreeAndShrink(t *testing.T) {
	for name, env := range ranktest.JoinedBy(everyFabric) {
		t.Run(name, func(t *testing.T) {
			first, runs, killed := uint64(time.Now().UnixNano()), ranktest.Often(2, 400), 0
			if seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); err == nil {
				first, runs = seed, 1
			}
			for seed := first; seed < first+uint64(runs); seed++ {
				d := newDisaster(seed)
				res, out := ranktest.Job(t, launch.Continue, d.n, "survive",
					append(env, fmt.Sprintf("%s=%d", ranktest.SeedEnv, seed))...)
				for rank, end := range res.Ends {
					if _, doomed := d.doomed[rank]; doomed {
						require.Equal(t, syscall.SIGKILL, end.Signal, "BANYAN_SEED=%d: rank %d: %v\n%s", seed, rank,
							end, out)
						killed++
					} else {
						require.False(t, end.Failed(), "BANYAN_SEED=%d: rank %d: %v, doomed %v\n%s", seed, rank, end,
							d.doomed, out)
					}
				}
			}
			t.Logf("%d ranks killed in %d jobs", killed, runs)
		})
	}
}

// testFor tests a request for a while, and reports whether it has ended.
func testFor(w *banyan.World, r banyan.Request, most time.Duration) (bool, error) {
	for started := w.Now(); w.Now() < started+most; {
		if _, done, err := r.Test(); done {
			return true, err
		}
	}
	return false, nil
}

// answers: rank 0 decides an agreement and then leaves the library, and rank 1 dies before it has
// passed the decision on to rank 3. Rank 3 continues when rank 0 has answered, although rank 0
// makes no call.
func answers(w *banyan.World) error {
	c, flag, fifo := w.Comm(), uint64(1), os.Getenv(ranktest.FIFOEnv)
	pid := make([]byte, 8)
	agree := func() error { // if rank 1 is slow, it does not take part
		if _, err := c.Agree(1); !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		return nil
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	switch c.Rank() {
	case 0:
		if err := agree(); err != nil {
			return err
		}
		_, err := os.ReadFile(fifo)
		return err
	case 1:
		binary.LittleEndian.PutUint64(pid, uint64(os.Getpid()))
		if err := c.Send(pid, 2, 1); err != nil {
			return err
		}
		if done, err := testFor(w, c.Iagree(flag).Request(), 50*time.Millisecond); done { // forwards the contribution of rank 3
			return fmt.Errorf("agreed without rank 2: %w", err)
		}
		for err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err == nil; w.Sleep(time.Second) {
		}
		return errors.New("it goes on")
	case 2:
		if _, err := c.Recv(pid, 1, 1); err != nil {
			return err
		}
		victim := int(binary.LittleEndian.Uint64(pid))
		if err := ranktest.AwaitStop(victim); err != nil {
			return err
		}
		r := c.Iagree(flag)
		if _, err := testFor(w, r.Request(), 2*time.Second); err != nil {
			return err
		}
		// The detector may have done so
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return err
		}
		if _, err := r.Wait(); err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		return nil
	}
	if err := agree(); err != nil {
		return err
	}
	return os.WriteFile(fifo, nil, 0)
}

// A rank that has returned from an agreement still answers others while it computes: within a
// period of the detector, or at once with asynchronous progress.
func TestWhoComputesAnswersAgreements(t *testing.T) {
	t.Parallel() // it waits for the detector's period
	for name, env := range map[string][]string{
		"shm": {"BANYAN_FABRIC=shm"}, "tcp": {"BANYAN_FABRIC=tcp"}, "asynchronous": {ranktest.AsyncEnv + "=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			res, out := ranktest.Job(t, launch.Continue, 4, "answers", append(env, ranktest.FIFOEnv+"="+fifo)...)
			for rank, end := range res.Ends {
				require.Equal(t, rank == 1, end.Failed(), "rank %d: %v\n%s", rank, end, out)
			}
		})
	}
}
