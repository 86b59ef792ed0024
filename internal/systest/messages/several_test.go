package messages

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func TestSeveralWithProcesses(t *testing.T) { ranktest.Succeed(t, 2, "several") }

func TestModesWithProcesses(t *testing.T) {
	for _, env := range [][]string{nil, {ranktest.EagerEnv + "=50000"}, {ranktest.NoCopyEnv + "=1"}} {
		ranktest.Succeed(t, 2, "modes", env...)
	}
}

// several lets goroutines of both ranks wait for the first of many, at the same
// time, and counts what the last rounds allocate.
func several(w *banyan.World) error {
	c := w.Comm()
	const goroutines, rounds = 4, 400
	errs := make(chan error, 2*goroutines)
	var before, after runtime.MemStats
	halves := make(chan struct{}, goroutines)
	for g := range goroutines {
		go func() {
			errs <- firstOfMany(c, g*100, rounds)
			halves <- struct{}{}
			errs <- firstOfMany(c, g*100, rounds)
		}()
	}
	for range goroutines {
		<-halves
	}
	runtime.ReadMemStats(&before)
	var err error
	for range 2 * goroutines {
		err = errors.Join(err, <-errs)
	}
	runtime.ReadMemStats(&after)
	// Each round has a dozen calls. What firstOfMany itself makes, and the
	// parkers of goroutines, are some hundreds.
	if n := after.Mallocs - before.Mallocs; n > goroutines*rounds/2 {
		err = errors.Join(err, fmt.Errorf("%d allocations in %d rounds", n, goroutines*rounds))
	}
	return err
}

func firstOfMany(c *banyan.Comm, tag, rounds int) error {
	const n = 6
	bufs, reqs := make([][]byte, n), make([]banyan.Request, 0, 2*n)
	sends := make([]*banyan.Persistent, n)
	for i := range bufs {
		bufs[i] = make([]byte, ranktest.Sizes[i%4])
		sends[i] = c.SendInit(ranktest.Pattern(c.Rank(), ranktest.Sizes[i%4]), 1-c.Rank(), tag+i)
	}
	for range rounds {
		reqs = reqs[:0]
		for i, p := range sends {
			reqs = append(reqs, c.Irecv(bufs[i], 1-c.Rank(), tag+i), p.Start())
		}
		for range reqs {
			i, st, err := banyan.WaitAny(reqs)
			if err != nil {
				return err
			}
			if i < 0 || i%2 == 0 && st.Count != len(bufs[i/2]) {
				return fmt.Errorf("request %d: %+v", i, st)
			}
		}
		if i, _, err := banyan.WaitAny(reqs); i >= 0 || err != nil {
			return fmt.Errorf("one too many: %d, %w", i, err)
		}
	}
	return nil
}
