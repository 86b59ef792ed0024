//go:build cgo

package verbs

import "slices"

// ending is what is left of a lane or a rail until its queue pairs have been freed: till then the adapter may write what the lost moves
// and the reads ask for. To free them may take long, as Linux's rxe waits for packets that an interface holds which is down. So, while
// the peer lives, a goroutine does it, and the next lane or rail begins meanwhile.
type ending struct {
	c     *Conn
	pairs []pair
	reads *readPairs    // nil: there were none
	lost  []onWay       // moves
	rail  *rail         // not nil: of a lane that goes on this rail alone has failed
	again []piece       // of that
	done  chan struct{} // closed when the goroutine has freed the pairs
}

// detach takes the queue pairs from the connection.
func (c *Conn) detach() *ending {
	c.p.endBatch()
	e := &ending{c: c, pairs: []pair{c.pair}, reads: c.reads}
	if c.reads != nil {
		e.pairs = append(e.pairs, c.reads.detach()...)
		c.reads = nil
	}
	delete(c.port.lanes, c.mine.qp)
	c.pair, c.joined = pair{}, false
	c.port.needed -= c.p.credit + spare
	c.port.repost, c.early = append(c.port.repost, c.early...), nil
	c.p.lanes--
	return e
}

func (e *ending) free() {
	for _, at := range e.pairs {
		at.free()
	}
}

// settle reports what has been lost. The pairs have been freed.
func (e *ending) settle() {
	c := e.c
	if e.rail != nil {
		e.rail.readsAgain(&c.p.reading, e.again)
	}
	if e.reads != nil {
		e.reads.settle(&c.p.reading)
	}
	for i := range e.lost {
		c.p.give(&e.lost[i])
	}
	if len(e.lost) > 0 {
		c.losing--
		c.gone += len(e.lost)
		c.reports()
	}
}

// release frees the queue pairs.
func (c *Conn) release() {
	if c.pair != (pair{}) {
		e := c.detach()
		e.free()
		e.settle()
	}
}

// releaseLater frees them meanwhile. The moves that have been lost are reported after that.
func (c *Conn) releaseLater() {
	e := c.detach()
	if e.lost, c.lost = c.lost, nil; len(e.lost) > 0 {
		c.losing++
	}
	c.p.freeLater(e)
}

// freeLater frees the pairs and settles the ending meanwhile.
func (p *Provider) freeLater(e *ending) {
	if slices.ContainsFunc(p.ports, func(o *openPort) bool { return o.d.links != nil }) { // links are for one thread
		e.free()
		e.settle()
		return
	}
	e.done = make(chan struct{})
	var before *ending // of the connection: they are settled in order
	for _, o := range p.endings {
		if o.c == e.c {
			before = o
		}
	}
	p.endings = append(p.endings, e)
	p.freeing.Go(func() {
		e.free()
		if before != nil {
			<-before.done
		}
		close(e.done)
		if ring := p.cfg.Sockets.Ring; ring != nil {
			ring()
		}
	})
}

func (e *ending) isDone() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// settleEndings settles those that are done.
func (p *Provider) settleEndings() {
	list := p.endings
	p.endings = nil
	for _, e := range list {
		if e.isDone() {
			e.settle()
		} else {
			p.endings = append(p.endings, e)
		}
	}
}

// awaitEndings waits for those of a connection, and settles them.
func (c *Conn) awaitEndings() {
	list := c.p.endings
	c.p.endings = nil
	for _, e := range list {
		if e.c != c {
			c.p.endings = append(c.p.endings, e)
			continue
		}
		<-e.done
		e.settle()
	}
}
