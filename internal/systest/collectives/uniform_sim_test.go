package collectives

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

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
			for seed := range ranktest.Seeds(100) {
				a := ranktest.WithKills(t, seed, 6, banyan.UniformCreation, create)
				if name == "create group" { // of others there is no outcome
					a.Lived[0], a.Lived[1] = false, false
				}
				failed, err := a.Judge()
				require.NoError(t, err, "seed %d", seed)
				if failed {
					outcomes[1]++
				} else {
					outcomes[0]++
				}
			}
			ranktest.Occurred(t, outcomes[0], "none succeeded")
			ranktest.Occurred(t, outcomes[1], "none failed")
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
			for seed := range ranktest.Seeds(40) {
				op := func(w *banyan.World) (*banyan.Comm, error) { return nil, call(w.Comm()) }
				_, err := ranktest.WithKills(t, seed, 6, banyan.UniformCollectives, op).Judge()
				require.NoError(t, err, "seed %d", seed)
				if _, err := ranktest.WithKills(t, seed, 6, banyan.UniformCreation, op).Judge(); err != nil {
					plain++
				}
			}
		})
	}
	ranktest.Occurred(t, plain, "the test shows nothing: no outcome differs without uniformity either")
}

// S4-21: both sides of an intercommunicator have it or neither, and what is merged of it as well.
func TestUniformIntercommunicators(t *testing.T) {
	sides := make([]*banyan.Comm, 7)
	for name, op := range map[string]func(w *banyan.World) (*banyan.Comm, error){
		"create inter": func(w *banyan.World) (*banyan.Comm, error) { return ranktest.BridgeHalves(w, sides, 1) },
		"merge": func(w *banyan.World) (*banyan.Comm, error) {
			inter, err := ranktest.BridgeHalves(w, sides, 1)
			if err != nil {
				return nil, nil // not what is looked at
			}
			return inter.Merge(w.Comm().Rank()%2 == 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			outcomes := [2]int{}
			for seed := range ranktest.Seeds(150) {
				a := ranktest.WithKills(t, seed, 7, banyan.UniformCreation, op)
				failed, err := a.Judge()
				require.NoError(t, err, "seed %d", seed)
				if failed {
					outcomes[1]++
				} else {
					outcomes[0]++
				}
			}
			ranktest.Occurred(t, outcomes[0], "none succeeded")
			ranktest.Occurred(t, outcomes[1], "none failed")
		})
	}
}
