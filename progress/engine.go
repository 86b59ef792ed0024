package progress

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/proc"
)

// Resolver finds the address by which a provider reaches a peer. It may ask
// the launcher; it is called without the engine's lock.
type Resolver func(provider string, peer proc.ID) ([]byte, error)

// Config assembles an engine.
type Config struct {
	Self proc.ID
	Host fabric.Host
	// Shm is the shared-memory provider, or nil.
	Shm *shm.Provider
	// Others are further providers, asked in this order where Shm is nil.
	Others  []fabric.Provider
	Resolve Resolver
}

// Engine drives all communication of one process. Methods may be called from
// any goroutine; those with a precondition on the lock say so.
type Engine struct {
	lock
	self      proc.ID
	host      fabric.Host
	shm       *shm.Provider
	others    []fabric.Provider
	loop      *loopback
	resolve   Resolver
	sink      fabric.Sink
	endpoints table
	view      ft.View
	timers    timers
	ended     []func(*Endpoint, proc.Cause)
	stalled   func() int // retries what was refused credit

	spins, yields  int
	awaitLooks     int // how often Await polls one peer awaitSpins times
	awaitSpins     int
	rounds, stride uint64 // the clock is looked at every stride rounds
	progressing    bool   // a goroutine is in drive
	asleep         bool   // it, or the attendant, has let go of the lock to sleep at the bell
	waiting        int    // goroutines in Wait
	parked         *Completion
	woken          int        // of the parked: finished, and have not run since
	attendant      *attendant // nil without asynchronous progress
	blocking       []*Job
	closed         bool
}

// ErrClosed answers operations after Close.
var ErrClosed = errors.New("progress: the engine is closed")

// New makes the engine. It owns the providers from now on.
func New(cfg Config) *Engine {
	e := &Engine{
		self: cfg.Self, host: cfg.Host, shm: cfg.Shm, others: cfg.Others,
		resolve: cfg.Resolve,
		stalled: func() int { return 0 },
	}
	e.spins, e.yields = cfg.Host.Patience()
	e.awaitLooks, e.awaitSpins = min(e.spins, awaitMax)/awaitLook, min(e.spins, awaitLook)+1
	e.stride = 1 // who does not spin has a clock that costs nothing beside the rest
	if e.spins > 0 {
		e.stride = timerStride
	}
	e.loop = newLoopback(cfg.Self, e.Kick)
	e.sink.Down = e.down
	e.sink.Departed = e.departed
	self := &Endpoint{Proc: cfg.Self}
	self.attach(e.loop)
	e.endpoints.put(self)
	return e
}

// Handle registers the function that gets the frames of a class, with the lock
// held. The payload is borrowed until it returns. Called before the first
// frame can arrive.
func (e *Engine) Handle(class fabric.Class, fn func(from proc.ID, imm uint64, payload []byte)) {
	e.sink.Deliver[class] = fn
}

// OnEnd registers a function that is told, with the lock held, when a peer has
// departed or failed; once per peer.
func (e *Engine) OnEnd(fn func(*Endpoint, proc.Cause)) { e.ended = append(e.ended, fn) }

// OnStall registers the function that retries frames that were refused for
// lack of credit. It is called in every round of the progress loop, with the
// lock held, and says how many it got rid of.
func (e *Engine) OnStall(fn func() int) { e.stalled = fn }

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

// Known gives the endpoint of a peer that has been connected to, by either
// side, or has ended; else nil. Precondition: the lock is held.
func (e *Engine) Known(peer proc.ID) *Endpoint {
	if ep := e.endpoints.get(peer); ep != nil {
		return ep
	}
	p := e.provider()
	if p == nil {
		return nil
	}
	c := p.Lookup(peer)
	if c == nil {
		return nil
	}
	ep := &Endpoint{Proc: peer}
	ep.attach(c)
	e.endpoints.put(ep)
	return ep
}

// Endpoint gives the endpoint of a peer and connects to it at the first call.
// A peer that turns out to be gone gets an endpoint in state Failed; an error
// means that the two processes cannot reach each other, and names the cure.
//
// Precondition: the lock is not held; connecting makes system calls.
func (e *Engine) Endpoint(peer proc.ID) (*Endpoint, error) {
	e.Lock()
	defer e.Unlock()
	if ep := e.Known(peer); ep != nil {
		return ep, nil
	}
	p := e.provider()
	if e.closed || p == nil {
		return nil, ErrClosed
	}
	e.Unlock()
	addr, err := e.resolve(p.Name(), peer)
	e.Lock()
	if err != nil {
		return nil, fmt.Errorf("address of %v: %w", peer, err)
	}
	return e.connect(p, peer, addr)
}

// connect is the one place where the lock is held over system calls: mapping a
// peer's memory, once per peer. A provider is not safe for use beside it.
func (e *Engine) connect(p fabric.Provider, peer proc.ID, addr []byte) (*Endpoint, error) {
	if ep := e.endpoints.get(peer); ep != nil {
		return ep, nil // somebody was faster
	}
	ep := &Endpoint{Proc: peer}
	c, err := p.Connect(fabric.ConnectSpec{Peer: peer, Address: addr})
	switch {
	case err == nil:
		ep.attach(c)
		e.endpoints.put(ep)
	case errors.Is(err, fabric.ErrPeerGone):
		e.endpoints.put(ep)
		e.down(peer, proc.Cause{Kind: proc.Unknown})
	default:
		return nil, err
	}
	return ep, nil
}

func (e *Engine) provider() fabric.Provider {
	if e.shm != nil {
		return e.shm
	}
	if len(e.others) > 0 {
		return e.others[0]
	}
	return nil
}

// down turns evidence into knowledge: cut off, enter in the View, tell. The
// provider has delivered what came before.
func (e *Engine) down(peer proc.ID, cause proc.Cause) {
	ep := e.known(peer)
	if ep.State != Alive {
		return
	}
	ep.State = Failed
	if ep.conn != nil {
		ep.conn.Invalidate()
	}
	e.view.Enter(peer, cause)
	e.tell(ep, cause)
}

func (e *Engine) departed(peer proc.ID) {
	ep := e.known(peer)
	if ep.State != Alive {
		return
	}
	ep.State = Departed
	e.tell(ep, proc.Cause{Kind: proc.Departed})
}

// known makes an endpoint without a connection for a peer that ended before we
// ever talked to it.
func (e *Engine) known(peer proc.ID) *Endpoint {
	ep := e.Known(peer)
	if ep == nil {
		ep = &Endpoint{Proc: peer}
		e.endpoints.put(ep)
	}
	return ep
}

func (e *Engine) tell(ep *Endpoint, cause proc.Cause) {
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
	e.dismiss()
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

// providers runs over all providers, the loopback included.
func (e *Engine) providers(yield func(fabric.Provider) bool) {
	if e.shm != nil && !yield(e.shm) {
		return
	}
	for _, p := range e.others {
		if !yield(p) {
			return
		}
	}
	yield(e.loop)
}
