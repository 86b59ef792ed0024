package rma

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Window is one process's part of a window. Any goroutine may call its methods; synchronisation is
// called by one goroutine at a time. The engine's lock guards all fields, and the memory against frames.
type Window struct {
	s       *Service
	core    *p2p.Comm
	rank    int // of this process
	ctx     uint32
	gen     uint8 // generation
	mem     []byte
	at      place         // of mem; zero: no other process reaches it
	made    bool          // the block of mem is the window's
	shared  fabric.Region // mem, for the adapters of peers; of length 0: it is not shared
	notices []uint64
	targets []target
	lock    ownLock // of mem
	waits   waits
	failed  error
	// impaired: a member has ended other than by its departure.
	impaired bool
	freed    bool
	fenced   bool // the last fence started an epoch
	// runThrough: the profile, which the communicator gives only without the lock.
	runThrough bool
	waiters    []*progress.Completion
	spare      *progress.Completion // for the next wait; nil: it makes one
	results    map[uint32]*result
	token      uint32
	dynamic    bool
	attached   []attached // of a dynamic window, in the order of their offsets
	unused     uint64     // the first offset that no memory has had
}

// target is the state of a window for one of its ranks, this one included.
type target struct {
	w     *Window
	rank  int
	id    proc.ID
	ep    *progress.Endpoint
	size  uint64
	at    place
	block []byte // the mapped block of at
	mem   []byte // its memory, where this process reaches it
	found bool   // mem has been looked for
	lock  theirLock
	// near is where mem begins, if operations may take it without the engine's lock while state allows that. Busy:
	// quiet does not hold.
	near    atomic.Pointer[byte]
	state   atomic.Uint32 // see open.go
	busy    atomic.Bool
	notices uint64
	out     []item // requests, in order
	replies []item // answers, in order
	open    int    // requests that were sent and have no answer yet
	stalled bool   // it is in the service's list
	dirty   bool   // operations were started since the last flush
	// Moves: see move.go. Those of operations that wait in out, and the parts of others that are under way.
	mover             fabric.Mover // nil: operations are messages
	moves             *moves       // of the peer
	pieces            []*piece     // that this rank knows of, in the order of their offsets; one of a window that is not dynamic
	asking            bool         // for a piece
	waiting, underWay int
	last              uint64 // the number of the last move that was started
	losses            int    // reports of lost moves
	notified, noticed uint64 // puts with a notice that were started, and those of the rank that have come
	// Flushes and unlocks are numbered: sent have been started, acked answered.
	sent, acked uint64
	requests    []request
	held        bool // this rank has its lock, or has asked for it; see also lockTaken
	granted     bool
	posted      int  // posts of the rank that no start has used
	completed   int  // the same of completes and wait
	access      bool // in the group of the last start
	exposed     bool // in the group of the last post
	ended       bool
	how         end
	agreed      bool // a validate has agreed that it ended
	refused     bool // it has refused an operation, which no synchronisation has reported
	refusing    bool // an operation of the rank has been refused, which no answer to a flush has said
}

// end is how a rank has ended for a window.
type end uint8

const (
	departed end = iota
	failed
	freed // it has no window any more: its Free, or the creation, has met a failure
)

// request is an operation that completes with a flush and a move, or with an error once nothing moves.
type request struct {
	flush, move uint64
	promise     p2p.Promise
	err         error
}

// result is where the answers to an operation go.
type result struct {
	t    *target
	buf  []byte
	left uint64
	done bool
	err  error
	// fetched: a call waits for the result, and reports the error.
	fetched bool
}

// Op is an operation. Data is read, Old written: they belong to the window until a flush.
type Op struct {
	Kind   Kind
	Acc    Acc
	Elem   Elem
	Data   []byte // put or accumulated; of CompareAndSwap the compared value, then the new one
	Old    []byte // for the bytes that are read
	Rank   int
	At     uint64 // offset in bytes
	Notice int    // of Put: the counter, from 1; 0: none
}

// Kind is the kind of an operation.
type Kind uint8

