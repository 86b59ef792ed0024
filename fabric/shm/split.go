package shm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
)

// A long message from a block to a block is copied by both processes, each a part at a time: the receiver from the
// front, the sender from the back. They claim parts in one word, so the receiver copies all that the sender has no
// time for. The word has the number of the message, so that a sender that comes late claims nothing of the next one.

const (
	// leastSplit is the length of the shortest message that both copy. The gain from 128 KiB was within the spread.
	leastSplit = 192 << 10
	// A message has splitParts parts or, if these were too long, more.
	splitParts = 8
	longPart   = 64 << 10
	// partsAtOnce bounds one call of Help to some 50 µs, since the process does not poll meanwhile.
	partsAtOnce = 8
)

// split is a message that both processes copy.
type split struct {
	claims        *atomic.Uint64 // message<<32 | claimed parts
	message       uint32
	count         uint32 // of parts
	total, length int    // of the message, and of a part
}

func newSplit(claims *atomic.Uint64, message uint32, n int) split {
	length := min((n/splitParts+pageBytes-1)&^(pageBytes-1), longPart)
	return split{claims, message, uint32((n + length - 1) / length), n, length}
}

// claim takes one part more, for a process that has claimed so many.
//
//banyan:decodes
func (s *split) claim(mine uint32) bool {
	for {
		v := s.claims.Load()
		if v>>32 != uint64(s.message) || uint32(v) >= s.count || mine >= s.count {
			return false
		}
		if s.claims.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// close claims all that is left, and reports whether the peer has claimed any, if this process has claimed so many.
func (s *split) close(mine uint32) (theirs bool) {
	all := uint64(s.message)<<32 | uint64(s.count)
	return uint32(s.claims.Swap(all)) > mine
}

// part is where part i lies.
func (s *split) part(i uint32) (from, to int) {
	return int(i) * s.length, min(int(i+1)*s.length, s.total)
}

// Offer lets the peer copy parts of a message from one of its blocks into local, which is in a block of this
// process. It gives the place and the number of the message for Help. One message at a time is offered, until
// EndOffer.
func (c *Conn) Offer(local []byte) (to fabric.Region, message uint32, ok bool) {
	if c.offering || !c.hasIn || len(local) < leastSplit {
		return to, 0, false
	}
	o := c.p.blocks.holding(addressOf(local), uint64(len(local)))
	if o == nil {
		return to, 0, false
	}
	c.offering = true
	c.offered = newSplit(&c.in.cur.claims, c.offered.message+1, len(local))
	c.offered.claims.Store(uint64(c.offered.message) << 32)
	return fabric.Region{Addr: addressOf(local) - o.from, Len: uint64(len(local)), Key: o.name[:]}, c.offered.message, true
}

// EndOffer allows the next Offer. The peer no longer writes.
func (c *Conn) EndOffer() { c.offering = false }

// GetOffered is Get of the message that Offer has announced, except for the parts that the peer has claimed; theirs:
// there are such parts. After an error the peer claims no more.
func (c *Conn) GetOffered(local []byte, remote fabric.Region) (theirs bool, err error) {
	s, mine := &c.offered, uint32(0)
	for err == nil && s.claim(mine) {
		from, to := s.part(mine)
		mine++
		err = c.Get(local[from:to], remote, uint64(from))
	}
	return s.close(mine), err
}

// Help copies some parts of a message into a block of the peer, which has offered it under that number. Mine is the
// number of parts that it has copied so far. More: there may be others. It is called without the engine's lock.
//
//banyan:decodes
func (c *Conn) Help(local []byte, to fabric.Region, message, mine uint32) (copied uint32, more bool) {
	if len(local) < leastSplit || to.Len != uint64(len(local)) {
		return mine, false
	}
	b, err := c.theirs.writable(c, to)
	if err != nil {
		return mine, false
	}
	for range partsAtOnce {
		if !c.helpOnce(b, local, to.Addr, message, mine) {
			return mine, false
		}
		mine++
	}
	return mine, true
}

// helpOnce copies the last part that this process has not copied yet, if it can claim one.
func (c *Conn) helpOnce(b *theirBlock, local []byte, at uint64, message, mine uint32) bool {
	t := &c.theirs
	t.mu.RLock() // nothing is unmapped
	defer t.mu.RUnlock()
	if t.closed || t.claims == nil || t.mapped[b.name] != b || c.gone.Load() {
		return false
	}
	s := newSplit(t.claims, message, len(local))
	if !s.claim(mine) {
		return false
	}
	from, to := s.part(s.count - 1 - mine)
	copyNear(b.write.header[pageBytes+int(at):][from:to], local[from:to])
	return true
}

// writable returns a block of the peer that is mapped to be written and holds a region.
func (t *theirs) writable(c *Conn, r fabric.Region) (*theirBlock, error) {
	if len(r.Key) != len(fabric.BlockName{}) {
		return nil, errors.New("shm: the name of no block")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b, err := c.block(fabric.BlockName(r.Key))
	if err != nil {
		return nil, err
	}
	if size := uint64(len(b.header) - pageBytes); r.Addr > size || r.Len > size-r.Addr {
		return nil, fmt.Errorf("shm: %d bytes at %d of a block of %d", r.Len, r.Addr, size)
	}
	if b.write == nil {
		b.write, err = c.mapBlock(b.name, int64(len(b.header)))
	}
	return b, err
}
