package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// creations are all ways to make communicators, of 6 ranks.
var creations = map[string]func(w *banyan.World) (*banyan.Comm, error){
	"dup":           func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().Dup() },
	"split":         func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().Split(w.Comm().Rank()%2, 0) },
	"split by node": func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().SplitByNode(0) },
	"create":        func(w *banyan.World) (*banyan.Comm, error) { return w.Comm().Create(upper(w.Comm())) },
	"create group": func(w *banyan.World) (*banyan.Comm, error) {
		if upper(w.Comm()).Rank() == banyan.Undefined {
			return nil, nil
		}
		return w.Comm().CreateGroup(upper(w.Comm()), 1)
	},
}

// upper is the group of the ranks from 2 on.
func upper(c *banyan.Comm) banyan.Group {
	g, err := c.Group().Exclude(0, 1)
	if err != nil {
		panic(err)
	}
	return g
}

// A communicator is created at all living ranks or at none, whichever rank dies and whenever.
func TestUniformCreation(t *testing.T) {
	for name, create := range creations {
		t.Run(name, func(t *testing.T) {
			outcomes := [2]int{}
			for seed := range ranktest.Seeds(100) {
				a := ranktest.WithKills(t, seed, 6, banyan.UniformCreation, create)
				if name == "create group" { // ranks outside the group have no outcome
					a.Lived[0], a.Lived[1] = false, false
				}
				failed, err := a.Judge()
				require.NoError(t, err, "seed %d", seed)
				if failed {
					outcomes[1]++
				} else {
					outcomes[0]++
				}
			}
			ranktest.Occurred(t, outcomes[0], "none succeeded")
			ranktest.Occurred(t, outcomes[1], "none failed")
		})
	}
}

// collectives of all kinds, for 6 ranks.
var collectives = map[string]func(c *banyan.Comm) error{
	"barrier":       func(c *banyan.Comm) error { return c.Barrier() },
	"bcast":         func(c *banyan.Comm) error { return c.Bcast(make([]byte, 8), 1) },
	"bcast of much": func(c *banyan.Comm) error { return banyan.Bcast(c, make([]int, 20_000), 2) },
	"reduce":        func(c *banyan.Comm) error { return banyan.Reduce(c, []int{1, 2}, []int{1, 2}, banyan.Sum, 3) },
	"reduce bytes":  func(c *banyan.Comm) error { return c.Reduce(make([]byte, 8), make([]byte, 8), func(_, _ []byte) {}, 0) },
	"allreduce":     func(c *banyan.Comm) error { return banyan.Allreduce(c, []int{1, 2}, []int{1, 2}, banyan.Max) },
	"allreduce bytes": func(c *banyan.Comm) error {
		return c.Allreduce(make([]byte, 90_000), make([]byte, 90_000),
			func(_, _ []byte) {})
	},
	"allgather":  func(c *banyan.Comm) error { return banyan.Allgather(c, []int{1}, make([]int, c.Size())) },
	"alltoall":   func(c *banyan.Comm) error { return banyan.Alltoall(c, make([]int, 18), make([]int, 18)) },
	"allgatherv": func(c *banyan.Comm) error { return banyan.Allgatherv(c, []int{1}, make6()) },
	"alltoallv":  func(c *banyan.Comm) error { return banyan.Alltoallv(c, make6(), make6()) },
	"reduce-scatter": func(c *banyan.Comm) error {
		return banyan.ReduceScatterBlock(c, make([]int, 12), make([]int, 2), banyan.Sum)
	},
	"scan":            func(c *banyan.Comm) error { return banyan.Scan(c, []int{1}, []int{1}, banyan.Sum) },
	"allgather bytes": func(c *banyan.Comm) error { return c.Allgather([]byte{1}, make([]byte, c.Size())) },
}

// make6 are slices of one number for 6 ranks.
func make6() [][]int { return [][]int{{1}, {2}, {3}, {4}, {5}, {6}} }

// With UniformCollectives all living ranks have success, or all have an error.
func TestUniformCollectives(t *testing.T) {
	plain := 0 // outcomes that differ without it
	for name, call := range collectives {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(ranktest.Often(20, 40)) {
				op := func(w *banyan.World) (*banyan.Comm, error) { return nil, call(w.Comm()) }
				_, err := ranktest.WithKills(t, seed, 6, banyan.UniformCollectives, op).Judge()
				require.NoError(t, err, "seed %d", seed)
				if _, err := ranktest.WithKills(t, seed, 6, banyan.UniformCreation, op).Judge(); err != nil {
					plain++
				}
			}
		})
	}
	ranktest.Occurred(t, plain, "the test shows nothing: no outcome differs without uniformity either")
}

