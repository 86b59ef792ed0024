package progress

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A pair of processes is connected by one provider, in both directions. Both sides ask the
// providers in the same order, and a provider that does not connect them answers [fabric.ErrNoPath]
// to both. If the peer connected first, Lookup finds its connection. So the two never use different
// providers: a provider that connected the other side would have answered ErrNoPath to one of them.
//
// Hence no side continues with the next provider after any other error: with a shortage of
// descriptors, for example, the peer may be connected already. And only the provider that connects
// a pair reports the peer's end.

// other is a provider that the engine reaches through the contract alone.
type other struct {
	fabric.Provider
	sink fabric.Sink
}

// NoRouteError: no provider joins this process and a peer.
type NoRouteError struct {
	Self, Peer proc.ID
	// Tried holds each provider's reason; empty: no provider is open.
	Tried []error
}

// Error lists the reasons.
func (e *NoRouteError) Error() string {
	if len(e.Tried) == 0 {
		return fmt.Sprintf("no fabric joins %v and %v: none is open", e.Self, e.Peer)
	}
	var why []string
	for _, err := range e.Tried {
		why = append(why, err.Error())
	}
	return fmt.Sprintf("no fabric joins %v and %v: %s", e.Self, e.Peer, strings.Join(why, "; "))
}

// Unwrap returns the reasons.
func (e *NoRouteError) Unwrap() []error { return e.Tried }

// sinks iterates over the sinks of all providers.
func (e *Engine) sinks(yield func(*fabric.Sink) bool) {
	if !yield(&e.sink) {
		return
	}
	for _, o := range e.others {
		if !yield(&o.sink) {
			return
		}
	}
}

// bindSink makes a sink report ends to the engine.
func (e *Engine) bindSink(s *fabric.Sink, from fabric.Provider) {
	s.Down = func(peer proc.ID, cause proc.Cause) { e.down(from, peer, cause) }
	s.Departed = func(peer proc.ID) { e.departed(from, peer) }
}

// Lookup returns the endpoint of a peer that either side has connected to, or that has ended; else
// nil. Precondition: the lock is held.
func (e *Engine) Lookup(peer proc.ID) *Endpoint {
	if ep := e.endpoints.get(peer); ep != nil {
		return ep
	}
	if peer == e.self {
		self := &Endpoint{Proc: peer, by: e.loopback}
		self.attach(e.loopback)
		e.endpoints.put(self)
		return self
	}
	for _, p := range e.media {
		if c := p.Lookup(peer); c != nil {
			return e.join(&Endpoint{Proc: peer, Accepted: true}, p, c)
		}
	}
	return nil
}

// HasEndpoint reports whether a peer has an endpoint. A peer that has connected and sent nothing
// since may have none. Precondition: the lock is held.
func (e *Engine) HasEndpoint(peer proc.ID) bool { return e.endpoints.get(peer) != nil }

// Endpoint returns the endpoint of a peer; the first call connects to it. A peer that has ended
// gets an endpoint in state Failed. An error means that the two processes cannot reach each other,
// and names the remedy; it is a *NoRouteError if no provider joins them.
//
// Precondition: the lock is not held; connecting makes system calls.
func (e *Engine) Endpoint(peer proc.ID) (*Endpoint, error) {
	e.Lock()
	defer e.Unlock()
	if ep := e.Lookup(peer); ep != nil {
		return ep, nil
	}
	return e.connectFirst(peer)
}

// connectFirst connects to a peer by the first provider that joins the pair.
func (e *Engine) connectFirst(peer proc.ID) (*Endpoint, error) {
	var tried []error
	for _, p := range e.media {
		ep, err := e.try(p, peer, tried)
		if !errors.Is(err, fabric.ErrNoPath) {
			return ep, err
		}
		tried = append(tried, err)
	}
	if e.closed {
		return nil, ErrClosed
	}
	return nil, &NoRouteError{Self: e.self, Peer: peer, Tried: tried}
}

// Unreachable is the cause of failure that an error of Endpoint stands for, where it counts as one.
func Unreachable(err error) proc.Cause {
	c := proc.Cause{Kind: proc.Unreachable}
	if errors.Is(err, fabric.ErrNoAddress) {
		c.Code = proc.NoAddress
	}
	return c
}

// try connects to a peer by one provider, after the providers that gave the reasons in tried. It
// releases the lock while it looks up the address.
func (e *Engine) try(p fabric.Provider, peer proc.ID, tried []error) (*Endpoint, error) {
	if e.closed {
		return nil, ErrClosed
	}
	e.Unlock()
	addr, err := e.resolve(p.Name(), peer)
	e.Lock()
	if e.closed {
		return nil, ErrClosed
	}
	if ep := e.Lookup(peer); ep != nil {
		return ep, nil // another goroutine was faster, or the peer, and then no address is needed
	}
	switch {
	case err == nil:
		return e.connect(p, peer, addr, tried)
	case errors.Is(err, fabric.ErrPeerGone):
		return e.joinEnded(&Endpoint{Proc: peer, Tried: tried}, p, proc.Cause{}), nil
	case errors.Is(err, fabric.ErrNoPath):
		return nil, err
	default:
		return nil, addressError(peer, err)
	}
}

//go:noinline
func addressError(peer proc.ID, err error) error { return fmt.Errorf("address of %v: %w", peer, err) }

