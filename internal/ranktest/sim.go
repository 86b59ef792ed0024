package ranktest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// detection is the detector of simulated jobs: silence for a second is a failure.
func detection() banyan.Option { return banyan.WithDetection(200*time.Millisecond, time.Second) }

// EverySize runs body on n simulated ranks, for a few n.
func EverySize(t *testing.T, body func(c *banyan.Comm) error) {
	for _, n := range []int{1, 2, 3, 7, 4, 16, 33}[:Scaled(7, 4)] {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{Seed: uint64(n)}, func(w *banyan.World) error {
				return body(w.Comm())
			}))
		})
	}
}

// WithAndWithoutGet runs body on n simulated ranks, over fabrics with and without one-sided reads.
func WithAndWithoutGet(t *testing.T, n int, body func(*banyan.Comm) error, opts ...banyan.Option) {
	t.Helper()
	for _, get := range []bool{true, false} {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{
			Configure: func(c *sim.Config) { c.Get = get }, Options: opts,
		}, func(w *banyan.World) error { return body(w.Comm()) }), "get %v", get)
	}
}

// WithDeath runs body on n simulated ranks. The last is killed after a millisecond, while it waits
// for a message that no rank sends.
func WithDeath(n int, body func(c *banyan.Comm) error, opts ...banyan.Option) error {
	return banyan.Simulate(n, banyan.Simulation{
		Options: opts,
		Faults:  banyan.Kill(n-1, time.Millisecond),
	}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == n-1 {
			_, err := c.Recv(make([]byte, 1), 0, 99)
			return err
		}
		return body(c)
	})
}

// WithDetectedDeath runs body on n simulated ranks, a few per node, with a detector. The last is
// killed after a second. The others stay until a time when all have run body.
func WithDetectedDeath(n int, seed uint64, body func(w *banyan.World) error, opts ...banyan.Option) error {
	return banyan.Simulate(n, banyan.Simulation{
		Seed:      seed,
		Options:   append([]banyan.Option{detection()}, opts...),
		Configure: onSmallNodes(seed),
		Faults:    banyan.Kill(n-1, time.Second),
	}, func(w *banyan.World) error {
		if w.Comm().Rank() == n-1 {
			for { // until it is killed
				_, _, _ = w.Comm().Iprobe(0, 99)
				w.Sleep(10 * time.Millisecond)
			}
		}
		err := body(w)
		LingerUntil(w, 20*time.Second)
		return err
	})
}

// onSmallNodes puts one to three ranks on a node, by the seed, and bounds the simulated time.
func onSmallNodes(seed uint64) func(c *sim.Config) {
	return func(c *sim.Config) {
		c.Topology.ProcsPerNode = 1 + int(seed%3)
		c.MaxTime = fabric.Time(time.Minute)
	}
}

// LingerUntil makes progress until a time, so that no rank sees this one depart before.
func LingerUntil(w *banyan.World, until time.Duration) {
	for w.Now() < until {
		w.Sleep(50 * time.Millisecond)
		_, _, _ = w.Comm().Iprobe(w.Comm().Rank(), 98)
	}
}

// SimulatedJob has a detector and progress goroutines. Kills are the times of ranks' deaths.
type SimulatedJob struct {
	N     int
	Seed  uint64
	Kills map[int]time.Duration
	Opts  []banyan.Option
}

// Run runs body on all ranks.
func (j SimulatedJob) Run(body func(w *banyan.World) error) error {
	var kills []banyan.Fault
	for _, rank := range slices.Sorted(maps.Keys(j.Kills)) {
		kills = append(kills, banyan.Kill(rank, j.Kills[rank]))
	}
	return banyan.Simulate(j.N, banyan.Simulation{
		Seed:    j.Seed,
		Options: append([]banyan.Option{detection(), banyan.WithAsyncProgress(true)}, j.Opts...),
		Faults:  banyan.Faults(kills...),
	}, body)
}

// Linger has a rank with a progress goroutine answer slower ranks before it finalizes.
func Linger(w *banyan.World) { w.Sleep(5 * time.Second) }

// Outcomes are the results of one uniform operation, by rank.
type Outcomes struct {
	n     int
	errs  []error
	comms []*banyan.Comm
	Lived []bool // to the end; the outcome of another rank binds no one
}

// WithKills runs an operation on n simulated ranks with a detector; one or two of them are killed
// at a step that the seed draws.
func WithKills(t *testing.T, seed uint64, n int, level banyan.Uniformity,
	op func(w *banyan.World) (*banyan.Comm, error)) *Outcomes {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 4))
	a := &Outcomes{n: n, errs: make([]error, n), comms: make([]*banyan.Comm, n), Lived: make([]bool, n)}
	err := banyan.Simulate(n, banyan.Simulation{
		Seed:      seed,
		Options:   []banyan.Option{detection()},
		Configure: onSmallNodes(seed),
		Faults: func(s *sim.Sim) error {
			var all []error
			for range 1 + r.IntN(2) {
				all = append(all, s.KillAtStep(proc.ID(r.IntN(n)), 1+r.Uint64N(8<<r.IntN(9))))
			}
			return errors.Join(all...)
		},
	}, func(w *banyan.World) error {
		c := w.Comm()
		if err := c.SetUniformity(level); err != nil {
			return err
		}
		a.comms[c.Rank()], a.errs[c.Rank()] = op(w)
		LingerUntil(w, 20*time.Second)
		a.Lived[c.Rank()] = true
		return nil
	})
	require.NoError(t, err, "seed %d", seed)
	return a
}

// Judge checks that the outcomes at all living ranks are the same, and reports whether they are
// errors.
func (a *Outcomes) Judge() (failed bool, err error) {
	first := slices.Index(a.Lived, true)
	for rank := range a.n {
		if !a.Lived[rank] {
			continue
		}
		if (a.errs[first] == nil) != (a.errs[rank] == nil) {
			return false, fmt.Errorf("rank %d: %v\nrank %d: %v", first, a.errs[first], rank, a.errs[rank])
		}
		if err := a.errs[rank]; err != nil {
			failed = true
			if !errors.Is(err, banyan.ErrProcFailed) || a.comms[rank] != nil {
				return true, fmt.Errorf("rank %d: %w", rank, err)
			}
		}
	}
	return failed, nil
}

// BridgeHalves makes an intercommunicator of the even and the odd ranks; leader is the leader's
// rank on each side. It notes this rank's side.
func BridgeHalves(w *banyan.World, sides []*banyan.Comm, leader int) (*banyan.Comm, error) {
	c := w.Comm()
	odd := c.Rank() % 2
	g, err := c.Group().Include(slices.DeleteFunc(Iota(c.Size()), func(r int) bool { return r%2 != odd })...)
	if err != nil {
		return nil, err
	}
	if err := c.SetUniformity(banyan.UniformNothing); err != nil { // the test is not of making the sides
		return nil, err
	}
	side, err := c.CreateGroup(g, 1)
	if err != nil {
		return nil, err
	}
	if err := side.SetUniformity(banyan.UniformCreation); err != nil {
		return nil, err
	}
	sides[c.Rank()] = side
	return side.CreateInter(leader, c, 2*leader+1-odd, 9)
}
