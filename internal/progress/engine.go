package progress

import (
	"errors"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Resolver finds the address by which a provider reaches a peer. It may ask the launcher; it is
// called without the engine's lock. An error of class fabric.ErrNoPath contains the reason why this
// provider does not connect the pair, and the next provider is tried: both processes must get the
// same answer. fabric.ErrPeerGone means that the peer has ended, fabric.ErrNoAddress that its
// address is not known anywhere. Any other error ends the attempt.
type Resolver func(provider string, peer proc.ID) ([]byte, error)

// Config assembles an engine.
type Config struct {
	Self proc.ID
	Host fabric.Host
	// Shm is the shared-memory provider, or nil.
	Shm *shm.Provider
	// Others are further providers. The first that can, Shm before them, joins a pair: see
	// routes.go.
	Others  []fabric.Provider
	Resolve Resolver
	// Sparse saves memory where one process of the operating system has thousands of engines: tables by
	// process and by rank grow with the peers in use only, and a message takes a map lookup more.
	Sparse bool
	// Routed is called with each endpoint that gets a connection, once, with the lock held; may be
	// nil.
	Routed func(*Endpoint)
}

// Engine drives all communication of one process. Any goroutine may call its methods, unless they
// have a precondition on the lock.
type Engine struct {
	lock
	self         proc.ID
	host         fabric.Host
	shm          *shm.Provider
	others       []*other
	bursters     []fabric.Burster  // of others
	media        []fabric.Provider // that reach other processes, in order of preference
	loopback     *loopback
	resolve      Resolver
	sparse       bool
	routed       func(*Endpoint)
	sink         fabric.Sink // of shared memory and of the loopback
	endpoints    table
	view         ft.View
	timers       timers
	ended        []func(*Endpoint, proc.Cause)
	endedLater   []func(*Endpoint, proc.Cause)
	ends         []peerEnd  // of which the listeners in endedLater have not been told
	finishing    bool       // FinishEnds runs
	postponeEnds bool       // see PostponeEnds
	stalled      func() int // retries frames that were refused credit
	backlogs     []func() (sent int, left bool)
	backlogged   bool     // frames of the control classes wait for credit
	deferred     []func() // functions for the next round
	watchers     []*Watcher
	newWatcher   bool // a watcher was added since the process last went to sleep

	spins, yields    int
	yieldMost        fabric.Time // longest time of yields without result; Forever: their number decides
	crowded          bool        // the processes of this node share cores
	awaitLooks       int         // number of times that Await polls one peer awaitSpins times
	awaitSpins       int
	lull             lull
	turns            uint   // calls of Turn
	longWait         func() // see OnLongWait
	pollsLong        bool   // the provider for shared memory knows that this process polls
	vain, vainBefore int    // checks for deaths since the last event: see polledInVain
	background       int    // events of the last round for which no goroutine waits: see HandleBackground
	rounds, stride   uint64 // the clock is read every stride rounds
	progressing      bool   // a goroutine is in drive
	asleep           bool   // it, or the progress goroutine, has released the lock to sleep at the bell
	waiting          int    // goroutines in Wait
	parked           *Completion
	woken            int            // parked goroutines that are finished and have not run since
	pollGap, gapLeft int            // see pollOthers
	idlePolls        int            // polls of the others in a row without an event
	async            *asyncProgress // nil without asynchronous progress
	jobs             []*Job
	running          int    // jobs that run without the lock
	started          uint64 // jobs that have started
	closed           bool
}

// ErrClosed is the error of operations after Close.
var ErrClosed = errors.New("progress: the engine is closed")

// New makes the engine. The engine owns the providers from then on.
func New(cfg Config) *Engine {
	e := &Engine{
		self: cfg.Self, host: cfg.Host, shm: cfg.Shm,
		resolve: cfg.Resolve, routed: cfg.Routed, sparse: cfg.Sparse,
	}
	e.spins, e.yields, e.yieldMost = cfg.Host.Patience()
	e.crowded = e.yieldMost != fabric.Forever
	e.patientAwait(e.spins)
	e.stride = 1 // without spinning, reading the clock costs little in comparison
	if e.spins > 0 {
		e.stride = timerStride
	}
	e.loopback = newLoopback(cfg.Self, e.Kick)
	e.media = cfg.Others
	if e.shm != nil {
		e.bindSink(&e.sink, e.shm)
		e.media = append([]fabric.Provider{e.shm}, cfg.Others...)
	}
	for _, p := range cfg.Others {
		o := &other{Provider: p}
		e.bindSink(&o.sink, p)
		e.others = append(e.others, o)
		if b, ok := p.(fabric.Burster); ok {
			e.bursters = append(e.bursters, b)
		}
	}
	e.endpoints.sparse = e.sparse
	return e
}

// Handle registers the function that gets the frames of a class, with the lock held. The payload is
// borrowed until it returns. Call it before the first frame can arrive.
func (e *Engine) Handle(class fabric.Class, fn func(from proc.ID, imm uint64, payload []byte)) {
	for s := range e.sinks {
		s.Deliver[class] = fn
	}
}

// HandleBackground is Handle for frames that no operation waits for, such as heartbeats: a process
// that has slept until one came sleeps again at once, since no other frames are to be expected.
func (e *Engine) HandleBackground(class fabric.Class, fn func(from proc.ID, imm uint64, payload []byte)) {
	e.Handle(class, func(from proc.ID, imm uint64, payload []byte) {
		e.background++
		fn(from, imm, payload)
	})
}

// KeepsBursts reports whether EndBursts may have something to do. Any goroutine may call it.
func (e *Engine) KeepsBursts() bool { return len(e.bursters) > 0 }

// EndBursts sends the frames that providers keep back for others that may follow. It reports whether all
// accepted frames have left this process. Precondition: the lock is held.
func (e *Engine) EndBursts() (all bool) {
	all = true
	for _, b := range e.bursters {
		all = b.EndBurst() && all
	}
	return all
}

// OnStall registers a function that retries frames that were refused credit. It is called in every
// round, with the lock held, after those registered before, and returns the number of frames that it
// sent.
func (e *Engine) OnStall(fn func() int) {
	if before := e.stalled; before != nil {
		e.stalled = func() int { return before() + fn() }
		return
	}
	e.stalled = fn
}

// OnBacklog is OnStall for frames of the control classes, which get credit before all others: a rank
// whose heartbeats waited behind its messages would count as dead. After Backlog fn is called in every
// round, until none of these functions has frames left.
func (e *Engine) OnBacklog(fn func() (sent int, left bool)) { e.backlogs = append(e.backlogs, fn) }

// Backlog declares that frames of a control class were refused credit. Precondition: the lock is held.
func (e *Engine) Backlog() { e.backlogged = true }

func (e *Engine) sendBacklog() (sent int) {
	e.backlogged = false
	for _, fn := range e.backlogs {
		n, left := fn()
		sent += n
		e.backlogged = e.backlogged || left
	}
	return sent
}

// Defer calls fn, with the lock held, at the beginning of the next round: work that must not delay
// a goroutine that waits for a result. It wakes no goroutine. Precondition: the lock is held.
func (e *Engine) Defer(fn func()) { e.deferred = append(e.deferred, fn) }

// Watcher looks for arrivals that no frame announces. Both functions are called with the lock held.
type Watcher struct {
	// Look is called in every round and returns the number of arrivals.
	Look func() int
	// Doze is called before the process sleeps, and reports whether it may: then a frame will
	// announce the next arrival.
	Doze func() bool
	// Waiting, if set, describes the operation that a goroutine waits for, for reports of hangs.
	Waiting func() (what string, c *Completion)
}

// Watch adds a watcher until Unwatch. A goroutine that waits for its result calls Wait next; else
// call Kick, because a sleeping goroutine has not called Doze of the new watcher. Preconditions:
// the lock is held, and the watcher is not in Look.
func (e *Engine) Watch(w *Watcher) {
	e.watchers = append(e.watchers, w)
	e.newWatcher = true
}

// Unwatch ends Watch. Precondition: the lock is held.
func (e *Engine) Unwatch(w *Watcher) {
	if i := slices.Index(e.watchers, w); i >= 0 {
		e.watchers = slices.Delete(e.watchers, i, i+1)
	}
}

// Lock acquires the engine's lock.
func (e *Engine) Lock() {
	if !e.tryAcquire() {
		e.acquireSlow(e.host)
	}
}

// Unlock releases the engine's lock.
func (e *Engine) Unlock() { e.free() }

// Host is the clock and scheduler of the process.
func (e *Engine) Host() fabric.Host { return e.host }

// Self is the id of this process.
func (e *Engine) Self() proc.ID { return e.self }

// Sparse is that of Config: layers above keep their tables small too.
func (e *Engine) Sparse() bool { return e.sparse }

// View lists the failed processes that are known to this process. Its Epoch may be read at any
// time, the rest with the lock held.
func (e *Engine) View() *ft.View { return &e.view }

// Depart announces to all peers that this process leaves in order.
func (e *Engine) Depart() {
	e.Lock()
	defer e.Unlock()
	for e.running > 0 { // it may write to memory of a peer
		e.yield()
	}
	for p := range e.providers {
		p.Depart()
	}
}

// Close frees the providers. All operations must be complete: Close waits until the waiting
// goroutines have left.
func (e *Engine) Close() error {
	e.Lock()
	defer e.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.stopAsync()
	for e.waiting > 0 || e.progressing {
		e.yield()
	}
	e.endpoints.disconnect()
	var errs []error
	for p := range e.providers {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// providers iterates over all providers, the loopback included.
func (e *Engine) providers(yield func(fabric.Provider) bool) {
	for _, p := range e.media {
		if !yield(p) {
			return
		}
	}
	yield(e.loopback)
}
