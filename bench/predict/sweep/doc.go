// Package sweep predicts collectives for all combinations of a [Grid] of parameters, and draws
// them: ftbench sim.
//
// Floor 8: above predict and figure.
package sweep
