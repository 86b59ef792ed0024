package paper

import (
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// What the figures have on their x axes.
var (
	processCounts = []int{2, 4, 8, 16, 32, 64, 128, 256, 512}
	failureCounts = []int{0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 496}
	rebuildRanks  = []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	rebuildFailed = []int{0, 64, 128, 256, 384, 512, 640, 768, 896, 1008}
)

var designNames = map[tree.Design]string{
	tree.Unaware: "fault unaware", tree.Reroute: "rerouted", tree.LookupAvoiding: "lookup avoiding", tree.Rebalance: "rebalanced",
}

var allDesigns = []tree.Design{tree.Unaware, tree.Reroute, tree.LookupAvoiding, tree.Rebalance}

// point is one prediction.
type point struct {
	op              predict.Op
	design          tree.Design
	order           kill.Order
	ranks, failures int
}

// predictor remembers what has been predicted: figures and tables share points.
type predictor struct {
	known map[point]float64
	step  func()
	err   error
}

// at gives a point's time in microseconds; after an error, which it keeps, 0.
func (p *predictor) at(k point) float64 {
	defer p.step()
	us, ok := p.known[k]
	if ok || p.err != nil {
		return us
	}
	j := predict.Job{Machine: sim.Fitted.Config(k.ranks), Design: k.design, Dead: k.order.Victims(k.ranks, k.failures), Op: k.op,
		Bytes: bcastBytes, Rounds: Rounds, Costs: predict.Awareness}
	if k.design == tree.Unaware {
		j = j.Baseline()
	}
	var r predict.Result
	if r, p.err = predict.Run(j); p.err == nil {
		us = micros(r.PerOp())
	}
	p.known[k] = us
	return us
}

// growing is figure 5 or 8: without failures, against the number of processes.
func (p *predictor) growing(number int, op predict.Op) Figure {
	f := Figure{Title: fmt.Sprintf("Figure %d: %s without failures", number, title(op)), File: file(number),
		X: "processes", Y: "time (µs)", Doubling: true}
	for _, d := range allDesigns {
		line := Line{Name: designNames[d]}
		for _, n := range processCounts {
			line.Points = append(line.Points, [2]float64{float64(n), p.at(point{op: op, design: d, ranks: n})})
		}
		f.Lines = append(f.Lines, line)
	}
	return f
}

// failing is figure 6 or 9: the designs against the number of failures, in worst order.
func (p *predictor) failing(number int, op predict.Op) Figure {
	f := failureFigure(number, title(op)+" with failures of 512 processes, worst order")
	for _, d := range allDesigns {
		f.Lines = append(f.Lines, p.line(designNames[d], op, d, kill.Worst))
	}
	return f
}

// orders is figure 7 or 10: the rerouted and the rebalanced design in three orders.
func (p *predictor) orders(number int, op predict.Op) Figure {
	f := failureFigure(number, title(op)+" with failures of 512 processes, three orders")
	for _, d := range []tree.Design{tree.Reroute, tree.Rebalance} {
		for _, o := range kill.Orders() {
			f.Lines = append(f.Lines, p.line(designNames[d]+", "+o.String(), op, d, o))
		}
	}
	return f
}

func (p *predictor) line(name string, op predict.Op, d tree.Design, o kill.Order) Line {
	line := Line{Name: name}
	for _, failures := range failureCounts {
		us := p.at(point{op, d, o, tableRanks, failures})
		line.Points = append(line.Points, [2]float64{float64(failures), us})
	}
	return line
}

func failureFigure(number int, title string) Figure {
	return Figure{Title: fmt.Sprintf("Figure %d: %s", number, title), File: file(number), X: "process failures", Y: "time (µs)"}
}

func file(number int) string { return fmt.Sprintf("figure%d.svg", number) }

// title names an operation as the paper does.
func title(op predict.Op) string {
	name := op.String()
	name = "MPI_" + strings.ToUpper(name[:1]) + name[1:]
	if op == predict.Bcast {
		name += ", 1 KB,"
	}
	return name
}

// Steps is how many predictions a report takes.
func Steps() int {
	return 2 * (len(allDesigns)*(len(processCounts)+len(failureCounts)) + 6*len(failureCounts))
}
