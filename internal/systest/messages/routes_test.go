package messages

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Every role works over any fabric, and over several at once.
func TestRolesOnEveryFabric(t *testing.T) {
	for name, env := range map[string][]string{
		"unix":          {"BANYAN_FABRIC=unix"},
		"tcp":           {"BANYAN_FABRIC=tcp"},
		"shm and unix":  {ranktest.Nodes("a;a;b;b;c")},
		"shm and tcp":   {ranktest.Nodes("a;b;a;b;a"), "BANYAN_FABRIC=tcp,shm"},
		"each its own":  {ranktest.Fabrics("shm,tcp;tcp;unix,tcp;shm,unix,tcp;")},
		"no asynchrony": {ranktest.Nodes("a;b;a;b;a"), ranktest.AsyncEnv + "=1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []struct {
				name string
				n    int
			}{{"ring", 5}, {"crowd", 5}, {"orders", 2}, {"threads", 2}, {"routes", 5}}[ranktest.Scaled(0, 3):] {
				ranktest.Succeed(t, r.n, r.name, env...)
			}
		})
	}
}

// routes compares the reported routes and nodes with the configuration.
func routes(w *banyan.World) error {
	c := w.Comm()
	names, allowed := ranktest.PerRank(ranktest.NodesEnv, c.Size(), ""), ranktest.PerRank(ranktest.FabricsEnv,
		c.Size(), os.Getenv("BANYAN_FABRIC"))
	here := names[c.Rank()]
	var order []string
	mates := 0
	for rank, name := range names {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
		if name == here {
			mates++
		}
		if got := w.Node(rank); got != slices.Index(order, name) {
			return fmt.Errorf("rank %d is on node %d, want %d", rank, got, slices.Index(order, name))
		}
	}
	for rank := range names {
		r, err := w.Route(rank)
		if err != nil {
			return err
		}
		want := expected(here == names[rank], allowed[c.Rank()], allowed[rank])
		if rank == c.Rank() {
			want = "self"
		}
		switch {
		case r.Fabric != want:
			return fmt.Errorf("rank %d reaches %d by %+v, want %s", c.Rank(), rank, r, want)
		case want != "self" && r.Why == "", len(r.WhyNot) != slices.Index([]string{"shm", "unix", "tcp"}, want) &&
			want != "self":
			return fmt.Errorf("rank %d reaches %d by %+v: reasons are missing", c.Rank(), rank, r)
		}
	}
	mine, err := c.SplitByNode(0)
	if err != nil {
		return err
	}
	if mine.Size() != mates {
		return fmt.Errorf("%d ranks on my node, want %d", mine.Size(), mates)
	}
	_, err = w.Route(c.Size())
	if !errors.Is(err, banyan.ErrArgument) || w.Node(-1) != -1 || w.Node(c.Size()) != -1 {
		return fmt.Errorf("a rank that is not there: %w", err)
	}
	return c.Barrier() // a finalized rank has no route
}

func expected(together bool, a, b string) string {
	for _, f := range []string{"shm", "unix", "tcp"} {
		if (f != "shm" || together) && (a == "" || strings.Contains(a, f)) && (b == "" || strings.Contains(b, f)) {
			return f
		}
	}
	return ""
}

// A pair without a common fabric is an error of the operation that needs it, with all reasons.
// Other pairs go on.
func TestNoRoute(t *testing.T) {
	ranktest.Succeed(t, 3, "no route", ranktest.Fabrics("shm;shm;tcp"))
	ranktest.Succeed(t, 3, "no route", ranktest.Nodes("a;a;b"), "BANYAN_FABRIC=shm")
}

func noRoute(w *banyan.World) error {
	c := w.Comm()
	if c.Rank() < 2 {
		if err := c.Send(nil, 1-c.Rank(), 0); err != nil {
			return err
		}
		if _, err := c.Recv(nil, 1-c.Rank(), 0); err != nil {
			return err
		}
	}
	for rank := range c.Size() {
		if rank == c.Rank() || rank+c.Rank() < 2 {
			continue
		}
		err := c.Send(nil, rank, 0)
		if err == nil {
			return fmt.Errorf("rank %d reaches rank %d", c.Rank(), rank)
		}
		for _, part := range []string{"no fabric joins", fmt.Sprintf("process %d", c.Rank()),
			fmt.Sprintf("process %d", rank), "not shm", "not unix", "not tcp", "BANYAN_FABRIC"} {
			if !strings.Contains(err.Error(), part) {
				return fmt.Errorf("%s is missing in: %w", part, err)
			}
		}
	}
	return nil
}

// A death is reported across every fabric.
func TestDeathOnEveryFabric(t *testing.T) {
	for _, env := range []string{"BANYAN_FABRIC=unix", "BANYAN_FABRIC=tcp", ranktest.Nodes("a;b;a"),
		ranktest.Nodes("a;a;b")} {
		res, out := ranktest.Job(t, launch.Continue, 3, "die", env)
		for _, e := range res.Ends {
			require.Equal(t, e.Rank == 1, e.Failed(), "%s: %v\n%s", env, e, out)
		}
	}
}

// A wrong environment is reported before the job is joined; the option takes precedence.
func TestFabricOfOptionAndEnvironment(t *testing.T) {
	t.Setenv("BANYAN_FABRIC", "tcp,pigeon")
	_, err := banyan.Init()
	require.ErrorContains(t, err, "BANYAN_FABRIC=tcp,pigeon")
	require.ErrorContains(t, err, "shm,verbs,unix,tcp are")
	w, err := banyan.Init(banyan.WithFabrics("shm"))
	require.NoError(t, err)
	r, err := w.Route(0)
	require.NoError(t, err)
	require.Equal(t, "self", r.String())
	require.NoError(t, w.Finalize())
	_, err = w.Route(0)
	require.ErrorIs(t, err, banyan.ErrClosed)
	t.Setenv("BANYAN_NODE", strings.Repeat("n", 100))
	_, err = banyan.Init(banyan.WithFabrics("shm"))
	require.ErrorContains(t, err, "BANYAN_NODE")
}

// In the simulator its topology decides which ranks share a node.
func TestSimulatedNodes(t *testing.T) {
	err := banyan.Simulate(6, banyan.Simulation{Configure: func(c *sim.Config) { c.Topology.ProcsPerNode = 4 }},
		func(w *banyan.World) error {
			if w.Node(3) != 0 || w.Node(4) != 1 {
				return fmt.Errorf("nodes %d and %d", w.Node(3), w.Node(4))
			}
			here, err := w.Comm().SplitByNode(0)
			if err == nil && here.Size() != []int{4, 2}[w.Node(w.Comm().Rank())] {
				err = fmt.Errorf("%d ranks on this node", here.Size())
			}
			if err != nil {
				return err
			}
			r, err := w.Route((w.Comm().Rank() + 1) % 6)
			if err == nil && r.Fabric != "sim" {
				err = fmt.Errorf("route %v", r)
			}
			return errors.Join(err, w.Comm().Barrier()) // a finalized rank has no route
		})
	require.NoError(t, err)
}
