package corrected

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// draw derives a job from a seed.
func draw(seed uint64, broken mutant) (job, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 22))
	j := job{n: 2 + rng.IntN(7), broken: broken}
	if rng.IntN(32) == 0 {
		j.n += rng.IntN(40)
	}
	for range 1 + rng.IntN(4) {
		j.ops = append(j.ops, call{rng.IntN(3) == 0, rng.IntN(j.n), rng.IntN(4) == 0})
	}
	if rng.IntN(32) == 0 { // past barriers of the machine's own, and the highest number
		j.first = 1<<32 - Period
		for range 3 * Period {
			j.ops = append(j.ops, call{root: rng.IntN(j.n)})
		}
	}
	if rng.IntN(8) > 0 {
		j.crashes = 1 + rng.IntN(j.n-1)
	}
	return j, rng
}

// play runs a schedule to its end, and gives a violation.
func play(seed uint64, broken mutant) (j job, path []step, err error) {
	j, rng := draw(seed, broken)
	w := newWorld(j)
	hostile, slow := 1+rng.IntN(60), rng.IntN(4) // how rare kills are, and how late they become known
	var steps []step
	for {
		steps = w.steps(steps)
		if over(steps) {
			return j, path, w.wrong(true)
		}
		s := steps[rng.IntN(len(steps))]
		for range slow {
			if s.what == 'l' || s.what == 't' {
				s = steps[rng.IntN(len(steps))]
			}
		}
		if s.what == 'k' && rng.IntN(hostile) > 0 {
			continue
		}
		if s.what != 'k' && w.crashed < w.crashes && rng.IntN(hostile) == 0 {
			s.sends = rng.IntN(5)
		}
		path = append(path, s)
		before := w.done
		w.do(s)
		if w.done > before || w.refused != nil {
			if err := w.wrong(false); err != nil {
				return j, path, err
			}
		}
	}
}

// Random programs in which ranks die at any step and after any frame: no living rank lacks a value that another one
// has returned, no barrier is early, and nothing hangs.
func TestExplore(t *testing.T) {
	first, last := uint64(1), uint64(20_000)
	if os.Getenv("BANYAN_LONG") != "" {
		last = 1_000_000
	}
	if testing.Short() {
		last = 2000
	}
	if text := os.Getenv("BANYAN_SEED"); text != "" {
		a, b, ranged := strings.Cut(text, "-")
		var err error
		first, err = strconv.ParseUint(a, 10, 64)
		require.NoError(t, err)
		if last = first; ranged {
			last, err = strconv.ParseUint(b, 10, 64)
			require.NoError(t, err)
		}
	}
	for seed := first; seed <= last; seed++ {
		j, path, err := play(seed, noMutant)
		if err != nil {
			t.Fatalf("BANYAN_SEED=%d: %v\n%+v\n%v", seed, err, j, path)
		}
	}
}

