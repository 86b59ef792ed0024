package paper

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// figures returns the figures of sections 4.3 and 4.4 by their files, with few points on the axes:
// all of them take minutes. The contents of the tables are taken as printed: they have a test of
// their own.
func figures(t *testing.T) map[string]Figure {
	ranks, failed := processCounts, failureCounts
	t.Cleanup(func() { processCounts, failureCounts = ranks, failed })
	processCounts, failureCounts = []int{2, 32, 64}, []int{384, 448, 496}
	b := &builder{p: &predictor{rounds: Rounds, known: map[point]float64{}, step: func() {}}, m: &Measured{},
		n: usualRanks}
	for _, c := range append(append([]Cell(nil), Table1...), Table2...) {
		b.p.known[point{op: c.Op, bytes: bytesOf(c.Op), design: c.Design, order: c.Order, ranks: tableRanks,
			failures: tableFailed}] = c.Printed
	}
	out := map[string]Figure{}
	for _, s := range []Section{b.barriers(), b.bcasts()} {
		for _, f := range s.Figures {
			out[f.File] = f
		}
	}
	require.NoError(t, b.p.err)
	return out
}

// points are those of the line with a name, as a map from x to y.
func points(t *testing.T, f Figure, name string) map[float64]float64 {
	for _, l := range f.Charts[0].Series {
		if l.Name == name {
			out := map[float64]float64{}
			for _, p := range l.Points {
				require.Positive(t, p.Y, "%s, %s at %v", f.Title, name, p.X)
				out[p.X] = p.Y
			}
			return out
		}
	}
	require.Failf(t, "no such line", "%s: %s", f.Title, name)
	return nil
}

// The statements of section 4 about figures 5 to 10. If all ranks share a node, with no message
// slower than 0.84 µs, checks of 10 ns are more than a hundredth, so comparisons are made with 32
// ranks and more.
func TestFigures(t *testing.T) {
	all := figures(t)
	require.Len(t, all, 6)
	withoutFailures(t, all[file(5)], 0.01)  // S2-28
	withoutFailures(t, all[file(8)], 0.004) // S2-32
	withFailures(t, all[file(6)], 0.01)     // S2-29, S2-31
	withFailures(t, all[file(9)], 0.005)    // S2-33, S2-34
	ordersOfFailures(t, all[file(7)])
	ordersOfFailures(t, all[file(10)])
}

// withoutFailures: all designs take the time of the unaware one.
func withoutFailures(t *testing.T, f Figure, within float64) {
	unaware := points(t, f, "fault unaware")
	require.Len(t, unaware, len(processCounts))
	for _, design := range []string{"rerouted", "lookup avoiding", "rebalanced"} {
		for n, us := range points(t, f, design) {
			if n >= 32 {
				require.InEpsilon(t, unaware[n], us, within, "%s: %s, %v processes", f.Title, design, n)
			}
		}
	}
}

// withFailures: the rebalanced tree takes the time of the unaware one of the living ranks. The
// rerouted one approaches that from half of the job on, and looking up beforehand changes little.
func withFailures(t *testing.T, f Figure, alike float64) {
	unaware, rebalanced := points(t, f, "fault unaware"), points(t, f, "rebalanced")
	rerouted, lookup := points(t, f, "rerouted"), points(t, f, "lookup avoiding")
	require.Len(t, rerouted, len(failureCounts))
	for failures, us := range rerouted {
		require.InEpsilon(t, unaware[failures], rebalanced[failures], 0.01, "%s: %v failures", f.Title, failures)
		require.InEpsilon(t, us, lookup[failures], alike, "%s: %v failures", f.Title, failures)
		require.GreaterOrEqual(t, us, 0.99*rebalanced[failures], "%s: %v failures", f.Title, failures)
	}
	for _, failures := range []float64{384, 448, 496} {
		require.Greater(t, rerouted[failures], 1.1*rebalanced[failures], "%s: %v failures", f.Title, failures)
	}
	require.Less(t, rerouted[448], rerouted[384], f.Title)
	require.Less(t, rerouted[496]-rebalanced[496], rerouted[384]-rebalanced[384], f.Title)
}

// ordersOfFailures: rerouted, the worst order is slower than the average one, which is slower than
// the best one; and that is the tree of the living ranks.
func ordersOfFailures(t *testing.T, f Figure) {
	require.Len(t, f.Charts[0].Series, 7, f.Title) // and the paper's values
	worst, average, best := points(t, f, "rerouted, worst"), points(t, f, "rerouted, average"),
		points(t, f, "rerouted, best")
	dense := points(t, f, "rebalanced, best")
	for _, failures := range []float64{384, 448} {
		require.Greater(t, worst[failures], average[failures], "%s: %v failures", f.Title, failures)
		require.Greater(t, average[failures], best[failures], "%s: %v failures", f.Title, failures)
		require.InEpsilon(t, dense[failures], best[failures], 0.01, "%s: %v failures", f.Title, failures)
	}
}

func file(number int) string { return fmt.Sprintf("figure%d.svg", number) }
