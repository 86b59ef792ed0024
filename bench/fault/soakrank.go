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
	// One of so many ranks is absent in a phase.
	absentOneIn = 4
	// A phase has so many exchanges, in bursts with computing between.
	soakExchanges, soakBurst = 24, 6
	// A rank holds so many pieces of memory of up to so many bytes, and replaces them.
	soakPieces, soakPieceBytes = 1 << 14, 1 << 10
)

// Rank is the part of each rank. It keeps a core busy with computing and with garbage. In each phase a
// fourth of the ranks makes no call for some time, and the others exchange messages in bursts. It
// fails if any rank does.
func (o Soak) Rank(w *banyan.World, out io.Writer) error {
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
	for start := time.Now(); ; {
		on := []byte{0}
		if time.Since(start) < o.For && !o.Budget.Over() {
			on[0] = 1
		}
		if err := c.Bcast(on, 0); err != nil || on[0] == 0 {
			return err
		}
		if err := o.phase(c, &seen); err != nil {
			return fmt.Errorf("fault soak: rank %d, phase %d: %w", c.Rank(), seen.Phases, err)
		}
		var gc debug.GCStats
		debug.ReadGCStats(&gc)
		seen.Phases++
		seen.Collections, seen.Detector = gc.NumGC, w.Counters().Detector
		if err := reportNote(out, seen); err != nil {
			return err
		}
	}
}

// phase passes without a call, or in exchanges with all present ranks.
func (o Soak) phase(c *banyan.Comm, seen *Seen) error {
	var present []int
	for rank := range c.Size() {
		if (rank+seen.Phases)%absentOneIn != absentOneIn-1 {
			present = append(present, rank)
		}
	}
	me, n := slices.Index(present, c.Rank()), len(present)
	if me < 0 {
		compute(o.Budget.Left(o.Absent))
		return nil
	}
	if n < 2 {
		return nil
	}
	for r := range soakExchanges {
		if r%soakBurst == 0 {
			compute(time.Duration(1+(c.Rank()*7+r)%13) * time.Millisecond)
		}
		d := 1 + (seen.Phases*soakExchanges+r)%(n-1)
		to, from := present[(me+d)%n], present[(me-d+n)%n]
		size := 8 << (r % 14) // up to 64 KiB: eager messages and rendezvous
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
func compute(d time.Duration) {
	sum := 0
	for start := time.Now(); time.Since(start) < d; {
		for i := range 10_000 {
			sum += i * i
		}
	}
	runtime.KeepAlive(sum)
}

// litter makes garbage until it is stopped.
func litter(stop *atomic.Bool) {
	held := make([]*[]byte, soakPieces)
	for !stop.Load() {
		piece := make([]byte, 16+rand.N(soakPieceBytes))
		held[rand.N(soakPieces)] = &piece
	}
	runtime.KeepAlive(held)
}
