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
	o := oracle{c: c, left: slices.Collect(seq(c.Size()))}
	for i := 0; err == nil; i++ {
		step.Store(int64(i))
		way := over[(i+int(seed))%len(over)]
		o.round = uint64(i) << 8
		if err = errors.Join(c.SetDesign(way.design), c.SetTree(way.tree)); err == nil {
			err = o.all([]int{1, 3000}[i%2], i%c.Size())
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
	o = oracle{c: c, left: slices.DeleteFunc(slices.Collect(seq(c.Size())), func(rank int) bool { return slices.Contains(dead, rank) })}
	for _, way := range over {
		if err := errors.Join(c.SetDesign(way.design), c.SetTree(way.tree), o.all(500, o.left[1]), o.all(1, dead[0])); err != nil {
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
	const many = 90_001
	for round := range uint64(12) {
		o := oracle{c: c, left: slices.Collect(seq(c.Size())), round: round, begun: round%2 == 1}
		buf := givenBy(c.Rank(), many, round)
		if o.begun && c.Rank() < c.Size()-1 {
			if _, err := c.Recv(nil, c.Rank()+1, 1); err != nil {
				return err
			}
		}
		err := o.do(func() error { return banyan.Reduce(c, buf, banyan.Sum, 0, banyan.AnyOrder) }, func() banyan.Request {
			q := banyan.IReduce(c, buf, banyan.Sum, 0, banyan.AnyOrder)
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
		sum := o.folded(many, banyan.Sum[uint64])
		if c.Rank() == 0 && !slices.Equal(buf, sum) {
			return fmt.Errorf("wrong sum in round %d", round)
		}
		odd := c.Rank() == 1 && round%4 > 1 // has another length, and passes on what it cannot use
		if odd {
			buf = blank(2 * many)
		}
		err = o.do(func() error { return banyan.Bcast(c, buf, 0) }, func() banyan.Request { return banyan.IBcast(c, buf, 0) })
		if odd && errors.Is(err, banyan.ErrArgument) {
			continue
		}
		if err != nil || odd {
			return fmt.Errorf("broadcast in round %d: %w", round, err)
		}
		got := slices.Clone(buf)
		clear(buf)
		if !slices.Equal(got, sum) {
			return fmt.Errorf("wrong broadcast in round %d", round)
		}
	}
	return nil
}

func TestLongChainWithProcesses(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) { ranktest.Succeed(t, 4, "long chain", "BANYAN_FABRIC="+fabric) })
	}
}
