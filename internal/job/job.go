package job

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/heap"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
	"github.com/banyan-hpc/banyan/p2p/rma"
)

// Job is one rank's part of a job. The exported fields are set by the constructor and do not change.
type Job struct {
	Self     proc.ID
	Progress *progress.Engine
	P2P      *p2p.Engine
	Repair   *repair.Repair
	Windows  *rma.Service
	Heap     *heap.Heap
	World    *p2p.Comm   // all ranks of the job
	Trees    coll.Choice // of World
	Coll     *coll.World // for the collectives of all communicators
	Unaware  bool
	Fatal    bool // errors on World abort the job by default
	Debug    bool // calls are checked for mistakes of the program

	boot        bootstrap
	origin      fabric.Time
	notice      *p2p.Comm // see Finalize
	sockets     []*tcp.Provider
	exits       *exits.Table    // nil: the kernel's record is not available
	detector    *control.Driver // nil: there is no failure detector
	outbox      *control.Outbox // of agreements and revocations
	agreements  *control.Agreements
	corrected   *control.Corrected
	revocations *control.Revocations
	detection   Detection
	log         *slog.Logger // nil: no log

	finalizing atomic.Bool
	once       sync.Once   // of Finalize
	quit       *quitReport // nil in a simulation
	final      error       // the result of Finalize; written within once
}

// The context ids of World, and of the communicator on which ranks release each other from the last
// fence.
const (
	worldContext = 1 + iota
	noticeContext
	detachedContext
	selfContext // of rank 0; the other ranks' follow
)

// Alone makes a communicator of this rank alone.
func (j *Job) Alone(name string) *p2p.Comm {
	for ctx := uint32(selfContext + j.Rank()); ; ctx += proc.MaxIDs {
		if c, err := j.P2P.NewComm(name, p2p.NewGroup([]proc.ID{j.Self}), 0, ctx); err == nil {
			return c
		} // by chance a communicator of the application has the context
	}
}

// newJob builds the stack on the providers of cfg, which it owns afterwards, also on error.
func newJob(boot bootstrap, cfg progress.Config, c *config) (*Job, error) {
	cfg.Self = proc.ID(boot.Rank())
	cfg.Resolve = boot.Address
	j := &Job{
		Self: cfg.Self, Progress: progress.New(cfg), Trees: c.trees, Unaware: c.Unaware, Fatal: c.fatal, Debug: c.debug,
		boot: boot, sockets: socketsOf(&cfg), log: c.Log, detection: c.detector.describe(&cfg, boot.Size() == 1),
	}
	if j.onOneNode() {
		j.Progress.PostponeEnds()
	}
	// The end of a peer is reported to these parts in this order, which each joins when it starts.
	// Messages come first: the actions of the others find the communicators marked and the requests
	// ended. On one node a failure is reported to agreements and the parts behind them after an operation
	// that waits has returned. An unreachable peer comes before agreements, as this rank may have to exit before its
	// contribution could name the peer. The detector is last: it informs other ranks.
	for _, start := range []func(*progress.Config, *config) error{
		j.startMessages, j.startUnreachable, j.startAgreements, j.startRevocations, j.startDetector, j.startDryRun,
	} {
		if err := start(&cfg, c); err != nil {
			return nil, errors.Join(err, j.Progress.Close())
		}
	}
	if c.async {
		j.Progress.StartAsync()
	}
	j.origin = cfg.Host.Now()
	return j, nil
}

