package banyan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/p2p"
	"github.com/banyan-hpc/banyan/proc"
	"github.com/banyan-hpc/banyan/progress"
)

// World is this process's membership in its job: what Init gives and Finalize
// ends.
type World struct {
	job      bootstrap
	progress *progress.Engine
	p2p      *p2p.Engine
	comm     *Comm
	origin   fabric.Time
	ended    atomic.Bool
	holders  holders // communicators with attributes
}

// bootstrap is what a world needs from whoever started the job: the launcher,
// or the simulation.
type bootstrap interface {
	Rank() int
	Size() int
	// Local lists the ranks on this machine; nil if all are.
	Local() []int
	// Address gives what a peer has published for a provider.
	Address(provider string, peer proc.ID) ([]byte, error)
	// Fence returns when every rank that is alive has called it.
	Fence(ctx context.Context) error
	// Finalize tells the launcher that this rank leaves in order.
	Finalize(ctx context.Context) error
	// Abort ends all processes of the job, this one too. It does not return.
	Abort(code int, why string)
}

// worldContext is the context id of the world's communicator.
const worldContext = 1

// newWorld puts the engine on a provider; it owns the provider afterwards, also
// on error.
func newWorld(job bootstrap, cfg progress.Config, o *options) (*World, error) {
	cfg.Self = proc.ID(job.Rank())
	cfg.Resolve = job.Address
	w := &World{job: job, progress: progress.New(cfg)}
	w.p2p = p2p.New(w.progress, !o.unaware, p2p.Limits{Eager: o.eager, Unexpected: o.early})
	core, err := w.p2p.NewComm("world", p2p.WorldGroup(job.Size()), job.Rank(), worldContext)
	if err != nil {
		return nil, errors.Join(err, w.progress.Close())
	}
	w.comm = &Comm{core: core, e: w.p2p, unaware: o.unaware, self: cfg.Self, world: w}
	core.OnError(w.comm.tell)
	if local := job.Local(); len(local) > 0 {
		w.comm.node = slices.Min(local)
	}
	w.origin = cfg.Host.Now()
	return w, nil
}

// Comm is the communicator of all ranks of the job.
func (w *World) Comm() *Comm { return w.comm }

// Now is the time since Init on the job's clock: real, or virtual in the
// simulator.
func (w *World) Now() time.Duration {
	return time.Duration(w.progress.Host().Now() - w.origin)
}

// Abort ends the job: it says why on the standard error, has the launcher end all
// ranks with an exit code, and exits with it. Ranks that were started without
// launcher are not ended, they find that this one has failed. It does not return.
func (w *World) Abort(code int, why error) {
	w.job.Abort(code, fmt.Sprintf("rank %d aborts the job: %v", w.job.Rank(), why))
}

// Finalize ends this process's membership. It returns when what was sent has
// been handed over and every rank that is alive has called it, so that nobody
// takes the departure for a failure. Requests that have not been waited for
// are lost. Calling it again does nothing.
//
// First the attributes of all communicators are deleted that have not been freed;
// the one that came to have attributes last is the first. Everything that is begun
// on a communicator afterwards is ErrClosed.
func (w *World) Finalize() error {
	if w.ended.Swap(true) {
		return nil
	}
	lost := w.holders.close()
	w.p2p.Flush()
	w.p2p.Close()
	err := w.fence()
	w.progress.Depart()
	return errors.Join(lost, err, w.progress.Close(), w.job.Finalize(context.Background()))
}

// fence waits for the others and makes progress meanwhile: they may still wait
// for us.
func (w *World) fence() error {
	var done progress.Completion
	var err error
	w.progress.Host().Go(func() {
		err = w.job.Fence(context.Background())
		w.progress.Lock()
		done.Finish()
		w.progress.Kick()
		w.progress.Unlock()
	})
	w.progress.Lock()
	w.progress.Wait(&done)
	w.progress.Unlock()
	if err != nil && !tolerable(err) {
		return fmt.Errorf("finalize: %w", err)
	}
	return nil
}
