package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/p2p"
)

// Persistent is a send or receive that is described once and started many times. Each start is
// waited for before the next. Only one goroutine at a time may use it.
type Persistent struct {
	begin func(*Comm, []byte, int, int) Request // nil once freed
	c     *Comm
	buf   []byte
	peer  int
	tag   int
	round Request // the last start
}

// errNoPersistent is the error of the zero Persistent.
var errNoPersistent = fmt.Errorf("%w: no persistent request: SendInit, SsendInit and RecvInit make them", ErrArgument)

// SendInit describes a standard send of buf. Nothing is checked or sent before
// Start.
func (c *Comm) SendInit(buf []byte, dst, tag int) *Persistent {
	if !c.bound() {
		c = c.valid()
	}
	return &Persistent{begin: (*Comm).Isend, c: c, buf: buf, peer: dst, tag: tag}
}

// SsendInit describes a synchronous send of buf.
func (c *Comm) SsendInit(buf []byte, dst, tag int) *Persistent {
	if !c.bound() {
		c = c.valid()
	}
	return &Persistent{begin: (*Comm).Issend, c: c, buf: buf, peer: dst, tag: tag}
}

// RecvInit describes a receive into buf.
func (c *Comm) RecvInit(buf []byte, src, tag int) *Persistent {
	if !c.bound() {
		c = c.valid()
	}
	return &Persistent{begin: (*Comm).Irecv, c: c, buf: buf, peer: src, tag: tag}
}

// Start starts the operation once more and gives the request of this round, to be waited for alone
// or with others; Wait does the same. As of Isend and Irecv errors are the request's: ErrArgument
// if the round before has not been waited for, ErrClosed after Free.
func (p *Persistent) Start() Request {
	if p == nil || p.c == nil {
		return absent().failed(fmt.Errorf("start: %w", errNoPersistent))
	}
	switch {
	case p.begin == nil:
		return p.c.failed(fmt.Errorf("start on %s: %w: the persistent request has been freed", p.c.Name(), ErrClosed))
	case p.active():
		return p.c.failed(fmt.Errorf("start on %s: %w: the persistent request is active: wait for it first",
			p.c.Name(), ErrArgument))
	}
	p.round = p.begin(p.c, p.buf, p.peer, p.tag)
	return p.round
}

// active reports whether the last start has not been waited for.
func (p *Persistent) active() bool {
	e := p.c.e
	e.Lock()
	defer e.Unlock()
	return !p.round.h.Empty() && p.round.state(e) != p2p.Ended
}

// Wait waits for the operation that was started last, and returns its outcome. It returns at once
// if that has been waited for, or none was started.
func (p *Persistent) Wait() (Status, error) {
	switch {
	case p == nil || p.c == nil:
		return Status{}, fmt.Errorf("wait: %w", errNoPersistent)
	case p.round.c == nil:
		return Status{}, nil
	}
	st, err := p.round.Wait()
	if err == nil || !p.active() { // else it is pending
		p.round = Request{}
	}
	return st, err
}

// Free releases the buffer. Error: ErrArgument while the operation is active.
func (p *Persistent) Free() error {
	if p == nil || p.c == nil {
		return fmt.Errorf("free: %w", errNoPersistent)
	}
	if p.active() {
		return p.c.notify(fmt.Errorf("free on %s: %w: the persistent request is active: wait for it first",
			p.c.Name(), ErrArgument))
	}
	p.begin, p.buf, p.round = nil, nil, Request{}
	return nil
}

// StartAll starts them in order and puts the requests of this round into reqs, as far as there is
// room: Persistent.Wait waits for the others.
func StartAll(ps []*Persistent, reqs []Request) {
	for i, p := range ps {
		if r := p.Start(); i < len(reqs) {
			reqs[i] = r
		}
	}
}
