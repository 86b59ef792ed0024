package fault

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan"
)

const (
	// oneIn ranks is absent in a phase.
	oneIn = 4
	// rounds are the exchanges of a phase, in bursts of so many with computing between.
	rounds, burst = 24, 6
	// pieces of memory that a rank holds, of up to pieceBytes each; they are replaced
	// without end.
	pieces, pieceBytes = 1 << 14, 1 << 10
)

// SoakRank keeps a core busy with computing and with garbage, and meanwhile talks to
// the others: in each phase a fourth of the ranks makes no call for some time, the
// others exchange messages in bursts. It fails if anybody does.
func SoakRank(w *banyan.World, o SoakOptions, out io.Writer) error {
	if err := o.Check(); err != nil {
		return err
	}
	c := w.Comm()
	if c.Size() != o.Ranks {
		return fmt.Errorf("fault soak: a job of %d ranks, not of %d", c.Size(), o.Ranks)
	}
	var stop atomic.Bool
	defer stop.Store(true)
	go litter(&stop)
	seen := Seen{Rank: c.Rank()}
	for begun := time.Now(); ; seen.Phases++ {
		on := []byte{0}
		if time.Since(begun) < o.For {
			on[0] = 1
		}
		if err := c.Bcast(on, 0); err != nil || on[0] == 0 {
			return err
		}
		if err := phase(c, o, &seen); err != nil {
			return fmt.Errorf("fault soak: rank %d, phase %d: %w", c.Rank(), seen.Phases, err)
		}
		var gc debug.GCStats
		debug.ReadGCStats(&gc)
		seen.Collections, seen.Detector = gc.NumGC, w.Counters().Detector
		told := seen
		told.Phases++
		if err := told.write(out); err != nil {
			return err
		}
	}
}

// phase is spent without a call, or in exchanges with all who are not absent.
func phase(c *banyan.Comm, o SoakOptions, seen *Seen) error {
	var present []int
	for rank := range c.Size() {
		if (rank+seen.Phases)%oneIn != oneIn-1 {
			present = append(present, rank)
		}
	}
	me := slices.Index(present, c.Rank())
	if me < 0 {
		compute(o.Absent)
		return nil
	}
	n := len(present)
	if n < 2 {
		return nil
	}
	for r := range rounds {
		if r%burst == 0 {
			compute(time.Duration(1+(c.Rank()*7+r)%13) * time.Millisecond)
		}
		d := 1 + (seen.Phases*rounds+r)%(n-1)
		to, from := present[(me+d)%n], present[(me-d+n)%n]
		size := 8 << (r % 14) // to 64 KiB: short messages, and rendezvous
		mine, its := make([]byte, size), make([]byte, size)
		mine[size-1] = byte(c.Rank() + r)
		if _, err := c.Sendrecv(mine, to, r, its, from, r); err != nil {
			return err
		}
		if its[size-1] != byte(from+r) {
			return errors.New("a message with wrong contents")
		}
		seen.Messages++
	}
	return nil
}

// compute makes no call for some time.
func compute(long time.Duration) {
	sum := 0
	for begun := time.Now(); time.Since(begun) < long; {
		for i := range 10_000 {
			sum += i * i
		}
	}
	runtime.KeepAlive(sum)
}

// litter makes garbage until it is stopped, so that a core and the collector always
// have something to do.
func litter(stop *atomic.Bool) {
	held := make([]*[]byte, pieces)
	for !stop.Load() {
		piece := make([]byte, 16+rand.N(pieceBytes))
		held[rand.N(pieces)] = &piece
	}
	runtime.KeepAlive(held)
}
