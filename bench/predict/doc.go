// Package predict computes the duration of a collective operation on a tree on a described machine, by following
// each of its messages in virtual time.
//
//	cfg, err := sim.Profile("paper-2011", 512)
//	dead := kill.Worst.Victims(512, 256)
//	job := predict.Job{Machine: cfg, Design: tree.Rebalance, Dead: dead, Op: predict.Barrier, Rounds: 300}
//	r, err := predict.Run(job)
//	fmt.Println(r.PerOp()) // the virtual time of one barrier, out of 300 in a row
//
// The plans are those of package coll/tree, which the library uses. The machine is package sim's [sim.Config], with
// the same rules: overheads of cores, gaps of ports, ports that nodes share, credits, acknowledgements. The library
// itself is left out: there are no goroutines and no matching, only a small state for each rank. So a job of 512
// ranks takes milliseconds, while [Full], which runs the library in the simulator, takes seconds, and a job of a
// million ranks takes a few seconds. A test compares the times of the two.
//
// # Rounds
//
// A job does its operation Rounds times in a row. The time of one is the time until the last rank has finished all,
// divided by their number, as Hursey & Graham measured (§4: "an inner timing loop of 300 operations"). That
// matters: a barrier waits for all ranks, so its rounds hardly overlap, but the root of a broadcast starts the next
// one as soon as its messages are sent, so a row of broadcasts takes the time of the busiest core or port.
//
// # Undetected failures
//
// [Unseen] follows one operation that starts with dead ranks that no rank has detected: in the designs of trees,
// and by the machines of package coll/corrected.
//
// # Limits
//
// Messages are one frame each, with any length: there is no rendezvous and no segmentation. There are no
// spikes, no failures during the operation and no random numbers. Reducing operands takes no time.
//
// Floor 7: on the root package, which [Full] simulates, below the harnesses that use it.
package predict
