package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Limits that a user may set; zero takes what the connection suggests. Bytes.
type Limits struct {
	// Eager is the longest message that is sent without asking the receiver.
	Eager int
	// Unexpected is how much a sender may have sent eagerly that the receiver
	// has not said to have room for; see flow.go.
	Unexpected int
}

// Engine is the point-to-point half of one process.
type Engine struct {
	p        *progress.Engine
	limits   Limits
	posted   posted
	early    unexpected
	probing  bin                // probes that wait, in order
	promised bin                // requests of layers above that are under way
	links    []*[linkPage]*link // by process id
	stalled  []*link            // with frames that were refused
	requests []*Request         // every one ever made, by index
	free     *Request
	freeOps  *op
	comms    comms
	freed    freedContexts
	revoked  revocations
	active   int // requests in the lists of links
	gives    giveUps
	closed   bool
	over     error // once closed: what operations end with
	profile  Profile
	flushing []*Request
	watches  *Watch     // free ones
	unmet    []proc.ID  // see Comm.Unmet
	detached []*Request // sends that nobody waits for any more
	// scratch is where control frames are put together: a local array would
	// escape to the heap through the connection.
	scratch [controlBytes]byte
	// Refused counts frames from peers that made no sense and were dropped.
	refused uint64
}

// New makes the engine on top of p and registers its classes. With aware false
// a peer's death completes nothing: the baseline.
func New(p *progress.Engine, aware bool, limits Limits) *Engine {
	e := &Engine{p: p, limits: limits}
	e.posted = newPosted(firstBins)
	e.early.index[0] = make([]msgBin, firstBins)
	p.Handle(fabric.ClassEager, e.onEager)
	p.Handle(fabric.ClassFirst, e.onFirst)
	p.Handle(fabric.ClassFrag, e.onFrag)
	p.Handle(fabric.ClassRTS, e.onRTS)
	p.Handle(fabric.ClassCTS, e.onCTS)
	p.Handle(fabric.ClassFin, e.onFin)
	p.Handle(fabric.ClassFlow, e.onFlow)
	p.HandlePlaces(e.place, e.placed, e.returned)
	p.OnStall(e.pumpAll)
	e.revoked.catchUp, e.revoked.ready = e.catchUp, new(revokedError)
	if aware {
		p.OnEnd(e.onEnd)
	}
	return e
}

const linkPage = 64

// link is what p2p keeps per peer.
type link struct {
	peer proc.ID
	ep   *progress.Endpoint
	// small is the longest message that goes out at once in one frame at all
	// times; -1 while frames are queued or sends are held, or when the peer is not
	// alive.
	small int
	// limit is the user's limit of eager messages; 0 leaves it to the connection.
	limit int
	// room is what may be spent on eager messages before somebody looks; spare
	// (0 or 1) the chunks to be had then, of so many units as portion says.
	room, spare    int
	chunk, portion int      // chunk: by this process's limits
	announced      int      // sends that the peer has not answered
	held, lastHeld *op      // sends that may not be announced yet, in order
	kept, asked    int      // from the peer: units unexpected here, chunks asked for
	waiting        int      // from the peer: announcements without a receive
	answers        int      // control frames that wait for credit
	exceeded       bool     // the peer is cut off; see Engine.excess
	heard, fins    uint64   // see answered
	closed         bool     // nothing goes out any more
	first, last    *op      // frames that wait for credit, in order
	listed         bool     // in Engine.stalled
	active         *Request // see Engine.active
	in             *message // the eager message that is arriving in pieces
	loans          loans    // of our sends, what has been lent and not returned
}

// known gives the link to a peer that has connected or was connected to.
// Precondition: the lock is held.
func (e *Engine) known(peer proc.ID) *link {
	if i := int(peer / linkPage); i < len(e.links) && e.links[i] != nil {
		return e.links[i][peer%linkPage]
	}
	return nil
}

// linkTo gives the link to a peer and connects at the first call.
// Precondition: the lock is not held.
func (e *Engine) linkTo(peer proc.ID) (*link, error) {
	ep, err := e.p.Endpoint(peer)
	if err != nil {
		return nil, err
	}
	e.p.Lock()
	defer e.p.Unlock()
	return e.adopt(ep), nil
}

// adopt makes the link of an endpoint, or gives the one there is.
func (e *Engine) adopt(ep *progress.Endpoint) *link {
	if l := e.known(ep.Proc); l != nil {
		return l
	}
	l := &link{peer: ep.Proc, ep: ep, limit: e.limits.Eager}
	l.chunk = e.limits.chunk(max(l.limit, ep.Longest))
	l.portion = min(l.chunk, fairChunk)
	l.room, l.spare = l.portion, 1
	l.open()
	i := int(ep.Proc / linkPage)
	for len(e.links) <= i {
		e.links = append(e.links, nil)
	}
	if e.links[i] == nil {
		e.links[i] = new([linkPage]*link)
	}
	e.links[i][ep.Proc%linkPage] = l
	return l
}

// open sets small to what the fast path may send now.
func (l *link) open() {
	l.small = -1
	if l.closed {
		return
	}
	if l.first == nil && l.held == nil && l.ep.State == progress.Alive {
		l.small = min(l.ep.Sure, l.ep.MaxFrame)
		if l.limit > 0 {
			l.small = min(l.limit, l.ep.MaxFrame)
		}
	}
}

// eager reports whether a message of n bytes goes out without an announcement.
func (l *link) eager(n int) bool {
	if l.limit > 0 {
		return n <= l.limit
	}
	return l.ep.Eager(n) || n <= l.ep.Reply() && l.answered()
}

// answered reports whether the peer has sent something since the last message
// that asked this: other than that it has pulled what it was sent.
func (l *link) answered() bool {
	heard := l.ep.Heard() - l.fins
	if heard == l.heard {
		return false
	}
	l.heard = heard
	return true
}

// tryFrame sends a message in one frame, if it may go that way now.
func (l *link) tryFrame(imm uint64, buf []byte) bool {
	n := len(buf)
	if n > l.small && (l.small < 0 || n > l.ep.MaxFrame || !l.eager(n)) {
		return false
	}
	return l.ep.TrySend(fabric.ClassEager, imm, buf)
}

// attend puts r among the requests that end with the link.
func (l *link) attend(r *Request) {
	r.link = l
	r.prev, r.next = nil, l.active
	if l.active != nil {
		l.active.prev = r
	}
	l.active = r
	r.comm.e.active++
}

// leave takes r out again.
func (l *link) leave(r *Request) {
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

// Lock and Unlock take and give back the engine's lock, for layers that keep
// state of their own under it.
func (e *Engine) Lock() { e.p.Lock() }

// Unlock gives the lock back.
func (e *Engine) Unlock() { e.p.Unlock() }

// Flush returns when no frame waits for credit any more: everything that was
// sent has been handed over, or its receiver is gone.
func (e *Engine) Flush() {
	e.p.Lock()
	defer e.p.Unlock()
	r := e.newRequest(nil, reqSend, nil)
	e.flushing = append(e.flushing, r)
	e.flushed()
	e.p.Wait(&r.Completion)
	e.recycle(r)
}

// flushed completes those who wait in Flush, if nothing is queued.
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
