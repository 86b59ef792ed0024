package collectives

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// exchanges are the collectives in which each rank has messages with many others.
var exchanges = []ranktest.CollectiveKind{ranktest.Alltoall, ranktest.Allgatherv, ranktest.Gatherv,
	ranktest.Scatterv, ranktest.Alltoallv, ranktest.ReduceScatter, ranktest.ReduceScatterBlock, ranktest.Scan,
	ranktest.Exscan}

// eachExchange checks each of them with several lengths, in place and not, typed and not, blocking and not. Long blocks
// take most of the time, and go a long way in each of these forms alike: without BANYAN_LONG a quarter of the forms has
// them, others for each number of ranks.
func eachExchange(c *banyan.Comm) error {
	number, all := 0, os.Getenv("BANYAN_LONG") != ""
	for _, kind := range exchanges {
		for _, size := range []int{0, 1, 3, 1000, 5000} {
			for variant := range 16 {
				if size >= 1000 && !all && (variant+variant/4+number+c.Size())%4 > 0 {
					continue
				}
				o := ranktest.Collective{Kind: kind, Number: number<<2 | variant&3, Root: number % c.Size(), Size: size,
					Typed: variant&4 != 0}
				if err := o.Check(c, variant&8 != 0); err != nil {
					return err
				}
			}
			number++
		}
	}
	return nil
}

// They give the result of a sequential program for any number of ranks, on one node and on several, with
// and without a copy of the buffers.
func TestExchangesAgainstOracle(t *testing.T) {
	counts := []int{2, 5, 1, 3, 8}[:ranktest.Scaled(5, 2)]
	if os.Getenv("BANYAN_LONG") != "" {
		counts = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 16}
	}
	for _, n := range counts {
		for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
			for _, s := range []banyan.Simulation{{}, {Configure: oneEach}} {
				require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
					if err := w.Comm().SetUniformity(level); err != nil {
						return err
					}
					return eachExchange(w.Comm())
				}), "%d ranks, %v", n, level)
			}
		}
	}
}

// The same in the other modes: under a context, in the unaware engine, and where calls are checked.
func TestExchangesInOtherModes(t *testing.T) {
	for name, options := range map[string][]banyan.Option{
		"context": nil, "unaware": {banyan.WithAware(false)}, "debug": {banyan.WithDebug(true)},
	} {
		require.NoError(t, banyan.Simulate(4, banyan.Simulation{Options: options}, func(w *banyan.World) error {
			c := w.Comm()
			if name == "context" {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c = c.WithContext(ctx)
			}
			return eachExchange(c)
		}), name)
	}
}

// Under debug calls that do not fit are reported at all ranks, also where no message shows it.
func TestDebugOfExchanges(t *testing.T) {
	for name, call := range map[string]func(c *banyan.Comm, odd bool) error{
		"another root": func(c *banyan.Comm, odd bool) error {
			root := 0
			if odd {
				root = 1
			}
			return banyan.Gatherv(c, []int{}, blocksOf4(0), root)
		},
		"another operation to fold with": func(c *banyan.Comm, odd bool) error {
			op := banyan.Sum[int]
			if odd {
				op = banyan.Max[int]
			}
			return banyan.Scan(c, []int{1}, make([]int, 1), op)
		},
		"elements of another type": func(c *banyan.Comm, odd bool) error {
			if odd {
				return banyan.Alltoall(c, make([]float64, 4), make([]float64, 4))
			}
			return banyan.Alltoall(c, make([]int, 4), make([]int, 4))
		},
		"another collective": func(c *banyan.Comm, odd bool) error {
			if odd {
				return banyan.Exscan(c, []int{1}, make([]int, 1), banyan.Sum)
			}
			return banyan.Scan(c, []int{1}, make([]int, 1), banyan.Sum)
		},
	} {
		require.NoError(t, banyan.Simulate(4, banyan.Simulation{Options: []banyan.Option{banyan.WithDebug(true)}},
			func(w *banyan.World) error {
				err := call(w.Comm(), w.Comm().Rank() == 1)
				require.ErrorIs(t, err, banyan.ErrArgument, name)
				require.ErrorContains(t, err, "rank 1 called", name)
				return w.Comm().Barrier()
			}), name)
	}
}

// exchangesRank is a real process of the same.
func exchangesRank(w *banyan.World) error { return eachExchange(w.Comm()) }

func TestExchangesWithProcesses(t *testing.T) {
	for i, n := range []int{5, 2, 9, 1}[:ranktest.Scaled(4, 2)] {
		for _, fabric := range ranktest.InTurn(i, "shm", "tcp") {
			t.Run(fmt.Sprint(fabric, n), func(t *testing.T) { ranktest.Succeed(t, n, "exchanges", "BANYAN_FABRIC="+fabric) })
		}
	}
}

