package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// collectivesRank does all collectives over one tree after the other until one fails, since ranks kill themselves at a
// random moment. Those who are left validate, and go on with results that are right among them.
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
	step.Store(int64(at)) // who was to die has not got there
	for agreed := 0; agreed < len(dead); {
		for err == nil { // the other one dies later
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
		if err := errors.Join(c.SetDesign(way.design), c.SetTree(way.tree), everyKind(c, 0, 500, alive[1], false, dead...),
			everyKind(c, 1, 1, dead[0], false, dead...)); err != nil {
			return fmt.Errorf("%v %s: %w", way.design, way.tree, err)
		}
	}
	return nil
}

func TestCollectivesWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "collectives", 6, 2, ranktest.JobSeeds(3, 40)...)
}

// longChain reduces long buffers up a chain and sends them down. In every other round reductions are begun from its end on, so that segments lie
// there before they are asked for. Buffers are used for something else as soon as they may.
func longChain(w *banyan.World) error {
	c := w.Comm()
	if err := c.SetTree("chain"); err != nil {
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
			_ = c.Send(nil, c.Rank()-1, 1) // an error is that of the reduction, too
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
	odd := c.Rank() == 1 && round%4 > 1 // has another length, and passes on what it cannot use
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
		t.Run(fabric, func(t *testing.T) { ranktest.Succeed(t, 4, "long chain", "BANYAN_FABRIC="+fabric) })
	}
}
