package coll

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// impatient is a host that sleeps whenever nothing has come: a rank that is not woken waits forever.
type impatient struct{ *host.Host }

func (impatient) Patience() (spins, yields int, most fabric.Time) { return 0, 0, fabric.Forever }

// rank stands for a process.
type rank struct {
	*p2p.Comm
	coll Comm
	e    *p2p.Engine
	p    *progress.Engine
	// dead: its memory is unmapped.
	dead bool
}

var auto = Choice{Design: tree.Rebalance, Auto: true}

func node(proc.ID) int { return 0 }

// ranks makes ranks of one process over shared memory.
func ranks(t *testing.T, n int, patient, attended bool) []*rank {
	providers, all := make([]*shm.Provider, n), make([]*rank, n)
	for i := range providers {
		var err error
		providers[i], err = shm.Open(shm.Config{Self: proc.ID(i), MaxProcs: n})
		require.NoError(t, err)
	}
	for i, p := range providers {
		var h fabric.Host = host.New(host.Config{Bell: p.Bell(), Shared: true})
		if !patient {
			h = impatient{h.(*host.Host)}
		}
		e := progress.New(progress.Config{
			Self: proc.ID(i), Host: h, Shm: p,
			Resolve: func(_ string, peer proc.ID) ([]byte, error) { return providers[peer].Address(), nil },
		})
		m := p2p.New(e, true, p2p.Limits{})
		if attended {
			e.StartAsync()
		}
		var err error
		all[i] = &rank{p: e, e: m, coll: Comm{Trees: Trees{Choice: auto, World: &World{Node: node, Shared: sm.New(e, p.Boards(), node)}}}}
		all[i].Comm, err = m.NewComm("world", p2p.WorldGroup(n), i, 1)
		require.NoError(t, err)
		t.Cleanup(func() {
			if !all[i].dead {
				m.Close()
			}
			require.NoError(t, e.Close())
		})
	}
	return all
}

