package agree

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// depth is the number of steps from a rank to the root.
func depth(tr *tree, rank int) (steps int) {
	for rank = tr.parent(rank); rank >= 0; rank = tr.parent(rank) {
		steps++
	}
	return steps
}

// The shallow tree of up to 64 members is a star: one step for all, even when its centre has ended,
// which the next one replaces, and when ends have been agreed on. Beyond that there are as many
// steps as a position has non-zero digits, and no member has more than 63 children for each level
// below it.
func TestShallowIsAStar(t *testing.T) {
	for _, c := range []struct{ n, levels, degree int }{
		{1, 0, 0}, {2, 1, 1}, {3, 1, 2}, {63, 1, 62}, {64, 1, 63}, {65, 1, 64}, {66, 2, 64}, {128, 2,
			64}, {4096, 2, 2 * 63}, {4162, 3, 2*63 + 1},
	} {
		tr := &tree{digit: Shallow.Digit, size: c.n}
		deepest := 0
		for rank := range c.n {
			deepest = max(deepest, depth(tr, rank))
			if rank > 0 {
				require.LessOrEqual(t, len(tr.children(nil, rank)), 63*max(0, c.levels-1), "%d members", c.n)
			}
		}
		require.Equal(t, c.levels, deepest, "%d members", c.n)
		require.Len(t, tr.children(nil, 0), c.degree, "%d members", c.n)
	}
	for _, agreed := range []bool{false, true} {
		for ended := 1; ended < 64; ended++ { // the first of 64
			tr := &tree{digit: Shallow.Digit, size: 64}
			for rank := range ended {
				tr.known.add(rank)
				if agreed {
					tr.agreed.add(rank)
				}
			}
			require.Len(t, tr.children(nil, ended), 63-ended)
			require.Equal(t, -1, tr.parent(ended))
			for rank := ended + 1; rank < 64; rank++ {
				require.Equal(t, ended, tr.parent(rank))
				require.Empty(t, tr.children(nil, rank))
			}
		}
	}
	// Of 66 members the one with two steps has one when an end has been agreed on.
	tr := &tree{digit: Shallow.Digit, size: 66}
	require.Equal(t, 2, depth(tr, 65))
	tr = &tree{digit: Shallow.Digit, size: 66, known: ranks{7}, agreed: ranks{7}}
	require.Equal(t, 1, depth(tr, 65))
}

// A member of a star sends and receives one frame for each agreement: as many in all as in any
// other tree, and the centre takes part in each of them.
func TestStarMessages(t *testing.T) {
	for _, n := range []int{2, 5, 64} {
		w := newWorld(job{n: n, rounds: 3, wide: Shallow.Digit - 1})
		rng := rand.New(rand.NewPCG(uint64(n), 3))
		for steps := w.steps(nil); len(steps) > 0; steps = w.steps(steps) {
			w.do(steps[rng.IntN(len(steps))])
		}
		require.NoError(t, w.wrong(true))
		require.Equal(t, 3*2*(n-1), w.sends, "%d members", n)
		for rank, p := range w.procs {
			want := uint64(1)
			if rank == 0 {
				want = 1<<n - 2
			}
			require.Equal(t, want, p.sentTo, "the receivers of rank %d of %d", rank, n)
		}
	}
}

// Agreements on a star keep their guarantees while members fail, the centre before all others:
// between any two frames of its decision, and one after the other.
func TestStarAndFailures(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 0x57a2))
		n := 2 + rng.IntN(12)
		if seed%75 == 0 {
			n = 40 + rng.IntN(25)
		}
		w := newWorld(job{n: n, rounds: 2, crashes: n - 1, uniform: seed%4 == 0, acked: rng.Uint64(),
			wide: Shallow.Digit - 1})
		middle := func() int {
			for rank, p := range w.procs {
				if p.alive {
					return rank
				}
			}
			return -1
		}
		var steps []step
		for steps = w.steps(steps); !w.over(steps); steps = w.steps(steps) {
			s := steps[rng.IntN(len(steps))]
			if s.what == 'c' {
				if rng.IntN(2*n) > 0 {
					continue
				}
				s.at = middle()
			}
			if s.what != 'c' && s.at == middle() && w.crashed < w.crashes && rng.IntN(n) == 0 {
				s.sends = rng.IntN(n)
			}
			w.do(s)
			require.NoError(t, w.wrong(false), "seed %d", seed)
		}
		require.NoError(t, w.wrong(true), "seed %d", seed)
	}
}
