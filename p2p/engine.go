package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Limits are a user's limits in bytes; zero selects the connection's own.
type Limits struct {
	// Eager is the longest message that is sent without a request to send.
	Eager int
	// Unexpected bounds the eager messages without a receive of a sender; see flow.go.
	Unexpected int
}

// Engine is the point-to-point half of one process.
type Engine struct {
	p           *progress.Engine
	limits      Limits
	posted      postedQueue
	unexpected  unexpectedQueue
	probing     bin // waiting probes, in order
	promises    bin // requests of layers above that are under way
	links       links
	stalled     []*link    // links with queued frames
	requests    []*Request // all requests ever made, by index
	free        *Request
	freeOps     *op
	comms       comms
	freed       freedContexts
	revoked     revocations
	active      int // number of requests in the lists of links
	inquiries   inquiryState
	closed      bool
	closedErr   error // of operations on a closed engine
	profile     Profile
	flushing    []*Request
	watches     *Watch            // free watches
	unreachable []unreachablePeer // see Comm.UnreachablePeers
	detached    []*Request        // sends that no goroutine waits for any more
	borrowed    *view             // the loans to this process
	freeViews   *view
	onCollFreed func(*Comm, bool) // see OnCollFreed
	// scratch is where control frames are encoded: a local array would escape to the heap through
	// the connection.
	scratch [controlBytes]byte
	// refused counts malformed frames, which are dropped.
	refused uint64
}

// New makes the engine on top of p and registers its classes. With aware false a peer's failure
// completes nothing: that is the baseline.
func New(p *progress.Engine, aware bool, limits Limits) *Engine {
	e := &Engine{p: p, limits: limits}
	e.links.sparse = p.Sparse()
	bins := firstBins
	if p.Sparse() {
		bins = sparseBins
	}
	e.posted.least, e.unexpected.least = bins, bins
	p.Handle(fabric.ClassEager, e.onEager)
	p.Handle(fabric.ClassFirst, e.onFirst)
	p.Handle(fabric.ClassFrag, e.onFrag)
	p.Handle(fabric.ClassRTS, e.onRTS)
	p.Handle(fabric.ClassCTS, e.onCTS)
	p.Handle(fabric.ClassFin, e.onFin)
	p.Handle(fabric.ClassFlow, e.onFlow)
	p.HandlePlaces(e.place, e.onPlaced, e.onReturned)
	p.HandleFetches(e.onFetched)
	p.OnStall(e.pumpAll)
	e.revoked.catchUp = e.catchUp
	if !p.Sparse() {
		e.revoked.spare = new(ft.OpError)
	}
	if aware {
		p.OnEnd(e.onEnd)
	}
	return e
}

// link is the engine's state of one peer.
type link struct {
	peer proc.ID
	// These share a word with peer: there are many links.
	cutOff bool // the peer is cut off; see Engine.cutOff
	shut   bool // nothing is sent any more
	listed bool // in Engine.stalled

	ep *progress.Endpoint
	// small is the longest message that can be sent at once in one frame at any time; -1 while
	// frames are queued or sends are held, and after the peer's end.
	small int
	// limit is the user's limit of eager messages; 0 leaves it to the connection.
	limit int
	// budget is the rest of the eager messages before the next request for a chunk; spareChunk (0
	// or 1) the chunks available then, of portion units each.
	budget, spareChunk   int
	chunk, portion       int      // chunk: by this process's limits
	announced            int      // sends that the peer has not answered
	held, lastHeld       *op      // sends that may not be announced yet, in order
	kept, asked          int      // from the peer: unexpected units kept here, chunks asked for
	waiting              int      // from the peer: announcements without a receive
	answers              int      // control frames that wait for credit, but for those of inquiries
	inquiries            int      // of the peer, unanswered, or with an answer that waits for credit
	heardCount, finCount uint64   // see hasReplied
	first, last          *op      // frames that wait for credit, in order
	active               *Request // requests that end with the peer
	in                   *message // the eager message that is arriving in fragments
	loans                loans    // loans of our sends that have not been returned
	// announcedEver, heardEver count the messages by rendezvous, to the peer and from it.
	announcedEver, heardEver Rendezvous
	borrowedEver             Borrowed
}

// findLink returns the link to a connected peer, or nil. Precondition: the lock is held.
func (e *Engine) findLink(peer proc.ID) *link { return e.links.get(peer) }

