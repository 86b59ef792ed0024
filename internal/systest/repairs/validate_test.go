package repairs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// All sets of failures of small jobs and some of a larger one, in both profiles. Collectives fail
// at every rank until the validate, which returns the same ranks everywhere. Then every collective
// works as if the failed ranks had never existed.
func TestCollectivesAfterEverySetOfFailures(t *testing.T) {
	var jobs []ranktest.SimulatedJob
	add := func(n int, set uint64) {
		j := ranktest.SimulatedJob{N: n, Seed: set, Kills: map[int]time.Duration{},
			Opts: []banyan.Option{banyan.WithProfile(ranktest.BothProfiles[len(jobs)%2])}}
		for rank := range n {
			if set>>rank&1 != 0 {
				j.Kills[rank] = time.Millisecond
			}
		}
		jobs = append(jobs, j)
	}
	for n := 1; n <= 5; n++ {
		for set := range uint64(1)<<n - 1 {
			add(n, set)
		}
	}
	rng := rand.New(rand.NewPCG(4, 17))
	for range 6 {
		add(24, rng.Uint64()&rng.Uint64()&(1<<24-1))
	}
	for _, j := range jobs {
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			w.Sleep(2 * time.Second)
			dead := ranktest.RanksIn(c.GetFailed(), c)
			slices.Sort(dead)
			if len(dead) != len(j.Kills) {
				return fmt.Errorf("%v known of %v", dead, j.Kills)
			}
			if len(dead) > 0 {
				if err := c.Barrier(); !errors.Is(err, banyan.ErrRankFailStop) {
					return fmt.Errorf("a barrier before the validate: %w", err)
				}
			}
			failed, err := c.Validate()
			if err != nil {
				return err
			}
			if got := ranktest.RanksIn(failed, c); !slices.Equal(got, dead) || c.FailureGetAcked().Size() != len(dead) {
				return fmt.Errorf("agreed on %v, acknowledged %v, want %v", got,
					ranktest.RanksIn(c.FailureGetAcked(), c), dead)
			}
			err = ranktest.CheckCollectivesAndSplit(c, dead)
			ranktest.Linger(w)
			return err
		}), "%d ranks without %v", j.N, j.Kills)
	}
}

// victimsEnv has, for each rank that kills itself, the delay in microseconds.
const victimsEnv = "BANYAN_TEST_VICTIMS"

// validates has ranks validate until all victims are dead. Each victim dies after some time, in any
// call. The living ranks compare their results.
func validates(w *banyan.World) error {
	c := w.Comm()
	if err := c.SetProfile(banyan.RTS); err != nil {
		return err
	}
	_ = c.Barrier() // an early victim may die before it is over
	deaths := ranktest.PerRank(victimsEnv, c.Size(), "")
	victims := 0
	for rank, after := range deaths {
		if after == "" {
			continue
		}
		victims++
		us, err := strconv.Atoi(after)
		if err != nil {
			return err
		}
		if rank == c.Rank() {
			// Cannot fail
			time.AfterFunc(time.Duration(us)*time.Microsecond,
				func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
	}
	history := fnv.New64()
	for known := -1; ; {
		failed, err := c.Validate()
		if err != nil {
			return err
		}
		_ = c.Barrier() // the next validate reports its error
		fmt.Fprint(history, ranktest.RanksIn(failed, c))
		if known == victims && failed.Size() == victims {
			break
		}
		if known = failed.Size(); known > victims {
			return fmt.Errorf("ranks %v have failed, of which %d were to", ranktest.RanksIn(failed, c), victims)
		}
	}
	var dead []int
	for rank, after := range deaths {
		if after != "" {
			dead = append(dead, rank)
		}
	}
	all := make([]byte, 8*c.Size())
	mine := binary.LittleEndian.AppendUint64(nil, history.Sum64())
	if err := c.Allgather(mine, all); err != nil {
		return err
	}
	for rank := range c.Size() {
		if theirs := all[8*rank:][:8]; !slices.Contains(dead, rank) && !slices.Equal(theirs, mine) {
			return fmt.Errorf("rank %d was told something else than rank %d", rank, c.Rank())
		}
	}
	return ranktest.CheckCollectivesAndSplit(c, dead)
}

// Real processes are killed inside validates, some at once and some after others, on every fabric.
func TestValidateKilledInside(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 5))
	for name, env := range map[string][]string{
		"shm": nil, "tcp": {"BANYAN_FABRIC=tcp"}, "mixed": {ranktest.Nodes("a;a;b;b;a;b")},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 6
			for range ranktest.Scaled(4, 1) {
				victims := make([]string, n)
				list := ""
				for k, rank := range rng.Perm(n)[:1+rng.IntN(n-2)] {
					victims[rank] = strconv.Itoa(rng.IntN(3000) + 1000*(k%2))
				}
				for rank, v := range victims {
					if rank > 0 {
						list += ";"
					}
					list += v
				}
				res, out := ranktest.Job(t, launch.Continue, n, "validates", append(env, victimsEnv+"="+list)...)
				for _, e := range res.Ends {
					require.Equal(t, victims[e.Rank] != "", e.Failed(), "%s: %v\n%s", list, e, out)
				}
			}
		})
	}
}

