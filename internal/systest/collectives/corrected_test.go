package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// correctedProgram is a program of barriers and broadcasts of the corrected design, drawn from a seed. Nothing but
// the loss of a root ends one with an error, and that at all living ranks.
type correctedProgram struct {
	seed uint64
	n    int
	ops  []correctedOp
}

type correctedOp struct {
	barrier, blocks bool
	root, size      int
}

func drawCorrected(seed uint64, n int) *correctedProgram {
	r := rand.New(rand.NewPCG(seed, 220))
	p := &correctedProgram{seed: seed, n: n}
	for range 1 + r.IntN(40) {
		size := []int{0, 1, 300, 3000}[r.IntN(4)]
		if r.IntN(16) == 0 {
			size = 200_000
		}
		p.ops = append(p.ops, correctedOp{r.IntN(3) == 0, r.IntN(3) > 0, r.IntN(n), size})
	}
	return p
}

// pattern is the root's value in the i-th operation.
func (p *correctedProgram) pattern(i int) []byte {
	out := make([]byte, p.ops[i].size)
	for k := range out {
		out[k] = byte(k*7 + i*31 + p.ops[i].root)
	}
	return out
}

// run runs the program at one rank and gives the outcome of each operation: lost or not.
func (p *correctedProgram) run(c *banyan.Comm, step func(i int)) (lost []bool, err error) {
	lost = make([]bool, len(p.ops))
	type open struct {
		q   banyan.Request
		buf []byte
		i   int
	}
	var under []open
	end := func(i int, buf []byte, err error) error {
		switch {
		case errors.Is(err, banyan.ErrProcFailed) && !p.ops[i].barrier:
			lost[i] = true
			return nil
		case err != nil:
			return fmt.Errorf("operation %d, %+v: %w", i, p.ops[i], err)
		case !p.ops[i].barrier && !bytes.Equal(buf, p.pattern(i)):
			return fmt.Errorf("operation %d, %+v: other bytes", i, p.ops[i])
		}
		return nil
	}
	for i, o := range p.ops {
		step(i)
		buf := make([]byte, o.size)
		if c.Rank() == o.root {
			buf = p.pattern(i)
		}
		switch {
		case o.blocks && o.barrier:
			err = end(i, buf, c.Barrier())
		case o.blocks:
			err = end(i, buf, c.Bcast(buf, o.root))
		case o.barrier:
			under = append(under, open{c.Ibarrier(), buf, i})
		default:
			under = append(under, open{c.Ibcast(buf, o.root), buf, i})
		}
		for len(under) > 0 && (i%5 == 4 || i == len(p.ops)-1) && err == nil {
			_, werr := under[0].q.Wait()
			err = end(under[0].i, under[0].buf, werr)
			under = under[1:]
		}
		if err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// Ranks die at any step of simulated programs. Living ranks have the same outcomes, a broadcast is lost only with its
// root, and nothing hangs.
func TestCorrectedSimulated(t *testing.T) {
	first, last := uint64(1), ranktest.Seeds(300)
	switch seeds := os.Getenv("BANYAN_SEED"); {
	case seeds != "":
		first, last = ranktest.SeedRange(t, seeds)
	case os.Getenv("BANYAN_LONG") != "":
		last = 100_000
	}
	killed, losses := 0, 0
	for seed := first; seed <= last; seed++ {
		k, l := simulateCorrected(t, seed)
		killed, losses = killed+k, losses+l
	}
	t.Logf("%d programs, %d ranks killed, %d broadcasts lost", last-first+1, killed, losses)
	ranktest.Occurred(t, min(killed, losses), "not all outcomes")
}

// simulateCorrected runs the program of a seed, and counts the dead and the losses.
func simulateCorrected(t *testing.T, seed uint64) (killed, losses int) {
	r := rand.New(rand.NewPCG(seed, 221))
	n := 2 + r.IntN(9)
	p := drawCorrected(seed, n)
	lost, over := make([][]bool, n), make([]bool, n)
	var machine *sim.Sim
	dead := func(rank int) bool {
		cause, ended := machine.Ended(proc.ID(rank))
		return ended && cause.Failed()
	}
	err := banyan.Simulate(n, banyan.Simulation{
		Seed: seed,
		Options: []banyan.Option{banyan.WithDesign(banyan.Corrected),
			banyan.WithDetection(20*time.Millisecond, 100*time.Millisecond)},
		Configure: func(c *sim.Config) {
			c.Topology.ProcsPerNode, c.MaxTime = 1+r.IntN(4), fabric.Time(20*time.Second)
		},
		Faults: func(s *sim.Sim) (err error) {
			machine = s
			for _, rank := range r.Perm(n)[:r.IntN(n)] {
				err = errors.Join(err, s.KillAtStep(proc.ID(rank), 1+r.Uint64N(8<<r.IntN(10))))
			}
			return err
		},
	}, func(w *banyan.World) (err error) {
		me := w.Comm().Rank()
		lost[me], err = p.run(w.Comm(), func(int) {})
		over[me] = true
		for slices.ContainsFunc(ranktest.Iota(n), func(rank int) bool { return !over[rank] && !dead(rank) }) {
			w.Sleep(5 * time.Millisecond)
			w.Comm().GetFailed() // makes progress
		}
		return err
	})
	require.NoError(t, err, "BANYAN_SEED=%d", seed)
	var common []bool
	for rank := range n {
		if dead(rank) {
			killed++
			continue
		}
		if common == nil {
			common = lost[rank]
		}
		require.Equal(t, common, lost[rank], "BANYAN_SEED=%d, rank %d", seed, rank)
	}
	for i, is := range common {
		if is {
			losses++
			require.True(t, dead(p.ops[i].root), "BANYAN_SEED=%d, operation %d", seed, i)
		}
	}
	return killed, losses
}

// A broadcast completes at all living ranks before any of them knows of a failure.
func TestCorrectedWithoutDetection(t *testing.T) {
	const n = 23
	for _, size := range []int{8, 5000} {
		for _, dead := range [][]int{{1}, {1, 2}, {2, 3, 4, 9, 17, 18}, {22, 1, 7, 8, 9, 10, 11}} {
			done := 0
			err := banyan.Simulate(n, banyan.Simulation{
				Options: []banyan.Option{banyan.WithDesign(banyan.Corrected)},
				Configure: func(c *sim.Config) {
					c.Topology.ProcsPerNode, c.MaxTime = 4, fabric.Time(20*time.Second)
					c.Detection = sim.Detection{Min: 5000 * sim.Millisecond, Max: 5000 * sim.Millisecond}
				},
				Faults: func(s *sim.Sim) (err error) {
					for _, rank := range dead {
						err = errors.Join(err, s.Kill(proc.ID(rank), fabric.Time(time.Second)))
					}
					return err
				},
			}, func(w *banyan.World) error {
				c := w.Comm()
				if err := c.Barrier(); err != nil {
					return err
				}
				w.Sleep(1100*time.Millisecond - w.Now())
				buf := make([]byte, size)
				if c.Rank() == 0 {
					buf[size-1] = 77
				}
				if err := c.Bcast(buf, 0); err != nil || buf[size-1] != 77 {
					return fmt.Errorf("bcast: %d, %w", buf[size-1], err)
				}
				if known := c.GetFailed().Size(); known > 0 || w.Now() > 2*time.Second {
					return fmt.Errorf("%d failures are known after %v", known, w.Now())
				}
				for done++; done < n-len(dead); c.GetFailed() { // makes progress
					w.Sleep(50 * time.Microsecond)
				}
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, n-len(dead), done, "dead: %v", dead)
		}
	}
}

// A rank that has given up another collective of the communicator does not block a rank that waits in a corrected
// operation: all validate, and continue.
func TestCorrectedBesideOthers(t *testing.T) {
	gaveUp := 0
	for seed := range ranktest.Seeds(150) {
		r := rand.New(rand.NewPCG(seed, 222))
		n := 3 + r.IntN(6)
		victim, step := r.IntN(n), 1+r.Uint64N(8<<r.IntN(8))
		err := banyan.Simulate(n, banyan.Simulation{
			Seed: seed,
			Options: []banyan.Option{banyan.WithDesign(banyan.Corrected),
				banyan.WithDetection(20*time.Millisecond, 100*time.Millisecond)},
			Configure: func(c *sim.Config) {
				c.Topology.ProcsPerNode, c.MaxTime = 1+r.IntN(3), fabric.Time(20*time.Second)
			},
			Faults: func(s *sim.Sim) error { return s.KillAtStep(proc.ID(victim), step) },
		}, func(w *banyan.World) error {
			c, sum := w.Comm(), make([]int64, 1)
			for i := range 30 {
				var err error
				switch i % 3 {
				case 0:
					err = banyan.Allreduce(c, []int64{1}, sum, banyan.Sum)
				case 1:
					err = c.Barrier()
				default:
					err = c.Bcast(make([]byte, 100), i%n)
				}
				if err != nil && !errors.Is(err, banyan.ErrProcFailed) {
					return fmt.Errorf("operation %d: %w", i, err)
				}
				if err != nil {
					if i%3 > 0 {
						gaveUp++
					}
					break
				}
			}
			if _, err := c.Validate(); err != nil {
				return err
			}
			return c.Barrier() // also if the victim dies only now
		})
		require.NoError(t, err, "seed %d", seed)
	}
	ranktest.Occurred(t, gaveUp, "no rank learned that another had given up")
}

// Ranks whose lengths or roots differ get an error, all others the root's value, and the operations that follow
// work.
func TestCorrectedMismatches(t *testing.T) {
	const n, odd = 9, 2
	for name, x := range map[string]struct{ usual, other, usualRoot, otherRoot int }{
		"shorter":           {100, 50, 0, 0},
		"longer":            {100, 200, 3, 3},
		"far longer":        {8, 200_000, 3, 3},
		"far shorter":       {200_000, 8, 3, 3},
		"another root":      {100, 100, 3, 4},
		"no root":           {100, 100, 3, 77},
		"no root and long":  {5000, 5000, 3, -1},
		"itself for a root": {100, 100, 3, odd},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{
				Options:   []banyan.Option{banyan.WithDesign(banyan.Corrected)},
				Configure: func(c *sim.Config) { c.MaxTime = fabric.Time(20 * time.Second) },
			}, func(w *banyan.World) error {
				c := w.Comm()
				size, root := x.usual, x.usualRoot
				if c.Rank() == odd {
					size, root = x.other, x.otherRoot
				}
				buf := make([]byte, size)
				if c.Rank() == x.usualRoot {
					buf[size-1] = 9
				}
				err := c.Bcast(buf, root)
				switch {
				case c.Rank() == odd && root == odd: // it has its own value
				case c.Rank() == odd && !errors.Is(err, banyan.ErrArgument):
					return fmt.Errorf("an error expected: %w", err)
				case c.Rank() != odd && root != odd && x.otherRoot != odd && (err != nil || buf[size-1] != 9):
					return fmt.Errorf("rank %d: %d, %w", c.Rank(), buf[size-1], err)
				}
				if err := c.Barrier(); err != nil {
					return fmt.Errorf("the barrier that follows: %w", err)
				}
				return c.Bcast(make([]byte, 10), 1)
			}))
		})
	}
}
