package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Errors of mismatched lengths name only lengths of some rank's call: neither that of an empty
// message of a rank that has met such an error already, nor that of the announcement of a long
// message.
func TestLengthErrorsNameRealLengths(t *testing.T) {
	for name, lengths := range map[string][]int{
		"short": {24, 32, 40, 48}, "long": {2_400_000, 2_408_000, 2_416_000, 2_424_000}, "both": {4_000_000, 8, 8, 8},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range []banyan.Simulation{{}, {Configure: oneEach}} {
				require.NoError(t, banyan.Simulate(4, s, func(w *banyan.World) error {
					c := w.Comm()
					buf := make([]byte, lengths[c.Rank()])
					fold := func(acc, in []byte) { copy(acc, in) }
					for _, nonblocking := range []bool{false, true} {
						errs := []error{
							do(nonblocking, func() error { return c.Allreduce(buf, buf, fold) },
								func() banyan.Request { return c.Iallreduce(buf, buf, fold) }),
							do(nonblocking, func() error { return banyan.Reduce(c, buf, buf, banyan.Sum, 1) },
								func() banyan.Request { return banyan.Ireduce(c, buf, buf, banyan.Sum, 1) }),
							do(nonblocking, func() error { return c.Bcast(buf, 0) },
								func() banyan.Request { return c.Ibcast(buf, 0) }),
						}
						require.ErrorIs(t, errs[0], banyan.ErrArgument)
						for _, err := range errs {
							if err == nil {
								continue
							}
							for _, wrong := range []string{" 0 bytes", "wants 61 bytes", "want 61", "buffer of",
								"tag"} {
								require.False(t, strings.Contains(err.Error(), wrong), "%v", err)
							}
						}
					}
					return c.Barrier()
				}))
			}
		})
	}
}

// An error names the operation and the communicator once, and the root as a root.
func TestErrorsNameTheOperationOnce(t *testing.T) {
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		require.NoError(t, err)
		_, err = c.Ibcast(nil, 7).Wait()
		require.EqualError(t, err, "banyan: Ibcast(root 7) on world.1 at rank 0: wrong argument: root 7, want 0 … 0")
		require.NoError(t, c.Free())
		_, err = c.Dup()
		require.EqualError(t, err, "banyan: Dup on world.1 at rank 0: closed: the communicator has been freed")
		return nil
	}))
}

// A rank with wrong arguments takes part with no data, which matches no other length. All ranks
// that depend on it get an error, none hangs, and the next operation works.
func TestWrongArgumentsAtOneRank(t *testing.T) {
	fold := func(acc, in []byte) { copy(acc, in) }
	for name, op := range map[string]func(c *banyan.Comm, nonblocking, wrong bool, size int) error{
		"allreduce": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			buf, fold := make([]byte, size), unless(wrong, fold)
			return do(nonblocking, func() error { return c.Allreduce(buf, buf, fold) },
				func() banyan.Request { return c.Iallreduce(buf, buf, fold) })
		},
		"reduce": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			buf, fold := make([]byte, size), unless(wrong, fold)
			return do(nonblocking, func() error { return c.Reduce(buf, buf, fold, 0) },
				func() banyan.Request { return c.Ireduce(buf, buf, fold, 0) })
		},
		"gather": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			block, all := make([]byte, size), make([]byte, blocksOf(c, wrong, size))
			return do(nonblocking, func() error { return c.Gather(block, all, 2) },
				func() banyan.Request { return c.Igather(block, all, 2) })
		},
		"scatter": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			block, all := make([]byte, size), make([]byte, blocksOf(c, wrong, size))
			return do(nonblocking, func() error { return c.Scatter(all, block, 2) },
				func() banyan.Request { return c.Iscatter(all, block, 2) })
		},
		"alltoall": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			send, recv := make([]byte, c.Size()*size), make([]byte, blocksOf(c, wrong, size))
			return do(nonblocking, func() error { return c.Alltoall(send, recv) },
				func() banyan.Request { return c.Ialltoall(send, recv) })
		},
		"allgather": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			block, all := make([]byte, size), make([]byte, blocksOf(c, wrong, size))
			return do(nonblocking, func() error { return c.Allgather(block, all) },
				func() banyan.Request { return c.Iallgather(block, all) })
		},
	} {
		for i, size := range []int{0, 16, 40_000, 3_000_000, 0, 16, 40_000, 3_000_000} {
			nonblocking := i >= 4
			t.Run(fmt.Sprintf("%s of %d, non-blocking %v", name, size, nonblocking), func(t *testing.T) {
				const bad = 2
				silent := name == "gather" || name == "reduce"
				require.NoError(t, banyan.Simulate(5, banyan.Simulation{}, func(w *banyan.World) error {
					c := w.Comm()
					err := op(c, nonblocking, c.Rank() == bad, size)
					if c.Rank() == bad || size > 0 && !silent {
						require.ErrorIs(t, err, banyan.ErrArgument)
					}
					return c.Barrier()
				}))
			})
		}
	}
}

