package banyan_test

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
)

// alike are the outcomes of one uniform operation.
type alike struct {
	n     int
	errs  []error
	comms []*banyan.Comm
	lived []bool // to the end; else it may have had an outcome that it could tell nobody
}

// kills runs an operation on n ranks, some of which are killed at a step, with a detector.
func kills(t *testing.T, seed uint64, n int, level banyan.Uniformity, op func(w *banyan.World) (*banyan.Comm, error)) *alike {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 4))
	a := &alike{n: n, errs: make([]error, n), comms: make([]*banyan.Comm, n), lived: make([]bool, n)}
	err := banyan.Simulate(n, banyan.Simulation{
		Seed:    seed,
		Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
		Configure: func(c *sim.Config) {
			c.Topology.ProcsPerNode = 1 + int(seed%3)
			c.MaxTime = fabric.Time(time.Minute)
		},
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
		for w.Now() < 20*time.Second { // so that nobody is seen to depart
			w.Sleep(50 * time.Millisecond)
			_, _, _ = c.Iprobe(c.Rank(), 1)
		}
		a.lived[c.Rank()] = true
		return nil
	})
	require.NoError(t, err, "seed %d", seed)
	return a
}

// judge checks that all who lived have the same outcome.
func (a *alike) judge() (failed bool, err error) {
	first := -1
	for rank := range a.n {
		switch {
		case !a.lived[rank]:
			continue
		case first < 0:
			first = rank
		case (a.errs[first] == nil) != (a.errs[rank] == nil):
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

// creations are all ways to make communicators, of 6 ranks.
var creations = map[string]func(w *banyan.World) (*banyan.Comm, error){
	"dup":           func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().Dup() },
	"split":         func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().Split(w.Comm().Rank()%2, 0) },
	"split by node": func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().SplitByNode(0) },
	"create":        func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().Create(upper(w.Comm())) },
	"create group": func(w *banyan.World) (*banyan.Comm, error) {
		if upper(w.Comm()).Rank() == banyan.Undefined {
			return nil, nil
		}
		return w.Comm().CreateGroup(upper(w.Comm()), 1)
	},
}

// upper is the group of the ranks from 2 on.
func upper(c *banyan.Comm) banyan.Group {
	g, err := c.Group().Exclude(0, 1)
	if err != nil {
		panic(err)
	}
	return g
}

// S1-46, S4-21, S4-22: a communicator is made at all living ranks or at none, whoever dies and whenever.
func TestUniformCreation(t *testing.T) {
	for name, create := range creations {
		t.Run(name, func(t *testing.T) {
			outcomes := [2]int{}
			for seed := range simulated(100) {
				a := kills(t, seed, 6, banyan.UniformCreation, create)
				if name == "create group" { // of others there is no outcome
					a.lived[0], a.lived[1] = false, false
				}
				failed, err := a.judge()
				require.NoError(t, err, "seed %d", seed)
				if failed {
					outcomes[1]++
				} else {
					outcomes[0]++
				}
			}
			occurred(t, outcomes[0], "none succeeded")
			occurred(t, outcomes[1], "none failed")
		})
	}
}

// collectives of all kinds, of 6 ranks.
var collectives = map[string]func(c *banyan.Comm) error{
	"barrier":         func(c *banyan.Comm) error { return c.Barrier() },
	"bcast":           func(c *banyan.Comm) error { return c.Bcast(make([]byte, 8), 1) },
	"bcast of much":   func(c *banyan.Comm) error { return banyan.Bcast(c, make([]int, 20_000), 2) },
	"reduce":          func(c *banyan.Comm) error { return banyan.Reduce(c, []int{1, 2}, banyan.Sum, 3) },
	"reduce bytes":    func(c *banyan.Comm) error { return c.ReduceBytes(make([]byte, 8), func(_, _ []byte) {}, 0) },
	"allreduce":       func(c *banyan.Comm) error { return banyan.Allreduce(c, []int{1, 2}, banyan.Max) },
	"allreduce bytes": func(c *banyan.Comm) error { return c.AllreduceBytes(make([]byte, 90_000), func(_, _ []byte) {}) },
	"allgather":       func(c *banyan.Comm) error { return banyan.Allgather(c, []int{1}, make([]int, c.Size())) },
	"allgather bytes": func(c *banyan.Comm) error { return c.AllgatherBytes([]byte{1}, make([]byte, c.Size())) },
}

// S1-16 turned off: success at all living ranks or an error at all.
func TestUniformCollectives(t *testing.T) {
	plain := 0 // outcomes that differ without
	for name, call := range collectives {
		t.Run(name, func(t *testing.T) {
			for seed := range simulated(40) {
				op := func(w *banyan.World) (*banyan.Comm, error) { return nil, call(w.Comm()) }
				_, err := kills(t, seed, 6, banyan.UniformCollectives, op).judge()
				require.NoError(t, err, "seed %d", seed)
				if _, err := kills(t, seed, 6, banyan.UniformCreation, op).judge(); err != nil {
					plain++
				}
			}
		})
	}
	occurred(t, plain, "the test shows nothing: no outcome differs without uniformity either")
}

// S4-21: both sides of an intercommunicator have it or neither, and what is merged of it as well.
func TestUniformIntercommunicators(t *testing.T) {
	sides := make([]*banyan.Comm, 7)
	for name, op := range map[string]func(w *banyan.World) (*banyan.Comm, error){
		"create inter": func(w *banyan.World) (*banyan.Comm, error) { return across(w, sides, 1) },
		"merge": func(w *banyan.World) (*banyan.Comm, error) {
			inter, err := across(w, sides, 1)
			if err != nil {
				return nil, nil // not what is looked at
			}
			return inter.Merge(w.Comm().Rank()%2 == 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			outcomes := [2]int{}
			for seed := range simulated(150) {
				a := kills(t, seed, 7, banyan.UniformCreation, op)
				failed, err := a.judge()
				require.NoError(t, err, "seed %d", seed)
				if failed {
					outcomes[1]++
				} else {
					outcomes[0]++
				}
			}
			occurred(t, outcomes[0], "none succeeded")
			occurred(t, outcomes[1], "none failed")
		})
	}
}

// across joins the even and the odd ranks; leader is the leader's rank on each side.
func across(w *banyan.World, sides []*banyan.Comm, leader int) (*banyan.Comm, error) {
	c := w.Comm()
	odd := c.Rank() % 2
	g, err := c.Group().Include(slices.DeleteFunc(numbers(c.Size()), func(r int) bool { return r%2 != odd })...)
	if err != nil {
		return nil, err
	}
	if err := c.SetUniformity(banyan.UniformNothing); err != nil { // making the sides is not what is looked at
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
