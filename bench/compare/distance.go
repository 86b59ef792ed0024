package compare

import (
	"math"
	"slices"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// Distance is where the host has put the cores, as the control shows.
type Distance string

// The distances that were seen on the machine of the project, by the control of package peers: two
// virtual cores that are threads of one physical core, 0.016 to 0.025 µs; cores that share a cache,
// 0.031 to 0.035 µs; cores that do not, about 0.2 to 0.3 µs.
const (
	Sibling Distance = "sibling"
	Near    Distance = "near"
	Far     Distance = "far"
)

// allDistances is the order in which distances are reported.
var allDistances = []Distance{Sibling, Near, Far}

const (
	// siblingBelow and farAbove name a group of controls by its median, in seconds.
	siblingBelow = 0.026e-6
	farAbove     = 0.15e-6
	// apart is the factor between the medians of two groups of controls from which they are two.
	apart = 1.5
)

// distances are groups of controls in ascending order. A control belongs to the first group whose
// bound it is below; the last bound is infinite.
type distances []struct {
	below    float64
	distance Distance
}

// of returns the distance of a sample whose control took c seconds.
func (m distances) of(c float64) Distance {
	for _, g := range m {
		if c < g.below {
			return g.distance
		}
	}
	return Far
}

// findDistances finds the groups in the controls seen so far and names them. Where the cuts lie is
// decided by the values, not by the names' bounds, so that a group that happens to lie on such a
// bound stays together.
func findDistances(controls []float64) distances {
	s := make([]float64, 0, len(controls))
	for _, c := range controls {
		s = append(s, math.Log(c))
	}
	slices.Sort(s)
	var m distances
	for len(s) > 0 {
		n := lowestGroup(s)
		below := math.Inf(1)
		if n < len(s) {
			below = math.Exp((s[n-1] + s[n]) / 2)
		}
		m = append(m, struct {
			below    float64
			distance Distance
		}{below, nameOf(math.Exp(stats.Median(s[:n])))})
		s = s[n:]
	}
	return m
}

func nameOf(control float64) Distance {
	switch {
	case control < siblingBelow:
		return Sibling
	case control > farAbove:
		return Far
	}
	return Near
}

// lowestGroup returns the length of the lowest group in sorted logarithms: it splits the values in
// two as long as the halves are apart.
func lowestGroup(sorted []float64) int {
	n := len(sorted)
	for {
		at := bestSplit(sorted[:n])
		if at == 0 || stats.Median(sorted[at:n])-stats.Median(sorted[:at]) < math.Log(apart) {
			return n
		}
		n = at
	}
}

// bestSplit returns the length of the lower group of the split that leaves the least variance
// within the groups (two means in one dimension, solved exactly), 0 for fewer than two different
// values. The least variance within is the most between: n0·n1·(mean0-mean1)².
func bestSplit(sorted []float64) int {
	total := 0.0
	for _, x := range sorted {
		total += x
	}
	best, at, sum := 0.0, 0, 0.0
	for i := 1; i < len(sorted); i++ {
		sum += sorted[i-1]
		n0, n1 := float64(i), float64(len(sorted)-i)
		d := (total-sum)/n1 - sum/n0
		if b := n0 * n1 * d * d; b > best {
			best, at = b, i
		}
	}
	return at
}
