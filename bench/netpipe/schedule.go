package netpipe

import "slices"

// Sizes returns NetPIPE's schedule, ascending: lower, doubled again and again, and the points
// half-way between, up to upper; and beside each point those that are perturbation bytes smaller
// and larger, if the next point is further away than perturbation + 1. So the first may be below
// lower and the last above upper by the perturbation: both ends are measured on both sides.
//
// From 1 with a perturbation of 3: 1 2 3 4 6 8 12 13 16 19 21 24 27 29 32 …
//
// Preconditions: lower ≥ 1, perturbation ≥ 0.
func Sizes(lower, upper, perturbation int) []int {
	var out []int
	add := func(size, gap int) {
		if size > upper {
			return
		}
		out = append(out, size)
		if perturbation > 0 && gap > perturbation+1 {
			out = append(out, size-perturbation, size+perturbation)
		}
	}
	for size := lower; size <= upper; size *= 2 {
		half := size / 2
		add(size, half)
		add(size+half, half)
	}
	slices.Sort(out) // a large perturbation reaches past the next point
	return slices.Compact(out)
}
