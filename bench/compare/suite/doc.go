// Package suite measures Banyan beside UCX, Open MPI, MPICH, NetPIPE on bare sockets and perftest: the
// measures of ftbench compare, and the bounds of docs/status.md on their ratios.
//
// A [Comparison] starts the implementations that its groups need (package peers), samples them in
// turn (package compare) and returns [Results]. A peer that is not installed is left out and named.
//
//	c, err := suite.Open(ctx, suite.Options{Groups: []string{"latency"}, …})
//	results, err := c.Run(ctx, os.Stdout, func(status string) {})
//	err = c.Close()
//
// Banyan's ranks are hidden commands of ftbench: the calling program must be ftbench.
//
// Floor 8: above compare, peers and netpipe. A [Comparison] is for one goroutine.
package suite
