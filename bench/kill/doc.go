// Package kill has the orders in which experiments with failures kill ranks: those of Hursey and Graham, §4.
//
//	dead := kill.Average.Victims(512, 256) // half parents of the binomial tree, half leaves
//	order, err := kill.Parse("worst")
//
// A harness kills them. All that measure, predict or draw with failures take their victims from here, so
// that measurements, predictions and the paper concern the same ranks.
//
// Floor 7: below all harnesses; it stands on nothing.
package kill
