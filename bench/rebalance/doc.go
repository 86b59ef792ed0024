// Package rebalance measures how long a rank takes to find its place in the tree of a collective operation: section
// 4.2, figures 3 and 4 of Hursey and Graham, "Analyzing Fault Aware Collective Performance in a Process Fault
// Tolerant MPI".
//
//	err := rebalance.Run(ctx, o, func(r rebalance.Result) error { … })
//
// A job of so many ranks is only an argument here: a plan is arithmetic, and is computed for each rank in turn in
// one process. Of each tree all living ranks are measured, or of large ones a thousand at equal distances; the root is always among them.
// A time is that of a plan built again and again in the same memory for a microsecond or more, with the set at hand in the processor's caches,
// and for each rank the median of several rounds counts. So the least, the mean and the greatest over the ranks differ by what the
// ranks have to do: a leaf has no children to find, the root has most.
//
// Apart from these stands what comes once after each agreement on who has failed: [Result.First] is the time from a bit for each rank to the
// root's first plan, with the directory of the set, and memory for all of it.
//
// # What it does not do
//
// It prints nothing. No message is sent: what the plans are good for is measured elsewhere.
//
// Floor 8: a harness, here on package coll/tree.
package rebalance
