package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// endedOp is an operation that has ended, and what its buffer held then.
type endedOp struct {
	underWay
	held []uint64
	err  error
}

// endure has several operations under way while ranks die. Each ends, with success and the right result or with ErrProcFailed.
func endure(c *banyan.Comm, seed uint64, ops int) (out []endedOp, err error) {
	all := rand.New(rand.NewPCG(seed, 7))
	own := rand.New(rand.NewPCG(seed, 100+uint64(c.Rank())))
	var open []endedOp
	for number := range ops {
		o := drawIssue(all, number, c.Size())
		o.blocks = false
		u, _ := start(o, c) // only blocking calls fail
		open = append(open, endedOp{underWay: u})
	}
	for len(open) > 0 {
		i := own.IntN(len(open))
		u := open[i]
		open = slices.Delete(open, i, i+1)
		if _, u.err = u.q.Wait(); u.err != nil && !errors.Is(u.err, banyan.ErrProcFailed) {
			return nil, fmt.Errorf("%v: %w", u.issue, u.err)
		}
		if err := u.check(nil); u.err == nil && err != nil {
			return nil, err
		}
		u.held = slices.Clone(u.got)
		out = append(out, u)
	}
	return out, nil
}

// touched is the error of a buffer that has changed since its operation ended.
func touched(all []endedOp) error {
	for _, u := range all {
		if !slices.Equal(u.held, u.got) {
			return fmt.Errorf("%v: the buffer has changed since it ended: %w", u.issue, u.err)
		}
	}
	return nil
}

// until has all kinds of operations be done among the living, with validates in between, until all have succeeded.
func until(c *banyan.Comm, seed uint64, ops int) (validates int, err error) {
	for ; ; validates++ {
		failed, err := c.Validate()
		if err != nil {
			return 0, err
		}
		dead, err := failed.Translate(ranktest.Iota(failed.Size()), c.Group())
		if err != nil {
			return 0, err
		}
		if q := c.IBarrier(); validates > 20 {
			_, err := q.Wait()
			return 0, fmt.Errorf("does not come to an end: %v, %w", dead, err)
		}
		wrong := interleave(c, seed+uint64(validates), ops, append(dead, -1)...)
		if wrong != nil && !errors.Is(wrong, banyan.ErrProcFailed) {
			return 0, wrong
		}
		flag := uint64(1)
		if wrong != nil {
			flag = 0
		}
		if flag, err = c.Agree(flag); err == nil && flag == 1 {
			return validates, nil
		}
	}
}

// Whoever dies and whenever: each operation ends at each rank with success or ErrProcFailed, its buffer is not touched afterwards, and after
// a validate all of them work among those who are left.
func TestBegunCollectivesOutliveDeaths(t *testing.T) {
	failed, succeeded, more := 0, 0, 0
	for seed := range ranktest.Seeds(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := 2 + r.IntN(8)
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{
			Seed:    seed,
			Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
			Configure: func(c *sim.Config) {
				c.Topology.ProcsPerNode = 1 + r.IntN(3)
				c.Get = seed%2 == 0
				c.MaxTime = fabric.Time(5 * time.Minute)
			},
			Faults: func(s *sim.Sim) (err error) {
				for range 1 + r.IntN(2) {
					err = errors.Join(err, s.KillAtStep(proc.ID(r.IntN(n)), 1+r.Uint64N(8<<r.IntN(9))))
				}
				return err
			},
		}, func(w *banyan.World) error {
			c := w.Comm()
			if err := onTrees(c, seed); err != nil {
				return err
			}
			out, err := endure(c, seed, 1+int(seed%6))
			if err != nil {
				return err
			}
			for _, u := range out {
				if u.err != nil {
					failed++
				} else {
					succeeded++
				}
			}
			validates, err := until(c, seed, 5)
			more += validates
			for w.Now() < 20*time.Second { // so that nobody is seen to depart, who could have told others
				w.Sleep(50 * time.Millisecond)
				_, _, _ = c.Iprobe(c.Rank(), 1)
			}
			return errors.Join(err, touched(out))
		}), "seed %d, %d ranks", seed, n)
	}
	t.Logf("%d ended with an error, %d with success; %d more validates", failed, succeeded, more)
	ranktest.Occurred(t, min(failed, succeeded), "not both outcomes")
}
