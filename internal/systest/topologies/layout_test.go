package topologies

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/layout"
	"github.com/banyan-hpc/banyan/coll/topology"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// field is a rank's part of a field of numbers, row by row, with a border of one element that has those of the
// neighbours.
type field struct {
	grid          *topology.Cart
	rows, columns int
	data          []int64
	out, in       *layout.Set[int64]
}

// newField makes one of so many elements without the border. The four directions are those of the grid.
func newField(c *banyan.Comm, rows, columns int) (*field, error) {
	dims := []int{0, 0}
	if err := topology.Dims(c.Size(), dims); err != nil {
		return nil, err
	}
	grid, err := topology.NewCart(c, dims, []bool{true, false}, false)
	if err != nil {
		return nil, err
	}
	f := &field{grid: grid, rows: rows, columns: columns, data: make([]int64, (rows+2)*(columns+2))}
	for row := range rows {
		for column := range columns {
			f.data[(row+1)*(columns+2)+column+1] = f.value(grid.Comm().Rank(), row, column)
		}
	}
	sizes, vertical, horizontal := []int{rows + 2, columns + 2}, []int{rows, 1}, []int{1, columns}
	part := func(part []int, row, column int) layout.Layout {
		l, lerr := layout.Subarray(sizes, part, []int{row, column})
		err = errors.Join(err, lerr)
		return l
	}
	edges := []layout.Layout{part(horizontal, 1, 1), part(horizontal, rows, 1), part(vertical, 1, 1), part(vertical, 1, columns)}
	border := []layout.Layout{part(horizontal, 0, 1), part(horizontal, rows+1, 1), part(vertical, 1, 0),
		part(vertical, 1, columns+1)}
	var oerr, ierr error
	f.out, oerr = layout.OfEach(f.data, edges...)
	f.in, ierr = layout.OfEach(f.data, border...)
	return f, errors.Join(err, oerr, ierr)
}

// value is an element of a rank.
func (f *field) value(rank, row, column int) int64 {
	return int64(1+rank)*1_000_000 + int64(row*f.columns+column)
}

// swap exchanges the borders.
func (f *field) swap() error {
	return layout.Neighbors(f.grid.Comm(), f.grid.Neighborhood(), f.out, f.in)
}

// check compares the borders with the neighbours' cells.
func (f *field) check() error {
	n := f.grid.Neighborhood().Sources
	for column := range f.columns {
		if err := errors.Join(f.is(0, column+1, n[0], f.rows-1, column), f.is(f.rows+1, column+1, n[1], 0, column)); err != nil {
			return err
		}
	}
	for row := range f.rows {
		err := errors.Join(f.is(row+1, 0, n[2], row, f.columns-1), f.is(row+1, f.columns+1, n[3], row, 0))
		if err != nil {
			return err
		}
	}
	return nil
}

// is compares an element of this rank, border included, with one of a neighbour.
func (f *field) is(row, column, rank, theirRow, theirColumn int) error {
	want := int64(0)
	if rank != banyan.ProcNull {
		want = f.value(rank, theirRow, theirColumn)
	}
	if got := f.data[row*(f.columns+2)+column]; got != want {
		return fmt.Errorf("rank %d: element %d, %d is %d, not %d of rank %d", f.grid.Comm().Rank(), row, column, got, want, rank)
	}
	return nil
}

// borders exchanges borders of short and long rows and columns, and transposes a matrix.
func borders(w *banyan.World) error {
	for _, size := range [][2]int{{1, 1}, {3, 5}, {200, 7}, {3, 30_000}, {30_000, 2}} {
		f, err := newField(w.Comm(), size[0], size[1])
		if err == nil {
			err = errors.Join(f.swap(), f.check(), f.grid.Comm().Free())
		}
		if err != nil {
			return fmt.Errorf("%v: %w", size, err)
		}
	}
	return transpose(w.Comm(), 40)
}