// Both sides of an intercommunicator have it, or neither; the same for the merged communicator.
func TestUniformIntercommunicators(t *testing.T) {
	sides := make([]*banyan.Comm, 7)
	for name, op := range map[string]func(w *banyan.World) (*banyan.Comm, error){
		"create inter": func(w *banyan.World) (*banyan.Comm, error) { return ranktest.BridgeHalves(w, sides, 1) },
		"merge": func(w *banyan.World) (*banyan.Comm, error) {
			inter, err := ranktest.BridgeHalves(w, sides, 1)
			if err != nil {
				return nil, nil // tested above
			}
			return inter.Merge(w.Comm().Rank()%2 == 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			outcomes := [2]int{}
			for seed := range ranktest.Seeds(150) {
				a := ranktest.WithKills(t, seed, 7, banyan.UniformCreation, op)
				failed, err := a.Judge()
				require.NoError(t, err, "seed %d", seed)
				if failed {
					outcomes[1]++
				} else {
					outcomes[0]++
				}
			}
			ranktest.Occurred(t, outcomes[0], "none succeeded")
			ranktest.Occurred(t, outcomes[1], "none failed")
		})
	}
}

// uniformOps are uniform operations of a communicator, and of the side of this rank with the other.
func uniformOps(c, side *banyan.Comm) []func() error {
	odd := c.Rank() % 2
	free := func(d *banyan.Comm, err error) error {
		if d != nil {
			err = errors.Join(err, d.Free())
		}
		return err
	}
	return []func() error{
		c.Barrier,
		func() error { return c.Bcast(make([]byte, 5_000), 1) },
		func() error { return free(c.Dup()) },
		func() error { return banyan.Allreduce(c, []int{1}, []int{1}, banyan.Sum) },
		func() error { return free(c.Split(odd, 0)) },
		func() error { return banyan.Allgather(c, []int{1}, make([]int, c.Size())) },
		func() error {
			inter, err := side.CreateInter(0, c, 1-odd, 9)
			if err != nil {
				return err
			}
			return errors.Join(free(inter.Merge(false)), inter.Free())
		},
		func() error { return banyan.Reduce(c, []int{1}, []int{1}, banyan.Sum, 2) },
	}
}

// uniformRank calls uniform operations of alternating kinds until one fails, because ranks kill
// themselves at a random moment. Then all shrink and compare their numbers of successful
// operations.
func uniformRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
		return err
	}
	odd := c.Rank() % 2
	side, err := c.Split(odd, 0)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	victims := r.Perm(c.Size())[:1+seed%2]
	at := 8 + r.IntN(24)
	var step atomic.Int64
	if slices.Contains(victims, c.Rank()) {
		ranktest.KillSelfAt(&step, at, r.IntN(40_000))
	}
	ops := uniformOps(c, side)
	done := 0
	for ; err == nil; done++ {
		step.Store(int64(done))
		err = ops[done%len(ops)]()
	}
	if !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("operation %d: %w", done, err)
	}
	left, err := c.Shrink()
	if err != nil {
		return err
	}
	most, least := []int{done}, []int{done}
	if err := errors.Join(banyan.Allreduce(left, most, most, banyan.Max),
		banyan.Allreduce(left, least, least, banyan.Min)); err != nil {
		if errors.Is(err, banyan.ErrProcFailed) && len(victims) > 1 {
			return nil // the second died later
		}
		return err
	}
	if most[0] != least[0] {
		return fmt.Errorf("some ranks succeeded with %d operations, others with %d; here %d", most[0], least[0], done)
	}
	return nil
}

func TestUniformWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "uniform", 6, 2, ranktest.JobSeeds(2, 40)...)
}

