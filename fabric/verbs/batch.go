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
	c.put(all)
	p.round(c.port, 1)
	if p.batched = c; !short {
		p.batched = nil
	}
}

func (c *Conn) put(all []*work) {
	for _, w := range all {
		c.port.d.send(c.pair, w)
	}
}

// join adds work to the batch; false: none waits here.
func (p *Provider) join(c *Conn, all []*work) bool {
	if p.flush == nil || !c.port.d.hasRoom(len(all)) {
		return false
	}
	switch {
	case p.up != nil:
		c.put(all)
	case p.flush.Waits():
		p.flush.Lock()
		c.put(all)
		p.flush.Joined()
	default:
		c.put(all)
		p.flush.Begin()
	}
	return true
}

// flushBatch posts the waiting messages. The flusher calls it, with its lock.
func (p *Provider) flushBatch() bool {
	left := 0
	for _, o := range p.ports {
		if o.d.sending > 0 {
			o.d.post()
		}
		left += o.d.sending
	}
	return left == 0
}

// endBatch posts the messages that wait. Every call that polls, or changes a lane, makes it first.
func (p *Provider) endBatch() {
	p.batched = nil
	if p.flush != nil && p.flush.Waits() {
		p.flush.End()
	}
	for _, o := range p.ports {
		if o.d.sending > 0 {
			p.round(o, 0)
		}
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
		if c.quiet > 0 && c.joined && !c.off {
			if c.port.d.sending == most {
				p.round(c.port, 0)
			}
			c.port.d.probe(c.pair, c.next-1)
		}
		c.quiet, c.listed, list[i] = 0, false, nil
	}
	p.unsignalled = list[:0]
	p.roundTrip(1)
}
