package predict

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// machine is a profile of so many processes.
func profile(t *testing.T, name string, n int) sim.Config {
	cfg, err := sim.Profile(name, n)
	require.NoError(t, err)
	return cfg
}

// A case that is computed by hand: two ranks on a node, o_send 10 ns, L 56, o_recv 20.
func TestTwoRanks(t *testing.T) {
	m := profile(t, "this-machine", 2)
	for op, want := range map[Op]sim.Picos{
		Barrier: 2 * 86 * sim.Nanosecond,
		Bcast:   86*sim.Nanosecond + 100*(15+15+31),
		Reduce:  86*sim.Nanosecond + 100*(15+15+31),
	} {
		r, err := Run(Job{Machine: m, Op: op, Bytes: 100})
		require.NoError(t, err)
		require.Equal(t, want, r.Time, op)
	}
}

// tolerance is how far the two may be apart. At the shared ports of paper-2011 many frames come at the same instant; which of them goes
// first is another question to each of the two, and moves the end a little. So do the messages of the validate before, each second of which
// is acknowledged.
const tolerance = 0.01

// The messages that Run follows take the same virtual time as those of the library's own collectives in the full
// simulator, where ranks are killed and the others validate. BANYAN_LONG=1: with 512 ranks.
func TestRunAgreesWithTheLibrary(t *testing.T) {
	n := 64
	if os.Getenv("BANYAN_LONG") != "" {
		n = 512
	}
	for _, name := range []string{"paper-2011", "infiniband"} {
		m := profile(t, name, n)
		for _, op := range []Op{Barrier, Bcast} {
			for _, d := range []tree.Design{tree.Reroute, tree.LookupAvoiding, tree.Rebalance} {
				order := kill.Orders()[int(d)%3]
				j := Job{Machine: m, Op: op, Design: d, Dead: order.Victims(n, n/2), Bytes: 1024, Rounds: 30}
				fast, err := Run(j)
				require.NoError(t, err)
				full, err := Full(j)
				require.NoError(t, err)
				require.InEpsilon(t, float64(full.Time), float64(fast.Time), tolerance, "%s %v %v %v", name, op, d, order)
			}
		}
	}
}

// The other operations fold and copy in the order that suits their data, so that in a row of them more or less overlaps.
func TestFullDoesAllOperations(t *testing.T) {
	m := profile(t, "infiniband", 32)
	for _, op := range []Op{Reduce, Allreduce, Gather, Scatter} {
		j := Job{Machine: m, Op: op, Design: tree.Rebalance, Dead: []int{3, 17}, Bytes: 8, Root: 0}
		fast, err := Run(j)
		require.NoError(t, err)
		full, err := Full(j)
		require.NoError(t, err)
		require.InEpsilon(t, float64(full.Time), float64(fast.Time), 0.25, op)
		require.Equal(t, full.Messages, fast.Messages)
	}
}

// parents are those of the survivors in the job's tree, by number among them: none at the root.
func parents(t *testing.T, j Job) []int32 {
	require.NoError(t, j.check())
	net, err := newShape(&j, tree.Except(j.Ranks, j.Dead...))
	require.NoError(t, err)
	return net.parent
}

// Simulated, 512 ranks, 0 to 496 dead, three orders: the rebalanced tree is the unaware one of the living ranks,
// edge by edge, and takes the same virtual time to the picosecond, if checks cost nothing. Otherwise it takes at
// most the cost of the checks of one way through the tree, and the effect of the order of frames of the same
// instant.
func TestRebalancedIsUnawareOfTheLiving(t *testing.T) {
	m := profile(t, "paper-2011", 512)
	for _, order := range kill.Orders() {
		for _, failures := range []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 448, 496} {
			for _, op := range []Op{Barrier, Bcast} {
				name := fmt.Sprint(op, " ", order, " ", failures)
				j := Job{Machine: m, Op: op, Design: tree.Rebalance, Dead: order.Victims(512, failures), Bytes: 1024, Rounds: 2}
				require.Equal(t, parents(t, j.Baseline()), parents(t, j), name)

				unaware, err := Run(j.Baseline())
				require.NoError(t, err)
				free, err := Run(j)
				require.NoError(t, err)
				require.Equal(t, unaware.Time, free.Time, name)

				j.Costs = Awareness
				aware, err := Run(j)
				require.NoError(t, err)
				require.InDelta(t, 0, float64(aware.Time-unaware.Time)/float64(unaware.Time), 0.025, name)
			}
		}
	}
}

