package shm

// narrowBulk is the part of a long ring's bulk bytes that is used at first, again and again, so that a pair with a few
// messages at a time needs no more memory and finds it in the cache. The ring becomes wide, once, when frames do not fit.
const narrowBulk = 8 * pageBytes

func (r *ring) setBulk(size uint64) {
	r.bulkSize = min(size, r.wideBulk)
	r.maxFrame = maxFrame(r.bulkSize)
}

func (r *ring) wide() bool { return r.bulkSize == r.wideBulk }

// widen makes the ring wide. The cursor of bulk bytes goes on from old+by, behind the part used until then: cursors up to
// old are those of a narrow ring, and lie as far behind the producer's when by is added to them.
func (r *ring) widen(pos uint64) (old, by uint64) {
	narrow := r.bulkSize
	r.setBulk(r.wideBulk)
	old = roundUp(pos, narrow)
	return old, roundUp(old, r.wideBulk) + narrow - old
}

// enter moves the producer to a long ring, which is all zero. There must be a line for classMove.
func (p *producer) enter(long ring) {
	sent := p.sent()
	p.publish(p.line(p.tail), classMove, 0, moveLong)
	p.home = position{p.tail, p.bulkTail, p.headSeen, p.bulkSeen}
	p.ring, p.long, p.backed, p.bulkBacked = long, true, 0, 0
	p.tail, p.bulkTail, p.headSeen, p.bulkSeen = 0, 0, 0, 0
	p.moved(sent)
}

// goWide moves the producer to the whole of its long ring, which must have its memory, if there is a line for
// classMove.
func (p *producer) goWide() bool {
	if !p.hasLine() {
		return false
	}
	p.publish(p.line(p.tail), classMove, 0, moveWide)
	p.past--
	p.widenedAt, p.widenedBy = p.widen(p.bulkTail)
	p.bulkTail = p.widenedAt + p.widenedBy
	p.bulkSeen += p.widenedBy
	p.setLimit()
	return true
}

// leave moves the producer back to its short ring, if there is a line for classMove.
func (p *producer) leave(short ring) bool {
	if !p.hasLine() {
		return false
	}
	sent := p.sent()
	p.publish(p.line(p.tail), classMove, 0, moveShort)
	h := &p.home
	p.ring, p.long, p.ripe = short, false, false
	p.tail, p.bulkTail, p.headSeen, p.bulkSeen = h.at, h.bulkAt, h.seen, h.bulkSeen
	p.moved(sent)
	return true
}

// moved adapts the counts to another ring.
func (p *producer) moved(sent uint64) {
	p.past = sent - p.tail
	p.widenedAt, p.widenedBy = 0, 0
	p.setLimit()
	if p.starving {
		p.starving = false
		p.cur.starving.Store(0)
	}
}

// move continues in the other ring, and reports whether the producer may have meant that.
func (c *consumer) move(to int) bool {
	if to == moveWide {
		return c.goWide()
	}
	if to != moveLong && to != moveShort || c.long == (to == moveLong) || c.left {
		return false
	}
	received := c.received() - 1 // without this line
	c.ring, c.other = c.other, c.ring
	if c.long = to == moveLong; c.long {
		c.publishHeads(c.other.at) // the producer counts on them when it comes back
		c.home = heads{c.head, c.bulkHead}
		c.head, c.bulkHead = 0, 0
		c.setBulk(narrowBulk)
	} else {
		c.head, c.bulkHead, c.left = c.home.head, c.home.bulkHead, true
	}
	c.headPublished, c.bulkPublished = c.head, c.bulkHead
	c.past = received - c.head
	return true
}

// goWide goes on in the whole of the long ring, if the producer may have meant that.
func (c *consumer) goWide() bool {
	if !c.long || c.wide() {
		return false
	}
	c.past--
	at, by := c.widen(c.bulkHead)
	c.bulkHead = at + by
	c.headPublished, c.bulkPublished = c.head, c.bulkHead
	c.publishHeads(c.at)
	return true
}
