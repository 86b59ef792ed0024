package banyan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// World is this process's membership in its job: what Init gives and Finalize
// ends.
type World struct {
	job      bootstrap
	progress *progress.Engine
	p2p      *p2p.Engine
	comm     *Comm
	self     proc.ID
	node     int // the lowest rank of the job on this machine
	origin   fabric.Time
	ended    atomic.Bool
	once     sync.Once // of Finalize
	final    error     // what it returns; written within once
	holders  holders   // communicators with attributes
	notice   *p2p.Comm // see finalize.go
	counting []counting
	ends     *exits.Table   // nil: the kernel's record is not to be had
	pulse    *control.Pulse // nil: there is no failure detector
	finding  Detection
	repair   *repair.Repair
	control  controls
	logf     func(format string, args ...any) // nil: nobody listens
}

// controls are the failure protocols of this rank but for the detector.
type controls struct {
	out         *control.Outbox
	agreements  *control.Agreements
	revocations *control.Revocations
}

// startControl has this rank take part in agreements and revocations. It is called after p2p has been
// made, which learns of deaths first, and before frames can arrive.
func (w *World) startControl(shm *shm.Provider) {
	c := &w.control
	w.progress.OnEnd(w.apart)
	c.out = control.NewOutbox(w.progress, w.logf)
	shape := agree.Binomial
	if w.job.Crowded() {
		shape = agree.Shallow
	}
	c.agreements = control.StartAgreements(w.progress, shape, c.out, w.logf)
	if shm != nil {
		c.agreements.Use(shm.Boards())
	}
	c.revocations = control.StartRevocations(w.progress, c.out, w.p2p.RevokeContext, w.p2p.RevokeUnmade)
	w.p2p.OnRevoke(func(o *p2p.Comm) {
		c.revocations.Tell(o.Context(), o.Members())
	})
	w.repair = repair.New(w.progress, c.agreements)
	w.p2p.OnRevoked(w.repair.Revoked)
	w.repair.OnForsaken(w.forsaken, func(id proc.ID) bool { return w.pulse != nil && w.pulse.Ended(id) })
}

// startShared lets small collectives go through shared memory.
func (w *World) startShared(shm *shm.Provider, f flatness) {
	var segments sm.Segments
	if shm != nil && f == flatHere {
		segments = shm.Boards()
	}
	w.comm.coll.Shared = sm.New(w.progress, segments, w.comm.coll.Node)
}

// flushPatience is how long a rank that leaves waits for one that lives and takes nothing.
const flushPatience = fabric.Time(10 * time.Second)

// flush hands over what others wait for: what has been decided, and what has been revoked.
func (w *World) flush() {
	w.progress.Lock()
	left := w.control.out.Flush(flushPatience)
	w.progress.Unlock()
	for _, id := range left {
		w.job.Warn(fmt.Sprintf("rank %d has finalized although rank %d has taken nothing for %v: what has been agreed on or revoked may not have "+
			"reached it; it is stopped, or makes no progress: WithAsyncProgress, or a failure detector, does for it", w.job.Rank(), id, time.Duration(flushPatience)))
	}
}

// stop ends them, for a rank that departs.
func (c *controls) stop(e *progress.Engine) {
	e.Lock()
	defer e.Unlock()
	c.agreements.Stop()
	c.revocations.Stop()
	c.out.Stop()
}

// bootstrap is what a world needs from whoever started the job: the launcher,
// or the simulation.
type bootstrap interface {
	Rank() int
	Size() int
	// Node numbers the nodes: equal for ranks that can share memory.
	Node(rank int) int
	// Crowded: all ranks are on one node and share its cores. All of them have the same answer.
	Crowded() bool
	// Verdicts says of each fabric whether it joins this rank and a peer; nil in
	// the simulator.
	Verdicts(peer proc.ID) ([]route.Verdict, error)
	// Address gives what a peer has published for a provider.
	Address(provider string, peer proc.ID) ([]byte, error)
	// Fence returns when every rank that is alive has called it.
	Fence(ctx context.Context) error
	// SparesDead reports whether Fence completes without ranks that have died.
	SparesDead() bool
	// Finalize tells the launcher that this rank leaves in order.
	Finalize(ctx context.Context) error
	// Warn tells whoever watches the job something that concerns it. It does not
	// wait for them.
	Warn(text string)
	// Expire ends this process because it must not go on. It does not return.
	Expire(why error)
	// Abort ends all processes of the job, this one too. It does not return.
	Abort(code int, why string)
}

// The context ids of the world's communicator, and of the one on which ranks
// tell each other not to wait for the last fence.
const (
	worldContext = 1 + iota
	noticeContext
)

// newWorld puts the engine on a provider; it owns the provider afterwards, also
// on error.
func newWorld(job bootstrap, cfg progress.Config, o *options) (*World, error) {
	cfg.Self = proc.ID(job.Rank())
	cfg.Resolve = job.Address
	w := &World{job: job, self: cfg.Self, node: job.Node(job.Rank()), progress: progress.New(cfg), counting: countingOf(&cfg), logf: o.logf}
	w.finding = findings(&o.pulse, &cfg, job.Size() == 1)
	w.p2p = p2p.New(w.progress, !o.unaware, p2p.Limits{Eager: o.eager, Unexpected: o.early})
	w.p2p.SetProfile(o.profile)
	core, err := w.p2p.NewComm("world", p2p.WorldGroup(job.Size()), job.Rank(), worldContext)
	if err != nil {
		return nil, errors.Join(err, w.progress.Close())
	}
	w.comm = &Comm{core: core, e: w.p2p, mode: modeOf(o.unaware), world: w}
	core.OnError((*listener)(w.comm))
	if o.fatal {
		w.comm.SetErrorHandler(ErrorsAreFatal)
	}
	w.comm.coll.Choice = o.trees
	w.comm.coll.World = &coll.World{Node: func(p proc.ID) int { return job.Node(int(p)) }}
	if w.notice, err = w.p2p.NewComm("notice", p2p.WorldGroup(job.Size()), job.Rank(), noticeContext); err != nil {
		return nil, errors.Join(err, w.progress.Close())
	}
	w.startControl(cfg.Shm)
	if o.flat != flatNowhere {
		w.startShared(cfg.Shm, o.flat)
	}
	if !o.pulse.on {
		w.control.agreements.Meet()
	}
	w.observe(&o.pulse, cfg.Host)
	if o.async == asyncOn {
		w.progress.Attend()
	}
	w.origin = cfg.Host.Now()
	return w, nil
}

// Comm is the communicator of all ranks of the job.
func (w *World) Comm() *Comm {
	if w == nil {
		return nil
	}
	return w.comm
}

// Now is the time since Init on the job's clock: real, or virtual in the
// simulator.
func (w *World) Now() time.Duration {
	if w.absent() {
		return 0
	}
	return time.Duration(w.progress.Host().Now() - w.origin)
}

// Sleep returns when d has passed on that clock. Like an application that
// computes, it makes no progress meanwhile.
func (w *World) Sleep(d time.Duration) {
	if !w.absent() {
		w.progress.Host().Pause(fabric.Time(max(d, 0)))
	}
}

// Abort ends the job: it says why on the standard error, has the launcher end all
// ranks with an exit code, and exits with it. Ranks that were started without
// launcher are not ended, they find that this one has failed. It does not return.
func (w *World) Abort(code int, why error) {
	if w.absent() {
		nobody{}.Abort(code, fmt.Sprintf("a process that has not joined aborts: %v", why))
	}
	w.job.Abort(code, fmt.Sprintf("rank %d aborts the job: %v", w.job.Rank(), why))
}