func unless(wrong bool, fold func(acc, in []byte)) func(acc, in []byte) {
	if wrong {
		return nil
	}
	return fold
}

// blocksOf is the length of the blocks of all ranks, or a wrong length.
func blocksOf(c *banyan.Comm, wrong bool, size int) int {
	if wrong {
		return c.Size()*size + 8
	}
	return c.Size() * size
}

// misfit is an operation in which one rank, the odd one, has another length.
type misfit struct {
	c                 *banyan.Comm
	nonblocking       bool // calls are non-blocking
	odd, usual, other int
	here              int // the length at this rank
}

func (m *misfit) is() bool { return m.usual != m.other }

// wants reports an error that should not be there, or a missing one.
func (m *misfit) wants(what string, wrong bool, err error) error {
	if wrong && errors.Is(err, banyan.ErrArgument) || !wrong && err == nil {
		return nil
	}
	return fmt.Errorf("%s of %d bytes where rank %d has %d, non-blocking %v, want an error: %v, got %w", what, m.usual,
		m.odd, m.other, m.nonblocking, wrong, err)
}

// bcast: each rank has the root's data, or an error if its length differs.
func (m *misfit) bcast(root int) error {
	buf, from := make([]byte, m.here), m.usual
	if root == m.odd {
		from = m.other
	}
	if m.c.Rank() == root {
		buf = ranktest.Pattern(5, from)
	}
	err := do(m.nonblocking, func() error { return m.c.Bcast(buf, root) },
		func() banyan.Request { return m.c.Ibcast(buf, root) })
	if err == nil && !bytes.Equal(buf, ranktest.Pattern(5, from)) {
		return errors.New("bcast has succeeded with wrong data")
	}
	return m.wants("bcast", m.here != from, err)
}

// folds: no rank has a result. A rank with an empty buffer may have success, because that is the
// result then.
func (m *misfit) folds(root int) error {
	buf := make([]byte, m.here)
	err := do(m.nonblocking, func() error { return banyan.Allreduce(m.c, buf, buf, banyan.Sum) },
		func() banyan.Request { return banyan.Iallreduce(m.c, buf, buf, banyan.Sum) })
	if m.here > 0 || !m.is() {
		if err := m.wants("allreduce", m.is(), err); err != nil {
			return err
		}
	}
	err = do(m.nonblocking, func() error { return banyan.Reduce(m.c, buf, buf, banyan.Sum, root, banyan.AnyOrder) },
		func() banyan.Request { return banyan.Ireduce(m.c, buf, buf, banyan.Sum, root, banyan.AnyOrder) })
	if m.c.Rank() == root && (m.here > 0 || !m.is()) {
		return m.wants("reduce", m.is(), err)
	}
	return nil
}

// blocks: no rank has all blocks, and the odd one has none.
func (m *misfit) blocks(root int) error {
	mine, all := make([]byte, m.here), make([]byte, m.here*m.c.Size())
	some := m.here > 0 || !m.is()
	err := do(m.nonblocking, func() error { return m.c.Allgather(mine, all) },
		func() banyan.Request { return m.c.Iallgather(mine, all) })
	if some {
		if err := m.wants("allgather", m.is(), err); err != nil {
			return err
		}
	}
	other := make([]byte, len(all))
	err = do(m.nonblocking, func() error { return m.c.Alltoall(all, other) },
		func() banyan.Request { return m.c.Ialltoall(all, other) })
	if err := m.wants("alltoall", m.is(), err); err != nil { // each rank has messages with the odd one
		return err
	}
	top := m.c.Rank() == root
	if !top {
		all = nil
	}
	err = do(m.nonblocking, func() error { return m.c.Gather(mine, all, root) },
		func() banyan.Request { return m.c.Igather(mine, all, root) })
	if top && some {
		if err := m.wants("gather", m.is(), err); err != nil {
			return err
		}
	}
	err = do(m.nonblocking, func() error { return m.c.Scatter(all, mine, root) },
		func() banyan.Request { return m.c.Iscatter(all, mine, root) })
	if m.c.Rank() == m.odd && !top && some {
		return m.wants("scatter", m.is(), err)
	}
	return nil
}

