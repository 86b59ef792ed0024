package collectives

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// writing is a way to call a collective that writes into a buffer of its caller.
type writing struct {
	kind               ranktest.CollectiveKind
	typed, nonblocking bool
}

// writings are all collectives that write, blocking and non-blocking, of one of them typed.
func writings() (out []writing) {
	for kind := ranktest.Bcast; kind < ranktest.CollectiveKinds; kind++ {
		for _, nonblocking := range []bool{false, true} {
			out = append(out, writing{kind, (kind%2 == 0) != nonblocking, nonblocking})
		}
	}
	return out
}

func (o writing) String() string {
	return fmt.Sprintf("%v, typed %v, non-blocking %v", o.kind, o.typed, o.nonblocking)
}

// on is the call with blocks of size words. The root of typed calls is that of the tree; that of
// the others has both a parent and children.
func (o writing) on(c *banyan.Comm, size int) ranktest.Collective {
	call := ranktest.Collective{Kind: o.kind, Number: 1, Root: c.Size() / 2, Size: size, Typed: o.typed}
	if o.typed {
		call.Root = 0
	}
	if o.nonblocking { // not in place
		call.Number = 3
	}
	return call
}

// run makes the call. The second error is that of a wrong buffer: after an error it must be as
// before.
func (o writing) run(c *banyan.Comm, size int) (err, wrong error) {
	buf, _ := o.on(c, size).Buffers(c)
	err = o.on(c, size).Do(c, buf, o.nonblocking)
	return err, o.check(c, buf, size, err)
}

// check compares a buffer with its required contents after an outcome.
func (o writing) check(c *banyan.Comm, buf []uint64, size int, err error) error {
	before, after := o.on(c, size).Buffers(c)
	want := before
	if err == nil {
		want = after
	}
	if want == nil || slices.Equal(buf, want) {
		return nil
	}
	at := 0
	for buf[at] == want[at] {
		at++
	}
	return fmt.Errorf("rank %d: error %w, and word %d of %d is %#x, not %#x", c.Rank(), err, at, len(buf), buf[at],
		want[at])
}

func xor(acc, in []byte) {
	for i := range acc {
		acc[i] ^= in[i]
	}
}

// All living ranks have the result, or all have an error and their buffers as before, whichever
// rank dies and whenever.
func TestUniformCollectivesLeaveBuffersAlone(t *testing.T) {
	marred := 0 // runs that fail without uniformity and change a buffer
	for _, o := range writings() {
		t.Run(o.String(), func(t *testing.T) {
			failures := 0
			for seed := range uint64(ranktest.Often(6, 12)) {
				size := []int{1, 38, 11_250}[seed%3]
				for _, level := range []banyan.Uniformity{banyan.UniformCollectives, banyan.UniformCreation} {
					wrong := make([]error, 6)
					a := ranktest.WithKills(t, seed, 6, level, func(w *banyan.World) (_ *banyan.Comm, err error) {
						err, wrong[w.Comm().Rank()] = o.run(w.Comm(), size)
						return nil, err
					})
					if level != banyan.UniformCollectives {
						if errors.Join(wrong...) != nil {
							marred++
						}
						continue
					}
					require.NoError(t, errors.Join(wrong...), "seed %d", seed)
					failed, err := a.Judge()
					require.NoError(t, err, "seed %d", seed)
					if failed {
						failures++
					}
				}
			}
			ranktest.Occurred(t, failures, "none failed")
		})
	}
	ranktest.Occurred(t, marred, "the test shows nothing: no buffer changes without uniformity either")
}

// The same with validated failed ranks: as roots, and with blocks that stay untouched.
func TestUniformCollectivesAmongTheLiving(t *testing.T) {
	for dead := range 5 {
		j := ranktest.SimulatedJob{N: 5, Kills: map[int]time.Duration{dead: time.Millisecond}}
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			failed, err := c.Validate()
			for ; err == nil && failed.Size() == 0; failed, err = c.Validate() {
				w.Sleep(time.Millisecond)
			}
			if err := errors.Join(err, c.SetUniformity(banyan.UniformCollectives)); err != nil {
				return err
			}
			err = ranktest.CheckCollectivesAndSplit(c, []int{dead})
			ranktest.Linger(w)
			return err
		}), "without rank %d", dead)
	}
}