// collective are the operations of barred that need all ranks.
var collective = []string{
	"Barrier", "Bcast", "Reduce", "Allreduce", "Allgather", "Gather", "Scatter",
	"Ibarrier", "Ibcast", "Ireduce", "Iallreduce", "Iallgather", "Igather", "Iscatter",
	"bcast", "reduce", "allreduce", "allgather", "alltoall", "Alltoall", "Ialltoall", "Split",
	"allgatherv", "gatherv", "scatterv", "alltoallv", "Allgatherv", "Gatherv", "Scatterv", "Alltoallv",
	"reduce-scatter", "reduce-scatter of blocks", "scan", "exscan", "ReduceScatter", "ReduceScatterBlock", "Scan",
	"Exscan", "IreduceScatter", "IreduceScatterBlock", "Iscan", "Iexscan",
	"Iallgatherv", "Igatherv", "Iscatterv", "Ialltoallv",
	"SplitByNode",
}

// As soon as a rank knows of a failure each collective fails there with it, each time, also when
// the failure has been acknowledged: in both profiles, and in the unaware design.
func TestEveryCollectiveIsInactive(t *testing.T) {
	for _, profile := range ranktest.BothProfiles {
		for _, design := range []banyan.Design{banyan.Rebalance, banyan.Unaware} {
			j := ranktest.SimulatedJob{N: 4, Kills: map[int]time.Duration{3: 100 * time.Millisecond},
				Opts: []banyan.Option{banyan.WithProfile(profile), banyan.WithDesign(design)}}
			require.NoError(t, j.Run(inactive), "%v, %v", profile, design)
		}
	}
}

// inactive calls every collective while all ranks live, and again after the death of the last.
func inactive(w *banyan.World) error {
	c := w.Comm()
	ops := barred(c)
	for _, name := range collective {
		if err := ops[name](); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	w.Sleep(3 * time.Second)
	for _, acknowledged := range []bool{false, true} {
		for _, name := range collective {
			if err := ops[name](); ranktest.WantFailed(err, 3) != nil || !errors.Is(err, banyan.ErrRankFailStop) {
				return fmt.Errorf("%s, acknowledged %v: %w", name, acknowledged, cmpOr(err))
			}
		}
		if err := c.FailureAck(); err != nil {
			return err
		}
	}
	ranktest.Linger(w)
	return nil
}

// With validated failed ranks, groups include and exclude them, communicators are created with and
// without them, and collectives on those work among the remaining ranks, whether creation is
// uniform or not.
func TestGroupsWithFailedRanks(t *testing.T) {
	for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCreation} {
		j := ranktest.SimulatedJob{N: 6, Seed: 32,
			Kills: map[int]time.Duration{1: time.Millisecond,
				3: time.Millisecond}, Opts: []banyan.Option{banyan.WithProfile(banyan.RTS)}}
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			w.Sleep(2 * time.Second)
			if failed, err := c.Validate(); err != nil || failed.Size() != 2 {
				return fmt.Errorf("%d failed: %w", failed.Size(), err)
			}
			if err := c.SetUniformity(level); err != nil {
				return err
			}
			err := errors.Join(amongFailedRanks(c), withoutFailedRanks(c))
			ranktest.Linger(w)
			return err
		}), "%v", level)
	}
}

// amongFailedRanks creates a communicator whose first and last ranks have failed.
func amongFailedRanks(c *banyan.Comm) error {
	some, err := c.Group().Include(3, 0, 4, 2, 1)
	if err != nil {
		return err
	}
	d, err := c.Create(some)
	if err != nil || c.Rank() == 5 {
		if d != nil {
			err = errors.Join(err, errors.New("rank 5 is in"))
		}
		return err
	}
	if want := slices.Index([]int{3, 0, 4, 2, 1}, c.Rank()); d.Rank() != want || d.Size() != 5 {
		return fmt.Errorf("rank %d of %d, want %d of 5", d.Rank(), d.Size(), want)
	}
	if dead := ranksIn(d.FailureGetAcked(), d); !slices.Equal(dead, []int{0, 4}) {
		return fmt.Errorf("acknowledged are %v", dead)
	}
	if err := d.Send([]byte("abc"), 0, 1); err != nil {
		return fmt.Errorf("to a failed rank: %w", err)
	}
	if st, err := d.Recv(nil, 4, 1); err != nil || st.Source != banyan.ProcNull {
		return fmt.Errorf("from a failed rank: %+v, %w", st, err)
	}
	return ranktest.CheckCollectivesAndSplit(d, []int{0, 4})
}

// withoutFailedRanks creates one without failed ranks.
func withoutFailedRanks(c *banyan.Comm) error {
	alive, err := c.Group().Exclude(1, 3)
	if err != nil {
		return err
	}
	d, err := c.Create(alive)
	if err != nil {
		return err
	}
	if d.Size() != 4 || d.GetFailed().Size() != 0 {
		return fmt.Errorf("%d ranks, %d of them failed", d.Size(), d.GetFailed().Size())
	}
	return ranktest.CheckCollectivesAndSplit(d, nil)
}
