package agree

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// exhaust explores all schedules of a job. It returns the first violation with the steps that led
// to it, and the number of states.
func exhaust(j job, most int) (states int, err error) {
	seen := make(map[uint64]bool)
	var visit func(w *world, path []step) error
	visit = func(w *world, path []step) error {
		if id := w.print(); seen[id] || len(seen) >= most {
			return nil
		} else {
			seen[id] = true
		}
		steps := w.steps(nil)
		if err := w.wrong(w.over(steps)); err != nil {
			return fmt.Errorf("%w, after %v", err, path)
		}
		for _, s := range steps {
			next := w.clone()
			sends := next.do(s)
			if err := visit(next, append(path, s)); err != nil {
				return err
			}
			for k := 0; k < sends && w.crashed < w.crashes && s.what != 'c'; k++ {
				s.sends = k
				next := w.clone()
				next.do(s)
				if err := visit(next, append(path, s)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err = visit(newWorld(j), nil)
	return len(seen), err
}

// over reports whether no mandatory step is left.
func (w *world) over(steps []step) bool { return !slices.ContainsFunc(steps, w.must) }

// must reports whether a step must happen at some time: only a condemned process must crash.
func (w *world) must(s step) bool {
	return s.what != 's' && s.what != 'z' && (s.what != 'c' || w.procs[s.at].condemned)
}

func TestExhaustive(t *testing.T) {
	jobs := []job{
		{n: 1, rounds: 2},
		{n: 2, rounds: 2, crashes: 1},
		{n: 3, rounds: 1, crashes: 2},
		{n: 3, rounds: 1, crashes: 1, leavers: 1},
		{n: 3, rounds: 1, crashes: 2, uniform: true},
		{n: 3, rounds: 2, crashes: 1, acked: 3},
		{n: 4, rounds: 1, crashes: 1},
		{n: 3, rounds: 2, crashes: 1, leavers: 1, stay: 1},
		{n: 3, rounds: 1, crashes: 1, leavers: 3, stay: 1, rude: true},
		{n: 3, rounds: 1, crashes: 1, odd: 2, uniform: true},
		{n: 3, rounds: 1, crashes: 2, odd: 1, late: 7},
		{n: 2, rounds: 2, more: 1, crashes: 1, late: 1},
		{n: 3, rounds: 1, crashes: 1, suspicions: 1},
		{n: 4, rounds: 1, suspicions: 1},
		{n: 4, rounds: 1, crashes: 1, wide: 1},
		{n: 2, rounds: 3, crashes: 1, flat: true},
		{n: 3, rounds: 2, crashes: 1, flat: true},
		{n: 3, rounds: 1, crashes: 2, nodes: 0b_01_00_00},
		{n: 3, rounds: 1, crashes: 2, nodes: 0b_01_01_00, uniform: true},
		{n: 3, rounds: 2, crashes: 1, nodes: 0b_00_01_00},
		{n: 4, rounds: 1, crashes: 1, nodes: 0b_01_01_00_00},
	}
	if os.Getenv("BANYAN_LONG") != "" { // the last takes two minutes
		jobs = append(jobs, job{n: 4, rounds: 1, crashes: 2}, job{n: 4, rounds: 1, crashes: 3},
			job{n: 4, rounds: 1, crashes: 2, wide: 1}, job{n: 3, rounds: 1, more: 1, crashes: 1}, job{n: 4,
				rounds: 1, crashes: 1, leavers: 5, stay: 1},
			job{n: 4, rounds: 1, crashes: 1, suspicions: 1}, job{n: 5, rounds: 1, crashes: 1}, job{n: 4,
				rounds: 1, crashes: 2, uniform: true}, job{n: 5, rounds: 1, crashes: 2},
			job{n: 3, rounds: 2, crashes: 1, flat: true, uniform: true}, job{n: 3, rounds: 2, crashes: 1,
				flat: true, odd: 2},
			job{n: 3, rounds: 2, crashes: 1, flat: true, suspicions: 1}, job{n: 3, rounds: 2, crashes: 1,
				flat: true, wide: 1},
			job{n: 3, rounds: 2, crashes: 2, flat: true}, job{n: 3, rounds: 3, crashes: 1,
				flat: true}, job{n: 3, rounds: 3, crashes: 2, flat: true},
			job{n: 4, rounds: 1, crashes: 3, nodes: 0b_01_01_00_00}, job{n: 4, rounds: 1, crashes: 2, nodes: 0b_01_01_01_00},
			job{n: 4, rounds: 1, crashes: 2, nodes: 0b_00_01_00_01, uniform: true},
			job{n: 5, rounds: 1, crashes: 1, nodes: 0b_10_10_01_01_00},
			job{n: 4, rounds: 2, flat: true}, job{n: 4, rounds: 2, flat: true, wide: 1}, job{n: 4, rounds: 2,
				crashes: 1, flat: true})
	}
	for _, j := range jobs {
		t.Run(fmt.Sprintf("%+v", j), func(t *testing.T) {
			states, err := exhaust(j, 1<<30)
			t.Logf("%d states", states)
			require.NoError(t, err)
		})
	}
}

// schedule derives a job and its schedule from a seed.
func schedule(seed uint64, broken mutant) (job, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 0xa93ee))
	n := 2 + rng.IntN(6)
	switch k := rng.IntN(256); {
	case k == 0:
		n = 2 + rng.IntN(63)
	case k < 16:
		n = 2 + rng.IntN(14)
	}
	j := job{n: n, rounds: 1 + rng.IntN(3), uniform: rng.IntN(4) == 0, acked: rng.Uint64() & rng.Uint64(),
		broken: broken}
	if rng.IntN(8) != 0 {
		j.crashes = 1 + rng.IntN(n-1)
	}
	if rng.IntN(8) == 0 {
		j.leavers, j.stay = rng.Uint64()&rng.Uint64()&(1<<n-1), rng.IntN(1+j.rounds)
		j.rude = rng.IntN(2) == 0
	}
	if rng.IntN(8) == 0 {
		j.odd = rng.Uint64() & rng.Uint64() & (1<<n - 1)
	}
	if rng.IntN(8) == 0 {
		j.more, j.late = rng.IntN(3), rng.Uint64()
	}
	if rng.IntN(8) == 0 {
		j.suspicions = 1 + rng.IntN(n-1)
	}
	if rng.IntN(2) == 0 {
		j.flat, j.rounds = true, j.rounds+rng.IntN(3)
		if rng.IntN(4) == 0 {
			j.unmet = rng.Uint64()
		}
	}
	if seed%4 == 0 {
		j.wide = []uint{1, 2, 5}[seed/4%3]
	}
	if k := seed % 8; k == 3 || k == 4 {
		j.nodes = rand.New(rand.NewPCG(seed, 0x40de5)).Uint64()
	}
	return j, rng
}

// play runs a schedule to its end and returns a violation.
func play(seed uint64, broken mutant) (j job, path []step, err error) {
	j, rng := schedule(seed, broken)
	w := newWorld(j)
	hostile := 1 + rng.IntN(40) // how rare crashes are
	slow := rng.IntN(4)         // how late failures are learned
	var steps []step
	for {
		steps = w.steps(steps)
		if len(steps) == 0 || w.over(steps) && (w.crashed == w.crashes || rng.IntN(4) > 0) {
			return j, path, w.wrong(true)
		}
		s := steps[rng.IntN(len(steps))]
		for range slow {
			if s.what == 'l' {
				s = steps[rng.IntN(len(steps))]
			}
		}
		if s.what == 'c' && rng.IntN(hostile) > 0 && !w.over(steps) {
			continue
		}
		if s.what != 'c' && w.crashed < w.crashes && rng.IntN(hostile) == 0 {
			s.sends = rng.IntN(4)
		}
		path = append(path, s)
		before := w.decided
		w.do(s)
		if w.decided == before && w.refused == nil {
			continue
		}
		if err := w.wrong(false); err != nil {
			return j, path, err
		}
	}
}

// seeds is the range of schedules to try: by default so many, or those of BANYAN_SEED=n or a-b.
func seeds(t *testing.T, most uint64) (from, to uint64) {
	if text := os.Getenv("BANYAN_SEED"); text != "" {
		a, b, ranged := strings.Cut(text, "-")
		from, err := strconv.ParseUint(a, 10, 64)
		require.NoError(t, err)
		if !ranged {
			return from, from
		}
		to, err := strconv.ParseUint(b, 10, 64)
		require.NoError(t, err)
		return from, to
	}
	return 1, most
}

// replay performs the steps of a path as far as possible, then all mandatory ones, and returns a
// violation.
func replay(j job, path []step) error {
	w := newWorld(j)
	for _, s := range path {
		can := s
		can.sends = -1
		if s.what == 'c' {
			can.sends = 0
		}
		if !slices.Contains(w.steps(nil), can) || s.sends >= 0 && w.crashed == w.crashes {
			continue
		}
		w.do(s)
		if err := w.wrong(false); err != nil {
			return err
		}
	}
	for {
		steps := w.steps(nil)
		k := slices.IndexFunc(steps, w.must)
		if k < 0 {
			return w.wrong(true)
		}
		w.do(steps[k])
		if err := w.wrong(false); err != nil {
			return err
		}
	}
}

// shrink removes the steps of a failing path that are not needed for the failure.
func shrink(j job, path []step) []step {
	for size := len(path) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(path); {
			if less := slices.Concat(path[:at], path[at+size:]); replay(j, less) != nil {
				path, shorter = less, true
			} else {
				at += size
			}
		}
		if !shorter {
			size /= 2
		}
	}
	return path
}

// once are schedules that failed in the past. In 167897 one failure decides two agreements, while
// frames of the one before them are still to be sent from memory that the second one reuses. In
// 858334 a member enters an agreement before it has received everything that a departed one sent,
// so that nothing must be acknowledged.
var once = []uint64{167897, 858334}

func TestExplore(t *testing.T) {
	most := uint64(15_000)
	if os.Getenv("BANYAN_LONG") != "" {
		most = 1_000_000
	}
	if testing.Short() { // the race detector has nothing to find here
		most = 2000
	}
	for _, seed := range once {
		_, _, err := play(seed, noMutant)
		require.NoError(t, err, "seed %d", seed)
	}
	from, to := seeds(t, most)
	if seed, wrong := exploreAll(from, to); wrong {
		j, path, err := play(seed, noMutant)
		t.Fatalf("BANYAN_SEED=%d: %v\n%+v\nneeds no more than %v", seed, err, j, shrink(j, path))
	}
	t.Logf("%d schedules from seed %d", to-from+1, from)
}

// exploreAll tries a range of schedules on all cores, and returns the first that fails.
func exploreAll(from, to uint64) (first uint64, wrong bool) {
	var next atomic.Uint64
	var together sync.Mutex
	var workers sync.WaitGroup
	next.Store(from)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1) - 1; seed <= to; seed = next.Add(1) - 1 {
				if _, _, err := play(seed, noMutant); err == nil {
					continue
				}
				next.Store(to + 1) // the others finish theirs
				together.Lock()
				if !wrong || seed < first {
					first, wrong = seed, true
				}
				together.Unlock()
				return
			}
		})
	}
	workers.Wait()
	return first, wrong
}

