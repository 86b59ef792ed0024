// Package compare measures how much faster or slower one implementation is than others, so that the
// answer survives a noisy machine.
//
// # Method
//
// A [Plan] names the implementations ([Source]) of one measure and the bounds on their ratios. A
// [Runner] samples the sources in turn, A B, B A, A B, …, so that drift and the caches that the last one
// leaves meet them alike, and runs a control (a plain cache-line ping-pong) before and after each
// sample. A sample around which the control changed is dropped, and so is a pair whose two controls
// differ. The rest is sorted by core distance: the host moves the cores, and ratios differ between its placements, so near and far cores
// have results of their own and no pair spans two distances.
//
// The statistic is the median of the paired ratios with an exact 95 % interval
// ([stats.MedianInterval]). Sampling continues until the interval's half-width has the accuracy that
// the measure asks for, or the budget is spent; then the bound is judged:
//
//   - met or missed: the interval is narrow enough and lies on one side of the
//     bound as a whole;
//   - undecided: it is too wide, or it contains the bound, or there are too few pairs.
//     A bound without any pair has a row too.
//
// A [Sweep] is a measure with many points of which one sample yields several, such as a program that
// measures a range of message sizes. Its parts are sampled in turn, each point has pairs, distances
// and a verdict of its own, and the median over the points can have a bound too, with one observation
// a round.
//
// A ratio is only as general as the conditions that varied during sampling. Two processes differ by a
// percent or more just by the place of their memory, so a measure that asks for less than that renews
// its processes ([Plan.RenewEvery]); then one observation is the median of the pairs between two
// renewals, because pairs that share processes are not independent.
//
// # Limits
//
// It is independent of messages and processes: a source is a function that returns seconds. It
// compares no absolute times across runs. It does not correct for inspecting the interval after each
// round: the stopping rule uses its width and never the verdict, which keeps the interval honest for
// all but the smallest numbers of pairs (Chow and Robbins, 1965).
//
// Floor 8: a harness beside the others; of Banyan's it imports package stats alone. A [Runner] is for
// one goroutine; everything else is values. Package suite has the measures of ftbench compare.
package compare
