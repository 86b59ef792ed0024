package intercomms

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// misfits are calls whose arguments do not fit at rank 1 of side 0, the odd one, or at more, and the ranks by side
// that have an error then, if each has its own outcome. Side 0 has three ranks, side 1 two; its rank 0 is the root.
var misfits = map[string]struct {
	call  func(b bridge, odd bool, root int) banyan.Request
	wrong [2][]int
}{
	"scan": {func(b bridge, _ bool, _ int) banyan.Request {
		return banyan.Iscan(b.c, []int{1}, make([]int, 1), banyan.Sum)
	}, [2][]int{{0, 1, 2}, {0, 1}}},
	"exchange among neighbours": {func(b bridge, _ bool, _ int) banyan.Request {
		return banyan.IneighborAllgather(b.c, banyan.Neighborhood{}, []int{1}, nil)
	}, [2][]int{{0, 1, 2}, {0, 1}}},
	"root that does not exist": {func(b bridge, _ bool, _ int) banyan.Request {
		root := banyan.ProcNull
		if b.side == 0 {
			root = 2
		}
		return banyan.Ibcast(b.c, []int{1}, root)
	}, [2][]int{{0, 1, 2}, nil}},
	"bcast of another length": {func(b bridge, odd bool, root int) banyan.Request {
		if odd {
			return banyan.Ibcast(b.c, make([]int, 2), root)
		}
		return banyan.Ibcast(b.c, make([]int, 1), root)
	}, [2][]int{{1}, nil}},
	"gather of no whole blocks": {func(b bridge, _ bool, root int) banyan.Request {
		return b.c.Igather(make([]byte, 2), make([]byte, 7), root)
	}, [2][]int{nil, {0}}},
	"gather of a longer block": {func(b bridge, odd bool, root int) banyan.Request {
		if odd {
			return b.c.Igather(make([]byte, 3), nil, root)
		}
		return b.c.Igather(make([]byte, 2), make([]byte, 6), root)
	}, [2][]int{{0}, {0}}},
	"scatter of no whole blocks": {func(b bridge, _ bool, root int) banyan.Request {
		return b.c.Iscatter(make([]byte, 7), make([]byte, 2), root)
	}, [2][]int{{0, 1, 2}, {0}}},
	"allreduce without operation": {func(b bridge, odd bool, _ int) banyan.Request {
		if odd {
			return banyan.Iallreduce(b.c, []int{1}, make([]int, 1), nil)
		}
		return banyan.Iallreduce(b.c, []int{1}, make([]int, 1), banyan.Sum)
	}, [2][]int{{0, 1, 2}, {0, 1}}},
	"allreduce of another length on one side": {func(b bridge, _ bool, _ int) banyan.Request {
		size := 1 + b.side
		return banyan.Iallreduce(b.c, make([]int, size), make([]int, size), banyan.Sum)
	}, [2][]int{{0, 1, 2}, {0, 1}}},
	"allgather of other places": {func(b bridge, odd bool, _ int) banyan.Request {
		if odd {
			return b.c.Iallgather(make([]byte, 2), make([]byte, 6))
		}
		return b.c.Iallgather(make([]byte, 2), make([]byte, 2*b.n(1-b.side)))
	}, [2][]int{{1}, nil}},
	"reduce-scatter of another total": {func(b bridge, odd bool, _ int) banyan.Request {
		return b.c.IreduceScatterBlock(make([]byte, 6), make([]byte, 6/b.c.Size()-b.side), xor)
	}, [2][]int{{0, 1, 2}, {0, 1}}},
	"alltoallv of too few blocks": {func(b bridge, odd bool, _ int) banyan.Request {
		blocks := make([][]int, b.n(1-b.side))
		if odd {
			return banyan.Ialltoallv(b.c, blocks[1:], blocks)
		}
		return banyan.Ialltoallv(b.c, blocks, blocks)
	}, [2][]int{{1}, nil}},
}

// Each rank that can see that calls do not fit has the error, no rank waits, and the next operation works. In uniform
// operations all have it.
func TestCallsThatDoNotFit(t *testing.T) {
	for name, m := range misfits {
		for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
			t.Run(fmt.Sprint(name, " ", level), func(t *testing.T) {
				require.NoError(t, banyan.Simulate(5, banyan.Simulation{}, func(w *banyan.World) error {
					b, err := join(w.Comm(), 2)
					if err != nil {
						return err
					}
					require.NoError(t, b.c.SetUniformity(level))
					root := 0
					if b.side == 1 {
						if root = banyan.ProcNull; b.c.Rank() == 0 {
							root = banyan.Root
						}
					}
					_, err = m.call(b, b.side == 0 && b.c.Rank() == 1, root).Wait()
					wrong := level == banyan.UniformCollectives
					for _, rank := range m.wrong[b.side] {
						wrong = wrong || rank == b.c.Rank()
					}
					if wrong {
						require.ErrorIs(t, err, banyan.ErrArgument, "rank %d of side %d", b.c.Rank(), b.side)
					} else {
						require.NoError(t, err, "rank %d of side %d", b.c.Rank(), b.side)
					}
					return b.c.Barrier()
				}))
			})
		}
	}
}
