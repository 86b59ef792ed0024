package intercomms

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// deaths is a simulated job in which ranks die at any step of collectives, drawn from a seed.
type deaths struct {
	seed     uint64
	n, first int
	profile  banyan.Profile
	uniform  bool
	validate bool // the survivors validate; otherwise they revoke and shrink
	only     []ranktest.CollectiveKind
	kills    map[int]ending
	machine  *sim.Sim
	done     [][]bool  // by rank and call: it returned success
	errs     [][]error // by rank and call
}

// ending is the death of a rank: so long after the start of a call, or, after 0, when it has ended it.
type ending struct {
	call  int
	after time.Duration
}

const callsUntilDeath = 8

func drawDeaths(seed uint64) *deaths {
	r := rand.New(rand.NewPCG(seed, 51))
	d := &deaths{seed: seed, only: kinds, n: 3 + r.IntN(7), uniform: r.IntN(4) == 0, validate: r.IntN(2) == 0, kills: map[int]ending{}}
	d.first = r.IntN(d.n)
	if r.IntN(5) == 0 {
		d.profile = banyan.RTS
	}
	for range 1 + r.IntN(2) {
		d.kills[r.IntN(d.n)] = ending{r.IntN(callsUntilDeath), time.Duration(r.IntN(1 << r.IntN(18)))}
	}
	for range 10 {
		d.done = append(d.done, make([]bool, callsUntilDeath))
		d.errs = append(d.errs, make([]error, callsUntilDeath))
	}
	return d
}

func (d *deaths) String() string {
	return fmt.Sprintf("%d ranks, the first %d on side 1, %v, uniform %v, validate %v, deaths by rank %v", d.n, d.first,
		d.profile, d.uniform, d.validate, d.kills)
}

func (d *deaths) run() error {
	return banyan.Simulate(d.n, banyan.Simulation{
		Seed: d.seed,
		Options: []banyan.Option{banyan.WithProfile(d.profile), banyan.WithAsyncProgress(true),
			banyan.WithDetection(20*time.Millisecond, 100*time.Millisecond)},
		Configure: func(c *sim.Config) {
			// Messages of a rank arrive before its death is known.
			c.LossAtDeath, c.Detection = 0, sim.Detection{Min: 50 * sim.Microsecond, Max: 500 * sim.Microsecond}
			c.Topology.ProcsPerNode, c.MaxTime = 1+int(d.seed%4), fabric.Time(time.Minute)
		},
		Faults: func(s *sim.Sim) error { d.machine = s; return nil },
	}, d.rank)
}

func (d *deaths) killed(rank int) bool {
	cause, ended := d.machine.Ended(proc.ID(rank))
	return ended && cause.Failed()
}

// rank makes calls. The first failure ends them, and the remaining ranks continue.
func (d *deaths) rank(w *banyan.World) error {
	defer ranktest.Linger(w)
	me := w.Comm().Rank()
	b, err := join(w.Comm(), d.first)
	if err = errors.Join(err, w.Comm().Barrier()); err != nil {
		return err
	}
	end, dies := d.kills[me]
	if d.uniform {
		if err := b.c.SetUniformity(banyan.UniformCollectives); err != nil {
			return err
		}
	}
	r := rand.New(rand.NewPCG(d.seed, 52))
	for number := range callsUntilDeath {
		x := drawn(r, b, number)
		x.kind = d.only[r.IntN(len(d.only))]
		p := x.of(b)
		if dies && number == end.call && end.after > 0 {
			_ = d.machine.Kill(proc.ID(me), d.machine.Now()+fabric.Time(end.after)) // it exists
		}
		err := x.do(b, &p)
		d.errs[me][number], d.done[me][number] = err, err == nil
		if dies && number == end.call && end.after == 0 {
			_ = d.machine.Kill(proc.ID(me), d.machine.Now())
			w.Sleep(time.Hour)
		}
		if err == nil {
			err = x.compare(b, &p)
		} else if err = onlyFailure(err); err == nil && d.uniform {
			if before := x.of(b); !slices.Equal(p.out, before.out) {
				err = fmt.Errorf("%v: an error, and the buffer has changed", x)
			}
		}
		if err != nil {
			return err
		}
	}
	return d.goOn(b)
}

// goOn makes each call among the ranks that are left.
func (d *deaths) goOn(b bridge) error {
	for at := range 20 { // until no other rank dies
		var err error
		if d.validate {
			b.gone, err = validated(b)
		} else {
			b.c, err = b.c.Shrink()
		}
		if b.c == nil || err != nil {
			return err // the other side is dead
		}
		all := uint64(1)
		if err = every(b, 1+at%2*100); err != nil {
			all = 0
		}
		if err = onlyFailure(err); err != nil {
			return err
		}
		if all == 0 && !d.validate {
			_ = b.c.Revoke()
		}
		// The other side's flags, and the flags of this side that it has received. The flag counts, for any
		// dead rank.
		theirs, _ := b.c.Agree(all)
		if ours, _ := b.c.Agree(theirs); ours&theirs&1 == 1 {
			return nil
		}
	}
	return errors.New("ranks fail for ever")
}

