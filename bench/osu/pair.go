package osu

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// The tags of the kinds of messages; the values of the first three are OSU's. From tagThread on
// each lane of threads has one of its own.
const (
	tagPing   = 1
	tagData   = 100
	tagAck    = 101
	tagSync   = 103
	tagWord   = 104
	tagThread = 1000
)

// Pair is this rank's side of two ranks that measure, alone or beside other pairs. All ranks call
// the same methods with the same arguments. It is for one goroutine.
type Pair struct {
	w          *banyan.World
	c          *banyan.Comm
	pairs      int  // that measure at the same time; rank i belongs to pairs+i
	ranks      int  // that measure, the first ones: two of each pair, or all of a fan
	first      bool // this side starts, and has the time
	peer       int
	sbuf, rbuf []byte
	lent       bool
	multiple   int // so many messages of a window have buffers of their own; 0: they share one
	persistent bool
	prepared   prepared
	fan        *fan
	reqs       []banyan.Request
	threads    []thread // of this side, for the threaded benchmark
	remote     *remote  // for the one-sided ones
	word       [1]byte
}

// NewPair allocates buffers for messages up to max bytes and windows up to window messages, with registered of
// [banyan.Alloc]. Errors when the job has other than two ranks.
func NewPair(w *banyan.World, max, window int, registered bool) (*Pair, error) {
	if n := w.Comm().Size(); n != 2 {
		return nil, fmt.Errorf("osu: the job has %d ranks, exactly 2 are needed: start with -n 2", n)
	}
	return newPair(w, 1, &Options{Max: max, Window: window, Registered: registered})
}

// newPair makes this rank's side of one of so many pairs.
//
// Preconditions: the rank belongs to one of them.
func newPair(w *banyan.World, pairs int, o *Options) (*Pair, error) {
	c := w.Comm()
	p := &Pair{
		w: w, c: c, pairs: pairs, ranks: 2 * pairs, persistent: o.Persistent, first: c.Rank() < pairs, peer: (c.Rank() + pairs) % (2 * pairs),
		reqs: make([]banyan.Request, 2*o.Window), lent: o.Lent,
	}
	if o.Registered {
		var err error
		if p.sbuf, err = banyan.Alloc[byte](w, max(1, o.Max)); err == nil {
			p.rbuf, err = banyan.Alloc[byte](w, max(1, o.Max))
		}
		if err != nil {
			return nil, err
		}
	} else {
		p.sbuf, p.rbuf = pages(o.Max), pages(o.Max)
	}
	if o.Multiple {
		p.multiple = max(1, o.Window)
	}
	touch(p.sbuf, p.rbuf)
	if o.Senders > 0 {
		p.newThreads(o)
	}
	return p, nil
}

// free gives registered memory back.
func (p *Pair) free(o *Options) error {
	if !o.Registered {
		return nil
	}
	return cmp.Or(banyan.Free(p.w, p.sbuf), banyan.Free(p.w, p.rbuf))
}

// touch writes to the buffers, as OSU does, so that they have memory.
func touch(sbuf, rbuf []byte) {
	for i := range sbuf {
		sbuf[i], rbuf[i] = 'a', 'b'
	}
}

// renew takes new buffers for a size, one for each message of a window.
func (p *Pair) renew(size int) {
	if p.multiple > 0 {
		p.sbuf, p.rbuf = pages(size*p.multiple), pages(size*p.multiple)
		touch(p.sbuf, p.rbuf)
	}
}

// nth is the buffer of a message of a window of which b is that of the first.
func (p *Pair) nth(b []byte, message int) []byte {
	if p.multiple == 0 {
		return b
	}
	return b[:cap(b)][message*len(b):][:len(b)]
}

// Latency exchanges n round trips of size bytes and returns how long they took on the first side,
// and 0 on the other.
func (p *Pair) Latency(size, n int) (time.Duration, error) {
	return p.timed(func() error { return p.pingPong(p.sbuf[:size], p.rbuf[:size], n) })
}

