package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// forced are tables that have an operation go by one algorithm, one for each of each.
func forced() (tables []string) {
	for op := range choose.NumOps {
		for _, by := range op.Algorithms() {
			tables = append(tables, choose.Force(op, by).String())
		}
	}
	return tables
}

// randomTable has every operation switch its algorithm at random lengths.
func randomTable(r *rand.Rand) string {
	var b strings.Builder
	for op := range choose.NumOps {
		all := op.Algorithms()
		for range r.IntN(4) {
			rule := choose.Force(op, all[r.IntN(len(all))])
			from := []int{0, 8, 61, 100, 400, 3000, 20_000, 200_000}[r.IntN(8)]
			switch shared := rule.By == choose.Memory || rule.By == choose.Levels; {
			case !op.Sized() || r.IntN(3) == 0:
			case shared:
				rule.Bytes.To = from
			case op == choose.Bcast || op == choose.Reduce || op == choose.Allreduce || op == choose.Allgather:
				rule.Bytes.From = from
				if r.IntN(2) == 0 {
					rule.Bytes.To = from + r.IntN(100_000)
				}
			}
			fmt.Fprintln(&b, rule)
		}
	}
	return b.String()
}

// Each algorithm of each operation, and random tables, give the result of a sequential program among the living ranks.
func TestTablesAgainstOracle(t *testing.T) {
	tables := forced()
	random := ranktest.Scaled(12, 4)
	if os.Getenv("BANYAN_LONG") != "" {
		random = 400
	}
	for seed := range uint64(random) {
		tables = append(tables, randomTable(rand.New(rand.NewPCG(seed, 9))))
	}
	for i, table := range tables {
		n := []int{5, 2, 8, 3, 7, 4, 13, 1}[i%8]
		uniform, part := i%4 == 1, i%3
		if i >= len(tables)-random {
			part = -1
		}
		perNode := []int{n, 1, 1 + (n+2)/3}[i/8%3]
		nodes := func(cfg *sim.Config) { cfg.Topology.ProcsPerNode = perNode }
		sizes := []int{0, 1, 7, 37, 600, 9000}
		if n <= 4 {
			sizes = append(sizes, 70_001)
		}
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{Seed: uint64(i), Configure: nodes}, func(w *banyan.World) error {
			c := w.Comm()
			if uniform {
				if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
					return err
				}
			}
			if err := c.SetAlgorithms(table); err != nil {
				return err
			}
			for round, size := range sizes {
				if part >= 0 && round%3 != part { // of those with one algorithm a third
					continue
				}
				if err := everyKind(c, round, size, (i+round)%n, (i+round)%2 == 0); err != nil {
					return err
				}
			}
			return nil
		}), "%d ranks, %d on a node, table %d:\n%s", n, perNode, i, table)
	}
}

// Lengths differ so much that ranks take different rules of a table. All calls return, and no rank has success with other data
// than it asked for.
func TestTablesAndLengthsThatDoNotFit(t *testing.T) {
	lengths, tables := []int{0, 8, 61, 400, 20_000, 300_000}, ranktest.Scaled(16, 5)
	if os.Getenv("BANYAN_LONG") != "" {
		tables = 300
	}
	for seed := range uint64(tables) {
		r := rand.New(rand.NewPCG(seed, 11))
		table, n, s := randomTable(r), []int{3, 6, 2, 4}[seed%4], banyan.Simulation{Seed: seed}
		if seed%2 == 1 {
			s.Configure = oneEach
		}
		require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
			c := w.Comm()
			if err := c.SetAlgorithms(table); err != nil {
				return err
			}
			for i := range len(lengths) * len(lengths) {
				m := misfit{c: c, usual: lengths[i/len(lengths)], other: lengths[i%len(lengths)], odd: i % n}
				if m.here = m.usual; c.Rank() == m.odd {
					m.here = m.other
				}
				for _, m.nonblocking = range []bool{false, true} {
					err := errors.Join(m.someBcast(), m.folds(i%n))
					if m.usual <= 20_000 && m.other <= 20_000 {
						err = errors.Join(err, m.blocks((i+1)%n))
					}
					if err != nil {
						return err
					}
				}
			}
			return c.Barrier()
		}), "%d ranks, seed %d:\n%s", n, seed, table)
	}
}

