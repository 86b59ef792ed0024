package tree

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn is the tree of a design after the worst failures, ranks 1 … dead, with a line for each rank, below its parent.
func drawn(d Design, size, dead int) string {
	a := worst(size, dead)
	var out strings.Builder
	fmt.Fprintf(&out, "NP = %d, F = %d\n", size, dead)
	var p Plan
	var draw func(rank int, before, own string)
	draw = func(rank int, before, own string) {
		Build(&p, d, Binomial, a, nil, 0, rank)
		fmt.Fprintf(&out, "%s%s%d\n", before, own, rank)
		switch own {
		case "|-- ":
			before += "|   "
		case "`-- ":
			before += "    "
		}
		children := append([]int(nil), p.Children...)
		for i, child := range children {
			own := "|-- "
			if i == len(children)-1 {
				own = "`-- "
			}
			draw(child, before, own)
		}
	}
	draw(0, "", "") // it lives
	return out.String()
}

// worst has the ranks 1 … dead failed, in which order the paper's worst case kills.
func worst(size, dead int) *Alive {
	return Except(size, upTo(dead + 1)[1:]...)
}

// Figures 1 and 2 of Hursey and Graham: 16 ranks, and 0, 1, 4 and 8 failures.
func TestFigures(t *testing.T) {
	for figure, designs := range map[string][]Design{"figure1": {Reroute, LookupAvoiding}, "figure2": {Rebalance}} {
		want, err := os.ReadFile("testdata/" + figure + ".txt")
		require.NoError(t, err)
		for _, d := range designs {
			var got []string
			for _, dead := range []int{0, 1, 4, 8} {
				got = append(got, drawn(d, 16, dead))
			}
			require.Equal(t, string(want), strings.Join(got, "\n"), "%s by %v", figure, d)
		}
	}
}

// The root's children at 16 ranks in the order in which they are adopted (S2-21).
func TestAdoption(t *testing.T) {
	var p Plan
	for dead, want := range map[int][]int{
		0: {1, 2, 4, 8},
		1: {3, 5, 9, 2, 4, 8},
		4: {7, 11, 5, 9, 6, 10, 12, 8},
		8: {15, 11, 13, 9, 14, 10, 12},
	} {
		Build(&p, Reroute, Binomial, worst(16, dead), nil, 0, 0)
		require.Equal(t, want, p.Children)
	}
}

// The degree of the root of 512 ranks in worst order: it grows up to half the job, where the tree is flat, and falls
// from there on. Rebalanced it is that of the binomial tree of the living.
func TestRootDegree(t *testing.T) {
	var p Plan
	for _, c := range []struct{ dead, rerouted, rebalanced int }{
		{0, 9, 9}, {8, 52, 9}, {64, 193, 9}, {128, 256, 9}, {256, 255, 8}, {384, 127, 7}, {496, 15, 4},
	} {
		a := worst(512, c.dead)
		for _, d := range []Design{Reroute, LookupAvoiding} {
			Build(&p, d, Binomial, a, nil, 0, 0)
			require.Len(t, p.Children, c.rerouted, "%v, %d dead", d, c.dead)
		}
		Build(&p, Rebalance, Binomial, a, nil, 0, 0)
		require.Len(t, p.Children, c.rebalanced, "%d dead", c.dead)
	}
}
