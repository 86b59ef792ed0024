package repairs

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// stride is the distance between steps at which ranks die. With BANYAN_LONG it is 1.
func stride(usual uint64) uint64 {
	if os.Getenv("BANYAN_LONG") != "" {
		return 1
	}
	return usual * uint64(ranktest.Scaled(1, 4))
}

// scene is a simulated job with a detector, of which some ranks die. A rank that has finished stays
// until all have, as in the fence of a launcher.
type scene struct {
	n    int
	seed uint64
	// at has the times of deaths, step the steps.
	at, step map[int]uint64
	machine  *sim.Sim
	through  []bool
}

func (s *scene) run(body func(w *banyan.World) error, opts ...banyan.Option) error {
	s.through = make([]bool, s.n)
	return banyan.Simulate(s.n, banyan.Simulation{
		Seed:    s.seed,
		Options: append([]banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)}, opts...),
		Configure: func(c *sim.Config) {
			c.Topology.ProcsPerNode = 1 + int(s.seed%4)
			c.MaxTime = fabric.Time(time.Hour)
		},
		Faults: s.arrange,
	}, func(w *banyan.World) error {
		err := body(w)
		s.through[w.Comm().Rank()] = true
		s.stay(w)
		return err
	})
}

func (s *scene) arrange(machine *sim.Sim) error {
	s.machine = machine
	var errs []error
	for rank, at := range s.at {
		errs = append(errs, machine.Kill(proc.ID(rank), fabric.Time(at)))
	}
	for rank, step := range s.step {
		errs = append(errs, machine.KillAtStep(proc.ID(rank), step))
	}
	return errors.Join(errs...)
}

func (s *scene) stay(w *banyan.World) {
	for {
		dead := ranksIn(w.Comm().GetFailed(), w.Comm())
		if !slices.Contains(s.through, false) ||
			!slices.ContainsFunc(s.waited(), func(r int) bool { return !slices.Contains(dead, r) }) {
			return
		}
		w.Sleep(10 * time.Millisecond)
	}
}