// Costs of awareness have the configured value: on one node, without contention, each message of a chain is checked
// at both ends.
func TestCosts(t *testing.T) {
	shape, err := tree.ParseShape("chain")
	require.NoError(t, err)
	j := Job{Machine: profile(t, "this-machine", 4), Op: Bcast, Shape: shape, Design: tree.Rebalance}
	free, err := Run(j)
	require.NoError(t, err)
	j.Costs = Costs{Check: sim.Nanosecond, Rebuild: 100 * sim.Nanosecond}
	aware, err := Run(j)
	require.NoError(t, err)
	// Six checks; the root has one neighbour to find out, and while it does the others find out theirs.
	require.Equal(t, free.Time+6*sim.Nanosecond+200*sim.Nanosecond, aware.Time)
	j.Costs = Costs{Lookup: sim.Nanosecond}
	j.Design, j.Dead = tree.Reroute, []int{1, 2}
	with, err := Run(j)
	require.NoError(t, err)
	j.Costs = Costs{}
	without, err := Run(j)
	require.NoError(t, err)
	require.Equal(t, 3*sim.Nanosecond, with.Time-without.Time, "the root asks about 1, 2 and 3")
}

func TestRunRefuses(t *testing.T) {
	m := profile(t, "this-machine", 4)
	for want, j := range map[string]Job{
		"no rank survives":   {Dead: []int{0, 1, 2, 3}},
		"unaware tree":       {Dead: []int{1}},
		"root 1 is dead":     {Design: tree.Rebalance, Dead: []int{1}, Root: 1, Op: Bcast},
		"root 4, want":       {Root: 4},
		"dead rank 7, want":  {Design: tree.Rebalance, Dead: []int{7}},
		"messages of -1":     {Bytes: -1},
		"Config.MaxSteps is": {Machine: sim.Config{Procs: 4, Topology: sim.Topology{ProcsPerNode: 1, NodesPerSwitch: 1}, Credits: 1, MaxFrame: 1, MaxTime: 1}},
	} {
		if j.Machine.Procs == 0 {
			j.Machine = m
		}
		_, err := Run(j)
		require.ErrorContains(t, err, want)
	}
}

// Parameters that are written down and read again are the same machine.
func TestParameters(t *testing.T) {
	for _, name := range sim.Profiles() {
		p, err := Load(name)
		require.NoError(t, err)
		want := profile(t, name, 64)
		got := p.Config(64)
		if name == "this-machine" {
			want.Topology = got.Topology // all on one node, for any number
		}
		require.Equal(t, want.Links, got.Links)
		require.Equal(t, want.NodePort, got.NodePort)
		require.Equal(t, want.Topology, got.Topology)
		require.Equal(t, want.CPU.PerByte, got.CPU.PerByte)
	}
	path := filepath.Join(t.TempDir(), "machine.json")
	for content, want := range map[string]string{
		`{"name": "x", "latency": 3}`: "unknown field",
		`{"name": "x"}`:               "ranks_per_node",
		`{`:                           "unexpected EOF",
		`{"ranks_per_node": 1, "nodes_per_switch": 1, "credits": -1}`: "Credits",
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := Load(path)
		require.ErrorContains(t, err, want)
	}
	_, err := Load("nowhere.json")
	require.ErrorContains(t, err, "paper-2011")
}

// The queue gives events in the order of their times, and those of one instant in the order in which they came.
func TestQueue(t *testing.T) {
	var q queue
	x := uint32(1)
	for i := range 1000 {
		x = x*1664525 + 1013904223
		q.push(event{at: sim.Picos(x >> 28), rank: int32(i)})
	}
	last := event{at: math.MinInt64}
	for len(q.heap) > 0 {
		e := q.pop()
		require.True(t, before(&last, &e))
		last = e
	}
}
