package suite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// displayNames are those in legends.
var displayNames = map[string]string{ours: "Banyan", roomy: "Banyan", openmpi: "Open MPI", mpich: "MPICH",
	nptcp: "NPtcp", openmpiTCP: "Open MPI over TCP"}

// Plots reports whether a group has curves that [Results.Charts] draws.
func Plots(group string) bool { return group == groupMatch || netpipeGroups[group] != nil }

// Charts returns the curves that have points. There is none where the cores moved in every round.
func (r *Results) Charts() (charts []figure.Chart) {
	add := func(c figure.Chart) {
		if len(c.Series) > 0 {
			charts = append(charts, c)
		}
	}
	for _, curve := range r.Curves {
		if g := netpipeGroups[curve.Name]; g != nil {
			add(throughputChart(g, curve))
		}
	}
	for _, test := range []peers.Test{peers.Posted, peers.Unexpected} {
		add(matchChart(r.Measures, test))
	}
	return charts
}

// throughputChart has a curve for each, of the median times of all rounds.
func throughputChart(g *netpipeGroup, curve *compare.Curve) figure.Chart {
	chart := figure.Chart{
		Title: "NetPIPE, ping-pong, two cores", Fabric: g.medium,
		X: figure.Axis{Title: "message size (bytes)", Unit: figure.Bytes},
		Y: figure.Axis{Title: "throughput (Mbps, 2^20 bit/s)"},
	}
	for _, name := range []string{ours, openmpi, mpich, nptcp, openmpiTCP} {
		s := figure.Series{Name: displayNames[name]}
		for i, seconds := range curve.Seconds(name, MaxDrift) {
			if size := curve.Points[i].X; seconds > 0 {
				s.Points = append(s.Points, figure.Point{X: size, Y: 8 * size / seconds / (1 << 20)})
			}
		}
		if len(s.Points) > 0 {
			chart.Series = append(chart.Series, s)
		}
	}
	return chart
}

// matchChart has the time of a match against the length of the queue.
func matchChart(measures []*compare.Result, test peers.Test) figure.Chart {
	chart := figure.Chart{
		Title: "Match with the last of the " + matchWords[test], Fabric: "shared memory",
		X: figure.Axis{Title: "entries of the queue"}, Y: figure.Axis{Title: "time of a match (µs)"},
	}
	for _, name := range []string{roomy, openmpi, mpich} {
		s := figure.Series{Name: displayNames[name]}
		for _, m := range measures {
			length, ok := strings.CutPrefix(m.Name, fmt.Sprintf("match/%s/", test))
			n, err := strconv.Atoi(length)
			if seconds := m.Seconds(name, MaxDrift); ok && err == nil && seconds > 0 {
				s.Points = append(s.Points, figure.Point{X: float64(n), Y: 1e6 * seconds})
			}
		}
		if len(s.Points) > 0 {
			chart.Series = append(chart.Series, s)
		}
	}
	return chart
}
