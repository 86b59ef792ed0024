// Package paper repeats the experiments of Hursey and Graham, "Analyzing Fault Aware Collective
// Performance in a Process Fault Tolerant MPI" (2011): in virtual time on a description of their
// machine, and with real ranks on the machine at hand. It writes a report that has the paper's value,
// the prediction and the measurement side by side.
//
//	for _, e := range measured.Lacking(paper.Experiments(size)) { … }  // measured by Measurer
//	r, err := paper.Build(&measured, paper.Predictions{Rounds: paper.Rounds, Most: 1e6}, func() {})
//	os.WriteFile("report.md", []byte(r.Markdown()), 0o644)
//
// # Fitted and predicted values
//
// The machine, profile paper-2011 of package sim, has two numbers that the paper does not state: the
// time that a node's network port takes for a frame, and the latency between two ports. [Fit] finds
// them from table 1 (MPI_Barrier, 256 of 512 dead). All else is stated in the paper (nodes, cores,
// shared memory), by the medium (8 ns for a byte at 1 Gb/s) or by a standard (acknowledgements of
// TCP). Table 2 and the figures follow.
//
// # Measurements
//
// [Experiments] are the jobs of real ranks of a report; their results are those of package fault, and
// [Measured] keeps them with all sets, so that ratios can be taken set by set.
//
// A [Measurer] measures the missing parts of a [Store]; the command starts the ranks.
//
// Floor 8.5: above bench/predict, bench/fault, bench/compare/suite and bench/figure, whose results and
// charts it combines.
package paper
