package shm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
)

// A long message is copied by both processes, each a part at a time: the receiver from the front, the sender from the
// back, into a block that it maps or by a call of the kernel. They claim parts in one word, so the receiver copies all
// that the sender has no time for. The word has the number of the message, so that a sender that comes late claims
// nothing of the next one.

const (
	// leastSplit is the length of the shortest message that both copy. The gain from 128 KiB was within the spread.
	leastSplit = 192 << 10
	// leastKernelSplit is that without blocks. Below, a reader of the message loses as much as the copy gains, since the
	// parts of the sender are not in its own cache.
	leastKernelSplit = 512 << 10
	// A message has splitParts parts or, if these were too long, more. The kernel's copies of longer parts are faster.
	splitParts     = 8
	longPart       = 64 << 10
	longKernelPart = 256 << 10
	// helpAtOnce bounds one call of Help to some 50 µs, since the process does not poll meanwhile: in bytes.
	helpAtOnce = 512 << 10
)

// The word has the number of the message, a mark that the kernel has not let the sender copy a part, the number of
// parts that the sender has copied, and the number of parts that both have claimed.
const (
	messageAt  = 32
	helpFailed = 1 << 31
	finishedAt = 16
	mostParts  = 1<<15 - 1
	claimMask  = 1<<finishedAt - 1
)

// split is a message that both processes copy.
type split struct {
	claims        *atomic.Uint64
	message       uint32
	count         uint32 // of parts
	total, length int    // of the message, and of a part
	theirs        uint32 // parts that the sender has claimed, once the receiver has closed the message
}

func newSplit(claims *atomic.Uint64, message uint32, n, longest int) split {
	pages := func(n int) int { return (n + pageBytes - 1) &^ (pageBytes - 1) }
	length := max(min(pages(n/splitParts), longest), pages(n/mostParts))
	return split{claims: claims, message: message, count: uint32((n + length - 1) / length), total: n, length: length}
}