// linkFor returns the link of an endpoint and makes it at the first call.
func (e *Engine) linkFor(ep *progress.Endpoint) *link {
	if l := e.findLink(ep.Proc); l != nil {
		return l
	}
	l := &link{peer: ep.Proc, ep: ep, limit: e.limits.Eager}
	l.chunk = e.limits.chunk(max(l.limit, ep.MaxEager))
	l.portion = min(l.chunk, fairChunk)
	l.budget, l.spareChunk = l.portion, 1
	l.open()
	e.links.put(l)
	return l
}

// open sets small to the largest message of the fast path.
func (l *link) open() {
	l.small = -1
	if l.shut {
		return
	}
	if l.first == nil && l.held == nil && l.ep.State == progress.Alive {
		l.small = min(l.ep.AlwaysEager, l.ep.MaxFrame)
		if l.limit > 0 {
			l.small = min(l.limit, l.ep.MaxFrame)
		}
	}
}

// eager reports whether a message is sent without an announcement. One that the peer reads in place is
// announced, unless it is short.
func (l *link) eager(buf []byte) bool {
	n := len(buf)
	if l.limit > 0 {
		return n <= l.limit
	}
	if n > l.ep.AlwaysEager && l.ep.ReadInPlace(buf) {
		return false
	}
	return l.ep.Eager(n) || n <= l.ep.Reply() && l.hasReplied()
}

// hasReplied reports whether the peer has sent something since the last message that called this,
// other than notices that it has pulled our data.
func (l *link) hasReplied() bool {
	heard := l.ep.Received() - l.finCount
	if heard == l.heardCount {
		return false
	}
	l.heardCount = heard
	return true
}

// tryFrame sends a message in one frame, if that is possible now.
func (l *link) tryFrame(imm uint64, buf []byte) bool {
	n := len(buf)
	if n > l.small && (l.small < 0 || n > l.ep.MaxFrame || !l.eager(buf)) {
		return false
	}
	return l.ep.TrySend(fabric.ClassEager, imm, buf)
}

// addActive adds r to the requests that end with the link.
func (l *link) addActive(r *Request) {
	r.link = l
	r.prev, r.next = nil, l.active
	if l.active != nil {
		l.active.prev = r
	}
	l.active = r
	r.comm.e.active++
}

// removeActive removes r again.
func (l *link) removeActive(r *Request) {
	r.comm.e.active--
	if r.prev == nil {
		l.active = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
}

// Lock takes the engine's lock, for layers that keep state of their own under it.
func (e *Engine) Lock() { e.p.Lock() }

// Unlock releases the lock.
func (e *Engine) Unlock() { e.p.Unlock() }

// Flush returns when no frame waits for credit any more: everything sent has been handed over, or
// its receiver has ended.
func (e *Engine) Flush() {
	e.p.Lock()
	defer e.p.Unlock()
	r := e.newRequest(nil, reqSend, nil)
	e.flushing = append(e.flushing, r)
	e.flushed()
	e.p.Wait(&r.Completion)
	e.recycle(r)
}

// flushed completes waiting calls of Flush, if nothing is queued.
func (e *Engine) flushed() {
	if len(e.flushing) == 0 {
		return
	}
	for _, l := range e.stalled {
		if l.first != nil {
			return
		}
	}
	for _, r := range e.flushing {
		r.Finish()
	}
	e.flushing = e.flushing[:0]
}

// Defaults and bounds of [Limits], in bytes.
const (
	// DefaultUnexpected is the value of Limits.Unexpected for 0: two chunks.
	DefaultUnexpected = 1 << 20
	// LongestEager is the largest Limits.Eager. A receiver refuses longer messages that were not
	// announced, because it may have to buffer them.
	LongestEager = 64 << 20
)

// EndBursts sends the frames that providers hold back for a common write. It reports whether all
// accepted frames have left this process; if not, HandOver waits for those to one rank.
func (e *Engine) EndBursts() (all bool) {
	if !e.p.KeepsBursts() {
		return true
	}
	e.p.Lock()
	defer e.p.Unlock()
	return e.p.EndBursts()
}

// Uses reports whether a message that is under way is read from memory or written there.
func (e *Engine) Uses(memory []byte) (found bool) {
	e.p.Lock()
	defer e.p.Unlock()
	e.posted.all(func(r *Request) { found = found || shareBytes(r.buf, memory) })
	if e.active == 0 {
		return found
	}
	for l := range e.links.all() {
		for r := l.active; r != nil && !found; r = r.next {
			found = shareBytes(r.buf, memory)
		}
	}
	return found
}
