package paper

import (
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// drawnRanks is the size of the trees of figures 1 and 2.
const drawnRanks = 16

// drawnFailures are those of the trees of figures 1 and 2.
var drawnFailures = []int{0, 1, 4, 8}

// degree is how many children the root has.
func degree(d tree.Design, failures int) int {
	dead := kill.Worst.Victims(drawnRanks, failures)
	var p tree.Plan
	tree.Build(&p, d, tree.Binomial, tree.Except(drawnRanks, dead...), nil, 0, 0)
	return len(p.Children)
}

// draw is figure 1 or 2: the binomial tree of 16 ranks with 0, 1, 4 and 8 failures, in worst order.
func draw(d tree.Design) string {
	var b strings.Builder
	for _, failures := range drawnFailures {
		fmt.Fprintf(&b, "NP = %d, F = %d\n", drawnRanks, failures)
		drawUnder(&b, d, tree.Except(drawnRanks, kill.Worst.Victims(drawnRanks, failures)...), 0, "", "")
		b.WriteByte('\n')
	}
	return b.String()
}

// drawUnder draws a rank, behind first, and all below it, behind rest.
func drawUnder(b *strings.Builder, d tree.Design, a *tree.Alive, rank int, first, rest string) {
	var p tree.Plan
	tree.Build(&p, d, tree.Binomial, a, nil, 0, rank)
	fmt.Fprintf(b, "%s%d\n", first, rank)
	for i, child := range p.Children {
		if i < len(p.Children)-1 {
			drawUnder(b, d, a, child, rest+"├─ ", rest+"│  ")
		} else {
			drawUnder(b, d, a, child, rest+"└─ ", rest+"   ")
		}
	}
}
