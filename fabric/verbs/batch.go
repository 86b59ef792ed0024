//go:build cgo

package verbs

// A batch is a series of short messages and writes to one peer, with no other call of this provider in between, or in one Poll.
// The first is posted at once. The others wait for the next call that polls, prepares to sleep or sends to another
// peer, or until there are as many as one call takes: one call into C and one doorbell post them all. If the process
// computes instead, the flusher posts them.

// batchBytes is the longest message that waits for others.
const batchBytes = 1 << 10

// submit posts work of a connection, all of it at once. Short work that follows other at once is posted with it.
func (p *Provider) submit(c *Conn, all ...*work) {
	short := true
	for _, w := range all {
		short = short && len(w.at) <= batchBytes
	}
	if p.batched == c && short && p.join(c, all) {
		return
	}
	p.endBatch()
	p.send(c, all)
	p.roundTrip(1)
	if p.batched = c; !short {
		p.batched = nil
	}
}

func (p *Provider) send(c *Conn, all []*work) {
	for _, w := range all {
		p.d.send(c.pair, w)
	}
}

// join adds work to the batch; false: none waits here.
func (p *Provider) join(c *Conn, all []*work) bool {
	if p.flush == nil || !p.d.hasRoom(len(all)) {
		return false
	}
	switch {
	case p.up != nil:
		p.send(c, all)
	case p.flush.Waits():
		p.flush.Lock()
		p.send(c, all)
		p.flush.Joined()
	default:
		p.send(c, all)
		p.flush.Begin()
	}
	return true
}

// flushBatch posts the waiting messages. The flusher calls it, with its lock.
func (p *Provider) flushBatch() bool {
	if p.d.sending > 0 {
		p.d.post()
	}
	return p.d.sending == 0
}

// endBatch posts the messages that wait. Every call that polls, or changes a lane, makes it first.
func (p *Provider) endBatch() {
	p.batched = nil
	if p.flush != nil && p.flush.Waits() {
		p.flush.End()
	}
	if p.d.sending > 0 {
		p.roundTrip(0)
	}
}

// roundTrip posts the waiting work, and takes completions with so many looks. It returns their number.
func (p *Provider) roundTrip(looks int) (found int) {
	p.refill()
	for {
		n, refused, err := p.d.round(looks)
		for i := range n {
			done := p.d.completed(i)
			p.complete(&done)
		}
		found += n
		switch {
		case err == nil:
			return found
		case refused == (pair{}):
			p.log.Warn("RDMA has failed", "reason", err)
			for _, c := range p.conns {
				c.fails(err)
			}
			p.refused(p.reading.ports[0], refused, err)
			return found
		}
		for _, c := range p.conns {
			if c.pair == refused {
				c.fails(err) // its messages go over the sockets
			}
		}
		p.refused(p.reading.ports[0], refused, err)
		looks = 0
	}
}

// askingFor is the number of messages for which this process counts as asking after it has asked.
const askingFor = 64

// settle has the completion of the last message of each lane asked for.
func (p *Provider) settle() {
	p.asking = askingFor
	if len(p.unsignalled) == 0 {
		return
	}
	p.endBatch()
	list := p.unsignalled
	p.unsignalled = nil
	for i, c := range list {
		if p.d.sending == most {
			p.roundTrip(0)
		}
		if c.quiet > 0 && c.sending {
			p.d.probe(c.pair, c.next-1)
		}
		c.quiet, c.listed, list[i] = 0, false, nil
	}
	p.unsignalled = list[:0]
	p.roundTrip(1)
}
