package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Status describes a received message.
type Status struct {
	Source int // rank of the sender in the communicator
	Tag    int
	Count  int // bytes received
	// Cancelled: the receive was cancelled; the rest means nothing.
	Cancelled bool
}

// Request is an operation under way. It belongs to the engine's pool and is used with the engine's
// lock held; the application holds a [Handle].
type Request struct {
	progress.Completion
	comm *Comm
	buf  []byte
	// src and imm are the key of a posted receive; wildcards are proc.None and anyTag.
	src proc.ID
	imm uint64
	seq uint64 // order of posting
	// next, prev: neighbours in a bin, or among a link's active requests; next: also in the pool.
	next, prev *Request

	link    *link // the peer, once known
	from    proc.ID
	tag     int
	count   int
	err     error
	index   uint32 // in Engine.requests, for handles in frames
	gen     uint32 // incremented at each reuse
	kind    reqKind
	pullErr error         // receive: result of the kernel copy
	region  fabric.Region // receive: location of the sender's data
	remote  uint64        // the peer's handle of this transfer
	total   int           // length of the sender's message, in bytes
	got     int           // receive: streamed bytes that have arrived
	claimed *message      // matched probe: its message
	// announced: a send whose receiver has not answered. streaming: a receive whose sender has been
	// asked for a stream. fetching: a receive into whose buffer an adapter reads.
	announced, streaming, fetching bool
	// offered: a receive whose sender may copy parts; shared: it has not copied all that it claimed; pushed: it has, and
	// says so. Of a send shared: there may be more parts to copy; pushed: the receiver waits for these. settled: a send
	// that has been answered while this process copied parts; streamTo: the request for a stream that came then.
	offered, shared, pushed, settled bool
	streamTo                         uint64
	message, parts                   uint32 // of a send: the number of the peer's offer, and of the parts copied here
	// lent: of a send, loans of its buffer that have not been returned; handed: there will be no
	// more.
	lent   int
	handed bool
	// awaited: a goroutine waits for it.
	awaited bool
	job     progress.Job
	busy    bool // a job runs without the lock; the request finishes with it
	// special: the flag of a receive or probe that was cancelled, or is from a null rank; and the size
	// of the elements that the Status counts, 0 for bytes.
	special uint8
	// pending: a posted wildcard receive that a failure has put in doubt; see pending.go.
	pending bool
	ways    ways      // how a goroutine waits for it
	wrap    *wrapping // see Wrap; not in the pool
	op      string    // of reqPromise: the operation's name in errors
}

// cancelled is the flag in Request.special; the other bits are the size of an element.
const cancelled = 0x80

type reqKind uint8

const (
	reqRecv reqKind = iota
	reqSend
	reqProbe
	reqClaim   // a matched probe
	reqBorrow  // the matched probe of Borrow
	reqNull    // a receive from a null rank
	reqPromise // of a layer above: see Promise
)

func (k reqKind) String() string {
	return [...]string{"Recv", "Send", "Probe", "Mprobe", "Borrow", "Recv", "operation"}[k]
}

// Handle identifies a request to the application. The zero Handle is a request that has completed
// successfully.
type Handle struct {
	r   *Request
	gen uint32
}

// newRequest takes a request from the pool.
func (e *Engine) newRequest(c *Comm, kind reqKind, buf []byte) *Request {
	r := e.free
	if r == nil {
		r = &Request{index: uint32(len(e.requests))}
		e.requests = append(e.requests, r)
	} else {
		e.free = r.next
	}
	r.next = nil
	r.comm, r.kind, r.buf = c, kind, buf
	return r
}

// recycle returns a request to the pool and drops its references.
func (e *Engine) recycle(r *Request) {
	r.Reset()
	r.gen++
	r.comm, r.buf, r.link, r.err, r.claimed = nil, nil, nil, nil, nil
	r.count, r.got, r.total, r.lent = 0, 0, 0, 0
	r.announced, r.streaming, r.fetching, r.handed, r.special, r.ways = false, false, false, false, 0, 0
	r.offered, r.shared, r.pushed, r.settled, r.streamTo = false, false, false, false, 0
	r.next, r.prev = e.free, nil
	e.free = r
}

// wire is a request's name in frames; request finds it again.
func (r *Request) wire() uint64 { return uint64(r.gen)<<32 | uint64(r.index) }

// request returns the request that a peer names, or nil if there is none: the peer is faulty, or
// the request has ended.
func (e *Engine) request(wire uint64, l *link) *Request {
	i := wire & 0xffffffff
	if i >= uint64(len(e.requests)) {
		return nil
	}
	r := e.requests[i]
	if uint64(r.gen) != wire>>32 || r.link != l || r.Done() {
		return nil
	}
	return r
}

func (r *Request) status() Status {
	if r.comm == nil || r.kind == reqSend || r.kind == reqPromise {
		return Status{}
	}
	if r.special != 0 {
		return r.specialStatus()
	}
	return Status{Source: r.comm.peers.Rank(r.from), Tag: r.tag, Count: r.count}
}

