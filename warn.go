package banyan

import (
	"context"
	"fmt"
	"os"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/proc"
)

// warnOf says why a rank is counted as dead that is not known to have ended. Who shares
// its machine kills it, and without this line a signal of nobody's would be all that is seen of it.
func warnOf(job bootstrap, timeout fabric.Time) func(proc.ID) {
	return func(peer proc.ID) {
		job.Warn(fmt.Sprintf("nothing was heard of rank %d for longer than detect.timeout (%.4gs), though all were asked: "+
			"it counts as dead, and is ended if it was only stopped or starved; BANYAN_DETECT_TIMEOUT allows longer silences",
			peer, float64(timeout)/1e9))
	}
}

// Warn implements bootstrap. Somebody may hold the standard error up, so it has a goroutine.
func (l *launched) Warn(text string) {
	l.warnings.Go(func() { fmt.Fprintf(os.Stderr, "banyan: rank %d: %s\n", l.Rank(), text) })
}

// Finalize implements bootstrap: it lets warnings out first.
func (l *launched) Finalize(ctx context.Context) error {
	l.warnings.Wait()
	return l.Job.Finalize(ctx)
}

// Warn implements bootstrap. Nobody watches a simulated job but the test that looks at what
// its operations return.
func (b bench) Warn(string) {}
