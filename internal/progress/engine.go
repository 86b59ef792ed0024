package progress

import (
	"errors"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Resolver finds the address by which a provider reaches a peer. It may ask
// the launcher; it is called without the engine's lock. An error of class
// fabric.ErrNoPath says why this provider does not join the two, and the next
// is asked: both processes must come to the same answer. fabric.ErrPeerGone says that the
// peer has ended, fabric.ErrNoAddress that nobody can tell where it is. Any other error is the end of the attempt.
type Resolver func(provider string, peer proc.ID) ([]byte, error)

// Config assembles an engine.
type Config struct {
	Self proc.ID
	Host fabric.Host
	// Shm is the shared-memory provider, or nil.
	Shm *shm.Provider
	// Others are further providers. A pair is joined by the first, Shm before them,
	// that can: see routes.go.
	Others  []fabric.Provider
	Resolve Resolver
	// Routed is told of each connection that an endpoint gets, once, with the lock
	// held; may be nil.
	Routed func(*Endpoint)
}

// Engine drives all communication of one process. Methods may be called from
// any goroutine; those with a precondition on the lock say so.
type Engine struct {
	lock
	self       proc.ID
	host       fabric.Host
	shm        *shm.Provider
	others     []*other
	loopback   *loopback
	resolve    Resolver
	routed     func(*Endpoint)
	sink       fabric.Sink // of shared memory and of the loopback
	endpoints  table
	view       ft.View
	timers     timers
	ended      []func(*Endpoint, proc.Cause)
	stalled    func() int // retries what was refused credit
	backlog    func() int // the same for control frames; nil: there are none
	deferred   []func()   // what is to be done in the next round
	watchers   []*Watcher
	newWatcher bool // a watcher has begun to watch since the process last fell asleep

	spins, yields    int
	yieldMost        fabric.Time // how long yields without result may take; Forever: their number says enough
	awaitLooks       int         // how often Await polls one peer awaitSpins times
	awaitSpins       int
	rounds, stride   uint64 // the clock is looked at every stride rounds
	progressing      bool   // a goroutine is in drive
	asleep           bool   // it, or the attendant, has let go of the lock to sleep at the bell
	waiting          int    // goroutines in Wait
	parked           *Completion
	woken            int            // of the parked: finished, and have not run since
	pollGap, gapLeft int            // see pollOthers
	async            *asyncProgress // nil without asynchronous progress
	jobs             []*Job
	closed           bool
}

// ErrClosed answers operations after Close.
var ErrClosed = errors.New("progress: the engine is closed")

// New makes the engine. It owns the providers from now on.
func New(cfg Config) *Engine {
	e := &Engine{
		self: cfg.Self, host: cfg.Host, shm: cfg.Shm,
		resolve: cfg.Resolve, routed: cfg.Routed,
		stalled: func() int { return 0 },
	}
	e.spins, e.yields, e.yieldMost = cfg.Host.Patience()
	e.awaitLooks, e.awaitSpins = min(e.spins, awaitMax)/awaitCheck, min(e.spins, awaitCheck)+1
	e.stride = 1 // who does not spin has a clock that costs nothing beside the rest
	if e.spins > 0 {
		e.stride = timerStride
	}
	e.loopback = newLoopback(cfg.Self, e.Kick)
	if e.shm != nil {
		e.bindSink(&e.sink, e.shm)
	}
	for _, p := range cfg.Others {
		o := &other{Provider: p}
		e.bindSink(&o.sink, p)
		e.others = append(e.others, o)
	}
	self := &Endpoint{Proc: cfg.Self, by: e.loopback}
	self.attach(e.loopback)
	e.endpoints.put(self)
	return e
}

// Handle registers the function that gets the frames of a class, with the lock
// held. The payload is borrowed until it returns. Called before the first
// frame can arrive.
func (e *Engine) Handle(class fabric.Class, fn func(from proc.ID, imm uint64, payload []byte)) {
	for s := range e.sinks {
		s.Deliver[class] = fn
	}
}

// OnEnd registers a function that is told, with the lock held, when a peer has
// departed or failed; once per peer.
func (e *Engine) OnEnd(fn func(*Endpoint, proc.Cause)) { e.ended = append(e.ended, fn) }

// OnStall registers the function that retries frames that were refused for
// lack of credit. It is called in every round of the progress loop, with the
// lock held, and says how many it got rid of.
func (e *Engine) OnStall(fn func() int) { e.stalled = fn }

// Backlog is OnStall for the control classes, which seldom have anything to
// retry: fn is called until it is taken back by nil. Precondition: the lock is
// held.
func (e *Engine) Backlog(fn func() int) { e.backlog = fn }

// Defer has fn be called, with the lock held, at the beginning of the next round of the progress loop: what is done here is not
// to keep who waits for its result. Nobody is woken for it. Precondition: the lock is held.
func (e *Engine) Defer(fn func()) { e.deferred = append(e.deferred, fn) }

// Watcher looks for what arrives by no frame. Both functions are called with the lock held.
type Watcher struct {
	// Look is called in every round of the progress loop and says how much there was.
	Look func() int
	// Doze is called before the process sleeps, and reports whether it can: then a frame will come when there is
	// something.
	Doze func() bool
}

// Watch has a watcher look, until Unwatch. Whoever waits for what it finds calls Wait next; else Kick, as who sleeps has not dozed
// for what is new. Precondition: the lock is held, the watcher does not look.
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

// Lock takes the engine's lock.
func (e *Engine) Lock() {
	if !e.tryAcquire() {
		e.acquireSlow(e.host)
	}
}

// Unlock gives it back.
func (e *Engine) Unlock() { e.free() }

// Host is the clock and scheduler of the process.
func (e *Engine) Host() fabric.Host { return e.host }

// Self is the id of this process.
func (e *Engine) Self() proc.ID { return e.self }

// View is what this process knows of the dead. Its Epoch may be read at any
// time, the rest with the lock held.
func (e *Engine) View() *ft.View { return &e.view }

func (e *Engine) notifyEnd(ep *Endpoint, cause proc.Cause) {
	for _, fn := range e.ended {
		fn(ep, cause)
	}
}

// Depart announces to all peers that this process leaves in order.
func (e *Engine) Depart() {
	e.Lock()
	defer e.Unlock()
	for p := range e.providers {
		p.Depart()
	}
}

// Close frees the providers. What goroutines wait for must be done: Close waits
// until they have left.
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

// media runs over the providers that reach other processes, in the order in which
// they are preferred.
func (e *Engine) media(yield func(fabric.Provider) bool) {
	if e.shm != nil && !yield(e.shm) {
		return
	}
	for _, o := range e.others {
		if !yield(o.Provider) {
			return
		}
	}
}

// providers runs over all providers, the loopback included.
func (e *Engine) providers(yield func(fabric.Provider) bool) {
	for p := range e.media {
		if !yield(p) {
			return
		}
	}
	yield(e.loopback)
}