// joinEnded makes the endpoint of a peer that ended before it connected, and reports the end.
func (e *Engine) joinEnded(ep *Endpoint, p fabric.Provider, cause proc.Cause) *Endpoint {
	ep.by = p
	e.endpoints.put(ep)
	e.down(p, ep.Proc, cause)
	return ep
}

// connect is the one place where the lock is held over slow system calls: mapping a peer's memory,
// once per peer. A provider is not safe for concurrent use.
func (e *Engine) connect(p fabric.Provider, peer proc.ID, addr []byte, tried []error) (*Endpoint, error) {
	ep := &Endpoint{Proc: peer, Tried: tried}
	c, err := p.Connect(fabric.ConnectSpec{Peer: peer, Address: addr})
	switch {
	case err == nil:
		e.join(ep, p, c)
	case errors.Is(err, fabric.ErrPeerGone):
		var gone *fabric.GoneError
		if errors.As(err, &gone) {
			return e.joinEnded(ep, p, gone.Cause), nil
		}
		return e.joinEnded(ep, p, proc.Cause{}), nil
	default:
		return nil, err
	}
	return ep, nil
}

// join gives an endpoint its connection.
func (e *Engine) join(ep *Endpoint, p fabric.Provider, c fabric.Conn) *Endpoint {
	ep.by = p
	ep.attach(c)
	e.endpoints.put(ep)
	if e.routed != nil {
		e.routed(ep)
	}
	return ep
}

// Fabric is the name of the provider that joins the pair; "" for a peer that ended before.
func (ep *Endpoint) Fabric() string {
	if ep.by == nil {
		return ""
	}
	return ep.by.Name()
}

// down handles evidence of a death: it invalidates the connection, enters the View and calls the
// listeners. The provider has delivered everything that came before.
func (e *Engine) down(p fabric.Provider, peer proc.ID, cause proc.Cause) {
	ep := e.endpointOf(p, peer)
	if ep.State != Alive || ep.by != p {
		return
	}
	ep.State = Failed
	if ep.conn != nil {
		ep.conn.Invalidate()
	}
	e.view.Enter(peer, cause)
	e.notifyEnd(ep, cause)
}

// Report enters a death that the peer's own provider has not reported. Arrived frames are delivered
// first; then, at once or in the next round, the death enters the View and the listeners are
// called. It does nothing for a peer whose end the engine knows.
//
// Preconditions: the lock is held, cause.Failed(), peer is another process.
func (e *Engine) Report(peer proc.ID, cause proc.Cause) {
	if ep := e.endpoints.get(peer); e.closed || ep != nil && ep.State != Alive {
		return
	}
	for _, p := range e.media {
		p.Inform(peer, cause)
	}
	if ep := e.Lookup(peer); ep != nil {
		ep.Reported = true
	} else { // no provider has a connection whose end it could report
		e.down(nil, peer, cause)
	}
	e.gapLeft = 0
	e.Kick()
}

// Runs reports whether the kernel shows a peer of this machine as present and not stopped, except
// perhaps by a debugger, which traces it; false if it cannot be determined. Precondition: the lock
// is held.
func (e *Engine) Runs(peer proc.ID) (runs, traced bool) {
	if e.shm == nil {
		return false, false
	}
	return e.shm.Runs(peer)
}

// Fencer reports whether this process was the first of its machine to kill a silent peer.
// Precondition: the lock is held.
func (e *Engine) Fencer(peer proc.ID) bool { return e.shm != nil && e.shm.Fencer(peer) }

func (e *Engine) departed(p fabric.Provider, peer proc.ID) {
	ep := e.endpointOf(p, peer)
	if ep.State != Alive || ep.by != p {
		return
	}
	ep.State = Departed
	e.notifyEnd(ep, proc.Cause{Kind: proc.Departed})
}

// endpointOf returns a peer's endpoint, and makes one without connection for a peer that ended
// before any connection.
func (e *Engine) endpointOf(p fabric.Provider, peer proc.ID) *Endpoint {
	ep := e.Lookup(peer)
	if ep == nil {
		ep = &Endpoint{Proc: peer, by: p}
		if e.sparse && p == nil { // down enters the failure
			e.endpoints.failed.Add(peer)
			return ep
		}
		e.endpoints.put(ep)
	}
	return ep
}

// Polling shared memory costs a load, polling the others a system call. So the others are polled in
// every round while they deliver, and whenever this process yields, and less often while they are
// idle: their messages take so long that a few polls of shared memory make no difference. If they have
// long been idle they are polled in one turn of some, as a turn may be short beside a system call.
const (
	maxPollGap = 16 // most rounds between two polls
	// idlePolls is the number of polls in vain after which turnGap turns follow without one.
	idlePolls = 64
	turnGap   = 3
	// maxProgressGap is the same for calls of Progress, between which an application may compute.
	maxProgressGap = 4
)

// pollOthers polls the providers beside shared memory.
func (e *Engine) pollOthers() int {
	if e.shm != nil && e.gapLeft > 0 {
		e.gapLeft--
		return 0
	}
	n := 0
	for _, o := range e.others {
		n += o.Poll(&o.sink)
	}
	e.pollGap, e.idlePolls = min(2*e.pollGap+1, maxPollGap), e.idlePolls+1
	if n > 0 {
		e.pollGap, e.idlePolls = 0, 0
	}
	e.gapLeft = e.pollGap
	return n
}