// rangedRank has the last rank die. The others do not communicate with it and learn of it by the
// error range alone.
func rangedRank(w *banyan.World) error {
	c := w.Comm()
	if err := errors.Join(c.SetErrorRange(banyan.ErrorsGroup), c.Barrier()); err != nil {
		return err
	}
	quiet, err := c.Dup() // with receives alone, so no rank revokes it for another
	if err != nil {
		return err
	}
	last := c.Size() - 1
	if c.Rank() != last {
		if err := c.Send(nil, last, 5); err != nil {
			return err
		}
	} else {
		for rank := range last { // all have left the barrier
			if _, err := c.Recv(nil, rank, 5); err != nil {
				return err
			}
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	next := (c.Rank() + 1) % last
	out, in := c.Isend(make([]byte, 4<<20), next, 3), c.Irecv(make([]byte, 8), (next+1)%last, 4)
	_, e1 := out.Wait()
	_, e2 := in.Wait()
	// A send may have ended before: a revoked receiver drops announced messages and reports that.
	if e1 != nil && !errors.Is(e1, banyan.ErrRevoked) || !errors.Is(e2, banyan.ErrRevoked) {
		return fmt.Errorf("send: %w, recv: %w", e1, e2)
	}
	_, err = quiet.Recv(nil, next, 4)
	if !errors.Is(err, banyan.ErrRevoked) || ranktest.WantFailed(err, last) != nil {
		return fmt.Errorf("the revocation does not name rank %d, its cause: %w", last, err)
	}
	left, err := c.Shrink()
	if err != nil {
		return err
	}
	if c.GetFailed().Size() == 0 { // at first another rank's notice may be the only one
		return errors.New("revoked, shrunk, and none has failed")
	}
	return left.Barrier()
}

func TestErrorRangeWithProcesses(t *testing.T) { ranktest.JobsWithDeaths(t, "ranged", 5, 1, 1) }

// bridgeBreaks has 6 ranks create an intercommunicator of the even and the odd ranks, led by rank 0
// of each side. One rank of the even side dies at a step; some of its messages may be lost.
func bridgeBreaks(seed, step uint64, doomed proc.ID) (made, failed int, err error) {
	const n = 6
	var got [n]bool
	sides := make([]*banyan.Comm, n)
	var errs [n]error
	err = banyan.Simulate(n, banyan.Simulation{
		Seed:    seed,
		Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
		Configure: func(c *sim.Config) {
			c.MaxTime, c.LossAtDeath = fabric.Time(time.Minute), 0.7
			// Some arrive late, after the death is known
			c.Spikes = sim.Spikes{Chance: 0.2, Min: sim.Microsecond, Max: 2 * sim.Millisecond}
			c.Topology.ProcsPerNode = 1 + int(seed%3)
		},
		Faults: func(s *sim.Sim) error { return s.KillAtStep(doomed, step) },
	}, func(w *banyan.World) error {
		inter, err := ranktest.BridgeHalves(w, sides, 0)
		me := w.Comm().Rank()
		got[me], errs[me] = inter != nil, err
		for w.Now() < 10*time.Second { // so that no rank is seen to depart
			w.Sleep(50 * time.Millisecond)
			_, _, _ = w.Comm().Iprobe(me, 1)
		}
		return nil
	})
	for rank := range n {
		switch {
		case rank == int(doomed):
		case got[rank] && errs[rank] == nil:
			made++
		case !got[rank] && errors.Is(errs[rank], banyan.ErrProcFailed):
			failed++
		default:
			err = errors.Join(err, fmt.Errorf("rank %d: %w", rank, errs[rank]))
		}
	}
	return made, failed, err
}

// One side may lack a rank while the other is complete, and a leader may report its own side ready
// and die. All ranks end with the same outcome, and no rank waits for others with another one.
func TestCreateInterBreaks(t *testing.T) {
	outcomes := [2]int{}
	for seed := range uint64(2) {
		for _, doomed := range []proc.ID{0, 2, 4} {
			// From the start to the last agreement
			for step := uint64(10); step <= 120; step += uint64(ranktest.Scaled(1, 55)) {
				made, failed, err := bridgeBreaks(seed, step, doomed)
				require.NoError(t, err, "seed %d, rank %d, step %d", seed, doomed, step)
				require.True(t, made == 0 || failed == 0, "seed %d, rank %d, step %d: %d have it, %d do not", seed,
					doomed, step, made, failed)
				if made > 0 {
					outcomes[0]++
				} else {
					outcomes[1]++
				}
			}
		}
	}
	ranktest.Occurred(t, outcomes[0], "none succeeded")
	ranktest.Occurred(t, outcomes[1], "none failed")
}

// Leaders of the two sides find each other also if lower ranks of the peer communicator are
// validated failed ranks.
func TestUniformBridgeOverValidated(t *testing.T) {
	j := ranktest.SimulatedJob{N: 5, Seed: 3, Kills: map[int]time.Duration{1: time.Millisecond}}
	made := 0
	require.NoError(t, j.Run(func(w *banyan.World) error {
		c, me := w.Comm(), w.Comm().Rank()
		w.Sleep(2 * time.Second)
		if failed, err := c.Validate(); err != nil || failed.Size() != 1 {
			return fmt.Errorf("validate: %v, %w", failed, err)
		}
		sides := map[bool][]int{false: {0, 2}, true: {3, 4}}
		remote := map[bool]int{false: 4, true: 2}
		g, err := c.Group().Include(sides[me > 2]...)
		if err != nil {
			return err
		}
		side, err := c.CreateGroup(g, 1)
		if err != nil {
			return err
		}
		if err := side.SetUniformity(banyan.UniformCreation); err != nil {
			return err
		}
		inter, err := side.CreateInter(1, c, remote[me > 2], 2)
		if err != nil {
			return err
		}
		made++
		ranktest.Linger(w)
		return inter.Free()
	}))
	require.Equal(t, 4, made)
}
