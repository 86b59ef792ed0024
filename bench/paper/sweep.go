package paper

import (
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// What the figures have on their x axes.
var (
	processCounts = []int{2, 4, 8, 16, 32, 64, 128, 256, 512}
	failureCounts = []int{0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 496}
)

var designNames = map[tree.Design]string{
	tree.Unaware: "fault unaware", tree.Reroute: "rerouted", tree.LookupAvoiding: "lookup avoiding", tree.Rebalance: "rebalanced",
}

var (
	allDesigns = []tree.Design{tree.Unaware, tree.Reroute, tree.LookupAvoiding, tree.Rebalance}
	allOrders  = kill.Orders()
)

// The axes of the figures.
var (
	processes = figure.Axis{Title: "processes", Unit: figure.Doubling}
	failed    = figure.Axis{Title: "process failures", Unit: figure.Linear}
	linearly  = figure.Axis{Title: "time (µs)", Unit: figure.Linear}
	logTime   = figure.Axis{Title: "time (µs)"}
)

// measuredTitle says of a chart how its times were measured.
func (b *builder) measuredTitle(what string) string {
	return fmt.Sprintf("Measured here: %s, on %d CPUs, with 95 %% intervals", what, b.m.CPUs)
}

// withoutFailures is figure 5 or 8: against the number of processes.
func (b *builder) withoutFailures(number int, op predict.Op) Figure {
	at := func(d tree.Design, n int) point { return point{op: op, bytes: bytesOf(op), design: d, ranks: n} }
	predicted := figure.Chart{Title: fmt.Sprintf("Figure %d, predicted: %s without failures", number, title(op)), X: processes, Y: linearly}
	real := figure.Chart{Title: b.measuredTitle(title(op)), X: processes, Y: linearly}
	for _, d := range allDesigns {
		line, here := figure.Series{Name: designNames[d]}, figure.Series{Name: designNames[d]}
		for _, n := range processCounts {
			line.Points = append(line.Points, figure.Point{X: float64(n), Y: b.p.at(at(d, n))})
			here.Points = dot(here.Points, n, b.m.time(at(d, n)))
		}
		predicted.Series, real.Series = append(predicted.Series, line), append(real.Series, here)
	}
	return figureOf(number, predicted, real)
}

// dot adds what has been measured.
func dot(points []figure.Point, x int, v value) []figure.Point {
	if v.n == 0 {
		return points
	}
	return append(points, figure.Point{X: float64(x), Y: v.median, Low: v.low, High: v.high})
}

// figureOf is a picture of the charts that have points.
func figureOf(number int, charts ...figure.Chart) Figure {
	f := Figure{Title: charts[0].Title, File: fmt.Sprintf("figure%d.svg", number)}
	for _, c := range charts {
		if len(c.Series) > 0 && len(c.Series[0].Points) > 0 {
			f.Charts = append(f.Charts, c)
		}
	}
	return f
}

// curve is a line of figures 6, 7, 9 and 10.
type curve struct {
	name   string
	design tree.Design
	order  kill.Order
}

// designsInWorst are the lines of figures 6 and 9, threeOrders those of 7 and 10.
func designsInWorst() (out []curve) {
	for _, d := range allDesigns {
		out = append(out, curve{designNames[d], d, kill.Worst})
	}
	return out
}

func threeOrders() (out []curve) {
	for _, d := range []tree.Design{tree.Reroute, tree.Rebalance} {
		for _, o := range allOrders {
			out = append(out, curve{designNames[d] + ", " + o.String(), d, o})
		}
	}
	return out
}

// amongFailed is figure 6, 7, 9 or 10: lines against the number of failures, with what the paper has printed.
func (b *builder) amongFailed(number int, op predict.Op, what string, lines []curve, printed []Cell) Figure {
	predicted := figure.Chart{Title: fmt.Sprintf("Figure %d, predicted: %s, %d processes, %s", number, title(op), tableRanks, what), X: failed, Y: linearly}
	real := figure.Chart{Title: b.measuredTitle(fmt.Sprintf("%d processes", b.n)), X: failed, Y: linearly}
	dots := figure.Series{Name: fmt.Sprintf("the paper, table %d", tableOf[op]), Dots: true}
	for _, l := range lines {
		line, here := figure.Series{Name: l.name}, figure.Series{Name: l.name}
		for _, f := range failureCounts {
			us := b.p.at(point{op: op, bytes: bytesOf(op), design: l.design, order: l.order, ranks: tableRanks, failures: f})
			line.Points = append(line.Points, figure.Point{X: float64(f), Y: us})
		}
		for f := range b.n {
			here.Points = dot(here.Points, f, b.m.time(point{op: op, bytes: bytesOf(op), design: l.design, order: l.order, ranks: b.n, failures: f}))
		}
		for _, c := range printed {
			if c.Design == l.design && c.Order == l.order {
				dots.Points = append(dots.Points, figure.Point{X: tableFailed, Y: c.Printed})
			}
		}
		predicted.Series, real.Series = append(predicted.Series, line), append(real.Series, here)
	}
	predicted.Series = append(predicted.Series, dots)
	return figureOf(number, predicted, real)
}

// tableOf is the number of an operation's table.
var tableOf = map[predict.Op]int{predict.Barrier: 1, predict.Bcast: 2}

// bytesOf is what an operation of the paper moves.
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