// startMessages starts point-to-point communication.
func (j *Job) startMessages(cfg *progress.Config, c *config) (err error) {
	j.P2P = p2p.New(j.Progress, !c.Unaware, c.limits)
	j.P2P.SetProfile(c.Profile)
	blocks := blocksOf(cfg)
	j.Windows, j.Heap = rma.New(j.Progress, j.P2P, blocks, sharerOf(cfg), !c.Unaware), j.newHeap(blocks, cfg.Others, c)
	if j.World, err = j.P2P.NewComm("world", p2p.WorldGroup(j.Size()), j.Rank(), worldContext); err != nil {
		return err
	}
	j.Coll = &coll.World{
		Node: j.NodeOfProc, Agreement: (*uniform)(j), Unaware: c.Unaware, Crowded: j.onOneNode() && j.boot.Crowded(),
	}
	if c.segments != noSegments && !c.debug {
		var segments sm.Segments
		if cfg.Shm != nil && c.segments == ownSegments {
			segments = cfg.Shm.Boards()
		}
		j.Coll.Shared = sm.New(j.Progress, segments, j.NodeOfProc)
	}
	if !j.boot.SparesDead() { // see fence
		j.notice, err = j.P2P.NewComm("notice", p2p.WorldGroup(j.Size()), j.Rank(), noticeContext)
	}
	return err
}

// sharerOf is the provider whose adapter lets peers reach memory, or nil.
func sharerOf(cfg *progress.Config) fabric.Sharer {
	for _, p := range cfg.Others {
		if s, ok := p.(fabric.Sharer); ok {
			return s
		}
	}
	return nil
}

// blocksOf is the provider over which processes share memory, or nil.
func blocksOf(cfg *progress.Config) fabric.Blocks {
	if cfg.Shm != nil {
		return cfg.Shm
	}
	for _, p := range cfg.Others {
		if b, ok := p.(fabric.Blocks); ok {
			return b
		}
	}
	return nil
}

// startUnreachable starts the rule for pairs of ranks that cannot reach each other.
func (j *Job) startUnreachable(*progress.Config, *config) error {
	j.Progress.OnEnd(j.peerUnreachable)
	return nil
}

// startAgreements starts agreements and repair.
func (j *Job) startAgreements(cfg *progress.Config, c *config) error {
	j.outbox = control.NewOutbox(j.Progress, j.log)
	j.agreements = control.StartAgreements(j.Progress, j.agreementShape(), j.outbox, j.log)
	if cfg.Shm != nil {
		j.agreements.Use(cfg.Shm.Boards())
	}
	j.startCorrected()
	if !c.detector.on {
		j.agreements.ConnectAwaited()
		j.corrected.ConnectAwaited()
	}
	j.Repair = repair.New(j.Progress, j.agreements)
	j.P2P.OnRevoked(j.Repair.Revoked)
	j.Repair.OnUnreachable(j.exitUnreachable, func(id proc.ID) bool { return j.detector != nil && j.detector.Ended(id) })
	return nil
}

// agreementShape is the shape of the tree of agreements, the same at all ranks.
func (j *Job) agreementShape() agree.Shape {
	shape := agree.Binomial
	if j.boot.Crowded() {
		shape = agree.Shallow
	}
	if j.boot.ByNode() {
		shape.Node = j.NodeOfProc
	}
	return shape
}

// startCorrected starts collectives that failures do not end.
func (j *Job) startCorrected() {
	j.corrected = control.StartCorrected(j.Progress, j.outbox, control.Comms{
		Members: func(context uint32) agree.Group {
			if g := j.P2P.CollMembers(context); g != nil {
				return g
			}
			return nil
		},
		GaveUp: j.P2P.GaveUpColl,
	}, j.log)
	j.Coll.Corrected = j.corrected
	j.P2P.OnGaveUp(j.corrected.GaveUp)
	j.P2P.OnRevoked(func(c *p2p.Comm) {
		if w := c.CollMade(); w != nil {
			j.corrected.Abandon(w.Context())
		}
	})
	j.P2P.OnCollFreed(func(w *p2p.Comm, validated bool) {
		if validated {
			j.corrected.Abandon(w.Context())
		} else {
			j.corrected.Free(w.Context())
		}
	})
}

