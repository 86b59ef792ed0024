package topologies

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/topology"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// system is the neighbourhoods of all ranks.
type system []banyan.Neighborhood

// systemOf gathers those of a topology.
func systemOf(t topology.Topology) (system, error) {
	n, c := t.Neighborhood(), t.Comm()
	counts := make([]int, 2*c.Size())
	if err := banyan.Allgather(c, []int{len(n.Sources), len(n.Dests)}, counts); err != nil {
		return nil, err
	}
	all := make([][]int, c.Size())
	for rank := range all {
		all[rank] = make([]int, counts[2*rank]+counts[2*rank+1])
	}
	if err := banyan.Allgatherv(c, slices.Concat(n.Sources, n.Dests), all); err != nil {
		return nil, err
	}
	s := make(system, c.Size())
	for rank, list := range all {
		k := counts[2*rank]
		s[rank] = banyan.Neighborhood{Sources: list[:k], Dests: list[k:], Opposite: n.Opposite}
	}
	return s, nil
}

// sent gives the block that the i-th source of a rank sends it: where the rank is several times among the
// destinations of that one, the order decides, or the direction in a grid.
func (s system) sent(rank, i int) (j int, err error) {
	sources := s[rank].Sources
	from := sources[i]
	if s[rank].Opposite {
		if j = i ^ 1; s[from].Dests[j] != rank {
			return 0, fmt.Errorf("rank %d has %d as its neighbour %d, and not the other way round", rank, from, i)
		}
		return j, nil
	}
	before := 0
	for _, source := range sources[:i] {
		if source == from {
			before++
		}
	}
	for j, dest := range s[from].Dests {
		if dest != rank {
			continue
		}
		if before == 0 {
			return j, nil
		}
		before--
	}
	return 0, fmt.Errorf("rank %d has %d among its sources, and not the other way round", rank, from)
}

// exchange is one call.
type exchange struct {
	toAll, varies bool
	size          int // of a block, in words
	number        int // decides the data
	way           int // blocking, non-blocking, persistent
}

func (x exchange) String() string {
	return fmt.Sprintf("to all %v, lengths vary %v, %d words, number %d, way %d", x.toAll, x.varies, x.size,
		x.number, x.way)
}

// block is the block of a rank for its j-th destination.
func (x exchange) block(from, j int) []uint64 {
	if x.toAll {
		j = 0
	}
	o := ranktest.Collective{Number: x.number + 1000*j, Size: x.size}
	if x.varies {
		o.Size = x.size * (1 + (from+j)%3)
	}
	return o.Block(from)
}

// check makes the call and compares its result with that of a sequential program. Blank ranks send nothing.
func (x exchange) check(t topology.Topology, s system, blank ...int) error {
	me := t.Comm().Rank()
	n := s[me]
	var send, recv, want [][]uint64
	for j := range n.Dests {
		send = append(send, x.block(me, j))
	}
	for i, from := range n.Sources {
		if from == banyan.ProcNull {
			recv, want = append(recv, ranktest.Blank(x.size)), append(want, ranktest.Blank(x.size))
			continue
		}
		j, err := s.sent(me, i)
		if err != nil {
			return err
		}
		block := x.block(from, j)
		recv, want = append(recv, ranktest.Blank(len(block))), append(want, block)
		if slices.Contains(blank, from) {
			want[i] = ranktest.Blank(len(block))
		}
	}
	mine := x.block(me, 0)
	got, err := x.call(t, mine, send, recv)
	if err != nil {
		return err
	}
	if !slices.Equal(got, slices.Concat(want...)) {
		return fmt.Errorf("%v: rank %d of %v: wrong result", x, me, s)
	}
	return nil
}

// call makes the call and returns the received blocks.
func (x exchange) call(t topology.Topology, mine []uint64, send, recv [][]uint64) ([]uint64, error) {
	out, in := slices.Concat(send...), slices.Concat(recv...)
	var err error
	var r banyan.Request
	switch {
	case x.toAll && x.varies:
		r, err = do(x.way, t, mine, recv, topology.Allgatherv, topology.Iallgatherv, topology.AllgathervInit)
		in = slices.Concat(recv...)
	case x.toAll:
		r, err = do(x.way, t, mine, in, topology.Allgather, topology.Iallgather, topology.AllgatherInit)
	case x.varies:
		r, err = do(x.way, t, send, recv, topology.Alltoallv, topology.Ialltoallv, topology.AlltoallvInit)
	default:
		r, err = do(x.way, t, out, in, topology.Alltoall, topology.Ialltoall, topology.AlltoallInit)
	}
	if err == nil {
		_, err = r.Wait()
	}
	if x.varies {
		in = slices.Concat(recv...)
	}
	return in, err
}

// do calls one of the three forms of an exchange.
func do[A, B any](
	way int, t topology.Topology, a A, b B,
	blocking func(topology.Topology, A, B) error, starting func(topology.Topology, A, B) banyan.Request,
	prepared func(topology.Topology, A, B) *banyan.Persistent,
) (banyan.Request, error) {
	switch way {
	case 0:
		return banyan.Request{}, blocking(t, a, b)
	case 1:
		return starting(t, a, b), nil
	}
	p := prepared(t, a, b)
	p.Start()
	_, err := p.Wait()
	return banyan.Request{}, err
}

// checkAll makes exchanges of all kinds.
func checkAll(t topology.Topology, sizes []int, blank ...int) error {
	s, err := systemOf(t)
	if err != nil {
		return err
	}
	number := 0
	for _, size := range sizes {
		for variant := range 12 {
			x := exchange{variant&1 == 1, variant&2 == 2, size, number, variant / 4}
			number++
			if err := x.check(t, s, blank...); err != nil {
				return fmt.Errorf("%v: %w", x, err)
			}
		}
	}
	return nil
}