// The kinds of operations.
const (
	Put            = Kind(kindPut)
	Get            = Kind(kindGet)
	Accumulate     = Kind(kindAcc)
	GetAccumulate  = Kind(kindGetAcc)
	CompareAndSwap = Kind(kindCas)
)

var errFreed = fmt.Errorf("%w: the window has been freed", ft.ErrClosed)

// errNoEpoch: see Window.Start.
var errNoEpoch = fmt.Errorf("%w: no epoch: Fence, Start, Lock or LockAll begins one", ft.ErrArgument)

// broken is the error of every call on a window that cannot be used. Precondition: the lock is held.
func (w *Window) broken() error {
	if w.freed {
		return errFreed
	}
	if err := w.core.UnrevokedLocked(); err != nil {
		return err
	}
	return w.failed
}

// Do starts an operation. Errors: ft.ErrArgument, and that of a window that has failed; the death of the
// target is found by the synchronisation.
func (w *Window) Do(op *Op) error {
	if w.atOnce(op) {
		return nil
	}
	w.s.e.Lock()
	defer w.s.e.Unlock()
	_, _, err := w.start(op)
	return w.returns(err)
}

// Fetch is Do, and waits for the bytes that the operation reads.
func (w *Window) Fetch(op *Op) error {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	t, r, err := w.start(op)
	switch {
	case err != nil || t == nil:
		return err
	case t.ended:
		return w.finish(t.endedError())
	case r == nil:
		return nil
	}
	r.fetched = true
	return w.finish(w.await(func() (bool, error) {
		switch {
		case r.done:
			return true, r.err
		case t.ended:
			return false, t.endedError()
		}
		return false, w.broken()
	}))
}

// Request is Do; the request completes when the operation is complete, at the target too.
func (w *Window) Request(op *Op, name string) p2p.Handle {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	t, _, err := w.start(op)
	promise, h := w.s.p.NewPromise(w.core, name)
	switch {
	case err != nil || t == nil:
		promise.Complete(err)
	case t.ended:
		promise.Complete(t.endedError())
	case t.quiet():
		promise.Complete(nil)
	default:
		if t.dirty {
			t.flush()
		}
		t.requests = append(t.requests, request{flush: t.sent, move: t.last, promise: promise})
	}
	return h
}

// start starts an operation. r is nil if nothing is read, t if there is nothing to do.
func (w *Window) start(op *Op) (t *target, r *result, err error) {
	t, err = w.reach(op.Rank)
	if err != nil || t == nil {
		return nil, nil, err
	}
	if !t.inEpoch() {
		return nil, nil, errNoEpoch
	}
	n := op.length()
	if err := op.check(t, n); err != nil {
		return nil, nil, err
	}
	if n == 0 && op.Notice == 0 || t.ended {
		return t, nil, nil
	}
	if mem, ok := t.reached(op.At, n); ok && t.direct(op, mem) {
		if op.Notice == 0 {
			return t, nil, nil
		}
		op = &Op{Kind: Put, At: op.At, Notice: op.Notice} // the frame comes after the data
		n = 0
	}
	it := item{
		kind: kind(op.Kind), head: head{acc: op.Acc, elem: op.Elem, at: op.At, notice: uint32(op.Notice)},
		data: op.Data, n: uint64(len(op.Data)),
	}
	switch op.Kind {
	case Get:
		it.n = n
	case Put:
		if it.head.off = t.notified; op.Notice > 0 {
			t.notified++
		}
	}
	if it.piece = t.pathOf(op, n); it.piece != nil {
		t.startMove(it, op)
		return t, nil, nil
	}
	if it.kind.asks() {
		if it.token, err = w.newToken(); err != nil {
			return nil, nil, err
		}
		r = &result{t: t, buf: op.Old, left: n}
		w.results[it.token] = r
	}
	t.dirty = true
	t.busy.Store(true)
	t.out = append(t.out, it)
	t.pump()
	return t, r, nil
}

// length is how much of the target's memory an operation is on.
func (op *Op) length() uint64 {
	if op.Kind == CompareAndSwap {
		return uint64(len(op.Old))
	}
	return uint64(max(len(op.Data), len(op.Old)))
}