// If one rank calls with another length, all get ErrArgument, keep their buffers, and go on.
func TestUniformCollectivesOfTwoLengths(t *testing.T) {
	for _, o := range writings() {
		for odd := range ranktest.Scaled(6, 2) {
			for _, size := range []int{1, 3, 6_250} {
				require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
					c := w.Comm()
					if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
						return err
					}
					mine := 2
					if c.Rank() == odd {
						mine = size
					}
					err, wrong := o.run(c, mine)
					if !errors.Is(err, banyan.ErrArgument) || wrong != nil {
						return errors.Join(err, wrong, errors.New("want ErrArgument"))
					}
					err, wrong = o.run(c, 2)
					return errors.Join(err, wrong)
				}), "%v, rank %d with %d words", o, odd, size)
			}
		}
	}
}

// The same if the arguments of one rank are inconsistent or missing.
func TestUniformCollectivesWithWrongArguments(t *testing.T) {
	for name, calls := range map[string][2]func(c *banyan.Comm, buf []byte) error{
		"allreduce without operation": {
			func(c *banyan.Comm, buf []byte) error { return c.Allreduce(buf, buf, xor) },
			func(c *banyan.Comm, buf []byte) error { return c.Allreduce(buf, buf, nil) }},
		"reduce without operation": {
			func(c *banyan.Comm, buf []byte) error { return c.Reduce(buf, buf, xor, 2) },
			func(c *banyan.Comm, buf []byte) error { return c.Reduce(buf, buf, nil, 2) }},
		"allgather of a short block": {
			func(c *banyan.Comm, buf []byte) error { return c.Allgather(buf[:len(buf)/c.Size()], buf) },
			func(c *banyan.Comm, buf []byte) error { return c.Allgather(buf[:1], buf) }},
	} {
		for odd := range 6 {
			require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
					return err
				}
				call := calls[0]
				if c.Rank() == odd {
					call = calls[1]
				}
				buf := ranktest.Pattern(c.Rank(), 48)
				if err := call(c, buf); !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("want ErrArgument: %w", err)
				}
				if !bytes.Equal(buf, ranktest.Pattern(c.Rank(), 48)) {
					return errors.New("the buffer has changed")
				}
				return calls[0](c, buf)
			}), "%s at rank %d", name, odd)
		}
	}
}

// Without uniformity wrong lengths keep no rank waiting either, and no rank takes partial data for
// the whole.
func TestCollectivesOfTwoLengths(t *testing.T) {
	for _, o := range writings() {
		for odd := range 6 {
			for _, size := range []int{1, 3} {
				errs := make([]error, 6)
				require.NoError(t, banyan.Simulate(6, banyan.Simulation{
					Configure: func(c *sim.Config) { c.MaxTime = fabric.Time(time.Minute) },
				}, func(w *banyan.World) error {
					c := w.Comm()
					mine := 2
					if c.Rank() == odd {
						mine = size
					}
					err, wrong := o.run(c, mine)
					if err == nil && c.Rank() != odd && wrong != nil {
						return wrong
					}
					errs[c.Rank()] = err
					return nil
				}), "%v, rank %d with %d words", o, odd, size)
				require.ErrorIs(t, errors.Join(errs...), banyan.ErrArgument, "%v, rank %d with %d words", o, odd, size)
			}
		}
	}
}

// stagedRank has one rank after the other kill itself inside a writing collective, until two
// remain.
func stagedRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 2)) // all draw the same: all have the same number of successes
	for err = c.SetUniformity(banyan.UniformCollectives); err == nil && c.Size() > 2; {
		c, err = lose(c, r)
	}
	return err
}