// misfits are calls in which rank 1, the odd one, and others do not agree, or whose arguments are wrong at
// rank 1; and the ranks that then have an error if each has its own outcome.
var misfits = map[string]struct {
	call  func(c *banyan.Comm, odd bool) banyan.Request
	wrong []int
}{
	"allgatherv of a longer block": {func(c *banyan.Comm, odd bool) banyan.Request {
		mine := 2
		if odd {
			mine = 3
		}
		all := blocksOf4(2)
		all[c.Rank()] = make([]int, mine)
		return banyan.Iallgatherv(c, make([]int, mine), all)
	}, []int{0, 2, 3}},
	"allgatherv with another place": {func(c *banyan.Comm, odd bool) banyan.Request {
		all := blocksOf4(2)
		if odd {
			all[2] = nil
		}
		return banyan.Iallgatherv(c, make([]int, 2), all)
	}, []int{1}},
	"allgatherv with too few places": {func(c *banyan.Comm, odd bool) banyan.Request {
		all := blocksOf4(2)
		if odd {
			all = all[:3]
		}
		return banyan.Iallgatherv(c, make([]int, 2), all)
	}, []int{0, 1, 2, 3}},
	"gatherv of a shorter block": {func(c *banyan.Comm, odd bool) banyan.Request {
		mine := 200_000
		if odd {
			mine = 1
		}
		return banyan.Igatherv(c, make([]int, mine), blocksOf4(200_000), 2)
	}, []int{2}},
	"gatherv with another place of its own": {func(c *banyan.Comm, odd bool) banyan.Request {
		all := blocksOf4(2)
		if odd {
			all[1] = make([]int, 1)
		}
		return banyan.Igatherv(c, make([]int, 2), all, 1)
	}, []int{1}},
	"scatterv into a longer block": {func(c *banyan.Comm, odd bool) banyan.Request {
		mine := 1
		if odd {
			mine = 2
		}
		return banyan.Iscatterv(c, blocksOf4(1), make([]int, mine), 0)
	}, []int{1}},
	"scatterv of no slices": {func(c *banyan.Comm, odd bool) banyan.Request {
		all := blocksOf4(1)
		if odd {
			all = nil
		}
		return banyan.Iscatterv(c, all, make([]int, 1), 1)
	}, []int{0, 1, 2, 3}},
	"alltoallv of a block that one rank does not expect": {func(c *banyan.Comm, odd bool) banyan.Request {
		send := blocksOf4(1)
		if odd {
			send[3] = make([]int, 200_000)
		}
		return banyan.Ialltoallv(c, send, blocksOf4(1))
	}, []int{3}},
	"alltoall of a number of elements that is no multiple": {func(c *banyan.Comm, _ bool) banyan.Request {
		numbers := make([]int64, 6) // of all ranks: blocks of 12 bytes
		return banyan.Ialltoall(c, numbers, numbers)
	}, []int{0, 1, 2, 3}},
	"alltoall of a number of bytes that is no multiple": {func(c *banyan.Comm, odd bool) banyan.Request {
		size := 8
		if odd {
			size = 7
		}
		return c.Ialltoall(make([]byte, size), make([]byte, size))
	}, []int{0, 1, 2, 3}},
}

