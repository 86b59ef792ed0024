package banyan

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/internal/settings"
	"github.com/banyan-hpc/banyan/internal/warm"
)

// Init makes this process a rank of the job that started it, or a world of one
// if nobody did. Without launcher, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
// say which rank of which job it is (see package launch). Thresholds and sizes of
// buffers that the options leave open come from the environment and the files
// that docs/tuning.md describes; what is wrong there is an error. It returns when all ranks have called it. A rank that does
// not come, or dies before all have come, is named in the error (errors.As with
// *join.MissingError). One that dies later in the start does not keep the others from starting:
// the operations that need it are ErrProcFailed.
func Init(opts ...Option) (*World, error) { return InitContext(context.Background(), opts...) }

// InitContext is Init that ends with the context. A process joins its job once:
// when it has been given up, it is not tried again.
func InitContext(ctx context.Context, opts ...Option) (*World, error) {
	if ctx == nil {
		return nil, fmt.Errorf("banyan: %w", errNoContext)
	}
	o, err := gather(opts)
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	if _, err := o.allowed(os.Getenv); err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	as := o.speak(os.Getenv)
	set, err := o.set(settings.Here())
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	o.tell(set)
	o.apply(set)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("banyan: the start was not begun: %w", err)
	}
	job, err := join.Join(ctx)
	if err != nil {
		return nil, fmt.Errorf("banyan: %w%s", err, cureOf(err))
	}
	as(job.Rank())
	w, err := start(ctx, job, &o, set)
	if err != nil {
		return nil, fmt.Errorf("banyan: rank %d: %w%s", job.Rank(), err, cureOf(err))
	}
	return w, nil
}

// start publishes where this rank stands, learns where the others do, and opens what
// it takes to reach them.
func start(ctx context.Context, job *join.Job, o *options, set *settings.Set) (w *World, err error) {
	l := &launched{launcher: job, key: firstCard, logf: o.logf, remarks: newRemarks(o.logf)}
	cfg := progress.Config{Routed: l.remarks.ofRoutes()}
	var ends *exits.Table
	defer func() {
		if err != nil && w == nil {
			err = errors.Join(err, closeAll(&cfg), closeEnds(ends))
		}
	}()
	if l.self, err = here(o, job); err != nil {
		return nil, err
	}
	if err := futex.Probe(); err != nil {
		return nil, err
	}
	var bell *futex.Pull
	if l.self.Allowed.Has(route.Shm) {
		sc := o.shmConfig(set)
		sc.Self, sc.MaxProcs, sc.Logf = proc.ID(job.Rank()), job.Size(), l.remarks.ofMemory()
		sc.Warn = l.warnf
		if ends = openEnds(job.Size(), o.logf); ends != nil {
			sc.Exits = ends
		}
		if cfg.Shm, err = shm.Open(sc); err != nil && !l.doesWithout(err) {
			return nil, fmt.Errorf("%w (%s=unix,tcp does without shared memory)", err, fabricVariable)
		}
	}
	if cfg.Shm != nil {
		l.self.Addresses = []route.Address{{Provider: cfg.Shm.Name(), Blob: cfg.Shm.Address()}}
		bell = cfg.Shm.Bell()
	}
	l.denied(set)
	if err := l.exchange(ctx); err != nil {
		return nil, err
	}
	o.pulse.adapt(l.nodes, o.logf)
	h := host.New(host.Config{
		Bell: bell, Shared: l.nodes.Crowded(l.Node(job.Rank())),
		Spins: unlessAuto(set.Int(settings.Spins)), Yields: unlessAuto(set.Int(settings.Yields)),
	})
	cfg.Host, l.host = h, h
	sockets, err := l.sockets(ctx, o, set, h)
	if err != nil {
		return nil, err
	}
	if sockets != nil {
		cfg.Others = []fabric.Provider{sockets}
	}
	if err := enoughFiles(job.Size()); err != nil {
		return nil, err
	}
	if w, err = newWorld(l, cfg, o); err == nil {
		w.ends = ends
		mourn(w.progress, l.lost)
		_, _ = warm.Code() // without it deaths are told of a little later
	}
	return w, err
}

// closeAll closes the providers of an engine that is not made.
func closeAll(cfg *progress.Config) error {
	var errs []error
	if cfg.Shm != nil {
		errs = append(errs, cfg.Shm.Close())
	}
	for _, p := range cfg.Others {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// tolerable reports whether an error of the last fence is no concern of an
// application that finishes: ranks that died before they came, or a launcher
// that is gone.
func tolerable(err error) bool {
	var missing *join.MissingError
	return errors.As(err, &missing) || errors.Is(err, join.ErrLauncherGone)
}
