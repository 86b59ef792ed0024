// Package budget bounds how long a measurement may last.
//
// A command starts a [Budget] and hands it to the harness, which asks [Budget.Over] at its safe points:
// before a round, and within a round wherever nothing is being timed and no message is under way. Ranks
// ask by [Budget.Agree], so that all of them stop at the same point; the first rank's clock decides. A
// harness without ranks of its own gets the time as a context, by [Budget.Context]. What has been
// measured in whole rounds until then is the result, with a [Cut] that says so.
//
//	for i := range rounds {
//		if over, err := o.Budget.Agree(c); over || err != nil {
//			return &budget.Cut{…}, err
//		}
//		…
//	}
//
// Without a bound Agree exchanges nothing. A Budget is a value and may be used by several goroutines.
//
// Floor 7: on the root package, below the harnesses that use it.
package budget
