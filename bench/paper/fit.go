package paper

import (
	"fmt"
	"io"
	"math"

	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// fitRounds is enough for the fit: the rounds of a barrier hardly overlap.
const fitRounds = 20

// moves are the changes that Fit tries, in steps of the engine's time and of the latency: either,
// and both against each other, since an error that one reduces the other increases.
var moves = [][2]sim.Picos{{1, 0}, {-1, 0}, {0, 4}, {0, -4}, {1, -8}, {-1, 8}, {1, -16}, {-1, 16}}

// Fit finds the parameters of the profile paper-2011 from table 1 alone: those with the least sum
// of the squares of the six relative errors. It begins far from the answer, moves by steps that
// shrink from 2 µs to 0.01 µs, and writes each step to log.
func Fit(log io.Writer) (sim.Paper2011, error) {
	p := sim.Paper2011{Engine: 10 * sim.Microsecond, Latency: 10 * sim.Microsecond}
	best, err := misfit(p)
	if err != nil {
		return p, err
	}
	for step := 2 * sim.Microsecond; step >= sim.Microsecond/100; step /= 2 {
		for moved := true; moved; {
			moved = false
			for _, m := range moves {
				next := sim.Paper2011{Engine: p.Engine + step*m[0], Latency: p.Latency + step*m[1]}
				if next.Engine <= 0 || next.Latency <= 0 {
					continue
				}
				e, err := misfit(next)
				if err != nil {
					return p, err
				}
				if e < best {
					p, best, moved = next, e, true
					fmt.Fprintf(log, "engine %.3f µs, latency %.3f µs: root of the mean squared error %.2f %%\n",
						micros(p.Engine), micros(p.Latency), 100*math.Sqrt(best/float64(len(Table1))))
				}
			}
		}
	}
	return p, nil
}

// misfit is the sum of the squares of the relative errors in table 1.
func misfit(p sim.Paper2011) (float64, error) {
	sum := 0.0
	for _, c := range Table1 {
		t, err := c.predict(p.Config(tableRanks), fitRounds)
		if err != nil {
			return 0, err
		}
		e := t/c.Printed - 1
		sum += e * e
	}
	return sum, nil
}

// Predict is the simulator's value for a cell on the paper's machine, in microseconds.
func (c Cell) Predict() (float64, error) { return c.predict(sim.Fitted.Config(tableRanks), Rounds) }

func (c Cell) predict(machine sim.Config, rounds int) (float64, error) {
	r, err := predict.Run(predict.Job{Machine: machine, Design: c.Design,
		Dead: c.Order.Victims(tableRanks, tableFailed), Op: c.Op,
		Bytes: bcastBytes, Rounds: rounds, Costs: predict.Awareness})
	return micros(r.PerOp()), err
}

func micros(d sim.Picos) float64 { return float64(d) / float64(sim.Microsecond) }
