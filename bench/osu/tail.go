package osu

import (
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/stats"
)

// maxSingles bounds the pass for the percentiles over all pairs: 8 bytes of memory each.
const maxSingles = 1 << 20

// tail times n iterations one by one and returns the percentiles on rank 0, in seconds per message.
// The times are kept and sorted into the histogram afterwards, so the loop has one read of the
// clock more than the one for the mean and nothing else. A time is of one pair, or of one rank and all
// its peers in a fan: pairs that take turns have no such bandwidth together.
func (s *sweep) tail(size, n int) ([]float64, error) {
	mine, err := s.singles(s.Pair, size, min(n, maxSingles/s.pairs))
	if err != nil {
		return nil, err
	}
	all, err := s.collect(mine)
	if err != nil || s.c.Rank() != 0 {
		return nil, err
	}
	pairs := 1
	if s.fan != nil {
		pairs = len(s.fan.peers)
	}
	out := percentiles(all, s.o.Percentiles)
	for i, seconds := range out {
		out[i] = s.perMessage(seconds, pairs)
	}
	return out, nil
}

// percentiles returns those of the durations, in seconds.
func percentiles(all []time.Duration, percent []int) []float64 {
	h := stats.NewHistogram()
	for _, d := range all {
		h.Add(d)
	}
	out := make([]float64, len(percent))
	for i, q := range percent {
		out[i] = h.Percentile(float64(q)).Seconds()
	}
	return out
}

// oneByOne makes of one iteration the function that times n of them.
func oneByOne(unit func(p *Pair, size int) error) func(*Pair, int, int) ([]time.Duration, error) {
	return func(p *Pair, size, n int) ([]time.Duration, error) {
		stamps := make([]time.Duration, n+1)
		cost := clockCost(p.w)
		if err := p.sync(); err != nil {
			return nil, err
		}
		stamps[0] = p.w.Now()
		for i := range n {
			if err := unit(p, size); err != nil {
				return nil, err
			}
			stamps[i+1] = p.w.Now()
		}
		return differences(stamps, cost), nil
	}
}

// differences turns stamps into durations, less the cost of a stamp.
func differences(stamps []time.Duration, cost time.Duration) []time.Duration {
	for i := range len(stamps) - 1 {
		stamps[i] = stamps[i+1] - stamps[i] - cost
	}
	return stamps[:len(stamps)-1]
}

// clockCost is the median time between two reads of the clock. It is 0 in the simulator, whose
// clock stands still meanwhile.
func clockCost(w *banyan.World) time.Duration {
	const reads = 1001
	d := make([]time.Duration, reads)
	last := w.Now()
	for i := range d {
		now := w.Now()
		d[i], last = now-last, now
	}
	slices.Sort(d)
	return d[reads/2]
}