// lose calls collectives of random kinds and lengths until one fails because a rank has killed
// itself, and returns the communicator of the remaining ranks. It checks each buffer as soon as the
// operation ends, and after an error again when no operation can be under way any more.
func lose(c *banyan.Comm, r *rand.Rand) (*banyan.Comm, error) {
	victim, at, spins := r.IntN(c.Size()), 2+r.IntN(12), r.IntN(60_000)
	var step atomic.Int64
	if c.Rank() == victim {
		ranktest.KillSelfAt(&step, at, spins)
	}
	all := writings()
	for {
		step.Add(1)
		o := all[r.IntN(len(all))]
		size := []int{1, 38, 2500, 1 << 15}[r.IntN(4)]
		buf, _ := o.on(c, size).Buffers(c)
		err := o.on(c, size).Do(c, buf, o.nonblocking)
		if wrong := o.check(c, buf, size, err); wrong != nil {
			return nil, wrong
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, banyan.ErrProcFailed) {
			return nil, err
		}
		left, err := c.Shrink()
		if err == nil {
			err = left.Barrier()
		}
		if wrong := o.check(c, buf, size, errLater); wrong != nil {
			return nil, wrong
		}
		return left, err
	}
}

var errLater = errors.New("some time ago")

func TestUniformBuffersWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "staged", 6, 4, ranktest.JobSeeds(1, 40)...)
}

// Collectives allocate nothing after a warm-up. The detector is off: it allocates a little in each
// period.
func TestNoAllocationPerCollective(t *testing.T) {
	ranktest.Succeed(t, 3, "collective allocs", "BANYAN_DETECT=off", "BANYAN_DEBUG=off")
	ranktest.Succeed(t, 3, "collective allocs", ranktest.UnawareEnv+"=1", "BANYAN_DETECT=off")
	ranktest.Succeed(t, 3, "collective allocs", ranktest.Nodes("a;a;b"), "BANYAN_FABRIC=shm,tcp", "BANYAN_DETECT=off")
}

// collectiveAllocs counts the allocations of many collectives of each kind, after a warm-up.
func collectiveAllocs(w *banyan.World) error {
	c := w.Comm()
	for _, size := range []int{1, 500, 300_000} {
		buf, all, other := make([]int64, size), make([]int64, size*c.Size()), make([]int64, size*c.Size())
		parts, others := slices.Collect(slices.Chunk(all, size)), slices.Collect(slices.Chunk(other, size))
		counts := slices.Repeat([]int{size}, c.Size())
		uneven := slices.Clone(counts)
		uneven[0], uneven[1] = size-1, size+1
		few := make([]int64, uneven[c.Rank()])
		calls := []func() error{
			c.Barrier,
			func() error { return banyan.Bcast(c, buf, 1) },
			func() error { return banyan.Reduce(c, buf, buf, banyan.Sum, 2) },
			func() error { return banyan.Allreduce(c, buf, buf, banyan.Sum) },
			func() error { return c.Allreduce(banyan.Bytes(buf), banyan.Bytes(buf), xor) },
			func() error { return banyan.Allgather(c, buf, all) },
			func() error { return banyan.Alltoall(c, all, other) },
			func() error { return banyan.Alltoall(c, all, all) },
			func() error { return banyan.Allgatherv(c, buf, parts) },
			func() error { return banyan.Gatherv(c, buf, parts, 1) },
			func() error { return banyan.Scatterv(c, parts, buf, 1) },
			func() error { return banyan.Alltoallv(c, parts, others) },
			func() error { return banyan.Alltoallv(c, parts, parts) },
			func() error { return banyan.ReduceScatterBlock(c, all, buf, banyan.Sum) },
			func() error { return banyan.ReduceScatter(c, all, buf, counts, banyan.Sum) },
			func() error { return banyan.ReduceScatter(c, all, few, uneven, banyan.Sum) },
			func() error { return banyan.Scan(c, buf, buf, banyan.Sum) },
			func() error { return banyan.Exscan(c, buf, buf, banyan.Sum) },
		}
		rounds, most := 100, uint64(50)
		if size > 10_000 {
			rounds, most = 10, 15 // the collector may free a large buffer
		}
		for i, call := range calls {
			var before, after runtime.MemStats
			for round := range 2 * rounds {
				if round == rounds {
					runtime.ReadMemStats(&before)
				}
				// Otherwise a root would run ahead, and its messages would be kept.
				if err := cmp.Or(call(), c.Barrier()); err != nil {
					return err
				}
			}
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > most {
				return fmt.Errorf("rank %d: %d allocations in %d calls of collective %d with %d numbers", c.Rank(), n,
					rounds, i, size)
			}
		}
	}
	return nil
}
