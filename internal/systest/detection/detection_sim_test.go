package detection

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// observed is a simulated job with a detector that calls collectives until one fails.
type observed struct {
	n      int
	seed   uint64
	faults func(*sim.Sim) error
	errs   []error // of each rank's collective; nil: none failed, or the rank has ended
}

func (o *observed) run() error {
	o.errs = make([]error, o.n)
	return banyan.Simulate(o.n, banyan.Simulation{
		Seed: o.seed, Faults: o.faults,
		Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
		Configure: func(c *sim.Config) {
			c.Topology.ProcsPerNode = 1 + int(o.seed%3)
			c.MaxTime = fabric.Time(time.Minute)
		},
	}, func(w *banyan.World) error {
		c, size := w.Comm(), []int{0, 8, 100_000}[o.seed%3]
		buf := make([]byte, size)
		for w.Now() < 6*time.Second && o.errs[c.Rank()] == nil {
			if size == 0 {
				o.errs[c.Rank()] = c.Barrier()
			} else {
				o.errs[c.Rank()] = c.Allreduce(buf, buf, func(acc, in []byte) {})
			}
			w.Sleep(30 * time.Millisecond)
		}
		for w.Now() < 15*time.Second { // otherwise waiting ranks would see it depart
			w.Sleep(50 * time.Millisecond)
			_, _, _ = c.Iprobe(c.Rank(), 1) // makes progress
		}
		return nil
	})
}

// A collective ends at every survivor with the failure, for any dead rank, time of death and
// peers.
func TestCollectivesEndAtAllSurvivors(t *testing.T) {
	for seed := range ranktest.Seeds(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		o := observed{n: 2 + r.IntN(11), seed: seed}
		dead := make(map[int]bool)
		for _, rank := range r.Perm(o.n)[:1+r.IntN(o.n-1)] {
			dead[rank] = true
		}
		o.faults = func(s *sim.Sim) error {
			var errs []error
			for rank := range dead {
				at := time.Duration(rand.New(rand.NewPCG(seed, uint64(rank))).Int64N(int64(5 * time.Second)))
				errs = append(errs, s.Kill(proc.ID(rank), fabric.Time(at)))
			}
			return errors.Join(errs...)
		}
		require.NoError(t, o.run(), "seed %d", seed)
		for rank, err := range o.errs {
			if !dead[rank] {
				require.ErrorIs(t, err, banyan.ErrProcFailed, "seed %d, rank %d", seed, rank)
			}
		}
	}
}

// Cuts, short and permanent, in both directions and in one. Ranks that count as failed end
// themselves; the others go on, without an error if no rank had to end.
func TestCollectivesUnderPartition(t *testing.T) {
	ended := 0
	for seed := range ranktest.Seeds(200) {
		r := rand.New(rand.NewPCG(seed, 12))
		o := observed{n: 3 + r.IntN(8), seed: seed}
		var small, large []proc.ID
		k := 1 + r.IntN((o.n-1)/2)
		for i, rank := range r.Perm(o.n) {
			if i < k {
				small = append(small, proc.ID(rank))
			} else {
				large = append(large, proc.ID(rank))
			}
		}
		long := seed%2 == 0
		o.faults = func(s *sim.Sim) error {
			from := fabric.Time(2*time.Second) + fabric.Time(r.Int64N(int64(time.Second)))
			to := from + fabric.Time(300*time.Millisecond)
			if long {
				to = from + fabric.Time(r.Int64N(int64(4*time.Second)))
			}
			return s.Partition(sim.Partition{A: small, B: large, From: from, To: to, OneWay: seed%4 > 1})
		}
		lost := make(map[int]bool)
		for _, err := range unjoin(o.run()) {
			var why *detect.EndError
			require.ErrorAs(t, err, &why, "seed %d", seed)
			var rank int
			_, serr := fmt.Sscanf(err.Error(), "rank %d ends itself", &rank)
			require.NoError(t, serr, err)
			lost[rank] = true
		}
		require.True(t, long || len(lost) == 0, "seed %d: a short cut has ended ranks %v", seed, lost)
		require.Less(t, len(lost), o.n, "seed %d", seed)
		ended += len(lost)
		for rank, err := range o.errs {
			if !lost[rank] && len(lost) > 0 {
				require.ErrorIs(t, err, banyan.ErrProcFailed, "seed %d, rank %d; ended: %v", seed, rank, lost)
			} else if !lost[rank] {
				require.NoError(t, err, "seed %d, rank %d", seed, rank)
			}
		}
	}
	ranktest.Occurred(t, ended, "no rank was on the smaller side for long")
}

// unjoin returns the errors that errors.Join has combined.
func unjoin(err error) []error {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap()
	}
	return nil
}

// Agreements end after a rank has finalized in place of calling them, though the rank that waits for it has no
// connection to it: the detector reports the departure.
func TestDeparturesReachAgreements(t *testing.T) {
	const n = 10
	for leaver := 1; leaver < n; leaver++ {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{
			Options:   []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
			Configure: func(c *sim.Config) { c.MaxTime = fabric.Time(20 * time.Second) },
		}, func(w *banyan.World) error {
			if w.Comm().Rank() == leaver {
				w.Sleep(3 * time.Second)
				return nil
			}
			_, err := w.Comm().Agree(1)
			return err
		}), "rank %d", leaver)
	}
}

// Ranks that finalize at their own times, and ranks that die meanwhile, do not keep others from
// finalizing, and no finalizing rank counts as failed.
func TestFinalizeUnderDeath(t *testing.T) {
	for seed := range ranktest.Seeds(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		n := 2 + r.IntN(10)
		wrong := make([]error, n)
		victim := n - 1
		err := banyan.Simulate(n, banyan.Simulation{
			Seed: seed, Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
			Faults: func(s *sim.Sim) error { return s.KillAtStep(proc.ID(victim), 1+r.Uint64N(4000)) },
		}, func(w *banyan.World) error {
			c := w.Comm()
			mine := rand.New(rand.NewPCG(seed, uint64(c.Rank())))
			for end := time.Duration(mine.Int64N(int64(3 * time.Second))); w.Now() < end; {
				w.Sleep(50 * time.Millisecond)
			}
			for rank := range n - 1 { // perhaps departed, but not failed
				if err := c.Send(nil, rank, 0); errors.Is(err, banyan.ErrProcFailed) {
					wrong[c.Rank()] = err
				}
			}
			return nil
		})
		require.NoError(t, err, "seed %d", seed)
		for rank, err := range wrong {
			require.NoError(t, err, "seed %d, rank %d", seed, rank)
		}
	}
}
