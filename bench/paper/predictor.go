package paper

import (
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// point is one operation among failures: one prediction, and perhaps one measurement.
type point struct {
	machine         string // a profile; "": paper-2011
	op              predict.Op
	bytes           int
	design          tree.Design
	shape           tree.Shape
	order           kill.Order
	ranks, failures int
	rounds          int // 0: those of all
}

// predictor remembers its predictions: figures and tables share points.
type predictor struct {
	rounds int
	known  map[point]float64
	count  bool // nothing is predicted: the points are counted
	step   func()
	err    error
}

// at gives a point's time in microseconds; after an error, which it keeps, 0.
func (p *predictor) at(k point) float64 {
	if k.failures == 0 {
		k.order = kill.Worst
	}
	us, ok := p.known[k]
	if ok || p.err != nil {
		return us
	}
	if !p.count {
		us, p.err = p.predict(k)
	}
	p.known[k] = us
	p.step()
	return us
}

func (p *predictor) predict(k point) (float64, error) {
	if err := kill.Check("failures", k.ranks, k.failures); err != nil {
		return 0, err
	}
	dead := k.order.Victims(k.ranks, k.failures)
	j := predict.Job{Machine: sim.Fitted.Config(k.ranks), Design: k.design, Shape: k.shape, Dead: dead, Op: k.op,
		Bytes:  k.bytes,
		Rounds: p.rounds, Costs: predict.Awareness}
	if k.rounds > 0 {
		j.Rounds = k.rounds
	}
	if k.machine != "" {
		machine, err := predict.Load(k.machine)
		if err != nil {
			return 0, err
		}
		j.Machine, j.Costs = machine.Config(k.ranks), machine.Costs()
	}
	if k.design == tree.Unaware {
		j = j.Baseline()
	}
	r, err := predict.Run(j)
	return micros(r.PerOp()), err
}
