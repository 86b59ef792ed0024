// Package budget bounds the duration of a measurement.
//
// A command starts a [Budget] and passes it to the harness, which asks [Budget.Over] at its safe
// points: before a round, and within a round wherever nothing is being timed and no message is under
// way. Ranks ask by [Budget.Agree], so that all of them stop at the same point; the first rank's clock
// decides. A harness without ranks of its own gets the time as a context, by [Budget.Context]. The
// result is the measurements of whole rounds until then, with a [Cut].
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
