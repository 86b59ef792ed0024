package netpipe

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// The tags of the kinds of messages.
const (
	tagData = 1
	tagSync = 2
)

// pair is one side of two ranks that measure. Both call the same methods with the same arguments.
// It is for one goroutine.
type pair struct {
	w     *banyan.World
	c     *banyan.Comm
	first bool // rank 0: starts and decides
	peer  int
	mode  Mode
	lent  bool
	// sbuf and rbuf are the same memory, but for Bidirectional.
	sbuf, rbuf []byte
	cold       *pool // in their place, if no message is to find its memory in a cache
	word       [8]byte
}

func newPair(w *banyan.World, o *Options, largest int) (*pair, error) {
	c := w.Comm()
	if n := c.Size(); n != 2 {
		return nil, fmt.Errorf("netpipe: the job has %d ranks, exactly 2 are needed: start with -n 2", n)
	}
	p := &pair{w: w, c: c, first: c.Rank() == 0, peer: 1 - c.Rank(), mode: o.Mode, lent: o.Lent}
	if o.Cold {
		p.cold = newPool(largest)
		return p, nil
	}
	var err error
	if p.sbuf, err = p.touched(o, largest); err != nil {
		return nil, err
	}
	if p.rbuf = p.sbuf; o.Mode == Bidirectional {
		p.rbuf, err = p.touched(o, largest)
	}
	return p, err
}

// touched is memory of this run.
func (p *pair) touched(o *Options, n int) ([]byte, error) {
	if !o.Registered {
		return touched(n), nil
	}
	return banyan.Alloc[byte](p.w, n) // its pages are there
}

// touched returns memory whose pages are present. It allocates at least 64 KiB: Go's allocator
// begins objects of that size on a page.
func touched(n int) []byte {
	b := make([]byte, max(n, 64<<10))
	for i := range b {
		b[i] = byte(i)
	}
	return b[:n]
}

// free gives registered memory back, when the run is over.
func (p *pair) free(o *Options) error {
	if !o.Registered {
		return nil
	}
	err := banyan.Free(p.w, p.sbuf)
	if o.Mode == Bidirectional {
		err = cmp.Or(err, banyan.Free(p.w, p.rbuf))
	}
	return err
}

// pass moves n messages of size bytes and returns, on rank 0, how long they took; 0 on rank 1.
func (p *pair) pass(size, n int) (time.Duration, error) {
	if err := p.sync(); err != nil {
		return 0, err
	}
	start := p.w.Now()
	if err := p.loop(size, n); err != nil {
		return 0, err
	}
	elapsed := p.w.Now() - start
	if p.mode == Streaming {
		// The sender is done before its last message has arrived.
		return p.fromSecond(elapsed)
	}
	if !p.first {
		return 0, nil
	}
	return elapsed, nil
}

// sync returns when the other side has called it too.
func (p *pair) sync() error {
	var got [8]byte
	if _, err := p.c.Sendrecv(p.word[:], p.peer, tagSync, got[:], p.peer, tagSync); err != nil {
		return fmt.Errorf("synchronize with rank %d: %w", p.peer, err)
	}
	return nil
}

// fromSecond gives rank 0 the time that rank 1 has taken.
func (p *pair) fromSecond(d time.Duration) (time.Duration, error) {
	if p.first {
		_, err := p.c.Recv(p.word[:], p.peer, tagSync)
		return time.Duration(binary.LittleEndian.Uint64(p.word[:])), err
	}
	binary.LittleEndian.PutUint64(p.word[:], uint64(d))
	return 0, p.c.Send(p.word[:], p.peer, tagSync)
}

// agree returns rank 0's n on both ranks.
func (p *pair) agree(n int) (int, error) {
	if p.first {
		binary.LittleEndian.PutUint64(p.word[:], uint64(n))
		return n, p.c.Send(p.word[:], p.peer, tagSync)
	}
	_, err := p.c.Recv(p.word[:], p.peer, tagSync)
	return int(binary.LittleEndian.Uint64(p.word[:])), err
}

// loop is the timed part: the messages and nothing else.
func (p *pair) loop(size, n int) error {
	if p.cold == nil {
		return p.move(p.sbuf[:size], p.rbuf[:size], n)
	}
	for range n {
		s, r := p.buffers(size)
		if err := p.move(s, r, 1); err != nil {
			return err
		}
	}
	return nil
}

// buffers gives the memory of the next message to send and to receive.
func (p *pair) buffers(size int) (s, r []byte) {
	if p.cold != nil {
		return p.cold.next(size), p.cold.next(size)
	}
	return p.sbuf[:size], p.rbuf[:size]
}

// move moves n messages.
func (p *pair) move(s, r []byte, n int) error {
	switch {
	case p.lent:
		return p.lend(s, n)
	case p.mode == Bidirectional:
		return p.exchange(s, r, n)
	case p.mode == Streaming && p.first:
		return p.send(s, n)
	case p.mode == Streaming:
		return p.receive(r, n)
	case p.first:
		return p.ping(s, r, n)
	}
	return p.pong(s, r, n)
}

func (p *pair) ping(s, r []byte, n int) error {
	c, peer := p.c, p.peer
	for range n {
		if err := c.Send(s, peer, tagData); err != nil {
			return err
		}
		if _, err := c.Recv(r, peer, tagData); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) pong(s, r []byte, n int) error {
	c, peer := p.c, p.peer
	for range n {
		if _, err := c.Recv(r, peer, tagData); err != nil {
			return err
		}
		if err := c.Send(s, peer, tagData); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) send(s []byte, n int) error {
	for range n {
		if err := p.c.Send(s, p.peer, tagData); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) receive(r []byte, n int) error {
	for range n {
		if _, err := p.c.Recv(r, p.peer, tagData); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) exchange(s, r []byte, n int) error {
	for range n {
		if _, err := p.c.Sendrecv(s, p.peer, tagData, r, p.peer, tagData); err != nil {
			return err
		}
	}
	return nil
}

// lend is move with loans, which the receiver returns unread.
func (p *pair) lend(s []byte, n int) error {
	c, peer := p.c, p.peer
	var last banyan.Request
	for i := range 2 * n {
		there := i%2 == 0 // from rank 0
		if !there && p.mode == Streaming {
			continue
		}
		if p.first == there {
			if _, err := last.Wait(); err != nil {
				return err
			}
			last = c.Ilend(s, peer, tagData)
			continue
		}
		l, err := c.Borrow(peer, tagData)
		if err == nil {
			err = l.Return()
		}
		if err != nil {
			return err
		}
	}
	_, err := last.Wait()
	return err
}
