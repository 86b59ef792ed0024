package detect

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// verdict is a verdict by silence: on which processes, with which supporters (itself included), and
// with which counted.
type verdict struct {
	at       fabric.Time
	judge    proc.ID
	suspects []proc.ID
	joined   []proc.ID
	counted  []proc.ID
}

// trial ticks a process and records its verdict.
func (w *world) trial(p *node, self int) {
	m, asked := p.m, make(map[proc.ID]fabric.Time)
	for _, o := range m.watches {
		asked[o.id] = o.queried
	}
	known, answered := len(m.log), make(map[proc.ID]fabric.Time)
	maps.Copy(answered, m.round.answered)
	m.Tick(w.now)
	v := verdict{at: w.now, judge: proc.ID(self), joined: []proc.ID{proc.ID(self)}}
	since := never
	for _, e := range m.log[known:] {
		v.suspects = append(v.suspects, e.id)
		since = max(since, asked[e.id])
	}
	if v.suspects == nil {
		return
	}
	for id := range proc.ID(len(w.nodes)) {
		if at, ok := answered[id]; ok && at >= since {
			v.joined = append(v.joined, id)
		}
		if i, ok := m.index[id]; !ok || !m.log[i].proven {
			v.counted = append(v.counted, id)
		}
	}
	w.verdicts = append(w.verdicts, v)
	w.tell("%+v", v)
}

// newSeveralCuts makes a job that is cut several times while processes provably fail and depart, and at
// last is cut in two for ever.
func newSeveralCuts(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0x401e))
	n := 3 + rng.IntN(5)
	cfg := Config{Period: 200 * ms, Timeout: 1000 * ms, Seed: seed}
	w := quietWorld(rng, n, cfg, mutant{})
	t := w.cfg.Timeout
	for _, p := range w.nodes {
		p.noise = 1 << 60
	}
	at := t
	for range 1 + rng.IntN(3) {
		length := t + fabric.Time(rng.Int64N(int64(3*t)))
		w.cutFor(&cut{side: sides(rng, n), oneWay: rng.IntN(4) == 0}, at, length)
		if rng.IntN(3) == 0 {
			a := rng.IntN(n)
			w.cutFor(&cut{a: a, b: (a + 1 + rng.IntN(n-1)) % n}, at, length)
		}
		at += length + fabric.Time(rng.Int64N(int64(100*ms)))
		for range rng.IntN(n) {
			what := evKill
			if rng.IntN(4) == 0 {
				what = evLeave
			}
			when := at - 100*ms + fabric.Time(rng.Int64N(int64(200*ms)))
			w.push(event{at: when, what: what, to: rng.IntN(n), arg: rng.IntN(2 * n)})
		}
	}
	w.cutFor(&cut{side: sides(rng, n), forever: true}, at, 1<<60)
	w.judged = true
	w.last = max(w.last, at)
	return w
}

func sides(rng *rand.Rand, n int) []bool {
	s := make([]bool, n)
	for i := range s {
		s[i] = rng.IntN(2) == 0
	}
	return s
}

// apart returns two processes of which one counts the other as failed and both go on, or that go on
// at the two sides of the last cut.
func (w *world) apart() (i, j int, ok bool) {
	for i, p := range w.nodes {
		for j, q := range w.nodes {
			if i != j && p.runs() && q.runs() && (p.m.hasFailed(proc.ID(j)) || w.blocked(i, j)) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

// explained reports whether doc.go explains it: there is a verdict on each of the two, and a
// supporter of one is not counted in the other.
func (w *world) explained(i, j int) bool {
	for _, v := range w.verdicts {
		for _, u := range w.verdicts {
			if slices.Contains(v.suspects, proc.ID(j)) && slices.Contains(u.suspects, proc.ID(i)) &&
				(v.left(u) || u.left(v)) {
				return true
			}
		}
	}
	return false
}

// left reports whether a supporter of v is not counted in u.
func (v *verdict) left(u verdict) bool {
	return slices.ContainsFunc(v.joined, func(id proc.ID) bool { return !slices.Contains(u.counted, id) })
}

// Two sides both go on only where doc.go says so, and there they do.
func TestSplitOnlyAsDocumented(t *testing.T) {
	from, seeds, torn := uint64(20_000), uint64(8_000), 0
	switch {
	case os.Getenv("BANYAN_LONG") != "":
		from, seeds = 0, 300_000
	case testing.Short():
		from, seeds = 24_600, 300
	}
	for seed := from; seed < from+seeds; seed++ {
		w := newSeveralCuts(seed)
		if w.cfg.Partition == Off {
			continue
		}
		w.settle(w.quiet())
		i, j, both := w.apart()
		if !both {
			continue
		}
		torn++
		if !w.explained(i, j) {
			w = newSeveralCuts(seed)
			w.verbose = true
			w.settle(w.quiet())
			for _, line := range w.story {
				t.Log(line)
			}
			t.Fatalf("seed %d: %d and %d of %d both go on", seed, i, j, len(w.nodes))
		}
	}
	t.Logf("both sides go on in %d of %d schedules", torn, seeds)
	require.NotZero(t, torn)
}
