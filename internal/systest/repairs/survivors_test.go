package repairs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// timesEnv is the number of repetitions of a role, spanEnv the length of one.
const (
	timesEnv = "BANYAN_TEST_TIMES"
	spanEnv  = "BANYAN_TEST_SPAN"
)

// joined has environments that join n ranks.
func joined(n int) map[string]string {
	many := func(words ...string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = words[i%len(words)]
		}
		return strings.Join(all, ";")
	}
	return map[string]string{
		"shm": "BANYAN_FABRIC=shm", "unix": "BANYAN_FABRIC=unix", "tcp": "BANYAN_FABRIC=tcp",
		"nodes": ranktest.Nodes(many("a", "a", "b")),
		"mixed": ranktest.Fabrics(many("shm,tcp", "tcp", "unix,tcp", "shm,unix,tcp")),
	}
}

// repaired is the loop of an application: it works until that succeeds everywhere, with fewer and
// fewer ranks.
func repaired(c *banyan.Comm) (*banyan.Comm, error) {
	for {
		err := c.Barrier()
		well := uint64(1)
		if err != nil {
			if !errors.Is(err, banyan.ErrProcFailed) && !errors.Is(err, banyan.ErrRevoked) {
				return nil, err
			}
			well = 0
			if err := c.Revoke(); err != nil {
				return nil, err
			}
		}
		if well, err = c.Agree(well); err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return nil, err
		}
		if well == 1 {
			return c, nil
		}
		if c, err = shrunken(c); err != nil {
			return nil, err
		}
	}
}

// shrunken replaces a communicator.
func shrunken(c *banyan.Comm) (*banyan.Comm, error) {
	if err := c.Revoke(); err != nil {
		return nil, err
	}
	left, err := c.Shrink()
	if err == nil && strings.Contains(c.Name(), ".") { // not the world
		err = c.Free()
	}
	return left, err
}

// dwindle has ranks die, one to three at a time, until one remains: the last of the order. The one
// whose death starts last may die before the first. die ends this rank after a delay.
func dwindle(w *banyan.World, seed uint64, die func(after time.Duration)) error {
	c, r := w.Comm(), rand.New(rand.NewPCG(seed, 31))
	n, me := c.Size(), c.Rank()
	order := r.Perm(n)
	for dead := 0; dead < n-1; {
		some := min(1+r.IntN(3), n-1-dead)
		for _, victim := range order[dead : dead+some] {
			if delay := time.Duration(r.IntN(2000)) * time.Microsecond; victim == me {
				die(delay)
			}
		}
		for dead += some; c.Size() > n-dead; {
			var err error
			if c, err = repaired(c); err != nil {
				return err
			}
		}
	}
	if c.Size() != 1 || order[n-1] != me {
		return fmt.Errorf("%d ranks are left, the last is to be %d", c.Size(), order[n-1])
	}
	return working(c)
}

func dwindleRank(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	return dwindle(w, seed, func(after time.Duration) {
		time.AfterFunc(after, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }) // cannot fail
	})
}

func TestSuicidesUntilOneIsLeftSimulated(t *testing.T) {
	for seed := range uint64(ranktest.Often(25, 2000)) {
		s := &scene{n: 1 + int(seed%10), seed: seed}
		require.NoError(t, s.run(func(w *banyan.World) error {
			return dwindle(w, seed, func(after time.Duration) {
				_ = s.machine.Kill(proc.ID(w.Comm().Rank()), s.machine.Now()+fabric.Time(after)) // it runs
			})
		}), "seed %d, %d ranks", seed, s.n)
	}
}

// Ranks kill themselves anywhere in the recovery from earlier deaths, until one remains.
func TestSuicidesUntilOneIsLeft(t *testing.T) {
	n, runs := 7, ranktest.Scaled(2, 1)
	if os.Getenv("BANYAN_LONG") != "" {
		n, runs = 32, 20
	}
	for name, env := range ranktest.JoinedBy(joined(n)) {
		t.Run(name, func(t *testing.T) {
			for range runs {
				seed := uint64(time.Now().UnixNano())
				res, out := ranktest.Job(t, launch.Continue, n, "dwindle", env,
					fmt.Sprintf("%s=%d", ranktest.SeedEnv, seed))
				last := rand.New(rand.NewPCG(seed, 31)).Perm(n)[n-1]
				for _, end := range res.Ends {
					if end.Rank == last {
						require.False(t, end.Failed(), "seed %d: %v\n%s", seed, end, out)
					} else {
						require.Equal(t, syscall.SIGKILL, end.Signal, "seed %d: %v\n%s", seed, end, out)
					}
				}
			}
		})
	}
}