// exhaust tries all schedules of a job that differ only in kills and their effects; all other events happen in
// the order of ranks. It returns the first violation, and the number of runs.
func exhaust(j job) (runs int, err error) {
	var visit func(path []step, from int) error
	run := func(path []step) (w *world, lengths []int, err error) {
		w = newWorld(j)
		at := 0
		var steps []step
		for {
			steps = w.steps(steps)
			if over(steps) {
				return w, lengths, w.wrong(true)
			}
			s := steps[0]
			for _, o := range steps {
				if s.what == 'k' || s.what == 't' && o.what != 'k' || s.what == 'l' && o.what != 'k' && o.what != 't' {
					s = o // kills are chosen; timers and knowledge come last
				}
			}
			for _, x := range path {
				if x.from == at { // of a path: the step before which, or in which, its rank dies
					s.sends = x.sends
				}
			}
			lengths = append(lengths, w.do(s))
			at++
			if err := w.wrong(false); err != nil {
				return w, lengths, err
			}
		}
	}
	visit = func(path []step, from int) error {
		runs++
		_, lengths, err := run(path)
		if err != nil {
			return fmt.Errorf("%w, after %v", err, path)
		}
		if len(path) == j.crashes {
			return nil
		}
		for at := from; at < len(lengths); at++ {
			for sends := range lengths[at] {
				if err := visit(append(slices.Clip(path), step{'k', 0, at, sends}), at+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err = visit(nil, 0)
	return runs, err
}

// Each rank dies before each frame that it sends, alone and in pairs.
func TestExhaustive(t *testing.T) {
	for n := 2; n <= 6; n++ {
		for root := range n {
			for _, ops := range [][]call{{{root: root}}, {{barrier: true}, {root: root}}, {{root: root, long: true}, {barrier: true}}} {
				crashes := 2
				if n > 4 {
					crashes = 1
				}
				runs, err := exhaust(job{n: n, ops: ops, crashes: crashes})
				require.NoError(t, err, "%d ranks, %+v", n, ops)
				require.Greater(t, runs, n)
			}
		}
	}
}

// A broadcast completes at all living ranks although no end becomes known: every set of dead ranks without the
// root, for all small numbers of ranks.
func TestWithoutDetection(t *testing.T) {
	for n := 2; n <= 9; n++ {
		for dead := range 1 << (n - 1) {
			for _, long := range []bool{false, true} {
				j := job{n: n, ops: []call{{long: long}}}
				require.NoError(t, blindly(j, dead<<1), "%d ranks, dead %b", n, dead<<1)
				j.first = 1<<32 - 1
				require.NoError(t, blindly(j, dead<<1), "%d ranks, dead %b, numbers begin again", n, dead<<1)
			}
		}
	}
	for n, dead := range map[int]int{4: 1 << 1, 8: 1<<1 | 1<<2} {
		require.ErrorContains(t, blindly(job{n: n, ops: []call{{}}, broken: uncorrected}, dead), "for ever")
	}
	require.ErrorContains(t, blindly(job{n: 8, ops: []call{{}}, broken: shortSighted}, 1<<1|1<<2|1<<4), "for ever")
}

// blindly kills ranks before a broadcast of rank 0; no rank is notified.
func blindly(j job, dead int) error {
	j.blind = true
	w := newWorld(j)
	for at := range j.n {
		if dead>>at&1 != 0 {
			w.kill(at)
		}
	}
	w.crashes = 0
	for steps := w.steps(nil); len(steps) > 0; steps = w.steps(steps) {
		w.do(steps[0])
	}
	return w.wrong(true)
}

// Without failures a broadcast takes a message of the tree for each rank but the root, and at most two corrections for
// each rank; so does a release, after as many contributions.
func TestMessages(t *testing.T) {
	for _, n := range []int{2, 5, 16, 33, 100} {
		for _, barrier := range []bool{false, true} {
			w := newWorld(job{n: n, ops: []call{{barrier: barrier}}})
			for steps := w.steps(nil); !over(steps); steps = w.steps(steps) {
				i := slices.IndexFunc(steps, func(s step) bool { return s.what != 't' })
				w.do(steps[max(i, 0)])
			}
			require.NoError(t, w.wrong(true))
			want := n - 1 + 2*n
			if barrier {
				want += n - 1
			}
			require.LessOrEqual(t, w.sends, want, "%d ranks", n)
		}
	}
}

// 1 KiB beside its length goes with the corrections; what is longer is offered.
func TestInline(t *testing.T) {
	for bytes, offers := range map[int]bool{LengthBytes + 1024: false, LengthBytes + 1025: true} {
		m, offered := New(0, 4, 0), false
		m.Bcast(0, make([]byte, bytes))
		for a, ok := m.Next(); ok; a, ok = m.Next() {
			offered = offered || a.Kind == Send && len(a.Payload) < bytes
		}
		require.Equal(t, offers, offered, bytes)
	}
}

// The values kept for other ranks are bounded, also where the numbers begin again.
func TestKept(t *testing.T) {
	for _, first := range []uint32{0, 1<<32 - 100} {
		w := newWorld(job{n: 4, first: first})
		for i := range 10 * Period {
			w.ops = append(w.ops, call{root: i % 4})
		}
		for steps := w.steps(nil); !over(steps); steps = w.steps(steps) {
			w.do(steps[0])
			for _, r := range w.ranks {
				require.LessOrEqual(t, len(r.m.ops), window+1)
			}
		}
		require.NoError(t, w.wrong(true))
	}
}

// A barrier that is called before the broadcast before it has ended waits for that.
func TestCallsBeforeOutcomes(t *testing.T) {
	for _, first := range []uint32{0, 1<<32 - 2} {
		w := newWorld(job{n: 4, first: first, ops: []call{{}, {barrier: true}}})
		for range w.ops {
			for at := range w.n {
				w.do(step{'c', at, 0, -1})
			}
		}
		for steps := w.steps(nil); !over(steps); steps = w.steps(steps) {
			w.do(steps[0])
		}
		require.NoError(t, w.wrong(true))
	}
}

// Each rule is needed, and the exploration finds its absence.
func TestMutants(t *testing.T) {
	for name, broken := range map[string]mutant{
		"seal": unsealed, "ask": speechless, "wait": hasty, "serve": forgetful,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 200_000; seed++ {
				if _, path, err := play(seed, broken); err != nil {
					t.Logf("seed %d: %v after %d steps", seed, err, len(path))
					return
				}
			}
			t.Fatal("nothing is wrong without the rule")
		})
	}
}

// Ranks that call different operations, or name different roots, learn of it where a message shows it.
func TestDiffers(t *testing.T) {
	a, b := New(9, 2, 0), New(9, 2, 1)
	a.Bcast(0, []byte("x"))
	b.Barrier()
	var got []Outcome
	for moved := true; moved; {
		moved = false
		for from, m := range []*Machine{a, b} {
			for act, ok := m.Next(); ok; act, ok = m.Next() {
				moved = true
				switch {
				case act.Kind == Send && from == 0:
					require.NoError(t, b.Receive(0, act.Payload))
				case act.Kind == Send:
					require.NoError(t, a.Receive(1, act.Payload))
				case act.Kind == Done:
					got = append(got, act.Outcome)
				}
			}
		}
	}
	require.Equal(t, []Outcome{Value, Differs}, got)
}

// Questions and requests that are repeated are kept once for each rank.
func TestRepeatedFrames(t *testing.T) {
	m := New(9, 3, 1)
	m.Bcast(0, nil)
	for range 1000 {
		for _, k := range []kind{kindUp, kindWant, kindAsk, kindOffer} {
			require.NoError(t, m.Receive(2, (&frame{kind: k, number: 1}).encode(9)))
		}
	}
	o := m.ops[0]
	require.Equal(t, []int{1, 1, 1}, []int{len(o.ups), len(o.wanted), len(o.askers)})
}

// FuzzReceive: a frame of another rank is refused or harmless, and read back as it was sent. A call ends once.
func FuzzReceive(f *testing.F) {
	f.Add((&frame{kind: kindUp, number: 1, flags: flagBarrier}).encode(9), (&frame{kind: kindDown, number: 2, value: []byte("v")}).encode(9))
	f.Add((&frame{kind: kindOffer, number: 1, flags: flagLeft, root: 2}).encode(9), (&frame{kind: kindWant, number: 1, root: 2}).encode(9))
	f.Add((&frame{kind: kindDiffers, number: 1}).encode(9), (&frame{kind: kindDown, number: 40, flags: flagLost, epoch: 2}).encode(9))
	for _, number := range []uint32{2, 3, 40} { // releases without this rank
		release := frame{kind: kindDown, flags: flagBarrier, number: number}
		f.Add(release.encode(9), (&frame{kind: kindUp, flags: flagBarrier | flagHave, number: number}).encode(9))
		f.Add((&frame{kind: kindUp, flags: flagBarrier | flagHave, number: number}).encode(9), release.encode(9))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		m := New(9, 3, 1)
		m.Bcast(0, nil)
		for _, b := range [][]byte{one, two} {
			var x frame
			if x.decode(b, 3) == nil {
				context, ok := Context(b)
				require.True(t, ok)
				require.Equal(t, b, x.encode(context))
			}
			if err := m.Receive(2, b); err != nil {
				require.ErrorIs(t, err, ErrFrame)
			}
			for range 3 {
				m.Tick(x.number)
			}
		}
		m.Ended(0)
		m.Ended(2)
		require.Equal(t, uint32(2), m.Barrier())
		require.LessOrEqual(t, len(m.ops), maxAhead+4)
		ends := make([]int, 3)
		for a, ok := m.Next(); ok; a, ok = m.Next() {
			switch a.Kind {
			case Done:
				ends[a.Number]++
			case Quit:
				return // it ends all calls
			}
		}
		require.Equal(t, []int{0, 1, 1}, ends)
	})
}
