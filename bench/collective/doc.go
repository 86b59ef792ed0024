// Package collective measures collective operations of those who are left after failures: in each design of
// package coll/tree, against one that knows nothing of failures among as many ranks (Hursey and Graham §4.3, §4.4).
//
//	result, err := collective.Measure(ctx, o, start, rest, step)                         // in the harness
//	err := collective.Rank(w, o, os.Stdout)                                              // in each rank that it starts
//	result, err := collective.Measure(ctx, o, collective.Simulated(o, seed, configure), rest, nil) // in virtual time
//
// # Who dies
//
// So many ranks are killed with SIGKILL before anything is measured, in one of three orders ([kill.Order]); rank 0 always
// lives. The others acknowledge that, and validate a communicator for each design, all made before the deaths.
//
// # What it is compared with
//
// The baseline is the design Unaware on a communicator of those who live, made after the deaths: of as many ranks,
// in the same processes at the same places, in the same order.
//
// # Sets
//
// A set is a loop of so many operations; its time is that of the rank that takes longest for it, divided by their number. All designs and the baseline are measured in turn, a set of
// each, in an order that changes from round to round; what counts is the ratio, and the difference, of two sets of one round. One more round before all others makes the
// connections, and each of its results is looked at.
//
// # Deaths that nobody knows of
//
// [MeasureUnknown] has ranks die one after another while all are in operations: how long it takes until all others have the error, and
// until they have validated. [SimulatedUnknown] has them die in virtual time.
//
// # What it does not do
//
// It starts no processes itself, prints nothing and computes no intervals: that is for whoever calls it.
//
// Floor 8: a harness on the public interface.
package collective
