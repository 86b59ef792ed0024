// Package stats has the statistics of the measurements: medians, percentiles, confidence intervals
// of medians and of paired ratios, and the distribution of times.
//
//	v := stats.MedianInterval(stats.Ratios(subject, baseline)) // paired observations
//	fmt.Println(v.Median, v.Low, v.High, v.Sameness(0.05))
//
//	h := stats.NewHistogram()
//	h.Add(time.Since(start))
//	fmt.Println(h.Spread().P99)
//
// The functions leave their arguments unchanged and may be called concurrently. A [Histogram] belongs
// to one goroutine at a time.
//
// Floor 7: on nothing of the library, below the harnesses.
package stats