// silentRecovery has one rank after the other compute without a call while the others agree and
// shrink.
func silentRecovery(w *banyan.World) error {
	times, err := strconv.Atoi(os.Getenv(timesEnv))
	if err != nil {
		return err
	}
	span, err := time.ParseDuration(os.Getenv(spanEnv))
	if err != nil {
		return err
	}
	for turn := range times {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		if turn%c.Size() == c.Rank() {
			silence(w, span)
		}
		flag, err := c.Agree(^uint64(1 << c.Rank()))
		if err != nil || flag != ^(uint64(1)<<c.Size()-1) {
			return fmt.Errorf("turn %d: agree gave %#x: %w", turn, flag, err)
		}
		left, err := c.Shrink()
		if err != nil || left.Size() != c.Size() {
			return fmt.Errorf("turn %d: shrink: %w", turn, err)
		}
		if err := errors.Join(left.Barrier(), left.Free(), c.Free()); err != nil {
			return err
		}
	}
	return nil
}

// silence lets time pass without a call, at rest, which takes no core from other tests, or with
// BANYAN_LONG in a computation that leaves garbage.
func silence(w *banyan.World, span time.Duration) {
	if os.Getenv("BANYAN_LONG") == "" {
		<-time.After(span)
		return
	}
	for start := w.Now(); w.Now() < start+span; {
		_ = make([]byte, 1<<16)
	}
}

// A rank that makes no call for longer than the detector's timeout does not count as failed in an
// agreement.
func TestRecoveryWaitsForTheSilent(t *testing.T) {
	t.Parallel() // most ranks wait
	env := []string{timesEnv + "=1", spanEnv + "=6500ms", ranktest.Steady[0], ranktest.Steady[1]}
	if os.Getenv("BANYAN_LONG") != "" {
		env = []string{timesEnv + "=12", spanEnv + "=5s"}
	}
	for name, fabric := range joined(3) {
		if name == "shm" || name == "tcp" || os.Getenv("BANYAN_LONG") != "" {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ranktest.Succeed(t, 3, "silent recovery", append(env, fabric)...)
			})
		}
	}
}

// bulk is more than any fabric takes at once.
const bulk = 4 << 20

// cycles revokes with large requests pending, shrinks and frees, many times. In four of the cycles
// a rank dies.
func cycles(w *banyan.World) error {
	times, err := strconv.Atoi(os.Getenv(timesEnv))
	if err != nil {
		return err
	}
	c, me := w.Comm(), w.Comm().Rank()
	n, out, in := c.Size(), make([]byte, bulk), make([]byte, bulk)
	before := 0
	for turn := range times {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		right, left := (d.Rank()+1)%d.Size(), (d.Rank()+d.Size()-1)%d.Size()
		reqs := []banyan.Request{d.Irecv(in, left, 1), d.Isend(out, right, 1), d.Irecv(nil, right, 2)}
		if spare := 2*n/3 + turn*4/times; spare < n && me == spare && turn%(times/4) == times/8 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if turn%d.Size() == d.Rank() {
			if err := d.Revoke(); err != nil {
				return err
			}
		}
		for _, req := range reqs {
			if _, err := req.Wait(); err != nil && !errors.Is(err, banyan.ErrRevoked) &&
				!errors.Is(err, banyan.ErrProcFailed) {
				return fmt.Errorf("turn %d: %w", turn, err)
			}
		}
		if d, err = shrunken(d); err != nil {
			return fmt.Errorf("turn %d: %w", turn, err)
		}
		was := c
		if c, err = repaired(d); err != nil {
			return fmt.Errorf("turn %d: %w", turn, err)
		}
		if was != w.Comm() {
			err = was.Free()
		}
		if turn == times/2 {
			before = runtime.NumGoroutine()
		}
		if err != nil {
			return err
		}
	}
	if now := runtime.NumGoroutine(); now > before+n {
		return fmt.Errorf("%d goroutines, %d after half of the cycles", now, before)
	}
	return nil
}

