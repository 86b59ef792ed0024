package osu

import (
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
	first      bool // this side starts, and has the time
	peer       int
	sbuf, rbuf []byte
	reqs       []banyan.Request
	threads    []thread // of this side, for the threaded benchmark
	word       [1]byte
}

// NewPair allocates buffers for messages up to max bytes and windows up to window messages. Errors
// when the job has other than two ranks.
func NewPair(w *banyan.World, max, window int) (*Pair, error) {
	if n := w.Comm().Size(); n != 2 {
		return nil, fmt.Errorf("osu: the job has %d ranks, exactly 2 are needed: start with -n 2", n)
	}
	return newPair(w, 1, &Options{Max: max, Window: window}), nil
}

// newPair makes this rank's side of one of so many pairs.
//
// Preconditions: the rank belongs to one of them.
func newPair(w *banyan.World, pairs int, o *Options) *Pair {
	c := w.Comm()
	p := &Pair{
		w: w, c: c, pairs: pairs, first: c.Rank() < pairs, peer: (c.Rank() + pairs) % (2 * pairs),
		sbuf: pages(o.Max), rbuf: pages(o.Max), reqs: make([]banyan.Request, 2*o.Window),
	}
	touch(p.sbuf, p.rbuf)
	if o.Senders > 0 {
		p.newThreads(o)
	}
	return p
}

// touch writes to the buffers, as OSU does, so that they have memory.
func touch(sbuf, rbuf []byte) {
	for i := range sbuf {
		sbuf[i], rbuf[i] = 'a', 'b'
	}
}

// First reports whether this is the side that starts and has the times.
func (p *Pair) First() bool { return p.first }

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
	for i := range reqs {
		reqs[i] = p.c.Isend(s, p.peer, tagData)
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return err
	}
	_, err := p.c.Recv(p.word[:], p.peer, tagAck)
	return err
}

func (p *Pair) recvWindow(r []byte, reqs []banyan.Request) error {
	for i := range reqs {
		reqs[i] = p.c.Irecv(r, p.peer, tagData)
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return err
	}
	return p.c.Send(p.word[:], p.peer, tagAck)
}

// bothWindows is the timed loop of bidirectional bandwidth: each side posts a window of receives,
// then sends one. A side that has received its window knows that the other has started this round,
// so neither runs ahead by more than one.
//
// Preconditions: reqs has room for two windows.
func (p *Pair) bothWindows(s, r []byte, reqs []banyan.Request, n int) error {
	in, out := reqs[:len(reqs)/2], reqs[len(reqs)/2:]
	for range n {
		for i := range in {
			in[i] = p.c.Irecv(r, p.peer, tagData)
		}
		for i := range out {
			out[i] = p.c.Isend(s, p.peer, tagData)
		}
		if err := banyan.WaitAll(reqs); err != nil {
			return err
		}
	}
	return nil
}
