package osu

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// placeMemory bounds the memory of a window, in bytes, as long as a message fits: the messages that are
// in flight together have places of their own as far as it goes.
const placeMemory = 64 << 20

// remote is this rank's side of a window. Rank 0 is the origin of operations and rank 1 the target;
// where a synchronization needs calls of the target, a latency is measured with both as origins in turn.
type remote struct {
	access     *access
	call       func(r *remote, at, size int) error // of access
	way        way
	win        *banyan.Window
	memory     []byte       // of the window, at this rank
	group      banyan.Group // the peer
	peer       int
	sbuf, rbuf []byte // as long as memory
}

// way is a Synchronization, which the timed loops look at.
type way uint8

const (
	byFlush way = iota
	byFlushLocal
	byLock
	byLockAll
	byPSCW
	byFence
)

var ways = map[Synchronization]way{SyncFlush: byFlush, SyncFlushLocal: byFlushLocal, SyncLock: byLock, SyncLockAll: byLockAll, SyncPSCW: byPSCW,
	SyncFence: byFence}

// active: the target takes part.
func (w way) active() bool { return w >= byPSCW }

// places is how many messages have memory of their own, at least one.
func (r *remote) places(size int) int { return len(r.memory) / max(1, size) }

// span is the length of the memory for messages up to max bytes, so many in flight.
func span(max, window int) int {
	return max * min(window, (placeMemory+max-1)/max)
}

// openRemote makes a Pair with a window, of two ranks. It is collective.
func openRemote(w *banyan.World, o *Options, a *access) (*Pair, error) {
	p, err := newPair(w, 1, &Options{})
	if err != nil {
		return nil, err
	}
	group, err := p.c.Group().Include(p.peer)
	if err != nil {
		return nil, err
	}
	n := span(max(o.Max, word), max(1, o.Window))
	r := &remote{way: ways[o.Sync], group: group, peer: p.peer}
	if o.Creation == CreateWindow {
		r.win, err = p.c.NewWindow(pages(n))
	} else {
		r.win, err = p.c.AllocWindow(n)
	}
	if err != nil {
		return nil, err
	}
	r.memory = r.win.Bytes()
	clear(r.memory) // so that it has memory
	r.use(a)
	p.remote = r
	return p, p.sync()
}

// closeRemote ends the window after a run that ended alike on both ranks.
func (p *Pair) closeRemote(err error) error {
	var cut *CutError
	if err != nil && !errors.As(err, &cut) {
		return err // the other rank may be elsewhere
	}
	return cmp.Or(err, p.remote.win.Free())
}

// use sets the kind of operation.
func (r *remote) use(a *access) {
	r.access, r.call = a, a.call
	if a.data && r.sbuf == nil {
		r.sbuf = touched(len(r.memory))
	}
	if a.old && r.rbuf == nil {
		r.rbuf = touched(len(r.memory))
	}
}

// Remote is this rank's side of two ranks that measure operations of rank 0 on the memory of rank 1,
// with a flush after each or after a window of them, as [Pair] measures messages. It is for one
// goroutine, and lives as long as the job.
type Remote struct{ p *Pair }

// NewRemote makes the window, for messages up to max bytes and windows up to window messages. It is
// collective. Errors when the job has other than two ranks, and those of [banyan.Comm.AllocWindow].
func NewRemote(w *banyan.World, max, window int) (*Remote, error) {
	if n := w.Comm().Size(); n != 2 {
		return nil, fmt.Errorf("osu: the job has %d ranks, exactly 2 are needed: start with -n 2", n)
	}
	o := Options{Max: max, Window: window}.on(SyncFlush)
	p, err := openRemote(w, &o, &putAccess)
	return &Remote{p}, err
}

// Measure does warmup and then n iterations of the benchmark of that name, and returns the time of those n on
// rank 0, and 0 on rank 1, where it returns when they are done. Precondition: the benchmark is one-sided and
// not of both directions, and fits the window.
func (r *Remote) Measure(name string, size, window, warmup, n int) (elapsed time.Duration, err error) {
	r.p.remote.use(Find(name).access)
	f := form{oneWay, window}
	if _, err = r.p.accesses(size, f, warmup); err == nil {
		elapsed, err = r.p.accesses(size, f, n)
	}
	return elapsed, cmp.Or(err, r.p.sync())
}

// Locks does warmup and then n times a lock of rank 1's memory by rank 0 and its release, and returns the time of
// those n, as Measure does.
func (r *Remote) Locks(kind banyan.LockKind, warmup, n int) (elapsed time.Duration, err error) {
	p := r.p
	lock := func(n int) error {
		if !p.first {
			return nil
		}
		for range n {
			if err := p.remote.win.Lock(kind, p.peer); err != nil {
				return err
			}
			if err := p.remote.win.Unlock(p.peer); err != nil {
				return err
			}
		}
		return nil
	}
	if err = lock(warmup); err == nil {
		elapsed, err = p.timed(func() error { return lock(n) })
	}
	return elapsed, cmp.Or(err, p.sync())
}

func touched(n int) []byte {
	b := pages(n)
	for i := range b {
		b[i] = 'a'
	}
	return b
}

// shape is which ranks access the other's memory in an iteration.
type shape uint8