// Lengths differ so much that ranks would choose different algorithms. All calls return, and no
// rank has success with other data than it asked for. The library's own length header has 61 bytes.
func TestLengthsThatDoNotFit(t *testing.T) {
	lengths, counts := []int{0, 8, 61, 20_000, 600_000}, []int{2, 3, 6}
	switch {
	case testing.Short():
		lengths, counts = []int{0, 61, 600_000}, []int{3}
	case os.Getenv("BANYAN_LONG") != "":
		lengths, counts = append(lengths, 1, 60, 62, 131_072), append(counts, 4, 5, 7, 8)
	}
	for i := range 2 * len(counts) {
		n, s := counts[i/2], banyan.Simulation{}
		if i%2 == 1 {
			s.Configure = oneEach
		}
		require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
			c := w.Comm()
			for k, tree := range []banyan.Tree{banyan.AutoTree, banyan.BinomialTree, banyan.ChainTree} {
				if err := c.SetTree(tree); err != nil {
					return err
				}
				for i := range len(lengths) * len(lengths) {
					m := misfit{c: c, usual: lengths[i/len(lengths)], other: lengths[i%len(lengths)], odd: (i + k) % n}
					if m.here = m.usual; c.Rank() == m.odd {
						m.here = m.other
					}
					for _, m.nonblocking = range []bool{false, true} {
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

// The same number of bytes, with elements of another size at one rank: long buffers would be split
// at different places.
func TestElementsThatDoNotFit(t *testing.T) {
	for _, n := range []int{2, 4, 7} {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
			c := w.Comm()
			for _, nonblocking := range []bool{false, true} {
				long, short := make([]uint64, 3_001), make([]uint16, 4*3_001)
				err := do(nonblocking, func() error { return banyan.Allreduce(c, long, long, banyan.Sum) },
					func() banyan.Request { return banyan.Iallreduce(c, long, long, banyan.Sum) })
				if err != nil {
					return err
				}
				if c.Rank() == n/2 {
					err = do(nonblocking, func() error { return banyan.Allreduce(c, short, short, banyan.Sum) },
						func() banyan.Request { return banyan.Iallreduce(c, short, short, banyan.Sum) })
				} else {
					err = do(nonblocking, func() error { return banyan.Allreduce(c, long, long, banyan.Sum) },
						func() banyan.Request { return banyan.Iallreduce(c, long, long, banyan.Sum) })
				}
				if !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("non-blocking %v: %w", nonblocking, err)
				}
			}
			return c.Barrier()
		}), "%d ranks", n)
	}
}

// Ranks that name different roots get an error where a message shows it, and no rank takes another
// one's data for its root's.
func TestDifferentRoots(t *testing.T) {
	for name, op := range map[string]func(c *banyan.Comm, root int) error{
		"bcast": func(c *banyan.Comm, root int) error { return c.Bcast(make([]byte, 8), root) },
		"scatter": func(c *banyan.Comm, root int) error {
			return c.Scatter(make([]byte, 16), make([]byte, 8),
				root)
		},
		"ibcast": func(c *banyan.Comm, root int) error {
			_,
				err := c.Ibcast(make([]byte, 8), root).Wait()
			return err
		},
		"iscatter": func(c *banyan.Comm, root int) error {
			_, err := c.Iscatter(make([]byte, 16), make([]byte, 8), root).Wait()
			return err
		},
	} {
		for late := range 2 {
			require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				if _, err := c.Sendrecv(nil, 1-c.Rank(), 0, nil, 1-c.Rank(), 0); err != nil {
					return err
				}
				if c.Rank() == late {
					w.Sleep(time.Millisecond)
					c.GetFailed() // makes progress: the other rank's message has arrived
				}
				// The first caller sends and waits for no one. The second finds its message, or
				// finds it in place of that of the next collective.
				err := op(c, c.Rank())
				if c.Rank() != late && err != nil {
					return err
				}
				if next := c.Barrier(); err == nil {
					err = next
				}
				for w.Now() < 10*time.Millisecond { // so that no rank is seen to depart
					w.Sleep(time.Millisecond)
					c.GetFailed()
				}
				if c.Rank() == late && !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("the second to call: %w", err)
				}
				return nil
			}), "%s, %d is late", name, late)
		}
	}
}

// A receive, waiting or posted later, finds that its message has another root. No rank waits for
// it.
func TestOtherRootThanTheParent(t *testing.T) {
	const n = 4
	for _, nonblocking := range []bool{false, true} {
		for late := range n {
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				if err := errors.Join(c.SetTree(banyan.ChainTree), c.Barrier()); err != nil {
					return err
				}
				if c.Rank() == late {
					w.Sleep(time.Millisecond)
				}
				root := 0
				if c.Rank() == n-1 { // the end of the chain from 0, and the middle of that from 1
					root = 1
				}
				buf := []byte{byte(c.Rank())}
				err := do(nonblocking, func() error { return c.Bcast(buf, root) },
					func() banyan.Request { return c.Ibcast(buf, root) })
				if root == 0 {
					return err
				}
				if !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("the other root: %w", err)
				}
				return nil
			}), "non-blocking %v, %d is late", nonblocking, late)
		}
	}
}