// claim takes one part more, for a process that has claimed so many.
//
//banyan:decodes
func (s *split) claim(mine uint32) bool {
	for {
		v := s.claims.Load()
		if !s.names(v) || v&helpFailed != 0 || uint32(v&claimMask) >= s.count || mine >= s.count {
			return false
		}
		if s.claims.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// names reports whether a value of the word is of this message.
func (s *split) names(v uint64) bool { return v>>messageAt == uint64(s.message) }

// change changes the value of the word, if that is of this message, and gives the one before.
func (s *split) change(to func(v uint64) uint64) (before uint64) {
	for {
		v := s.claims.Load()
		if !s.names(v) || s.claims.CompareAndSwap(v, to(v)) {
			return v
		}
	}
}

// finish notes that the sender has copied a part, or could not.
func (s *split) finish(err error) {
	s.change(func(v uint64) uint64 {
		if err != nil {
			v |= helpFailed
		}
		return v + 1<<finishedAt
	})
}

// close claims all that is left, and notes how many the sender has claimed, if the receiver has claimed so many.
//
//banyan:decodes
func (s *split) close(mine uint32) {
	before := s.change(func(v uint64) uint64 { return v&^claimMask | uint64(s.count) })
	switch claimed := uint32(before & claimMask); {
	case !s.names(before): // the peer has written nonsense
		s.theirs = s.count - mine
	case claimed > mine:
		s.theirs = claimed - mine
	}
}

// failed reports whether the sender has not copied a part that it has claimed.
//
//banyan:decodes
func (s *split) failed() bool {
	v := s.claims.Load()
	return s.names(v) && v&helpFailed != 0
}

// underway reports whether the sender has not copied all parts that it has claimed.
//
//banyan:decodes
func (s *split) underway() bool {
	v := s.claims.Load()
	return !s.names(v) || uint32(v>>finishedAt)&mostParts < s.theirs
}

// part is where part i lies.
func (s *split) part(i uint32) (from, to int) {
	return int(i) * s.length, min(int(i+1)*s.length, s.total)
}

// Offer lets the peer copy parts of a message into local: into a block of this process, or by calls of the kernel. It
// gives the place and the number of the message for Help. One message at a time is offered, until EndOffer.
func (c *Conn) Offer(local []byte) (to fabric.Region, message uint32, ok bool) {
	if c.offering || !c.hasIn || len(local) < leastSplit {
		return to, 0, false
	}
	to, longest := fabric.Region{Addr: addressOf(local), Len: uint64(len(local))}, longPart
	switch o := c.p.blocks.holding(to.Addr, to.Len); {
	case o != nil:
		to.Addr, to.Key = to.Addr-o.from, o.name[:]
	case !c.get || c.unhelped || len(local) < leastKernelSplit: // the kernel asks for the same right in both directions
		return to, 0, false
	default:
		longest = longKernelPart
	}
	c.offering = true
	c.offered = newSplit(&c.in.cur.claims, c.offered.message+1, len(local), longest)
	c.offered.claims.Store(uint64(c.offered.message) << messageAt)
	return to, c.offered.message, true
}

// EndOffer allows the next Offer, and reports whether the peer has copied all parts that it has claimed: else this
// process copies the message again. The peer no longer writes.
func (c *Conn) EndOffer() (complete bool) {
	failed := c.offered.failed()
	c.offering, c.unhelped = false, c.unhelped || failed
	return !failed
}

// GetOffered is Get of the message that Offer has announced, except for the parts that the peer has claimed; theirs:
// there are such parts. After an error the peer claims no more.
func (c *Conn) GetOffered(local []byte, remote fabric.Region) (theirs bool, err error) {
	s, mine := &c.offered, uint32(0)
	for err == nil && s.claim(mine) {
		from, to := s.part(mine)
		mine++
		err = c.Get(local[from:to], remote, uint64(from))
	}
	s.close(mine)
	return s.theirs > 0, err
}

// Writes reports whether the peer, whose end has been reported, may still be copying a part of the message that has been
// offered: the kernel ends the call of a killed process when that has copied. It is called without the engine's lock.
func (c *Conn) Writes() bool {
	return c.offered.theirs > 0 && c.offered.underway() && !c.processEnded()
}

// Help copies some parts of a message into memory of the peer, which has offered it under that number. Mine is the
// number of parts that it has copied so far. More: there may be others. It is called without the engine's lock.
//
//banyan:decodes
func (c *Conn) Help(local []byte, to fabric.Region, message, mine uint32) (copied uint32, more bool) {
	if len(local) < leastSplit || to.Len != uint64(len(local)) {
		return mine, false
	}
	s := newSplit(c.theirs.claims, message, len(local), longPart)
	var b *theirBlock // nil: by calls of the kernel
	if len(to.Key) > 0 {
		var err error
		if b, err = c.theirs.writable(c, to); err != nil {
			return mine, false
		}
	} else if s = newSplit(s.claims, message, len(local), longKernelPart); !c.get {
		return mine, false
	}
	for done := 0; done < helpAtOnce; done += s.length {
		claimed, err := c.helpOnce(&s, b, local, to.Addr, mine)
		if !claimed {
			return mine, false
		}
		if mine++; err != nil {
			return mine, false // the receiver sees that
		}
	}
	return mine, true
}

// helpOnce copies the last part that this process has not copied yet, if it can claim one.
func (c *Conn) helpOnce(s *split, b *theirBlock, local []byte, at uint64, mine uint32) (claimed bool, err error) {
	t := &c.theirs
	t.mu.RLock() // nothing is unmapped
	defer t.mu.RUnlock()
	if t.closed || s.claims == nil || b != nil && t.mapped[b.name] != b || c.gone.Load() || !s.claim(mine) {
		return false, nil
	}
	from, to := s.part(s.count - 1 - mine)
	if b != nil {
		copyNear(b.write.header[pageBytes+int(at):][from:to], local[from:to])
	} else {
		err = c.reader.write(local[from:to], at+uint64(from))
	}
	s.finish(err)
	return true, err
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
