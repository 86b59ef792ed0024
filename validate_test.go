package banyan_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// bereavedJob is a simulated job of which some ranks die at moments that a test
// chooses, and whose detector tells of it.
type bereavedJob struct {
	n     int
	seed  uint64
	kills map[int]time.Duration
	opts  []banyan.Option
}

func (j bereavedJob) run(body func(w *banyan.World) error) error {
	return banyan.Simulate(j.n, banyan.Simulation{
		Seed:    j.seed,
		Options: append([]banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second), banyan.WithAsyncProgress(true)}, j.opts...),
		Faults: func(s *sim.Sim) error {
			for rank, at := range j.kills {
				if err := s.Kill(proc.ID(rank), fabric.Time(at)); err != nil {
					return err
				}
			}
			return nil
		},
	}, body)
}

// lingers has a rank answer others that have not come as far: what finalizes is gone.
func lingers(w *banyan.World) { w.Sleep(5 * time.Second) }

// ranksOf are the ranks of a group in the communicator's own group.
func ranksOf(g banyan.Group, c *banyan.Comm) []int {
	all := make([]int, g.Size())
	for i := range all {
		all[i] = i
	}
	in, err := g.Translate(all, c.Group())
	if err != nil {
		panic(err)
	}
	return in
}

var bothProfiles = []banyan.Profile{banyan.ULFM, banyan.RTS}

// every calls every collective, with every root, and splits, and compares what comes of it with what the
// living alone make of it: nothing of the gone in it, their places untouched (S0-27 to S0-32).
func every(c *banyan.Comm, gone []int) error {
	if err := everyCollective(c, gone); err != nil {
		return err
	}
	me := c.Rank()
	part, err := c.Split(me%2, -me)
	if err != nil {
		return err
	}
	team := slices.DeleteFunc(numbers(c.Size()), func(rank int) bool { return slices.Contains(gone, rank) || rank%2 != me%2 })
	slices.Reverse(team)
	if got := ranksOf(part.Group(), c); !slices.Equal(got, team) {
		return fmt.Errorf("rank %d of %d without %v: split: got %v, want %v", me, c.Size(), gone, got, team)
	}
	return errors.Join(part.Barrier(), part.Free())
}

// everyCollective is every but for the split.
func everyCollective(c *banyan.Comm, gone []int) error {
	dead := func(rank int) bool { return slices.Contains(gone, rank) }
	n, me := c.Size(), c.Rank()
	var alive []int
	for rank := range n {
		if !dead(rank) {
			alive = append(alive, rank)
		}
	}
	wrong := func(what string, got, want any) error {
		return fmt.Errorf("rank %d of %d without %v: %s: got %v, want %v", me, n, gone, what, got, want)
	}
	want := []int64{1, 0}
	for _, rank := range alive {
		want = compose(want, []int64{int64(rank%3 + 1), int64(rank)})
	}
	op := func(acc, in []byte) { copy(acc, banyan.Bytes(compose(unbytes(acc), unbytes(in)))) }
	mine := func() []int64 { return []int64{int64(me%3 + 1), int64(me)} }
	if err := c.Barrier(); err != nil {
		return err
	}
	sum := mine()
	if err := c.AllreduceBytes(banyan.Bytes(sum), op); err != nil || !slices.Equal(sum, want) {
		return errors.Join(err, wrong("allreduce", sum, want))
	}
	for root := range n {
		for _, size := range []int{1, 9000} {
			buf, data := make([]byte, size), pattern(root, size)
			if me == root {
				copy(buf, data)
			}
			if dead(root) {
				data = make([]byte, size)
			}
			if err := c.Bcast(buf, root); err != nil || !slices.Equal(buf, data) {
				return errors.Join(err, wrong(fmt.Sprint("bcast from ", root), buf[0], data[0]))
			}
		}
		sum := mine()
		if err := c.ReduceBytes(banyan.Bytes(sum), op, root); err != nil {
			return err
		}
		if me == root && !slices.Equal(sum, want) || dead(root) && !slices.Equal(sum, mine()) {
			return wrong(fmt.Sprint("reduce to ", root), sum, want)
		}
	}
	all := slices.Repeat([]byte{0xee}, 3*n)
	if err := c.AllgatherBytes(pattern(me, 3), all); err != nil {
		return err
	}
	for rank := range n {
		block := pattern(rank, 3)
		if dead(rank) {
			block = []byte{0xee, 0xee, 0xee}
		}
		if !slices.Equal(all[3*rank:][:3], block) {
			return wrong(fmt.Sprint("allgather, block ", rank), all[3*rank:][:3], block)
		}
	}
	return nil
}

// S2-5, S2-7, S4-9, S4-17 to S4-19, S0-27 to S0-32: all sets of failures of small jobs and some of a
// larger one: collectives fail at every rank until the validate, which gives all the same ranks, and
// then every one does what it would do had the gone never been there. In both profiles.
func TestCollectivesAfterEverySetOfFailures(t *testing.T) {
	var jobs []bereavedJob
	add := func(n int, set uint64) {
		j := bereavedJob{n: n, seed: set, kills: map[int]time.Duration{}, opts: []banyan.Option{banyan.WithProfile(bothProfiles[len(jobs)%2])}}
		for rank := range n {
			if set>>rank&1 != 0 {
				j.kills[rank] = time.Millisecond
			}
		}
		jobs = append(jobs, j)
	}
	for n := 1; n <= 5; n++ {
		for set := range uint64(1)<<n - 1 {
			add(n, set)
		}
	}
	rng := rand.New(rand.NewPCG(4, 17))
	for range 6 {
		add(24, rng.Uint64()&rng.Uint64()&(1<<24-1))
	}
	for _, j := range jobs {
		require.NoError(t, j.run(func(w *banyan.World) error {
			c := w.Comm()
			w.Sleep(2 * time.Second)
			gone := ranksOf(c.GetFailed(), c)
			slices.Sort(gone)
			if len(gone) != len(j.kills) {
				return fmt.Errorf("%v known of %v", gone, j.kills)
			}
			if len(gone) > 0 {
				if err := c.Barrier(); !errors.Is(err, banyan.ErrRankFailStop) {
					return fmt.Errorf("a barrier before the validate: %w", err)
				}
			}
			failed, err := c.Validate()
			if err != nil {
				return err
			}
			if got := ranksOf(failed, c); !slices.Equal(got, gone) || c.FailureGetAcked().Size() != len(gone) {
				return fmt.Errorf("agreed on %v, acknowledged %v, want %v", got, ranksOf(c.FailureGetAcked(), c), gone)
			}
			err = every(c, gone)
			lingers(w)
			return err
		}), "%d ranks without %v", j.n, j.kills)
	}
}
