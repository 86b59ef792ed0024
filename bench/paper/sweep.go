package paper

import (
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// The values of the x axes of the figures.
var (
	processCounts = []int{2, 4, 8, 16, 32, 64, 128, 256, 512}
	failureCounts = []int{0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 496}
)

var designNames = map[tree.Design]string{
	tree.Unaware: "fault unaware", tree.Reroute: "rerouted", tree.LookupAvoiding: "lookup avoiding",
	tree.Rebalance: "rebalanced",
}

var (
	allDesigns = []tree.Design{tree.Unaware, tree.Reroute, tree.LookupAvoiding, tree.Rebalance}
	allOrders  = kill.Orders()
)

// The axes of the figures.
var (
	processes = figure.Axis{Title: "processes", Unit: figure.Doubling}
	failed    = figure.Axis{Title: "process failures", Unit: figure.Count}
	linearly  = figure.Axis{Title: "time (µs)", Unit: figure.Linear}
	logTime   = figure.Axis{Title: "time (µs)"}
)

// The fabrics of the figures, and the text in their place if no message is sent.
const (
	simulated    = "simulated network of 2011"
	sharedMemory = "shared memory"
	noMessages   = "no messages, one core"
)

// measuredTitle is the title of a chart of measurements.
func (b *builder) measuredTitle(what string) string {
	return fmt.Sprintf("Measured here: %s, on %d CPUs, with 95 %% intervals", what, b.m.CPUs)
}

// line is one line of a figure.
type line struct {
	name string
	// at is the operation at a value of the x axis, in a job of so many ranks.
	at func(ranks, x int) point
}

// designLines are a line for each design.
func designLines(designs []tree.Design, at func(d tree.Design, ranks, x int) point) (out []line) {
	for _, d := range designs {
		out = append(out, line{designNames[d], func(ranks, x int) point { return at(d, ranks, x) }})
	}
	return out
}

// charts are a prediction for the paper's job and the measurement of the job here, at their values
// of x.
func (b *builder) charts(predicted, real figure.Chart, lines []line, xs, measured []int) (p, m figure.Chart) {
	real.X, real.Y = predicted.X, predicted.Y
	predicted.Fabric, real.Fabric = simulated, sharedMemory
	for _, l := range lines {
		all, here := figure.Series{Name: l.name}, figure.Series{Name: l.name}
		for _, x := range xs {
			all.Points = append(all.Points, figure.Point{X: float64(x), Y: b.p.at(l.at(tableRanks, x))})
		}
		for _, x := range measured {
			here.Points = dot(here.Points, x, b.m.time(l.at(b.n, x)))
		}
		predicted.Series, real.Series = append(predicted.Series, all), append(real.Series, here)
	}
	return predicted, real
}

// withoutFailures is figure 5 or 8: against the number of processes.
func (b *builder) withoutFailures(number int, op predict.Op) Figure {
	lines := designLines(allDesigns, func(d tree.Design, _, n int) point {
		return point{op: op, bytes: bytesOf(op), design: d, ranks: n}
	})
	predicted, real := b.charts(
		figure.Chart{Title: fmt.Sprintf("Figure %d, predicted: %s without failures", number, title(op)), X: processes,
			Y: linearly},
		figure.Chart{Title: b.measuredTitle(title(op))}, lines, processCounts, processCounts)
	return figureOf(number, predicted, real)
}

// dot adds a measurement, if there is one.
func dot(points []figure.Point, x int, v stats.Interval) []figure.Point {
	if v.N == 0 {
		return points
	}
	return append(points, figure.Estimate(float64(x), v, nil))
}

// figureOf is a picture of the charts that have points.
func figureOf(number int, predicted figure.Chart, measured ...figure.Chart) Figure {
	f := Figure{Title: predicted.Title, File: fmt.Sprintf("figure%d.svg", number)}
	for _, c := range append([]figure.Chart{predicted}, measured...) {
		if len(c.Series) > 0 && len(c.Series[0].Points) > 0 {
			f.Charts = append(f.Charts, c)
		}
	}
	return f
}

// designsInWorst are the lines of figures 6 and 9, threeOrders those of 7 and 10.
func designsInWorst() []designIn {
	var out []designIn
	for _, d := range allDesigns {
		out = append(out, designIn{designNames[d], d, kill.Worst})
	}
	return out
}

func threeOrders() []designIn {
	var out []designIn
	for _, d := range []tree.Design{tree.Reroute, tree.Rebalance} {
		for _, o := range allOrders {
			out = append(out, designIn{designNames[d] + ", " + o.String(), d, o})
		}
	}
	return out
}

// designIn is a design in an order of kills.
type designIn struct {
	name   string
	design tree.Design
	order  kill.Order
}

// amongFailed is figure 6, 7, 9 or 10: against the number of failures, with the printed values of
// the paper.
func (b *builder) amongFailed(number int, op predict.Op, what string, in []designIn, printed []Cell) Figure {
	var lines []line
	dots := figure.Series{Name: fmt.Sprintf("the paper, table %d", tableOf[op]), Dots: true}
	for _, l := range in {
		lines = append(lines, line{l.name, func(ranks, failures int) point {
			return point{op: op, bytes: bytesOf(op), design: l.design, order: l.order, ranks: ranks,
				failures: failures}
		}})
		for _, c := range printed {
			if c.Design == l.design && c.Order == l.order {
				dots.Points = append(dots.Points, figure.Point{X: tableFailed, Y: c.Printed})
			}
		}
	}
	here := make([]int, b.n)
	for f := range here {
		here[f] = f
	}
	predicted, real := b.charts(
		figure.Chart{Title: fmt.Sprintf("Figure %d, predicted: %s, %d processes, %s", number, title(op), tableRanks,
			what), X: failed, Y: linearly},
		figure.Chart{Title: b.measuredTitle(fmt.Sprintf("%d processes", b.n))}, lines, failureCounts, here)
	predicted.Series = append(predicted.Series, dots)
	return figureOf(number, predicted, real)
}

// tableOf is the number of an operation's table.
var tableOf = map[predict.Op]int{predict.Barrier: 1, predict.Bcast: 2}

// bytesOf is the number of bytes that an operation of the paper moves.
func bytesOf(op predict.Op) int {
	if op == predict.Bcast {
		return bcastBytes
	}
	return 0
}

// title names an operation as the paper does.
func title(op predict.Op) string {
	name := op.String()
	name = "MPI_" + strings.ToUpper(name[:1]) + name[1:]
	if op == predict.Bcast {
		name += " of 1 KB"
	}
	return name
}