func (s *scene) waited() (ranks []int) {
	for rank, through := range s.through {
		if !through {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// ranksIn is the ranks in c of a group's members, ascending.
func ranksIn(g banyan.Group, c *banyan.Comm) []int {
	all := make([]int, g.Size())
	for i := range all {
		all[i] = i
	}
	in, err := g.Translate(all, c.Group())
	if err != nil {
		panic(err)
	}
	slices.Sort(in)
	return in
}

// knows returns when this rank knows that others have failed.
func knows(w *banyan.World, c *banyan.Comm, ranks ...int) {
	for {
		failed := ranksIn(c.GetFailed(), c)
		if !slices.ContainsFunc(ranks, func(r int) bool { return !slices.Contains(failed, r) }) {
			return
		}
		w.Sleep(10 * time.Millisecond)
	}
}

// ULFM 17.3.1, MPI_COMM_AGREE: without failures the result is the AND of all contributions, each
// time, of blocking and non-blocking calls.
func TestAgreeIsTheAND(t *testing.T) {
	ranktest.EverySize(t, func(c *banyan.Comm) error {
		for round := range 4 {
			word := func(rank int) uint64 {
				return rand.New(rand.NewPCG(uint64(rank),
					uint64(round))).Uint64() | rand.New(rand.NewPCG(uint64(round), 99)).Uint64()
			}
			want, last := ^uint64(0), uint64(1)
			for rank := range c.Size() {
				want &= word(rank)
			}
			if c.Rank() == round%c.Size() {
				last = 0
			}
			first, second := c.Iagree(word(c.Rank())), c.Iagree(last)
			three, err := c.Agree(word(c.Rank()) >> 1)
			if err != nil {
				return err
			}
			if err := banyan.WaitAll([]banyan.Request{second.Request(), first.Request()}); err != nil {
				return err
			}
			one, two := first.Value(), second.Value()
			if one != want || two != 0 || three != want>>1 {
				return fmt.Errorf("round %d: %x, %d, %x; want %x, 0, %x", round, one, two, three, want, want>>1)
			}
			if yes, err := c.Agree(1); err != nil || yes != 1 {
				return fmt.Errorf("all said yes: %d, %w", yes, err)
			}
		}
		return nil
	})
}

// said is one rank's view of one agreement of the loop.
type said struct {
	flag   uint64
	failed []int // named by the error; nil: no error
	acked  []int // before the agreement
	known  []int // after it
}

// insist acknowledges the known failures and agrees, until no rank gets an error. Then all ranks
// have acknowledged the same failures.
func insist(c *banyan.Comm, log *[]said) error {
	for {
		if _, err := c.AckFailed(c.GetFailed().Size()); err != nil {
			return err
		}
		s := said{acked: ranksIn(c.FailureGetAcked(), c)}
		var err error
		s.flag, err = c.Agree(^(uint64(1) << c.Rank()))
		var failed *banyan.ProcFailedError
		if errors.As(err, &failed) {
			s.failed = slices.Clone(failed.Ranks)
		} else if err != nil {
			return err
		}
		s.known = ranksIn(c.GetFailed(), c)
		*log = append(*log, s)
		if s.failed == nil {
			return nil
		}
	}
}

// consistent checks that the survivors had the same view of every agreement.
func consistent(t *testing.T, story string, n int, logs [][]said, died map[int]bool) {
	t.Helper()
	var first []said
	for rank, log := range logs {
		if died[rank] {
			continue
		}
		if first == nil {
			first = log
		}
		require.Len(t, log, len(first), "%s, rank %d", story, rank)
		for i, s := range log {
			require.Equal(t, first[i].flag, s.flag, "%s, rank %d, agreement %d", story, rank, i)
			require.Equal(t, first[i].failed, s.failed, "%s, rank %d, agreement %d: the same at all ranks", story,
				rank, i)
			absent := s.flag & (1<<n - 1)
			for absent != 0 {
				who := bits.TrailingZeros64(absent)
				absent &= absent - 1
				require.True(t, died[who], "%s: rank %d has no part", story, who)
				require.Contains(t, s.known, who, "%s, rank %d, agreement %d: known afterwards", story, rank, i)
				if !slices.Contains(s.acked, who) {
					require.Contains(t, s.failed, who, "%s, rank %d, agreement %d: not acknowledged", story, rank, i)
				}
			}
		}
		last := log[len(log)-1]
		require.Equal(t, first[len(first)-1].acked, last.acked,
			"%s, rank %d: the loop ends with the same acknowledged", story, rank)
	}
}

// Whichever ranks die and whenever, the errors and results of agreements are the same at all
// survivors. Ranks without a contribution are known to have failed afterwards. Acknowledging and
// agreeing again ends, with the same ranks acknowledged everywhere.
func TestAgreeUntilAllHaveAcknowledged(t *testing.T) {
	errored := 0
	for seed := range uint64(ranktest.Often(150, 5000)) {
		r := rand.New(rand.NewPCG(seed, 21))
		s := &scene{n: 2 + r.IntN(12), seed: seed, at: map[int]uint64{}}
		died := map[int]bool{}
		for _, rank := range r.Perm(s.n)[:r.IntN(s.n)] {
			s.at[rank], died[rank] = uint64(r.Int64N(int64(40*time.Microsecond)<<r.IntN(14))), true
		}
		logs := make([][]said, s.n)
		require.NoError(t, s.run(func(w *banyan.World) error {
			c := w.Comm()
			for range 3 {
				if err := insist(c, &logs[c.Rank()]); err != nil {
					return err
				}
				w.Sleep(time.Duration(rand.New(rand.NewPCG(seed,
					uint64(c.Rank()))).Int64N(int64(10 * time.Millisecond))))
			}
			return nil
		}), "seed %d", seed)
		consistent(t, fmt.Sprintf("seed %d, at %v", seed, s.at), s.n, logs, died)
		for _, log := range logs {
			if slices.ContainsFunc(log, func(s said) bool { return s.failed != nil }) {
				errored++
			}
		}
	}
	require.NotZero(t, errored)
}

// Two or three ranks die at every step of an agreement, the second and third while the others
// handle the first.
func TestAgreeAndDeathAtEveryStep(t *testing.T) {
	const n = 6
	cut := 0
	for step := uint64(1); step < 400; step += stride(5) {
		r := rand.New(rand.NewPCG(step, 22))
		s := &scene{n: n, seed: step, step: map[int]uint64{}}
		died := map[int]bool{}
		for i, rank := range r.Perm(n)[:2+r.IntN(2)] {
			s.step[rank], died[rank] = step+uint64(i*r.IntN(30)), true
		}
		logs := make([][]said, n)
		require.NoError(t, s.run(func(w *banyan.World) error {
			for range 4 {
				if err := insist(w.Comm(), &logs[w.Comm().Rank()]); err != nil {
					return err
				}
			}
			return nil
		}), "step %d", step)
		consistent(t, fmt.Sprintf("deaths at steps %v", s.step), n, logs, died)
		for rank := range died {
			if k := len(logs[rank]); k > 0 && k < 4 {
				cut++
			}
		}
	}
	require.NotZero(t, cut, "no rank died in the middle of its agreements")
}