// Each rule is needed, and the exploration finds its absence.
func TestMutants(t *testing.T) {
	for name, broken := range map[string]mutant{"E1": eagerUps, "E2": muteOwners, "E3": unfenced,
		"E4": openCells, "E5": silentNaps, "sums": hastySums} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 100_000; seed++ {
				j, path, err := play(seed, broken)
				if err == nil {
					continue
				}
				short := shrink(j, path)
				t.Logf("seed %d: %+v: %v: %v: %v", seed, j, err, short, replay(j, short))
				require.Error(t, replay(j, short))
				if broken != hastySums { // which the first order of steps shows
					require.NotEmpty(t, short)
				}
				j.broken = noMutant
				require.NoError(t, replay(j, short), "with the rule the same is right")
				return
			}
			t.Fatal("nothing is wrong without the rule")
		})
	}
}

// The protocol's assumption is needed: if two living processes act on each other's failure, others
// may decide differently.
func TestMutualSuspicion(t *testing.T) {
	for name, x := range map[string]struct {
		n     int
		steps string
	}{
		// All have contributed to 0, which decides. It counts 2 as failed and sends the decision to
		// its child 6, while 2 counts 0 as failed and contributes to 1, for itself and 6.
		"both live": {7, "p5 p3 p6 p4 p1 p2 p0 d1<5 d1<3 d2<6 d0<1 d0<4 d0<2 s0<2 d6<0 s2<0 l1<0 d1<2 l4<0 d1<4"},
		// 0 counts 1 as failed, decides without it, notifies 3 and fails. 1, which does not know,
		// has received from 3 before, and decides with 2 and 4, which learn only of 0's failure.
		"one lives": {5, "s0<1 p4 p3 p0 p2 d0<4 d0<2 l3<1 d0<3 c0 l2<0 l4<0"},
	} {
		j := job{n: x.n, rounds: 1, crashes: 1, suspicions: 2, mutual: true}
		path := parse(t, strings.Fields(x.steps))
		require.ErrorContains(t, replay(j, path), "decide", name)
		j.mutual = false
		require.NoError(t, replay(j, path), name)
	}
}

// parse reads steps in the format of String.
func parse(t *testing.T, texts []string) (path []step) {
	for _, text := range texts {
		s := step{what: text[0], sends: -1}
		if s.what == 'c' {
			s.sends = 0
		}
		at, from, _ := strings.Cut(text[1:], "<")
		var err error
		s.at, err = strconv.Atoi(at)
		require.NoError(t, err)
		if from != "" {
			s.from, err = strconv.Atoi(from)
			require.NoError(t, err)
		}
		path = append(path, s)
	}
	return path
}
