// Package predict tells how long a collective operation on a tree takes on a described machine, by following each of
// its messages in virtual time.
//
//	cfg, err := sim.Profile("paper-2011", 512)
//	dead := kill.Worst.Victims(512, 256)
//	r, err := predict.Run(predict.Job{Machine: cfg, Design: tree.Rebalance, Dead: dead, Op: predict.Barrier, Rounds: 300})
//	fmt.Println(r.PerOp()) // the virtual time of one barrier, out of 300 in a row
//
// The plans are those of package coll/tree, which the library walks; the machine is package sim's [sim.Config], read by the same rules:
// overheads of cores, gaps of ports, ports that nodes share, credits, acknowledgements. What is left out is the
// library itself: there are no goroutines and no matching, just one small state for each rank, so a job of 512 ranks takes
// milliseconds, and one of a million a few seconds. A test runs the library's own
// collectives in the full simulator and compares the times.
//
// # Rounds
//
// A job does its operation Rounds times in a row, without anything between, and the time of one is the time of all,
// until the last rank has finished, divided by their number. That is how Hursey and Graham measured
// (§4: "an inner timing loop of 300 operations"), and it matters: a barrier waits for everybody, so its rounds hardly overlap,
// but the root of a broadcast goes on with the next as soon as its messages are sent, so a row
// of broadcasts takes what the busiest core or port takes.
//
// # What it does not do
//
// Messages are one frame each, whatever their length: there is no rendezvous and no segmentation. There are no spikes, no
// deaths during the operation and no random numbers. Folding operands takes no time.
//
// Floor 7: it stands on the root package, which it simulates, below the harnesses that use it.
package predict
