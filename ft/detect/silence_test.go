package detect

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// nodes spreads n processes over so many nodes: in blocks, round-robin in blocks, or at random.
func nodes(rng *rand.Rand, n, count int) func(proc.ID) int {
	on := make([]int, n)
	how, block := rng.IntN(3), 1+rng.IntN(3)
	for i := range on {
		switch how {
		case 0:
			on[i] = i * count / n
		case 1:
			on[i] = i / block % count
		case 2:
			on[i] = rng.IntN(count)
		}
	}
	return func(id proc.ID) int { return on[id] }
}

// silence makes a set of processes silent at once, at some time after from, and returns how long it
// took until all others knew of all.
func silence(t *testing.T, seed uint64, rng *rand.Rand, cfg Config, n int, silent []int, from fabric.Time) fabric.Time {
	t.Helper()
	w := quietWorld(rng, n, cfg, mutant{})
	at := from + fabric.Time(rng.Int64N(int64(200*ms)))
	for _, i := range silent {
		w.push(event{at: at, what: evKill, to: i})
	}
	w.settle(w.quiet())
	w.check()
	require.Empty(t, w.wrong, "seed %d, silent %v of %d", seed, silent, n)
	return w.report - at
}

// settled is when all have heard of all.
const settled = 2500 * ms

var second = Config{Period: 200 * ms, Timeout: 1000 * ms}

// A host that falls silent is reported by every survivor within the timeout and two periods,
// whichever processes it holds, if its processes are known; and neighbours on the ring in any case.
func TestSilentHost(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 3 + rng.IntN(30)
		cfg, silent := second, []int(nil)
		cfg.Seed = seed
		if seed%2 == 0 {
			first, size := rng.IntN(n), 1+rng.IntN((n-1)/2)
			for i := range size {
				silent = append(silent, (first+i)%n)
			}
		} else {
			cfg.Node = nodes(rng, n, 3+rng.IntN(n))
			for i, home := 0, cfg.Node(proc.ID(rng.IntN(n))); i < n; i++ {
				if cfg.Node(proc.ID(i)) == home {
					silent = append(silent, i)
				}
			}
			if 2*len(silent) >= n {
				continue
			}
		}
		took := silence(t, seed, rng, cfg, n, silent, settled)
		require.LessOrEqual(t, took, cfg.Timeout+2*cfg.Period, "seed %d, %v of %d", seed, silent, n)
	}
}

// Any other minority takes until the processes without a living observer have been queried.
func TestSilentSet(t *testing.T) {
	longest := fabric.Time(0)
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 3 + rng.IntN(30)
		cfg := second
		cfg.Seed = seed
		longest = max(longest, silence(t, seed, rng, cfg, n, rng.Perm(n)[:1+rng.IntN((n-1)/2)], settled))
	}
	t.Logf("at most %d ms", longest/ms)
	require.Greater(t, longest, second.Timeout+2*second.Period, "none of the sets was without an observer")
	require.LessOrEqual(t, longest, 2*second.Timeout+4*second.Period)
}

// A process that falls silent in its first moments is found as soon as any other, even if it has
// never been heard.
func TestSilentFromTheStart(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 3 + rng.IntN(30)
		cfg := second
		cfg.Seed = seed
		took := silence(t, seed, rng, cfg, n, rng.Perm(n)[:1], 0)
		require.LessOrEqual(t, took, cfg.Timeout+2*cfg.Period, "seed %d, %d processes", seed, n)
	}
}
