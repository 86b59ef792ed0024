package layout

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// pair returns two layouts with the same number of elements: for sending and for receiving.
func pair(t *testing.T, r *rand.Rand) (from, to reference) {
	for {
		from, to = random(t, r), random(t, r)
		if len(from.elements) == len(to.elements) {
			return from, to
		}
	}
}

// selected are the numbers that a rank gives, in the order in which they travel.
func (x reference) selected(rank int) (out []int32) {
	all := data(x.Extent(), rank)
	for _, at := range x.elements {
		out = append(out, all[at])
	}
	return out
}

// arrival is a slice with other numbers, into whose layout elements are received.
type arrival struct {
	to   reference
	data []int32
	view *View[int32]
}

func (x reference) arrival() (*arrival, error) {
	a := &arrival{to: x, data: data(x.Extent(), 99)}
	var err error
	a.view, err = Of(a.data, x.Layout)
	return a, err
}

// holds reports whether these elements have arrived, and nothing else has changed; nil: nothing has.
func (a *arrival) holds(elements []int32) error {
	want := data(a.to.Extent(), 99)
	for i, x := range elements {
		want[a.to.elements[i]] = x
	}
	if !slices.Equal(a.data, want) {
		return fmt.Errorf("got %v, want %v", a.data, want)
	}
	return nil
}

// messages are ways to send to the rank above and to receive from the rank below.
var messages = map[string]func(c *banyan.Comm, send, recv *View[int32], above, below int) error{
	"Sendrecv": func(c *banyan.Comm, send, recv *View[int32], above, below int) error {
		_, err := Sendrecv(c, send, above, 1, recv, below, 1)
		return err
	},
	"Irecv and Send": func(c *banyan.Comm, send, recv *View[int32], above, below int) error {
		q := Irecv(c, recv, below, 2)
		err := Send(c, send, above, 2)
		st, rerr := q.Wait()
		if st.Count != recv.Count() {
			err = errors.Join(err, fmt.Errorf("%d elements", st.Count))
		}
		return errors.Join(err, rerr)
	},
	"Isend and Recv": func(c *banyan.Comm, send, recv *View[int32], above, below int) error {
		q := Isend(c, send, above, 3)
		_, err := Recv(c, recv, below, 3)
		_, serr := q.Wait()
		return errors.Join(err, serr)
	},
	"Persistent": func(c *banyan.Comm, send, recv *View[int32], above, below int) error {
		p := c.Persistent(func(c *banyan.Comm) banyan.Request { return banyan.Irecv(c, recv.Packed(), below, 4) })
		p.Start()
		err := Send(c, send, above, 4)
		_, rerr := p.Wait()
		recv.Unpack()
		return errors.Join(err, rerr)
	},
}

// Elements travel from one layout to another by messages.
func TestMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 100 {
		from, to := pair(t, r)
		for name, move := range messages {
			require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				above, below := (c.Rank()+1)%3, (c.Rank()+2)%3
				send, err := Of(data(from.Extent(), c.Rank()), from.Layout)
				a, aerr := to.arrival()
				if err = errors.Join(err, aerr); err != nil {
					return err
				}
				return errors.Join(move(c, send, a.view, above, below), a.holds(from.selected(below)))
			}), "%s: %+v to %+v", name, from, to)
		}
	}
}

// A shorter message changes the first elements alone, of a longer one there is the beginning, and one that is cancelled
// changes nothing.
func TestMessagesOfOtherLengths(t *testing.T) {
	column, err := Vector(4, 1, 3)
	require.NoError(t, err)
	to := reference{column, []int{0, 3, 6, 9}}
	for length, want := range map[int]error{2: nil, 4: nil, 6: banyan.ErrTruncate} {
		for _, nonblocking := range []bool{false, true} {
			require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				if c.Rank() == 0 {
					return banyan.Send(c, data(length, 0), 1, 1)
				}
				a, err := to.arrival()
				require.NoError(t, err)
				q := Receive[int32]{}
				if nonblocking {
					q = Irecv(c, a.view, 0, 1)
					_, err = q.Wait()
				} else {
					_, err = Recv(c, a.view, 0, 1)
				}
				require.ErrorIs(t, err, want)
				return a.holds(data(min(length, 4), 0))
			}))
		}
	}
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		a, err := to.arrival()
		require.NoError(t, err)
		q := Irecv(w.Comm(), a.view, 0, 1)
		q.Cancel()
		st, err := q.Wait()
		require.True(t, st.Cancelled)
		return errors.Join(err, a.holds(nil))
	}))
}

// After an error of a collective the elements are unchanged, for any bytes received.
func TestCollectiveOfAnotherLength(t *testing.T) {
	column, err := Vector(4, 1, 3)
	require.NoError(t, err)
	to := reference{column, []int{0, 3, 6, 9}}
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		if w.Comm().Rank() == 0 {
			return banyan.Bcast(w.Comm(), data(6, 0), 0)
		}
		a, err := to.arrival()
		require.NoError(t, err)
		require.ErrorIs(t, Bcast(w.Comm(), a.view, 0), banyan.ErrArgument)
		require.NotEqual(t, data(12, 99)[0], a.view.Packed()[0], "the test shows nothing: nothing has come")
		return a.holds(nil)
	}))
}