func (op *Op) check(t *target, n uint64) error {
	if op.At > math.MaxInt64 {
		return fmt.Errorf("%w: a negative offset or index, or one beyond all memory", ft.ErrArgument)
	}
	if w := t.w; w.dynamic && t.rank == w.rank {
		if _, ok := w.memory(op.At, n); !ok {
			return fmt.Errorf("%w: %d bytes at %d: no memory is attached there", ft.ErrArgument, n, op.At)
		}
	} else if !inside(op.At, n, t.size) {
		return fmt.Errorf("%w: %d bytes at %d of rank %d, whose memory has %d", ft.ErrArgument, n, op.At, t.rank, t.size)
	}
	if uint64(op.Notice) > t.notices {
		return fmt.Errorf("%w: counter %d of rank %d, which has %d", ft.ErrArgument, op.Notice-1, t.rank, t.notices)
	}
	if op.Kind == Put || op.Kind == Get {
		return nil
	}
	if s := uint64(op.Elem.size()); s == 0 || n%s != 0 || op.At%s != 0 || !op.Acc.applies(op.Elem) ||
		op.Kind == CompareAndSwap && (n != s || len(op.Data) != int(2*s)) ||
		op.Kind == GetAccumulate && len(op.Old) != len(op.Data) {
		return fmt.Errorf("%w: operation, type, lengths and offset do not fit", ft.ErrArgument)
	}
	return nil
}

func (w *Window) newToken() (uint32, error) {
	for range maxTokens {
		w.token = (w.token + 1) % maxTokens
		if w.results[w.token] == nil {
			return w.token, nil
		}
	}
	return 0, fmt.Errorf("%w: 2^%d operations are under way: flush", ft.ErrArgument, tokenBits)
}

// reach checks the window and a rank, and connects to it if need be. It is nil for a rank on which
// operations do nothing. Precondition: the lock is held, as on return; it is released to connect.
func (w *Window) reach(rank int) (*target, error) {
	if err := w.broken(); err != nil {
		return nil, err
	}
	if rank == p2p.ProcNull {
		return nil, nil
	}
	if uint(rank) >= uint(len(w.targets)) {
		return nil, fmt.Errorf("%w: rank %d, want 0 … %d", ft.ErrArgument, rank, len(w.targets)-1)
	}
	t := &w.targets[rank]
	if t.agreed && t.how == failed && w.runThrough {
		return nil, nil
	}
	if t.ep == nil && !t.ended {
		w.s.e.Unlock()
		ep, err := w.s.e.Endpoint(t.id)
		w.s.e.Lock()
		if err != nil {
			return nil, err
		}
		t.ep = ep
		if err := w.broken(); err != nil {
			return nil, err
		}
	}
	if !t.found && !t.ended {
		t.find()
		t.refresh()
	}
	t.account()
	return t, nil
}

// quiet reports whether all operations on the rank are complete.
func (t *target) quiet() bool { return !t.dirty && t.flushed() }

// flushed is quiet for the operations before the last flush.
func (t *target) flushed() bool { return t.acked == t.sent && t.waiting+t.underWay == 0 }

// Bytes is this rank's memory.
func (w *Window) Bytes() []byte { return w.mem }

// SizeAt is the length of a rank's memory; 0 in a dynamic window. Precondition: the rank exists.
func (w *Window) SizeAt(rank int) int {
	if w.dynamic {
		return 0
	}
	return int(w.targets[rank].size)
}

// Free ends the window here. Early: other ranks may still use it, which are told.
func (w *Window) Free(early bool) {
	w.s.e.Lock()
	defer w.s.e.Unlock()
	w.settle()
	if w.freed {
		return
	}
	w.free(early)
	w.closeMemory()
	w.closeLocks()
}

func (w *Window) free(early bool) {
	w.freed = true
	delete(w.s.windows, w.ctx)
	w.endLock()
	for i := range w.targets {
		if t := &w.targets[i]; early && !t.ended {
			w.s.tellGone(w.s.e.Lookup(t.id), w.ctx)
		}
	}
	for i := range w.targets {
		w.targets[i].drop()
	}
	w.endRequests(errFreed)
	w.refresh()
	w.wake()
}
