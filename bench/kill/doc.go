// Package kill has the orders in which experiments with failures kill ranks: those of Hursey and Graham, §4.
//
//	dead := kill.Average.Victims(512, 256) // half parents of the binomial tree, half leaves
//	order, err := kill.Parse("worst")
//
// It kills nobody: a harness does. All that measure, predict or draw with failures have their victims from here, so that what is
// measured, what is predicted and what the paper prints are of the same ranks.
//
// Floor 7: below all harnesses; it stands on nothing.
package kill