// times repeats a layout for each of n ranks, side by side.
func (x reference) times(t *testing.T, n int) reference {
	var places, lengths []int
	var elements []int
	for rank := range n {
		for _, at := range x.elements {
			at += rank * x.Extent()
			places, lengths, elements = append(places, at), append(lengths, 1), append(elements, at)
		}
	}
	l, err := Indexed(places, lengths)
	require.NoError(t, err)
	return reference{l, elements}
}

// Elements travel from one layout to another by collectives, with uniform outcomes and not.
func TestCollectives(t *testing.T) {
	const n = 3
	r := rand.New(rand.NewPCG(3, 1))
	for i := range 40 {
		from, to := pair(t, r)
		many := to.times(t, n)
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
			if i%2 == 1 {
				if err := w.Comm().SetUniformity(banyan.UniformCollectives); err != nil {
					return err
				}
			}
			return collectives(w.Comm(), from, to, many)
		}), "%+v to %+v", from, to)
	}
}

// collectives calls each of them. Many is the layout of the elements of all ranks.
func collectives(c *banyan.Comm, from, to, many reference) error {
	me, n := c.Rank(), c.Size()
	send, err := Of(data(from.Extent(), me), from.Layout)
	if err != nil {
		return err
	}
	var all, sum []int32
	for rank := range n {
		all = append(all, from.selected(rank)...)
	}
	sum = make([]int32, from.Count())
	for i := range all {
		sum[i%len(sum)] += all[i]
	}
	for _, x := range []struct {
		name string
		to   reference
		call func(recv *View[int32]) error
		want []int32
		at   int // the rank that has the result; negative: all
	}{
		{"allreduce", to, func(recv *View[int32]) error { return Allreduce(c, send, recv, banyan.Sum) }, sum, -1},
		{"reduce", to, func(recv *View[int32]) error { return Reduce(c, send, at(c, 1, recv), banyan.Sum, 1) }, sum, 1},
		{"gather", many, func(recv *View[int32]) error { return Gather(c, send, at(c, 2, recv), 2) }, all, 2},
		{"allgather", many, func(recv *View[int32]) error { return Allgather(c, send, recv) }, all, -1},
		{"bcast", to, func(recv *View[int32]) error {
			if me == 1 {
				return Bcast(c, send, 1)
			}
			return Bcast(c, recv, 1)
		}, from.selected(1), 0},
	} {
		a, err := x.to.arrival()
		if err != nil {
			return err
		}
		err = x.call(a.view)
		if x.at < 0 || x.at == me {
			err = errors.Join(err, a.holds(x.want))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return parted(c, to, many)
}

// at is a view at one rank, and nil elsewhere.
func at(c *banyan.Comm, rank int, v *View[int32]) *View[int32] {
	if c.Rank() == rank {
		return v
	}
	return nil
}

// parted calls the collectives in which a rank has elements for each.
func parted(c *banyan.Comm, to, many reference) error {
	me, n := c.Rank(), c.Size()
	give := data(many.Extent(), me)
	send, err := Of(give, many.Layout)
	if err != nil {
		return err
	}
	part := func(rank, of int) []int32 { // the elements of a rank for another one
		return many.selected(rank)[of*to.Count():][:to.Count()]
	}
	a, aerr := to.arrival()
	b, berr := many.arrival()
	if err := errors.Join(aerr, berr); err != nil {
		return err
	}
	err = errors.Join(Scatter(c, at(c, 0, send), a.view, 0), a.holds(part(0, me)))
	var want []int32
	for rank := range n {
		want = append(want, part(rank, me)...)
	}
	err = errors.Join(err, Alltoall(c, send, b.view), b.holds(want))
	// The same with a layout for each rank, and among neighbours: the ranks above and below.
	var each []Layout
	for rank := range n {
		l, lerr := Indexed(many.elements[rank*to.Count():][:to.Count()], slices.Repeat([]int{1}, to.Count()))
		each, err = append(each, l), errors.Join(err, lerr)
	}
	for range 2 {
		to, cerr := many.arrival()
		out, oerr := OfEach(give, each...)
		in, ierr := OfEach(to.data, each...)
		err = errors.Join(err, cerr, oerr, ierr, Alltoallv(c, out, in), to.holds(want))
	}
	to2, cerr := many.arrival()
	out, oerr := OfEach(give, each[1], each[2])
	in, ierr := OfEach(to2.data, each[0], each[1])
	hood := banyan.Neighborhood{Sources: []int{(me + 1) % n, (me + n - 1) % n}, Dests: []int{(me + n - 1) % n, (me + 1) % n}}
	err = errors.Join(err, cerr, oerr, ierr, Neighbors(c, hood, out, in))
	return errors.Join(err, to2.holds(append(slices.Clone(part((me+1)%n, 1)), part((me+n-1)%n, 2)...)))
}