// someBcast is bcast from each root. A rank whose length fits may have an error too, of a parent with another length, and
// one with an empty buffer success.
func (m *misfit) someBcast() error {
	for root := range m.c.Size() {
		buf, from := make([]byte, m.here), m.usual
		if root == m.odd {
			from = m.other
		}
		if m.c.Rank() == root {
			buf = ranktest.Pattern(5, from)
		}
		err := do(m.nonblocking, func() error { return m.c.Bcast(buf, root) },
			func() banyan.Request { return m.c.Ibcast(buf, root) })
		switch {
		case err != nil && errors.Is(err, banyan.ErrArgument) && m.is():
		case err != nil:
			return err
		case m.here == 0:
		case m.here != from:
			return fmt.Errorf("bcast of %d bytes has succeeded where rank %d wants %d", from, m.c.Rank(), m.here)
		case string(buf) != string(ranktest.Pattern(5, from)):
			return errors.New("bcast has succeeded with wrong data")
		}
	}
	return nil
}

// tablesRank checks every algorithm among real ranks, in the memory of nodes too.
func tablesRank(w *banyan.World) error {
	c := w.Comm()
	for i, table := range append(forced(), "bcast * * * ..64 memory\nbcast * * * * chain\nallreduce * * * ..64 memory\n"+
		"allgather * * * ..64 memory\nallgather * * * * ring\nbcast * * * ..64 levels\nallreduce * * * ..64 levels") {
		if err := errors.Join(c.SetAlgorithms(table), c.Barrier(), c.Barrier()); err != nil {
			return err
		}
		for round, size := range []int{1, 9, 300, 9000, 0} { // without BANYAN_LONG the first and one other
			if round > 0 && (round+i)%4 > 0 && !ranktest.Long() {
				continue
			}
			if err := everyKind(c, round, size, (i+round)%c.Size(), round%3 == 2); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
		}
	}
	return nil
}

func TestTablesOfProcesses(t *testing.T) {
	for _, layout := range []string{"a;a;a;a;a", "a;a;a;b;b;b;c", "a;b;a"}[:ranktest.Scaled(3, 2)] {
		ranktest.Succeed(t, len(strings.Split(layout, ";")), "tables", ranktest.Nodes(layout), "BANYAN_FABRIC=shm,tcp")
	}
}

// Algorithm shows the rule that holds.
func TestAlgorithmInForce(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{
		Configure: oneEach, Options: []banyan.Option{banyan.WithAlgorithms("bcast 3 part * 4k.. chain")},
	}, func(w *banyan.World) error {
		c := w.Comm()
		derived, err := c.Dup()
		require.NoError(t, err)
		for _, c := range []*banyan.Comm{c, derived} {
			for bytes, want := range map[int]string{0: "binomial", 4095: "binomial", 4096: "chain", 1 << 20: "chain"} {
				got, err := c.Algorithm("bcast", bytes)
				require.NoError(t, err)
				require.Equal(t, want, got, "%d bytes", bytes)
			}
		}
		_, err = c.Algorithm("gatherv", 8)
		require.ErrorIs(t, err, banyan.ErrArgument)
		_, err = c.Algorithm("bcast", -1)
		require.ErrorIs(t, err, banyan.ErrArgument)
		err = c.SetAlgorithms("bcast * * * * fast")
		require.ErrorIs(t, err, banyan.ErrArgument)
		require.ErrorContains(t, err, `table:1: there is no algorithm "fast"`)
		require.NoError(t, c.SetAlgorithms(""))
		got, err := c.Algorithm("bcast", 1<<20)
		require.NoError(t, err)
		require.Equal(t, "pipelined", got)
		require.NoError(t, c.SetTree(banyan.ChainTree))
		got, err = c.Algorithm("bcast", 1<<20)
		require.NoError(t, err)
		require.Empty(t, got)
		return derived.Free()
	}))
	require.ErrorContains(t, banyan.Simulate(1, banyan.Simulation{
		Options: []banyan.Option{banyan.WithAlgorithms("bcast * * *")},
	}, func(*banyan.World) error { return nil }), "WithAlgorithms:1: 4 fields")
}
