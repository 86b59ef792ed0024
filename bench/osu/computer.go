package osu

import (
	"math"
	"time"

	"github.com/banyan-hpc/banyan"
)

// computer computes for a given time. It does not look at the clock meanwhile: how much it does in a time is
// measured before, so a rank that waits for a core in the middle does not compute less.
type computer struct {
	w *banyan.World
	// rate is the number of rounds in a nanosecond; 0: time is virtual.
	rate    float64
	numbers [64]float64
}

// newComputer measures the rate. A read of the clock costs nothing where time is virtual.
func newComputer(w *banyan.World, cost time.Duration) *computer {
	c := &computer{w: w}
	if cost == 0 {
		return c
	}
	const enough, times = 200 * time.Microsecond, 5
	for rounds := 64; c.rate == 0; rounds *= 2 {
		least := time.Duration(math.MaxInt64)
		for range times {
			start := w.Now()
			c.compute(rounds)
			least = min(least, w.Now()-start)
		}
		if least >= enough {
			c.rate = float64(rounds) / float64(least)
		}
	}
	return c
}

// run computes for about so long.
func (c *computer) run(d time.Duration) {
	if c.rate == 0 {
		c.w.Sleep(d)
		return
	}
	c.compute(int(math.Round(c.rate * float64(max(0, d)))))
}

// compute does rounds of some 10 ns, of which none can be left out: each needs the one before.
func (c *computer) compute(rounds int) {
	n := &c.numbers
	for i := range rounds {
		at := i % len(n)
		n[at] = 0.5*n[at] + 0.25*n[(at+len(n)-1)%len(n)] + 1
	}
}