// validated lists the ranks that are agreed to have failed, by side.
func validated(b bridge) (gone [2][]int, err error) {
	failed, err := b.c.Validate()
	if err != nil {
		return gone, err
	}
	for side, of := range map[int]banyan.Group{b.side: b.c.Group(), 1 - b.side: b.c.RemoteGroup()} {
		ranks, _ := failed.Translate(ranktest.Iota(failed.Size()), of) // it has these ranks
		gone[side] = slices.DeleteFunc(ranks, func(rank int) bool { return rank < 0 })
	}
	return gone, nil
}

// onlyFailure is an error that no failure explains.
func onlyFailure(err error) error {
	if banyan.IsFailure(err) {
		return nil
	}
	return err
}

// judge looks for a call that failed at a survivor and had succeeded at all dead ranks, and for one with a different
// outcome at two survivors where it is uniform.
func (d *deaths) judge() error {
	dead := slices.DeleteFunc(ranktest.Iota(d.n), func(rank int) bool { return !d.killed(rank) })
	for number := range callsUntilDeath {
		var failed, done []int
		for rank := range d.n {
			switch {
			case d.killed(rank):
			case d.errs[rank][number] != nil:
				failed = append(failed, rank)
			default:
				done = append(done, rank)
			}
		}
		owes := slices.ContainsFunc(dead, func(rank int) bool { return !d.done[rank][number] })
		switch {
		case failed != nil && !owes && d.profile == banyan.ULFM:
			return fmt.Errorf("call %d, which all that are dead had completed, failed at %v", number, failed)
		case d.uniform && failed != nil && done != nil:
			return fmt.Errorf("call %d succeeded at %v and failed at %v", number, done, failed)
		}
	}
	return nil
}

// With any deaths at any time, each call ends at each survivor with the right result or ErrProcFailed, with the
// result if all dead ranks had it, and the remaining ranks continue.
func TestDeathsBetweenSides(t *testing.T) {
	first, last := uint64(1), ranktest.Seeds(150)
	switch seeds := os.Getenv("BANYAN_SEED"); {
	case seeds != "":
		first, last = ranktest.SeedRange(t, seeds)
	case os.Getenv("BANYAN_LONG") != "":
		last = 100_000
	}
	failed, saved := 0, 0
	for seed := first; seed <= last; seed++ {
		d := drawDeaths(seed)
		require.NoError(t, errors.Join(d.run(), d.judge()), "BANYAN_SEED=%d runs it again: %v", seed, d)
		for rank := range d.n {
			for number, err := range d.errs[rank] {
				if err != nil {
					failed++
				} else if d.done[rank][number] && !d.killed(rank) {
					saved++
				}
			}
		}
	}
	t.Logf("%d jobs: at survivors %d calls succeeded, %d failed", last-first+1, saved, failed)
	ranktest.Occurred(t, min(failed, saved), "not all outcomes")
}

// A uniform collective that fails at a survivor leaves all buffers as they were.
func TestUniformCollectivesBetweenSides(t *testing.T) {
	for _, kind := range kinds {
		failed := 0
		for seed := range uint64(ranktest.Often(8, 2000)) {
			d := drawDeaths(seed)
			d.uniform, d.only, d.n, d.first = true, []ranktest.CollectiveKind{kind}, 9, 0
			d.kills = map[int]ending{int(seed % 9): {0, time.Duration(100 + 700*seed)}}
			require.NoError(t, errors.Join(d.run(), d.judge()), "%v, seed %d: %v", kind, seed, d)
			for _, errs := range d.errs {
				for _, err := range errs {
					if err != nil {
						failed++
					}
				}
			}
		}
		ranktest.Occurred(t, failed, fmt.Sprint(kind, " never fails"))
	}
}

// killedRank is a real process, one of which kills itself in a call.
func killedRank(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 53))
	b, err := join(w.Comm(), 1+r.IntN(w.Comm().Size()-1))
	if err != nil {
		return err
	}
	dies, at, looks := r.IntN(w.Comm().Size()), 1+r.IntN(6), r.IntN(200_000)
	var step atomic.Int64
	if w.Comm().Rank() == dies {
		ranktest.KillSelfAt(&step, at, looks)
	}
	for number := 0; err == nil; number++ { // until it is killed, or knows
		step.Store(int64(number))
		err = drawn(r, b, number).check(b)
	}
	if err := onlyFailure(err); err != nil {
		return err
	}
	if err := b.c.Revoke(); err != nil {
		return err
	}
	if b.c, err = b.c.Shrink(); err != nil || b.c == nil {
		return err
	}
	return every(b, 1, 3000)
}

func TestSidesAndSIGKILL(t *testing.T) {
	ranktest.JobsWithDeaths(t, "two sides, one killed", 6, 1, ranktest.JobSeeds(2, 40)...)
}