// specialStatus is status of a request that is special. It may set the request's error.
func (r *Request) specialStatus() Status {
	switch {
	case r.special&cancelled == 0:
	case r.kind == reqNull:
		return nullStatus
	default:
		return Status{Cancelled: true}
	}
	st := Status{Source: r.comm.peers.Rank(r.from), Tag: r.tag}
	var odd error
	if st.Count, odd = elements(r.count, int(r.special)); odd != nil && r.err == nil {
		r.err = r.opError(odd)
	}
	return st
}

// elements turns a length in bytes into one in elements of size bytes. The error is that of a message
// that is no whole number of them.
func elements(bytes, size int) (int, error) {
	if bytes%size != 0 {
		return bytes / size, fmt.Errorf("%w: a message of %d bytes is no number of elements of %d", ft.ErrArgument, bytes, size)
	}
	return bytes / size, nil
}

// received completes a receive of a message of total bytes.
func (r *Request) received(total int) {
	r.count = min(total, len(r.buf))
	if total > len(r.buf) {
		r.err = r.opError(&truncated{fmt.Errorf("%w: %d bytes from rank %d, tag %d, for a buffer of %d",
			ft.ErrTruncate, total, r.comm.originalRank(r.from), r.tag, len(r.buf)), total})
	}
	r.Finish()
}

// truncated is the error of a message that was longer than the buffer.
type truncated struct {
	error
	total int // the message's length in bytes
}

func (t *truncated) Unwrap() error { return t.error }

// Truncated reports whether err is the error of a message that was too long, and returns the
// message's length in bytes. It compares types directly, since errors.Is through a joined error
// takes as long as everything else during a revocation.
func Truncated(err error) (total int, yes bool) {
	if e, of := err.(*ft.OpError); of {
		err = e.Err
	}
	t, yes := err.(*truncated)
	if yes {
		total = t.total
	}
	return total, yes
}

// fail ends the request with a cause.
func (r *Request) fail(cause error) {
	r.err = r.opError(cause)
	r.Finish()
}

// matched records the message that the receive was matched with.
func (r *Request) matched(from proc.ID, imm uint64) {
	r.from, r.tag = from, int(uint32(imm))
}

// Wait waits for the request, returns its outcome and ends it; for an ended request it returns a
// zero Status at once. After ft.ErrProcFailedPending the request has not ended: wait again, or
// cancel it.
func (e *Engine) Wait(h Handle) (Status, error) {
	if h.r == nil {
		return Status{}, nil
	}
	e.p.Lock()
	defer e.p.Unlock()
	if e.State(h) == InDoubt {
		e.p.Progress() // a matching message may have arrived
	}
	return e.Take(h)
}

// Take is Wait with the lock held; it makes no progress for a request in doubt.
func (e *Engine) Take(h Handle) (Status, error) {
	r := h.r
	if r == nil || r.gen != h.gen {
		return e.takeStale(h)
	}
	if r.awaited { // also if it is done: that goroutine has not looked yet
		return Status{}, r.twoWaiters()
	}
	if !r.Done() || r.pending {
		if err := e.await(r); err != nil {
			return Status{}, err
		}
	}
	st := r.status() // may set the error
	err := r.err
	e.recycle(r)
	return st, err
}

// await waits until the request can be taken or is in doubt.
func (e *Engine) await(r *Request) error {
	r.awaited = true
	var err error
	switch {
	case r.ways != 0:
		err = e.waitSpecially(r)
	case r.announced && e.awaitFin(r):
	default:
		e.p.WaitFor(&r.Completion, e.partner(r))
	}
	r.awaited = false
	if err != nil {
		return err
	}
	if r.pending {
		return r.opError(r.comm.unacknowledgedError(true))
	}
	return nil
}

// partner is the peer whose next step a request waits for, if the processes share cores and it is known.
func (e *Engine) partner(r *Request) *progress.Endpoint {
	l := r.link
	switch {
	case !e.p.Crowded():
		return nil
	case l == nil && r.kind == reqRecv && r.src != proc.None:
		l = e.findLink(r.src)
	}
	if l == nil {
		return nil
	}
	return l.ep
}

// twoWaiters is the error of a second goroutine that waits for a request or tests it: as soon as
// one goroutine has ended the request, its record is used for another operation.
func (r *Request) twoWaiters() error {
	return r.opError(fmt.Errorf("%w: another goroutine waits for this request", ft.ErrArgument))
}

// Test makes progress once and reports whether the request is complete; if so it ends it as Wait
// does. A request in doubt is not complete and has an error.
func (e *Engine) Test(h Handle) (st Status, done bool, err error) {
	if h.r == nil {
		return Status{}, true, nil
	}
	e.p.Lock()
	defer e.p.Unlock()
	if h.r.gen != h.gen {
		return e.testStale(h)
	}
	if h.r.awaited {
		return Status{}, false, h.r.twoWaiters()
	}
	if !h.r.Done() || h.r.pending {
		e.p.Progress()
		if !h.r.Done() {
			return Status{}, false, nil
		}
	}
	st, err = e.Take(h)
	return st, h.r.gen != h.gen, err
}

// Empty reports whether the handle is the zero Handle.
func (h Handle) Empty() bool { return h.r == nil }