// Many recoveries in one job.
func TestManyRecoveries(t *testing.T) {
	const n = 6
	times := ranktest.Scaled(24, 8)
	if os.Getenv("BANYAN_LONG") != "" {
		times = 100
	}
	for name, env := range ranktest.JoinedBy(joined(n)) {
		t.Run(name, func(t *testing.T) {
			res, out := ranktest.Job(t, launch.Continue, n, "cycles", env, fmt.Sprintf("%s=%d", timesEnv, times))
			for _, end := range res.Ends {
				if end.Rank >= 2*n/3 {
					require.Equal(t, syscall.SIGKILL, end.Signal, "%v\n%s", end, out)
				} else {
					require.False(t, end.Failed(), "%v\n%s", end, out)
				}
			}
		})
	}
}

// Cases in which other libraries are known to hang.

// secondShrink has rank 1 die, then rank 2, and shrinks after each. Then the even and the odd
// remaining ranks create an intercommunicator and merge it.
func secondShrink(w *banyan.World) error {
	c := w.Comm()
	talk, err := c.Dup() // not revoked
	if err != nil {
		return err
	}
	for victim := 1; victim <= 2; victim++ {
		if w.Comm().Rank() == victim {
			return dieLast(talk, c.Size())
		}
		if err := talk.Send(nil, victim, 9); err != nil {
			return err
		}
		for size := c.Size(); c.Size() == size; {
			var err error
			if c, err = repaired(c); err != nil {
				return err
			}
		}
		d, err := c.Dup() // right after a failure
		if err != nil {
			return err
		}
		if err := errors.Join(d.Barrier(), d.Free()); err != nil {
			return fmt.Errorf("the duplicate after the death of rank %d: %w", victim, err)
		}
	}
	side := c.Rank() % 2
	half, err := c.Split(side, 0)
	if err != nil {
		return err
	}
	inter, err := half.CreateInter(0, c, 1-side, 3)
	if err != nil {
		return err
	}
	merged, err := inter.Merge(side == 1)
	if err != nil {
		return err
	}
	if merged.Size() != c.Size() {
		return fmt.Errorf("merged are %d ranks of %d", merged.Size(), c.Size())
	}
	flag, err := merged.Agree(^uint64(1 << merged.Rank()))
	if err != nil || flag != ^(uint64(1)<<merged.Size()-1) {
		return fmt.Errorf("agree gave %#x: %w", flag, err)
	}
	return errors.Join(merged.Barrier(), merged.Free(), inter.Free(), half.Free(), c.Free(), talk.Free())
}

// dieLast kills this rank after it has received a message from all other ranks.
func dieLast(talk *banyan.Comm, ranks int) error {
	for range ranks - 1 {
		if err := talk.FailureAck(); err != nil {
			return err
		}
		if _, err := talk.Recv(nil, banyan.AnySource, 9); err != nil {
			return err
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// open-mpi/ompi #13915: agree across nodes; #11724: merge after the second shrink; #11153: dup
// without a failure detector; #11432: agree without a notice of the failure.
func TestTroublesOfOthers(t *testing.T) {
	const n = 6
	for name, env := range ranktest.JoinedBy(joined(n)) {
		for _, detect := range []string{"on", "off"} {
			t.Run(name+", detector "+detect, func(t *testing.T) {
				res, out := ranktest.Job(t, launch.Continue, n, "second shrink", env, "BANYAN_DETECT="+detect)
				for _, end := range res.Ends {
					if end.Rank == 1 || end.Rank == 2 {
						require.Equal(t, syscall.SIGKILL, end.Signal, "%v\n%s", end, out)
					} else {
						require.False(t, end.Failed(), "%v\n%s", end, out)
					}
				}
			})
		}
	}
}