// atOnce runs do for each rank. If a rank fails, the others wait: so its error is printed at once.
func atOnce(t *testing.T, comms []*rank, do func(c *rank) error) {
	errs := make([]error, len(comms))
	var all sync.WaitGroup
	for i, c := range comms {
		all.Go(func() {
			if errs[i] = do(c); errs[i] != nil {
				fmt.Fprintf(os.Stderr, "%s: rank %d: %v\n", t.Name(), i, errs[i])
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

func add(acc, in []byte) {
	for i := range acc {
		acc[i] += in[i]
	}
}

// act calls a random collective and checks the result.
func act(c *rank, r *rand.Rand, number int) error {
	size, root := []int{0, 1, 8, 24, 25, 64, 700, 1024, 1025, 2040, 2041}[r.IntN(11)], r.IntN(c.Size())
	buf := make([]byte, size)
	switch kind := r.IntN(8); kind {
	case 5, 6, 7:
		return actInParts(c, kind, size, number)
	case 0:
		return c.coll.Barrier(c.Comm, Call{})
	case 2:
		all := make([]byte, size*c.Size())
		fill(buf, number+c.Rank())
		if err := c.coll.Allgather(c.Comm, Call{}, buf, all); err != nil {
			return err
		}
		for rank := range c.Size() {
			want := make([]byte, size)
			if fill(want, number+rank); !slices.Equal(want, all[rank*size:][:size]) {
				return fmt.Errorf("step %d, rank %d: not the %d bytes that rank %d has given", number, c.Rank(), size, rank)
			}
		}
	case 1:
		for i := range buf {
			buf[i] = byte(c.Rank() + i + 1)
		}
		if err := c.coll.Allreduce(c.Comm, Call{}, buf, buf, Fold{Op: add}); err != nil {
			return err
		}
		for i, got := range buf {
			if want := byte(c.Size()*(i+1) + c.Size()*(c.Size()-1)/2); got != want {
				return fmt.Errorf("step %d, rank %d: byte %d of %d summed is %d, want %d", number, c.Rank(), i, size, got, want)
			}
		}
	default:
		if c.Rank() == root {
			fill(buf, number)
		}
		if err := c.coll.Bcast(c.Comm, Call{}, buf, root); err != nil {
			return err
		}
		want := make([]byte, size)
		if fill(want, number); !slices.Equal(want, buf) {
			return fmt.Errorf("step %d, rank %d: not what rank %d has sent", number, c.Rank(), root)
		}
	}
	return nil
}

// actInParts is act for collectives with a block for each rank, or with blocks of different lengths.
func actInParts(c *rank, kind, size, number int) error {
	n, me := c.Size(), c.Rank()
	size /= n
	in, out := make([]byte, n*size), make([]byte, n*size)
	switch kind {
	case 5:
		for to := range n {
			fill(in[to*size:][:size], number+10*me+to)
		}
		if err := c.coll.Do(c.Comm, Call{}, Alltoall, Args{In: in, Out: out}); err != nil {
			return err
		}
		want := make([]byte, size)
		for from := range n {
			if fill(want, number+10*from+me); !slices.Equal(want, out[from*size:][:size]) {
				return fmt.Errorf("step %d, rank %d: not the %d bytes that rank %d has sent", number, me, size, from)
			}
		}
	case 6:
		to := make([][]byte, n)
		for rank := range to {
			to[rank] = make([]byte, size+rank)
		}
		mine := make([]byte, size+me)
		fill(mine, number+me)
		if err := c.coll.Do(c.Comm, Call{}, Allgatherv, Args{In: mine, To: BlocksOf(to)}); err != nil {
			return err
		}
		for rank, got := range to {
			want := make([]byte, size+rank)
			if fill(want, number+rank); !slices.Equal(want, got) {
				return fmt.Errorf("step %d, rank %d: not the %d bytes that rank %d has given", number, me, len(got), rank)
			}
		}
	default:
		for i := range in {
			in[i] = byte(i + me)
		}
		k, counts, at := ReduceScatterBlock, []int(nil), me*size
		if number%2 == 1 { // blocks of which the last rank has the larger ones
			k, at = ReduceScatter, me*(size/2)
			counts = slices.Repeat([]int{size / 2}, n)
			if size /= 2; me == n-1 {
				size = len(in) - at
			}
			counts[n-1] = len(in) - (n-1)*counts[0]
		}
		a := Args{In: in, Out: out[:size], Fold: Fold{Op: add, Unit: 1}, Counts: counts}
		if err := c.coll.Do(c.Comm, Call{}, k, a); err != nil {
			return err
		}
		for i, got := range out[:size] {
			if want := byte(n*(at+i) + n*(n-1)/2); got != want {
				return fmt.Errorf("step %d, rank %d: byte %d of %d summed is %d, want %d", number, me, i, size, got, want)
			}
		}
	}
	return nil
}

func fill(b []byte, number int) {
	for i := range b {
		b[i] = byte(number*7 + i)
	}
}

// Operations of all kinds, lengths and roots in any order, of ranks that poll and of ranks that sleep at every wait, with
// a goroutine that progresses for them and without: one lost wake-up, or one part that is overwritten too soon, and it does not end well.
func TestFlat(t *testing.T) {
	calls := 150
	if testing.Short() {
		calls = 80
	}
	if os.Getenv("BANYAN_LONG") != "" {
		calls = 400
	}
	for _, n := range []int{2, 3, 5, 8} {
		for _, patient := range []bool{true, false} {
			for _, attended := range []bool{true, false} {
				t.Run(fmt.Sprint(n, patient, attended), func(t *testing.T) {
					atOnce(t, ranks(t, n, patient, attended), func(c *rank) error {
						r := rand.New(rand.NewPCG(uint64(n), 5))
						for number := range calls {
							if err := act(c, r, number); err != nil {
								return err
							}
						}
						if c.coll.segment == nil {
							return errors.New("by messages")
						}
						return nil
					})
				})
			}
		}
	}
}

// Lengths that do not fit are an error of an allreduce at all ranks, no rank waits, and the next operations work;
// also if only some of the lengths fit into the memory.
func TestFlatLengths(t *testing.T) {
	for _, lengths := range [][2]int{{8, 16}, {8, 100}, {100, 8}, {1, 5000}, {3000, 8}, {3000, 4000}, {1024, 1025}, {24, 1024}} {
		atOnce(t, ranks(t, 4, false, false), func(c *rank) error {
			for range 5 {
				if err := c.coll.Barrier(c.Comm, Call{}); err != nil {
					return err
				}
			}
			mine := make([]byte, lengths[0])
			if c.Rank() == 2 {
				mine = make([]byte, lengths[1])
			}
			if err := c.coll.Allreduce(c.Comm, Call{}, mine, mine, Fold{Op: add}); !errors.Is(err, ft.ErrArgument) {
				return fmt.Errorf("allreduce of %v at rank %d: %w", lengths, c.Rank(), err)
			}
			if err := c.coll.Allgather(c.Comm, Call{}, mine, make([]byte, 4*len(mine))); !errors.Is(err, ft.ErrArgument) {
				return fmt.Errorf("allgather of %v at rank %d: %w", lengths, c.Rank(), err)
			}
			err := c.coll.Bcast(c.Comm, Call{}, mine, 0)
			if !errors.Is(err, ft.ErrArgument) && (c.Rank() == 2 || err != nil) {
				return fmt.Errorf("bcast of %v at rank %d: %w", lengths, c.Rank(), err)
			}
			return act(c, rand.New(rand.NewPCG(1, 1)), 1)
		})
	}
}

// Counts of blocks that differ among ranks are detected though the sums of all bytes are equal.
func TestFlatCounts(t *testing.T) {
	atOnce(t, ranks(t, 4, true, false), func(c *rank) error {
		for _, odd := range [][]int{{2, 3, 3, 2}, {4, 3, 2, 1}, {10, 0, 0, 0}, {1, 2, 3, 4}} {
			if err := errors.Join(c.coll.Barrier(c.Comm, Call{}), c.coll.Barrier(c.Comm, Call{})); err != nil {
				return err
			}
			counts := []int{1, 2, 3, 4}
			same := slices.Equal(odd, counts)
			if c.Rank() == 2 {
				counts = odd
			}
			a := Args{In: make([]byte, 10), Out: make([]byte, counts[c.Rank()]), Fold: Fold{Op: add, Unit: 1}, Counts: counts}
			if err := c.coll.Do(c.Comm, Call{}, ReduceScatter, a); errors.Is(err, ft.ErrArgument) == same {
				return fmt.Errorf("rank %d of counts %v: %w", c.Rank(), counts, err)
			}
		}
		return nil
	})
}

// Operands come in the order of ranks, so a rounded sum is the same at all.
func TestFlatOrder(t *testing.T) {
	atOnce(t, ranks(t, 5, true, false), func(c *rank) error {
		for range 4 {
			b := binary.LittleEndian.AppendUint64(nil, uint64(c.Rank()+1))
			if err := c.coll.Allreduce(c.Comm, Call{}, b, b, Fold{Op: func(acc, in []byte) {
				a, i := binary.LittleEndian.Uint64(acc), binary.LittleEndian.Uint64(in)
				binary.LittleEndian.PutUint64(acc, a*10+i)
			}}); err != nil {
				return err
			}
			if got := binary.LittleEndian.Uint64(b); got != 12345 && c.coll.segment != nil {
				return fmt.Errorf("rank %d: %d", c.Rank(), got)
			}
		}
		return nil
	})
}

// A waiting rank learns that a member has left the job without coming, that it has died, or that the communicator has been revoked or
// the library closed.
func TestFlatEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, end := range []struct {
		want error
		do   func(waits, other *rank) error
	}{
		{ft.ErrRevoked, func(waits, _ *rank) error { return waits.Revoke() }},
		{ft.ErrClosed, func(waits, _ *rank) error { waits.e.Close(); return nil }},
		{ft.ErrDeparted, func(_, other *rank) error { other.e.Close(); other.p.Depart(); return nil }},
		{ft.ErrProcFailed, func(_, other *rank) error { other.dead = true; return other.p.Close() }},
	} {
		for range 10 {
			pair := ranks(t, 2, false, false)
			atOnce(t, pair, func(c *rank) error {
				var err error
				for range 3 {
					err = errors.Join(err, c.coll.Barrier(c.Comm, Call{}))
				}
				return err
			})
			result := make(chan error)
			go func() { result <- pair[0].coll.Barrier(pair[0].Comm, Call{}) }()
			for range r.IntN(300) {
				runtime.Gosched()
			}
			require.NoError(t, end.do(pair[0], pair[1]))
			require.ErrorIs(t, <-result, end.want)
		}
	}
}

// After each validate a segment is found anew, and none is used up: there is room for 128.
func TestFlatAfterValidates(t *testing.T) {
	all := ranks(t, 2, true, false)
	atOnce(t, all, func(c *rank) error {
		me := all[c.Rank()]
		for epoch := range uint64(1000) {
			if err := errors.Join(c.coll.Barrier(c.Comm, Call{}), c.coll.Barrier(c.Comm, Call{})); err != nil {
				return err
			}
			if c.coll.segment == nil {
				return fmt.Errorf("by messages after %d validates", epoch)
			}
			me.p.Lock()
			err := c.BeginValidate()
			err = errors.Join(err, c.EndValidate(&p2p.Validation{Epoch: epoch + 1}))
			me.p.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A root that is ahead of the others lays nothing where they may still read.
func TestFlatRootAhead(t *testing.T) {
	atOnce(t, ranks(t, 3, true, false), func(c *rank) error {
		for number := range 3000 {
			buf := make([]byte, 900)
			if c.Rank() == 0 {
				fill(buf, number)
			}
			if err := c.coll.Bcast(c.Comm, Call{}, buf, 0); err != nil {
				return err
			}
			want := make([]byte, len(buf))
			if fill(want, number); !slices.Equal(want, buf) {
				return fmt.Errorf("step %d, rank %d: not what the root has sent", number, c.Rank())
			}
		}
		return nil
	})
}
