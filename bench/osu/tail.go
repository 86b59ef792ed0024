package osu

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxSingles bounds the pass for the percentiles: 8 bytes of memory each.
const maxSingles = 1 << 20

// tail times n iterations one by one and returns the percentiles, in seconds per
// message. The stamps are kept and sorted into the histogram afterwards, so the
// loop has one read of the clock more than the one for the mean and nothing else.
func (p *Pair) tail(size, n int, percentiles []int, b pass) ([]float64, error) {
	n = min(n, maxSingles)
	stamps := make([]time.Duration, n+1)
	cost := p.clockCost()
	if err := p.sync(); err != nil {
		return nil, err
	}
	stamps[0] = p.w.Now()
	for i := range n {
		if err := b.unit(p, size); err != nil {
			return nil, err
		}
		stamps[i+1] = p.w.Now()
	}
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	for i := range n {
		d := max(1, stamps[i+1]-stamps[i]-cost)
		if err := h.RecordValue(int64(d)); err != nil {
			return nil, fmt.Errorf("an iteration of %v: %w", d, err)
		}
	}
	out := make([]float64, len(percentiles))
	for i, q := range percentiles {
		d := time.Duration(h.ValueAtQuantile(float64(q)))
		out[i] = d.Seconds() / float64(b.count)
	}
	return out, nil
}

// clockCost is the median time between two reads of the clock. It is 0 in the
// simulator, whose clock stands still meanwhile.
func (p *Pair) clockCost() time.Duration {
	const reads = 1001
	d := make([]time.Duration, reads)
	last := p.w.Now()
	for i := range d {
		now := p.w.Now()
		d[i], last = now-last, now
	}
	slices.Sort(d)
	return d[reads/2]
}
