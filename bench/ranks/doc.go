// Package ranks has what harnesses share that start their own ranks, have some of them die and measure
// what the others can still do.
//
//	result, err := ranks.Run[Result](ctx, job, step)          // in the harness
//	living, err := ranks.Lose(c, dead, ranks.KillSelf)        // in each rank
//	err = ranks.Step(os.Stdout, round)                        // in the one that speaks for all
//	err = ranks.Tell(os.Stdout, &result)
//
// The rank that speaks for all tells the harness how far it is, and at the end its result, in lines of
// its standard output that begin with a mark; every other line is passed on.
//
// It starts no processes itself: [Job.Start] does.
//
// Floor 7: on the public interface, below the harnesses that share it.
package ranks
