package compare

import "github.com/banyan-hpc/banyan/bench/stats"

// Interval is [stats.Interval].
type Interval = stats.Interval

// The estimates are those of package stats.
var (
	Median             = stats.Median
	MedianInterval     = stats.MedianInterval
	DifferenceInterval = stats.DifferenceInterval
)
