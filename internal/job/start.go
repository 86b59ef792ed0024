package job

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

// Init joins the job that started this process, or makes a job of one rank. It returns when all
// ranks have called it. An error that names ranks is a *join.MissingError.
func Init(ctx context.Context, o Options) (*Job, error) {
	if _, err := o.allowed(os.Getenv); err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	o.verbose(os.Getenv)
	set, err := settings.Load(settings.Here())
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	c, err := o.configure(set)
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	o.logSettings(set)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("banyan: the start was not attempted: %w", err)
	}
	quit := reportOnQuit()
	link, err := join.Join(ctx)
	if err != nil {
		quit.stop()
		return nil, fmt.Errorf("banyan: %w%s", err, cureOf(err))
	}
	if c.Log != nil {
		c.Log = c.Log.With("rank", link.Rank())
	}
	quit.known(fmt.Sprintf("banyan: rank %d: ", link.Rank()))
	j, err := start(ctx, link, c, set)
	if err != nil {
		quit.stop()
		return nil, fmt.Errorf("banyan: rank %d: %w%s", link.Rank(), err, cureOf(err))
	}
	j.quit = quit
	quit.job.Store(j)
	joined.Store(j)
	return j, nil
}

// start publishes this rank's card, reads the topology, and opens the providers.
func start(ctx context.Context, link *join.Job, c *config, set *settings.Set) (j *Job, err error) {
	l := &launched{launcher: link, key: firstCard, log: c.Log, connLog: newConnLog(c.Log)}
	cfg := progress.Config{Routed: l.connLog.ofRoutes()}
	var ends *exits.Table
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(&cfg), closeExits(ends))
		}
	}()
	if l.self, err = here(&c.Options, link); err != nil {
		return nil, err
	}
	l.self.Debug, l.self.Algorithms = c.debug, c.sumOfAlgorithms()
	if err := futex.Probe(); err != nil {
		return nil, err
	}
	var bell *futex.Pull
	if l.self.Allowed.Has(route.Shm) {
		sc := shmConfig(set)
		sc.Self, sc.MaxProcs, sc.Log = proc.ID(link.Rank()), link.Size(), l.connLog.ofMemory()
		sc.Warn, sc.Node = l.warnf, findNode(link.Size(), c.Log)
		if ends = l.openExits(); ends != nil {
			sc.Exits = ends
		}
		if cfg.Shm, err = shm.Open(sc); err != nil && !l.doesWithout(err) {
			return nil, fmt.Errorf("%w (%s=unix,tcp does without shared memory)", err, fabricVariable)
		}
	}
	if cfg.Shm != nil {
		l.self.Addresses = []route.Address{{Provider: cfg.Shm.Name(), Blob: cfg.Shm.Address()}}
		bell, l.memory = cfg.Shm.Bell(), cfg.Shm
	}
	l.denied(set)
	if err := l.exchange(ctx); err != nil {
		return nil, err
	}
	l.shareNode(cfg.Shm)
	c.detector.adapt(l.nodes, c.Log)
	h := host.New(host.Config{
		Bell: bell, Shared: l.nodes.Crowded(l.Node(link.Rank())), Ranks: l.nodes.Ranks(l.Node(link.Rank())),
		Spins: unlessAuto(set.Int(settings.Spins)), Yields: unlessAuto(set.Int(settings.Yields)),
	})
	cfg.Host, l.host = h, h
	sockets, err := l.sockets(ctx, c, set, h)
	if err != nil {
		return nil, err
	}
	if sockets != nil {
		cfg.Others = []fabric.Provider{sockets}
	}
	if err := enoughFiles(link.Size()); err != nil {
		return nil, err
	}
	if j, err = newJob(l, cfg, c); err == nil {
		j.exits = ends
		j.reportLost(l.lost)
		_, _ = warm.Code() // without it failures are noticed a little later
	}
	return j, err
}

// shareNode sets the number of this node's ranks in shared memory.
func (l *launched) shareNode(p *shm.Provider) {
	if p != nil {
		p.Share(l.nodes.Ranks(l.Node(l.Rank())))
	}
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
