package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// collectivesRank does all collectives over one tree after the other until one fails, because ranks
// kill themselves at a random moment. The remaining ranks validate, and their further results are
// right.
func collectivesRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	dead := r.Perm(c.Size())[:1+seed%2]
	at := 2 + r.IntN(8)
	var step atomic.Int64
	if slices.Contains(dead, c.Rank()) {
		ranktest.KillSelfAt(&step, at, r.IntN(400_000))
	}
	over := slices.DeleteFunc(ways(), func(w way) bool { return w.design == banyan.Unaware })
	for i := 0; err == nil; i++ {
		step.Store(int64(i))
		way := over[(i+int(seed))%len(over)]
		if err = errors.Join(c.SetDesign(way.design), c.SetTree(way.tree)); err == nil {
			err = everyKind(c, i, []int{1, 3000}[i%2], i%c.Size(), false)
		}
	}
	step.Store(int64(at)) // a victim that is still alive dies now
	for agreed := 0; agreed < len(dead); {
		for err == nil { // the second victim dies later
			err = c.Barrier()
		}
		if !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		failed, verr := c.Validate()
		agreed, err = failed.Size(), verr
	}
	alive := others(c.Size(), dead...)
	for _, way := range over {
		if err := errors.Join(c.SetDesign(way.design), c.SetTree(way.tree),
			everyKind(c, 0, 500, alive[1], false, dead...),
			everyKind(c, 1, 1, dead[0], false, dead...)); err != nil {
			return fmt.Errorf("%v %s: %w", way.design, way.tree, err)
		}
	}
	return nil
}

func TestCollectivesWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "collectives", 6, 2, ranktest.JobSeeds(3, 40)...)
}

// longChain reduces long buffers up a chain and sends them down. In every other round non-blocking
// reductions start at the end of the chain, so that segments arrive before their receive. The
// buffers are reused at once.
func longChain(w *banyan.World) error {
	c := w.Comm()
	if err := c.SetTree(banyan.ChainTree); err != nil {
		return err
	}
	for round := range 12 {
		if err := longChainRound(c, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func longChainRound(c *banyan.Comm, round int) error {
	nonblocking := round%2 == 1
	o := ranktest.Collective{Kind: ranktest.Reduce, Number: 2*round + 1, Size: 90_001, Typed: true}
	buf, _ := o.Buffers(c)
	if nonblocking && c.Rank() < c.Size()-1 {
		if _, err := c.Recv(nil, c.Rank()+1, 1); err != nil {
			return err
		}
	}
	err := do(nonblocking, func() error { return o.Call(c, buf) }, func() banyan.Request {
		q := o.Start(c, buf)
		if c.Rank() > 0 {
			_ = c.Send(nil, c.Rank()-1, 1) // the reduction returns the same error
		}
		return q
	})
	if err != nil {
		return err
	}
	if c.Rank() > 0 {
		clear(buf)
	}
	sum := o.Folded(ranktest.Iota(c.Size()))
	if c.Rank() == 0 && !slices.Equal(buf, sum) {
		return errors.New("wrong sum")
	}
	odd := c.Rank() == 1 && round%4 > 1 // has another length, and forwards data that it cannot use
	if odd {
		buf = ranktest.Blank(2 * o.Size)
	}
	o.Kind = ranktest.Bcast
	err = o.Do(c, buf, nonblocking)
	if odd && errors.Is(err, banyan.ErrArgument) {
		return nil
	}
	if err != nil || odd {
		return fmt.Errorf("broadcast: %w", err)
	}
	got := slices.Clone(buf)
	clear(buf)
	if !slices.Equal(got, sum) {
		return errors.New("wrong broadcast")
	}
	return nil
}

func TestLongChainWithProcesses(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) { // a rank has another length, which debug reports
			ranktest.Succeed(t, 4, "long chain", "BANYAN_FABRIC="+fabric, "BANYAN_DEBUG=off")
		})
	}
}

// flatRank calls barriers, broadcasts and allreduces of a few words, in which one rank after the
// other kills itself, validates, and goes on, until two ranks remain.
func flatRank(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	c, alive := w.Comm(), make([]int, w.Comm().Size())
	for rank := range alive {
		alive[rank] = rank
	}
	for round := uint64(0); len(alive) > 2; round++ {
		r := rand.New(rand.NewPCG(seed, round)) // all draw the same, for any number of their calls
		if err := flatRound(c, alive, r); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("round %d: %w", round, err)
		}
		dead, err := c.Validate()
		if err != nil {
			return err
		}
		left := alive[:0]
		for _, rank := range alive {
			if at, err := c.Group().Translate([]int{rank}, dead); err != nil || at[0] < 0 {
				left = append(left, rank)
			}
		}
		alive = left
	}
	for range 100 {
		if err := flatStep(c, alive, rand.New(rand.NewPCG(seed, 99)), 1); err != nil {
			return err
		}
	}
	return nil
}

// flatRound calls one operation after the other until one fails.
func flatRound(c *banyan.Comm, alive []int, r *rand.Rand) error {
	victim, at, spins := alive[r.IntN(len(alive))], 1+r.IntN(60), r.IntN(20_000)
	var step atomic.Int64
	if c.Rank() == victim {
		ranktest.KillSelfAt(&step, at, spins)
	}
	for number := 0; ; number++ {
		step.Add(1)
		if err := flatStep(c, alive, r, number); err != nil {
			return err
		}
	}
}

// flatStep calls one operation among the living ranks.
func flatStep(c *banyan.Comm, alive []int, r *rand.Rand, number int) error {
	kind := []ranktest.CollectiveKind{ranktest.Barrier, ranktest.Allreduce, ranktest.Bcast, ranktest.Allgather}[r.IntN(4)]
	o := ranktest.Collective{Kind: kind, Number: number, Root: alive[r.IntN(len(alive))], Size: 1 + r.IntN(4),
		Typed: true}
	return o.Check(c, false, others(c.Size(), alive...)...)
}

// Real processes die by SIGKILL at any moment of a collective over shared memory. The remaining
// ranks learn of it in the same or the next one, whether they poll or sleep, and a validate makes
// the path usable again.
func TestFlatWithProcesses(t *testing.T) {
	for name, env := range map[string][]string{"patient": nil,
		"impatient": {"BANYAN_WAIT_SPINS=0", "BANYAN_WAIT_YIELDS=0"}, "attended": {ranktest.AsyncEnv + "=1"}} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(ranktest.Often(2, 1000)) {
				n := 3 + int(seed*5)%14
				res, out := ranktest.Job(t, launch.Continue, n, "flat",
					append(append(env, ranktest.Steady...), ranktest.SeedEnv+"="+strconv.FormatUint(seed, 10))...)
				failed := 0
				for _, e := range res.Ends {
					if e.Failed() {
						require.Contains(t, e.String(), "SIGKILL", "seed %d: %s", seed, out)
						failed++
					}
				}
				require.Equal(t, n-2, failed, "seed %d: %s", seed, out)
			}
		})
	}
}