// misfolds are such calls of operations that fold.
var misfolds = map[string]struct {
	call  func(c *banyan.Comm, odd bool) banyan.Request
	wrong []int
}{
	"reduce-scatter of blocks of another length": {func(c *banyan.Comm, odd bool) banyan.Request {
		size := 2
		if odd {
			size = 3
		}
		return banyan.IreduceScatterBlock(c, make([]int, 4*size), make([]int, size), banyan.Sum)
	}, []int{0, 1, 2, 3}},
	"reduce-scatter with other counts": {func(c *banyan.Comm, odd bool) banyan.Request {
		counts := []int{1, 2, 3, 4}
		if odd {
			counts = []int{1, 2, 4, 3}
		}
		return banyan.IreduceScatter(c, make([]int, 10), make([]int, counts[c.Rank()]), counts, banyan.Sum)
	}, []int{2, 3}},
	"reduce-scatter with counts of less than there is": {func(c *banyan.Comm, odd bool) banyan.Request {
		counts := []int{1, 2, 3, 4}
		if odd {
			counts = []int{1, 2, 3, 3}
		}
		return banyan.IreduceScatter(c, make([]int, 10), make([]int, 1+c.Rank()), counts, banyan.Sum)
	}, []int{0, 1, 2, 3}},
	"reduce-scatter with a negative count": {func(c *banyan.Comm, odd bool) banyan.Request {
		counts := []int{1, 2, 3, 4}
		if odd {
			counts = []int{5, 2, -1, 4}
		}
		return banyan.IreduceScatter(c, make([]int, 10), make([]int, 1+c.Rank()), counts, banyan.Sum)
	}, []int{0, 1, 2, 3}},
	"reduce-scatter with counts of too few ranks": {func(c *banyan.Comm, odd bool) banyan.Request {
		counts := []int{1, 2, 3, 4}
		if odd {
			counts = []int{6, 2, 2}
		}
		return banyan.IreduceScatter(c, make([]int, 10), make([]int, 1+c.Rank()), counts, banyan.Sum)
	}, []int{0, 1, 2, 3}},
	"reduce-scatter without operation": {func(c *banyan.Comm, odd bool) banyan.Request {
		op := banyan.Sum[int]
		if odd {
			op = nil
		}
		return banyan.IreduceScatterBlock(c, make([]int, 4), make([]int, 1), op)
	}, []int{0, 1, 2, 3}},
	"scan of another length": {func(c *banyan.Comm, odd bool) banyan.Request {
		send := make([]int, 2)
		if odd {
			send = make([]int, 3)
		}
		return banyan.Iscan(c, send, send, banyan.Sum)
	}, []int{1, 2, 3}},
	"scan with another place": {func(c *banyan.Comm, odd bool) banyan.Request {
		send := make([]int, 2)
		if odd {
			return banyan.Iscan(c, send, send[:1], banyan.Sum)
		}
		return banyan.Iscan(c, send, send, banyan.Sum)
	}, []int{1, 2, 3}},
	"exscan without operation": {func(c *banyan.Comm, odd bool) banyan.Request {
		op := banyan.Sum[int]
		if odd {
			op = nil
		}
		send := make([]int, 2)
		return banyan.Iexscan(c, send, send, op)
	}, []int{1, 2, 3}},
}

func blocksOf4(size int) [][]int {
	return [][]int{make([]int, size), make([]int, size), make([]int, size), make([]int, size)}
}

// Each rank that can see that calls do not fit has the error, no rank waits, and the next operation works. In
// uniform operations all have it.
func TestExchangesThatDoNotFit(t *testing.T) {
	all := maps.Clone(misfits)
	maps.Copy(all, misfolds)
	for name, m := range all {
		for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
			t.Run(fmt.Sprint(name, " ", level), func(t *testing.T) {
				require.NoError(t, banyan.Simulate(4, banyan.Simulation{}, func(w *banyan.World) error {
					c := w.Comm()
					if err := c.SetUniformity(level); err != nil {
						return err
					}
					err := wait(m.call(c, c.Rank() == 1))
					if level == banyan.UniformCollectives || slices.Contains(m.wrong, c.Rank()) {
						require.ErrorIs(t, err, banyan.ErrArgument, "rank %d", c.Rank())
					} else {
						require.NoError(t, err, "rank %d", c.Rank())
					}
					return c.Barrier()
				}))
			})
		}
	}
}

// The result of a reduction or a scan may lie anywhere in a rank's send buffer.
func TestFoldsInPlace(t *testing.T) {
	const n = 5
	require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		me := c.Rank()
		for at := range n {
			buf := slices.Repeat([]int{me + 1}, n+1)
			if err := banyan.ReduceScatterBlock(c, buf[:n], buf[at:at+1], banyan.Sum); err != nil {
				return err
			}
			want := slices.Repeat([]int{me + 1}, n+1)
			want[at] = n * (n + 1) / 2
			require.Equal(t, want, buf)
		}
		buf := slices.Repeat([]int{me + 1}, 4)
		if err := banyan.Scan(c, buf[:3], buf[1:], banyan.Sum); err != nil {
			return err
		}
		sum := (me + 1) * (me + 2) / 2
		require.Equal(t, []int{me + 1, sum, sum, sum}, buf)
		return nil
	}))
}

// A rank may give views of one buffer in any order: blocks that move within it are not lost.
func TestAlltoallvWithinOneBuffer(t *testing.T) {
	const n = 4
	require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
		c, buf := w.Comm(), make([]int, n)
		for i := range buf {
			buf[i] = 10*w.Comm().Rank() + i
		}
		views := slices.Collect(slices.Chunk(buf, 1))
		back := slices.Clone(views)
		slices.Reverse(back)
		if err := banyan.Alltoallv(c, views, back); err != nil {
			return err
		}
		for from := range n {
			require.Equal(t, 10*from+c.Rank(), buf[n-1-from])
		}
		return nil
	}))
}