// transpose has each rank k rows of a square matrix, and then as many of its columns.
func transpose(c *banyan.Comm, k int) error {
	n, me := c.Size()*k, c.Rank()
	mine, got := make([]int32, k*n), make([]int32, k*n)
	for i := range mine {
		mine[i] = int32(me*k*n + i)
	}
	var blocks, columns []layout.Layout
	for rank := range c.Size() {
		block, err := layout.Subarray([]int{k, n}, []int{k, k}, []int{0, rank * k})
		if err != nil {
			return err
		}
		var places []int // of a column each, in the rows of got
		for row := range k {
			for column := range k {
				places = append(places, column*n+rank*k+row)
			}
		}
		ones := make([]int, len(places))
		for i := range ones {
			ones[i] = 1
		}
		column, err := layout.Indexed(places, ones)
		if err != nil {
			return err
		}
		blocks, columns = append(blocks, block), append(columns, column)
	}
	send, err := layout.OfEach(mine, blocks...)
	recv, rerr := layout.OfEach(got, columns...)
	if err = errors.Join(err, rerr); err != nil {
		return err
	}
	if err := layout.Alltoallv(c, send, recv); err != nil {
		return err
	}
	for i, x := range got {
		row, column := me*k+i/n, i%n
		if x != int32(column*n+row) {
			return fmt.Errorf("rank %d: element %d, %d is %d", me, row, column, x)
		}
	}
	return nil
}

func TestBorders(t *testing.T) {
	for _, n := range []int{1, 2, 6, 7}[:ranktest.Scaled(4, 2)] {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{Configure: onNodes(2)}, borders), "%d ranks", n)
	}
}

func TestBordersWithProcesses(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) { ranktest.Succeed(t, 4, "borders", "BANYAN_FABRIC="+fabric) })
	}
}

// Where a neighbour has failed an exchange changes no element, and after a validate it leaves that border as it is.
func TestBordersOfFailedNeighbours(t *testing.T) {
	require.NoError(t, ranktest.WithDetectedDeath(4, 3, func(w *banyan.World) error {
		f, err := newField(w.Comm(), 3, 5)
		if err != nil {
			return err
		}
		for len(f.grid.Comm().FailedRanks()) == 0 {
			w.Sleep(10 * time.Millisecond)
			_, _, _ = f.grid.Comm().Iprobe(f.grid.Comm().Rank(), 99)
		}
		for i := range f.data {
			if f.data[i] == 0 { // the border
				f.data[i] = 7
			}
		}
		before := slices.Clone(f.data)
		if err := f.swap(); err != nil {
			require.ErrorIs(t, err, banyan.ErrProcFailed)
			require.Equal(t, before, f.data)
		}
		if _, err := f.grid.Comm().Validate(); err != nil {
			return err
		}
		if err := f.swap(); err != nil {
			return err
		}
		for i, rank := range f.grid.Neighborhood().Sources {
			at := []int{1, 4*7 + 1, 7, 7 + 6}[i] // in the border with that neighbour
			if got := f.data[at]; rank == 3 && got != 7 || rank >= 0 && rank != 3 && got/1_000_000 != int64(rank+1) {
				return fmt.Errorf("rank %d: %d from %d", f.grid.Comm().Rank(), got, rank)
			}
		}
		return nil
	}))
}

// bordersAllocs counts the allocations of operations with layouts, after a warm-up.
func bordersAllocs(w *banyan.World) error {
	c := w.Comm()
	f, err := newField(c, 30, 20)
	column, lerr := layout.Vector(30, 1, 22)
	send, serr := layout.Of(f.data[1:], column)
	recv, rerr := layout.Of(make([]int64, len(f.data)), column)
	if err := errors.Join(err, lerr, serr, rerr); err != nil {
		return err
	}
	other := 1 - c.Rank()
	for kind, call := range []func() error{
		f.swap,
		func() error { _, err := layout.Sendrecv(c, send, other, 1, recv, other, 1); return err },
		func() error {
			q := layout.Irecv(c, recv, other, 2)
			err := layout.Send(c, send, other, 2)
			_, rerr := q.Wait()
			return errors.Join(err, rerr)
		},
		func() error { return layout.Bcast(c, recv, 1) },
		func() error { return layout.Allreduce(c, send, recv, banyan.Sum) },
	} {
		var failed error
		n := testing.AllocsPerRun(200, func() { failed = errors.Join(failed, call(), c.Barrier()) })
		if failed != nil || n >= 1 {
			return fmt.Errorf("call %d allocates %v times: %w", kind, n, failed)
		}
	}
	return nil
}

func TestLayoutsAllocateNothing(t *testing.T) {
	ranktest.Succeed(t, 2, "borders allocs", "BANYAN_DETECT=off", "BANYAN_DEBUG=off")
}
