// Package paper does the experiments of Hursey and Graham, "Analyzing Fault Aware Collective Performance in a
// Process Fault Tolerant MPI" (2011), again: in virtual time on a description of their machine, and for real where
// the machine at hand can. It writes a report that has the paper's value, the prediction and the measurement side by side.
//
//	r, err := paper.Build(paper.Measured{}, func() {})
//	os.WriteFile("report.md", []byte(r.Markdown()), 0o644)
//
// # What is fitted and what is predicted
//
// The machine, profile paper-2011 of package sim, has two numbers that the paper does not state: what a node's network port
// takes for a frame, and the latency between two ports. [Fit] finds them from table 1 (MPI_Barrier, 256 of 512 dead).
// All else is stated in the paper (nodes, cores, shared memory), by the medium (8 ns for a byte at 1 Gb/s) or by a
// standard (acknowledgements of TCP). Table 2 and the figures follow.
//
// # What it does not do
//
// It does not measure: real measurements are other harnesses' and are handed to it.
//
// Floor 8: it stands on bench/predict; the command brings bench/figure's pictures and the measurements of other harnesses.
package paper
