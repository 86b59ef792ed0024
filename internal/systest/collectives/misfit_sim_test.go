package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// misfit is an operation to which one rank, the odd one, comes with another length than the rest.
type misfit struct {
	c                 *banyan.Comm
	begun             bool // calls are non-blocking
	odd, usual, other int
	here              int // the length at this rank
}

func (m *misfit) is() bool { return m.usual != m.other }

// wants reports what is wrong with an outcome: an error where there is none to be, or none where there is.
func (m *misfit) wants(what string, wrong bool, err error) error {
	if wrong && errors.Is(err, banyan.ErrArgument) || !wrong && err == nil {
		return nil
	}
	return fmt.Errorf("%s of %d bytes where rank %d has %d, begun: %v, want an error: %v, got %w", what, m.usual, m.odd, m.other, m.begun, wrong, err)
}

// bcast: all have the root's data or, with another length than it, an error.
func (m *misfit) bcast(root int) error {
	buf, from := make([]byte, m.here), m.usual
	if root == m.odd {
		from = m.other
	}
	if m.c.Rank() == root {
		buf = ranktest.Pattern(5, from)
	}
	err := do(m.begun, func() error { return m.c.Bcast(buf, root) }, func() banyan.Request { return m.c.IBcast(buf, root) })
	if err == nil && !bytes.Equal(buf, ranktest.Pattern(5, from)) {
		return errors.New("bcast has succeeded with wrong data")
	}
	return m.wants("bcast", m.here != from, err)
}

// folds: nobody has a result, and no root. Who has come with nothing may have success, as that is the result then.
func (m *misfit) folds(root int) error {
	buf := make([]byte, m.here)
	err := do(m.begun, func() error { return banyan.Allreduce(m.c, buf, banyan.Sum) },
		func() banyan.Request { return banyan.IAllreduce(m.c, buf, banyan.Sum) })
	if m.here > 0 || !m.is() {
		if err := m.wants("allreduce", m.is(), err); err != nil {
			return err
		}
	}
	err = do(m.begun, func() error { return banyan.Reduce(m.c, buf, banyan.Sum, root, banyan.AnyOrder) },
		func() banyan.Request { return banyan.IReduce(m.c, buf, banyan.Sum, root, banyan.AnyOrder) })
	if m.c.Rank() == root && (m.here > 0 || !m.is()) {
		return m.wants("reduce", m.is(), err)
	}
	return nil
}

// blocks: neither a root nor anybody has got all blocks, and the odd one has got none.
func (m *misfit) blocks(root int) error {
	mine, all := make([]byte, m.here), make([]byte, m.here*m.c.Size())
	some := m.here > 0 || !m.is()
	err := do(m.begun, func() error { return m.c.AllgatherBytes(mine, all) }, func() banyan.Request { return m.c.IAllgatherBytes(mine, all) })
	if some {
		if err := m.wants("allgather", m.is(), err); err != nil {
			return err
		}
	}
	top := m.c.Rank() == root
	if !top {
		all = nil
	}
	err = do(m.begun, func() error { return m.c.GatherBytes(mine, all, root) }, func() banyan.Request { return m.c.IGatherBytes(mine, all, root) })
	if top && some {
		if err := m.wants("gather", m.is(), err); err != nil {
			return err
		}
	}
	err = do(m.begun, func() error { return m.c.ScatterBytes(all, mine, root) }, func() banyan.Request { return m.c.IScatterBytes(all, mine, root) })
	if m.c.Rank() == m.odd && !top && some {
		return m.wants("scatter", m.is(), err)
	}
	return nil
}

// Ranks that call with lengths so different that they would go different ways all return, and nobody has success with data that are not what it
// asked for. 61 bytes is how long the library's own marks are.
func TestLengthsThatDoNotFit(t *testing.T) {
	lengths, counts := []int{0, 8, 61, 20_000, 600_000}, []int{2, 3, 6}
	if os.Getenv("BANYAN_LONG") != "" {
		lengths, counts = append(lengths, 1, 60, 62, 131_072), append(counts, 4, 5, 7, 8)
	}
	for i := range 2 * len(counts) {
		n, s := counts[i/2], banyan.Simulation{}
		if i%2 == 1 {
			s.Configure = oneEach
		}
		require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
			c := w.Comm()
			for k, tree := range []string{"auto", "binomial", "chain"} {
				if err := c.SetTree(tree); err != nil {
					return err
				}
				for i := range len(lengths) * len(lengths) {
					m := misfit{c: c, usual: lengths[i/len(lengths)], other: lengths[i%len(lengths)], odd: (i + k) % n}
					if m.here = m.usual; c.Rank() == m.odd {
						m.here = m.other
					}
					for _, m.begun = range []bool{false, true} {
						err := errors.Join(m.bcast((m.odd+1)%n), m.folds(i%n))
						if m.usual <= 20_000 && m.other <= 20_000 {
							err = errors.Join(err, m.blocks((i+1)%n))
						}
						if err != nil {
							return fmt.Errorf("%s: %w", tree, err)
						}
					}
				}
			}
			return c.Barrier()
		}), "%d ranks, run %d", n, i)
	}
}

// As many bytes, of elements of another length at one rank: long buffers would be parted at different places.
func TestElementsThatDoNotFit(t *testing.T) {
	for _, n := range []int{2, 4, 7} {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
			c := w.Comm()
			for _, nonblocking := range []bool{false, true} {
				long, short := make([]uint64, 3_001), make([]uint16, 4*3_001)
				err := do(nonblocking, func() error { return banyan.Allreduce(c, long, banyan.Sum) },
					func() banyan.Request { return banyan.IAllreduce(c, long, banyan.Sum) })
				if err != nil {
					return err
				}
				if c.Rank() == n/2 {
					err = do(nonblocking, func() error { return banyan.Allreduce(c, short, banyan.Sum) },
						func() banyan.Request { return banyan.IAllreduce(c, short, banyan.Sum) })
				} else {
					err = do(nonblocking, func() error { return banyan.Allreduce(c, long, banyan.Sum) },
						func() banyan.Request { return banyan.IAllreduce(c, long, banyan.Sum) })
				}
				if !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("non-blocking %v: %w", nonblocking, err)
				}
			}
			return c.Barrier()
		}), "%d ranks", n)
	}
}
