package drill

import (
	"math/rand/v2"
	"time"
)

// nap has a rank sleep for several detection time-outs.
type nap struct {
	rank int
	at   int // before this phase; -1: before it joins; the number of phases: before it finalizes
	long time.Duration
}

// napTimeout is the detector's in runs in which ranks sleep.
const (
	napVariable = "BANYAN_DETECT_TIMEOUT"
	napTimeout  = 3 * time.Second
	napMost     = 8 // most ranks of such a run: more start too slowly on a few cores
)

// drawNaps has ranks of a few runs sleep.
func (p *plan) drawNaps(r *rand.Rand) {
	if r.IntN(32) > 0 || p.n > napMost {
		return
	}
	for range 1 + r.IntN(2) {
		long := 3*napTimeout + time.Duration(r.Int64N(int64(napTimeout)/2))
		p.naps = append(p.naps, nap{r.IntN(p.n), r.IntN(len(p.phases)+2) - 1, long})
	}
}

// nap is how long a rank sleeps before a phase.
func (p *plan) nap(rank, at int) (long time.Duration) {
	for _, n := range p.naps {
		if n.rank == rank && n.at == at {
			long += n.long
		}
	}
	return long
}

// sleep is how long the ranks sleep in all: no rank sleeps longer at once.
func (p *plan) sleep() (long time.Duration) {
	for _, n := range p.naps {
		long += n.long
	}
	return long
}

// detection returns the environment variable of the detector; nil: none.
func (p *plan) detection() []string {
	if len(p.naps) == 0 {
		return nil
	}
	return []string{napVariable + "=" + napTimeout.String()}
}