// Bandwidth sends n windows of messages of size bytes from the first side to the other and returns
// how long they took on the first, and 0 on the other.
//
// With several pairs the time lasts until all are done. Where they take turns on the cores, each
// may be fast in its turn; their bandwidths must not be added.
func (p *Pair) Bandwidth(size, window, n int) (time.Duration, error) {
	reqs := p.reqs[:window]
	return p.timed(func() error {
		err := p.windows(p.sbuf[:size], p.rbuf[:size], reqs, n)
		if err != nil || p.pairs == 1 {
			return err
		}
		return p.sync()
	})
}

// timed runs loop after all sides are ready.
func (p *Pair) timed(loop func() error) (time.Duration, error) {
	if err := p.sync(); err != nil {
		return 0, err
	}
	start := p.w.Now()
	if err := loop(); err != nil {
		return 0, err
	}
	elapsed := p.w.Now() - start
	if !p.first {
		return 0, nil
	}
	return elapsed, nil
}

// pingPong is the timed loop of latency: nothing in it but the messages.
func (p *Pair) pingPong(s, r []byte, n int) error {
	c, peer := p.c, p.peer
	if p.lent {
		return p.lendPingPong(s, n)
	}
	if p.persistent {
		return p.preparedPingPong(s, r, n)
	}
	if p.first {
		for range n {
			if err := c.Send(s, peer, tagPing); err != nil {
				return err
			}
			if _, err := c.Recv(r, peer, tagPing); err != nil {
				return err
			}
		}
		return nil
	}
	for range n {
		if _, err := c.Recv(r, peer, tagPing); err != nil {
			return err
		}
		if err := c.Send(s, peer, tagPing); err != nil {
			return err
		}
	}
	return nil
}

// lendPingPong is pingPong with loans.
func (p *Pair) lendPingPong(s []byte, n int) error {
	var last banyan.Request
	for i := range 2 * n {
		if p.first == (i%2 == 0) {
			if _, err := last.Wait(); err != nil {
				return err
			}
			last = p.c.Ilend(s, p.peer, tagPing)
		} else if err := borrow(p.c, p.peer, tagPing); err != nil {
			return err
		}
	}
	_, err := last.Wait()
	return err
}

// borrow receives a loan and returns it unread.
func borrow(c *banyan.Comm, src, tag int) error {
	l, err := c.Borrow(src, tag)
	if err == nil {
		err = l.Return()
	}
	return err
}

// windows is the timed loop of bandwidth.
func (p *Pair) windows(s, r []byte, reqs []banyan.Request, n int) error {
	for range n {
		var err error
		if p.first {
			err = p.sendWindow(s, reqs)
		} else {
			err = p.recvWindow(r, reqs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Pair) sendWindow(s []byte, reqs []banyan.Request) error {
	if p.lent {
		for i := range reqs {
			reqs[i] = p.c.Ilend(s, p.peer, tagData)
		}
	} else if err := p.sends(s, reqs); err != nil {
		return err
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return err
	}
	_, err := p.c.Recv(p.word[:], p.peer, tagAck)
	return err
}

func (p *Pair) recvWindow(r []byte, reqs []banyan.Request) error {
	if p.lent {
		for range reqs {
			if err := borrow(p.c, p.peer, tagData); err != nil {
				return err
			}
		}
		return p.c.Send(p.word[:], p.peer, tagAck)
	}
	if err := p.receives(r, reqs); err != nil {
		return err
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return err
	}
	return p.c.Send(p.word[:], p.peer, tagAck)
}

// bothWindows is the timed loop of bidirectional bandwidth: each side posts a window of receives,
// then sends one. When a side has received its window, the other side has started this round, so
// neither runs ahead by more than one.
//
// Preconditions: reqs has room for two windows.
func (p *Pair) bothWindows(s, r []byte, reqs []banyan.Request, n int) error {
	if p.lent {
		return errors.New("osu: loans go one way at a time: measure bibw with registered memory")
	}
	in, out := reqs[:len(reqs)/2], reqs[len(reqs)/2:]
	for range n {
		if err := cmp.Or(p.receives(r, in), p.sends(s, out)); err != nil {
			return err
		}
		if err := banyan.WaitAll(reqs); err != nil {
			return err
		}
	}
	return nil
}