// startRevocations starts the broadcast of revocations.
func (j *Job) startRevocations(*progress.Config, *config) error {
	j.revocations = control.StartRevocations(j.Progress, j.outbox, j.P2P.RevokeContext, j.P2P.RevokeUnmade)
	j.P2P.OnRevoke(func(o *p2p.Comm) { j.revocations.Notify(o.Context(), o.Members()) })
	return nil
}

// stopControl stops agreements and revocations. A rank that departs takes part in none.
func (j *Job) stopControl() {
	j.Progress.Lock()
	defer j.Progress.Unlock()
	j.Progress.FinishEnds()
	j.agreements.Stop()
	j.corrected.Stop()
	j.revocations.Stop()
	j.outbox.Stop()
}

// reportLost enters the ranks that died during the start in the job's view of failures.
func (j *Job) reportLost(ranks []int) {
	j.Progress.Lock()
	defer j.Progress.Unlock()
	for _, rank := range ranks {
		j.Progress.Report(proc.ID(rank), proc.Cause{Kind: proc.Unknown})
	}
}

// Rank is this process's rank in the job.
func (j *Job) Rank() int { return j.boot.Rank() }

// Size is the number of ranks.
func (j *Job) Size() int { return j.boot.Size() }

// NodeOf is the number of the node of a rank: equal for ranks that can share memory.
func (j *Job) NodeOf(rank int) int { return j.boot.Node(rank) }

func (j *Job) onOneNode() bool {
	for rank := range j.Size() {
		if j.NodeOf(rank) != j.Node() {
			return false
		}
	}
	return true
}

// Now is the time since the job was joined.
func (j *Job) Now() time.Duration { return time.Duration(j.Progress.Host().Now() - j.origin) }

// Sleep returns when d has passed on the job's clock. It makes no progress.
func (j *Job) Sleep(d time.Duration) { j.Progress.Host().Pause(fabric.Time(max(d, 0))) }

// Abort ends all ranks. It does not return.
func (j *Job) Abort(code int, why error) {
	j.boot.Abort(join.ExitStatus(code), fmt.Sprintf("rank %d aborts the job: %s", j.Rank(), ft.Bare(why)))
}

// Finalizing reports whether Finalize has been called.
func (j *Job) Finalizing() bool { return j.finalizing.Load() }

// Log logs an event, if there is a log.
func (j *Job) Log(text string, attrs ...any) {
	if j.log != nil {
		j.log.Info(text, attrs...)
	}
}

// Sockets gives the counters of the socket providers. Any goroutine may call it at any time.
func (j *Job) Sockets() (sum []tcp.Stats) {
	for _, p := range j.sockets {
		sum = append(sum, p.Stats())
	}
	return sum
}

// DetectorStats gives the counters of the failure detector; zero without one.
func (j *Job) DetectorStats() detect.Stats {
	if j.detector == nil {
		return detect.Stats{}
	}
	return j.detector.Stats()
}

func socketsOf(cfg *progress.Config) (out []*tcp.Provider) {
	for _, p := range cfg.Others {
		if s, ok := p.(*tcp.Provider); ok {
			out = append(out, s)
		}
	}
	return out
}

// NodeOfProc is NodeOf by process id.
func (j *Job) NodeOfProc(id proc.ID) int { return j.boot.Node(int(id)) }

// Node is the number of this rank's node.
func (j *Job) Node() int { return j.boot.Node(j.Rank()) }

// joined is the result of Init; see Joined.
var joined atomic.Pointer[Job]

// Joined is the job that this process has joined; nil if it has not. It is for the harnesses of this
// project, which ask for more than the public interface offers.
func Joined() *Job { return joined.Load() }

// Published is the address that this rank has published for a provider, "shm" or "tcp"; nil if there
// is none.
func (j *Job) Published(provider string) []byte {
	if j == nil {
		return nil
	}
	if l, ok := j.boot.(*launched); ok {
		return l.self.Address(provider)
	}
	return nil
}