const (
	inTurn   shape = iota // one after the other, if the target calls at all
	oneWay                // rank 0
	bothWays              // both at the same time
)

// form is an iteration: so many operations of each rank that has any.
type form struct {
	shape shape
	count int
}

// latency is the time of an operation at the origin; where both ranks are origins in turn, half of both.
func (a *access) latency(o *Options) pass {
	ps := a.pass(form{inTurn, 1})
	ps.count = 1
	if o.Sync.active() {
		ps.count = 2
	}
	return ps
}

func (a *access) bandwidth(o *Options) pass {
	ps := a.pass(form{oneWay, o.Window})
	ps.count, ps.total = o.Window, true
	return ps
}

func (a *access) bothWays(o *Options) pass {
	ps := a.pass(form{bothWays, o.Window})
	ps.count, ps.total = 2*o.Window, true
	return ps
}

func (a *access) pass(f form) pass {
	return pass{
		run: func(p *Pair, size, n int) (time.Duration, error) { return p.accesses(size, f, n) },
		singles: func(p *Pair, size, n int) (all []time.Duration, err error) {
			if p.waits() {
				return nil, p.sync()
			}
			err = p.remote.held(p.first, func() error {
				all, err = oneByOne(func(p *Pair, size int) error { return p.accessOnce(size, f) })(p, size, n)
				return err
			})
			return all, err
		},
		check:    func(p *Pair, size int, round byte) (int, error) { return p.checkAccess(size, f, round) },
		abreast:  1,
		perCheck: 1,
	}
}

// waits reports whether this side is a target without a part: its next call is a wait for the origin.
func (p *Pair) waits() bool { return !p.first && !p.remote.way.active() }

// accesses does n iterations and returns how long they took on the first side, and 0 on the other.
func (p *Pair) accesses(size int, f form, n int) (elapsed time.Duration, err error) {
	if p.waits() {
		return 0, p.sync()
	}
	err = p.remote.held(p.first, func() error {
		elapsed, err = p.timed(func() error {
			if p.remote.way == byFlush && f.count == 1 {
				return p.remote.eachFlushed(size, n)
			}
			for range n {
				if err := p.accessOnce(size, f); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	return elapsed, err
}

// eachFlushed is the timed loop of operations of some ten nanoseconds: nothing in it but the operation and its
// flush.
func (r *remote) eachFlushed(size, n int) error {
	for range n {
		if err := r.call(r, 0, size); err != nil {
			return err
		}
		if err := r.win.Flush(r.peer); err != nil {
			return err
		}
	}
	return nil
}

// held runs the function while the origin has the lock that flushes need, which is not timed.
func (r *remote) held(origin bool, run func() error) error {
	if r.way > byFlushLocal || !origin {
		return run()
	}
	if err := r.win.Lock(banyan.LockShared, r.peer); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	return r.win.Unlock(r.peer)
}

// accessOnce is an iteration.
func (p *Pair) accessOnce(size int, f form) error {
	r := p.remote
	switch {
	case p.waits():
		return nil
	case !r.way.active():
		return r.origin(size, f.count)
	case f.shape == bothWays:
		return r.both(size, f.count)
	case f.shape == oneWay && p.first:
		return r.origin(size, f.count)
	case f.shape == oneWay:
		return r.target(2)
	case p.first:
		if err := r.origin(size, f.count); err != nil {
			return err
		}
		return r.target(1)
	}
	if err := r.target(1); err != nil {
		return err
	}
	return r.origin(size, f.count)
}

// both is the access of both ranks at once.
func (r *remote) both(size, count int) error {
	if r.way == byFence {
		return r.origin(size, count)
	}
	if err := r.win.Post(r.group); err != nil {
		return err
	}
	if err := r.origin(size, count); err != nil {
		return err
	}
	return r.win.Wait()
}

// origin accesses the peer's memory, between the calls that let it and that end it.
func (r *remote) origin(size, count int) error {
	if err := r.begin(); err != nil {
		return err
	}
	for i, at := 0, 0; i < count; i++ {
		if err := r.call(r, at, size); err != nil {
			return err
		}
		if at += size; at > len(r.memory)-size {
			at = 0
		}
	}
	return r.end()
}

func (r *remote) begin() error {
	switch r.way {
	case byFlush, byFlushLocal:
		return nil
	case byLock:
		return r.win.Lock(banyan.LockShared, r.peer)
	case byLockAll:
		return r.win.LockAll()
	case byPSCW:
		return r.win.Start(r.group)
	}
	return r.win.Fence()
}

func (r *remote) end() error {
	switch r.way {
	case byFlush:
		return r.win.Flush(r.peer)
	case byFlushLocal:
		return r.win.FlushLocal(r.peer)
	case byLock:
		return r.win.Unlock(r.peer)
	case byLockAll:
		return r.win.UnlockAll()
	case byPSCW:
		return r.win.Complete()
	}
	return r.win.Fence()
}

// target lets the peer access this rank's memory. A fence ends an epoch and begins the next, so ranks
// that take turns share one.
func (r *remote) target(fences int) error {
	if r.way == byPSCW {
		if err := r.win.Post(r.group); err != nil {
			return err
		}
		return r.win.Wait()
	}
	for range fences {
		if err := r.win.Fence(); err != nil {
			return err
		}
	}
	return nil
}
