package banyan_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/banyan-hpc/banyan"
)

func init() { roles["collectives"] = collectivesRank }

// collectivesRank does all collectives over one tree after the other until one fails, since ranks kill themselves at a
// random moment. Those who are left validate, and go on with results that are right among them.
func collectivesRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := jobSeed()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	dead := r.Perm(c.Size())[:1+seed%2]
	at := 2 + r.IntN(8)
	var step atomic.Int64
	if slices.Contains(dead, c.Rank()) {
		dieDuring(&step, at, r.IntN(400_000))
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
	uniformJobs(t, "collectives", 6, 2, jobSeeds(3, 40)...)
}
