package board

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/explore"
)

// Possible events in a segment are tried: [Phase] and [Segment] as they are, in ordinary memory, by members that do one step at a time,
// in any order, each of which may die before any of them. The outside that they use is here: a member learns of a death, or that a
// process has departed, some time after it; a frame wakes a sleeper some time after it was sent; operations that take another way end
// when all have gone there; the living members validate together. A look that reads several slots is one step: contents only grow, so it
// is as if all had been read at the last one.

// Everything that may happen to few members in few operations is right: no member waits for ever, or ends a step to which another has not come, or
// reads bytes that do not belong there; and none fails while all live.
func TestExhaustive(t *testing.T) {
	tasks := []task{
		{n: 2, ops: "bmb", crashes: 1},
		{n: 2, ops: "mmm", crashes: 1},
		{n: 2, ops: "0m1", crashes: 1},
		{n: 2, ops: "eme", crashes: 1},
		{n: 2, ops: "0000000000"},
		{n: 2, ops: "mm", crashes: 1, zombies: true},
		{n: 3, ops: "m"},
		{n: 3, ops: "1b", leaver: 2, after: 1},
		{n: 3, ops: "01", leaver: 1, after: 1},
		{n: 3, ops: "b", crashes: 1},
		{n: 2, ops: "ggg", crashes: 1},
		{n: 2, ops: "g1gm0"},
		{n: 2, ops: "g00000000g"}, // an allgather in nine payloads
		{n: 3, ops: "g"},
		{n: 3, ops: "b", crashes: 1, group: 2},
		{n: 3, ops: "e", group: 1},
		{n: 2, ops: "mmm", crashes: 1, group: 1},
	}
	if os.Getenv("BANYAN_LONG") != "" {
		tasks = append(tasks, task{n: 3, ops: "g", crashes: 1}, task{n: 2, ops: "ggggggggg0"}, task{n: 2, ops: "g1gm0", crashes: 1},
			task{n: 3, ops: "bm", group: 2}, task{n: 3, ops: "mm"}, task{n: 3, ops: "mm", crashes: 1}, task{n: 3, ops: "em", crashes: 1}, task{n: 3, ops: "0m", crashes: 2},
			task{n: 3, ops: "mm", crashes: 1, zombies: true}, task{n: 4, ops: "m"}, task{n: 4, ops: "b", crashes: 1},
			task{n: 4, ops: "b", crashes: 1, group: 2}, task{n: 4, ops: "m", group: 2}, task{n: 3, ops: "mm", crashes: 1, zombies: true, group: 2})
	}
	if testing.Short() { // under the race detector, which has nothing to find here
		tasks = tasks[:2]
	}
	for _, j := range tasks {
		if j.early = j.crashes > 0; j.early {
			tasks = append(tasks, j)
		}
	}
	for _, j := range tasks {
		t.Run(fmt.Sprintf("%+v", j), func(t *testing.T) {
			states, err := explore.All(newWorld(j), 1<<30)
			t.Logf("%d states", states)
			require.NoError(t, err)
		})
	}
}

// play runs a task in an order from a seed.
func play(j task, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(j)
	rarely := 1 + rng.IntN(60)
	for path := []step(nil); ; {
		steps := w.Steps()
		if err := w.Check(steps); err != nil {
			return fmt.Errorf("%w, after %v", err, path)
		}
		if len(steps) == 0 {
			return nil
		}
		s := steps[rng.IntN(len(steps))]
		if idle := !slices.ContainsFunc(steps, func(s step) bool { return s.what != 'c' && s.what != 'z' }); idle && s.what == 'z' {
			return nil
		} else if !idle && (s.what == 'c' || s.what == 'z') && rng.IntN(rarely) > 0 {
			continue
		}
		path = append(path, s)
		w.Do(s)
	}
}

// Longer tasks of more members, in orders that are drawn.
func TestExplore(t *testing.T) {
	most := uint64(2000)
	if os.Getenv("BANYAN_LONG") != "" {
		most = 1_000_000
	}
	if testing.Short() {
		most = 200
	}
	for seed := range most {
		rng := rand.New(rand.NewPCG(seed, 3))
		j := task{n: 2 + rng.IntN(4)}
		for range 1 + rng.IntN(16) {
			j.ops += string("bmmegg0123"[rng.IntN(10)])
		}
		if rng.IntN(8) == 0 { // some broadcasts, a collection, and as many broadcasts as may follow each other
			j.ops = strings.Repeat("0", rng.IntN(Buffers)) + "g" + strings.Repeat("1", Buffers)
		}
		j.crashes, j.group = rng.IntN(j.n), rng.IntN(4)
		j.zombies, j.early = rng.IntN(2) == 0, rng.IntN(4) == 0
		if j.crashes == 0 && rng.IntN(2) == 0 {
			j.leaver, j.after = 1+rng.IntN(j.n-1), rng.IntN(len(j.ops))
		}
		require.NoError(t, play(j, seed), "seed %d: %+v", seed, j)
	}
}

// Each rule is needed, and the exploration finds it out.
func TestMutants(t *testing.T) {
	for name, j := range map[string]task{
		"no waking":                        {n: 2, ops: "b", broken: silentNaps},
		"no look after the nap":            {n: 2, ops: "b", broken: blindNaps},
		"payload after flag":               {n: 2, ops: "m", broken: lateParts},
		"one place for parts":              {n: 2, ops: "mm", broken: oneTurn},
		"no member waits for readers":      {n: 2, ops: "000000000", broken: endlessRoot},
		"a member that left does not wake": {n: 4, ops: "3", leaver: 2, broken: trusting},
		"a learner of a death looks":       {n: 2, ops: "mm", crashes: 1, broken: abrupt},
		"a group is announced too early":   {n: 3, ops: "b", group: 2, broken: hopeful},
		"sums of another step":             {n: 2, ops: "mmm", group: 1, broken: staleSums},
		"the last to bring does not wake":  {n: 2, ops: "g", broken: silentBringers},
		"memory of one that may go on":     {n: 3, ops: "mm", crashes: 1, zombies: true, broken: hasty},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := explore.All(newWorld(j), 1<<20)
			require.Error(t, err)
			t.Log(err)
			j.broken = noMutant
			if j.n == 2 {
				_, err = explore.All(newWorld(j), 1<<30)
				require.NoError(t, err)
			}
		})
	}
}
