package osu

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// The tags tell the kinds of messages apart; their values are OSU's.
const (
	tagPing = 1
	tagData = 100
	tagAck  = 101
	tagSync = 103
)

// Pair is one side of two ranks that measure. Both call the same methods with
// the same arguments. It is for one goroutine.
type Pair struct {
	w          *banyan.World
	c          *banyan.Comm
	first      bool // rank 0: starts, and has the time
	peer       int
	sbuf, rbuf []byte
	reqs       []banyan.Request
	word       [1]byte
}

// NewPair allocates buffers for messages up to max bytes and windows up to
// window messages. Errors when the job has other than two ranks.
func NewPair(w *banyan.World, max, window int) (*Pair, error) {
	if err := twoRanks(w); err != nil {
		return nil, err
	}
	c := w.Comm()
	p := &Pair{
		w: w, c: c, first: c.Rank() == 0, peer: 1 - c.Rank(),
		sbuf: pages(max), rbuf: pages(max), reqs: make([]banyan.Request, window),
	}
	for i := range p.sbuf { // touched, as OSU does
		p.sbuf[i], p.rbuf[i] = 'a', 'b'
	}
	return p, nil
}

// First reports whether this is rank 0, which has the times.
func (p *Pair) First() bool { return p.first }

// Latency exchanges n round trips of size bytes and returns how long they took
// on rank 0, and 0 on rank 1.
func (p *Pair) Latency(size, n int) (time.Duration, error) {
	return p.timed(func() error { return p.pingPong(p.sbuf[:size], p.rbuf[:size], n) })
}

// Bandwidth sends n windows of messages of size bytes from rank 0 to rank 1 and
// returns how long they took on rank 0, and 0 on rank 1.
func (p *Pair) Bandwidth(size, window, n int) (time.Duration, error) {
	reqs := p.reqs[:window]
	return p.timed(func() error { return p.windows(p.sbuf[:size], p.rbuf[:size], reqs, n) })
}

// timed runs loop after both sides have said that they are there.
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

// sync returns when the other side has called it too.
func (p *Pair) sync() error {
	var got [1]byte
	if _, err := p.c.Sendrecv(p.word[:], p.peer, tagSync, got[:], p.peer, tagSync); err != nil {
		return fmt.Errorf("osu: synchronize with rank %d: %w", p.peer, err)
	}
	return nil
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
