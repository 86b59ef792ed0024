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
// parts that the sender has copied, a mark that the receiver waits for others that the sender has claimed, and the number of parts
// that both have claimed.
const (
	messageAt  = 32
	helpFailed = 1 << 31
	finishedAt = 16
	awaited    = 1 << 15
	mostParts  = awaited - 1
)

// split is a message that both processes copy.
type split struct {
	claims        *atomic.Uint64
	message       uint32
	count         uint32 // of parts
	total, length int    // of the message, and of a part
	theirs        uint32 // of the receiver, once it has closed the message: the parts that the sender has claimed
}

func newSplit(claims *atomic.Uint64, message uint32, n, longest int) split {
	pages := func(n int) int { return (n + pageBytes - 1) &^ (pageBytes - 1) }
	length := max(min(pages(n/splitParts), longest), pages((n+mostParts-1)/mostParts))
	return split{claims: claims, message: message, count: uint32((n + length - 1) / length), total: n, length: length}
}

// claim takes one part more, for a process that has claimed so many.
//
//banyan:decodes
func (s *split) claim(mine uint32) bool {
	for {
		v := s.claims.Load()
		if !s.names(v) || v&helpFailed != 0 || uint32(v&mostParts) >= s.count || mine >= s.count {
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

// finish notes that the sender has copied a part, or could not, and reports whether the receiver waits for it.
//
//banyan:decodes
func (s *split) finish(err error) (waits bool) {
	before := s.change(func(v uint64) uint64 {
		if err != nil {
			v |= helpFailed
		}
		return v + 1<<finishedAt
	})
	return s.names(before) && before&awaited != 0
}

// close claims for the receiver, which has claimed so many parts, all that is left, and reports whether the sender has
// claimed parts that it has not copied yet.
//
//banyan:decodes
func (s *split) close(mine uint32) (theirs bool) {
	before := s.change(func(v uint64) uint64 {
		to := v&^mostParts | uint64(s.count)
		if copiedParts(v)+mine < uint32(v&mostParts) {
			to |= awaited
		}
		return to
	})
	if !s.names(before) { // the peer has written nonsense
		return true
	}
	s.theirs = max(uint32(before&mostParts), mine) - mine
	return copiedParts(before) < s.theirs
}

// copiedParts is the number of parts that the sender has copied.
func copiedParts(v uint64) uint32 { return uint32(v>>finishedAt) & mostParts }

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
	return !s.names(v) || copiedParts(v) < s.theirs
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
	case !c.get || c.alone || len(local) < leastKernelSplit: // the kernel asks for the same right in both directions
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
	c.offering, c.alone = false, c.alone || failed
	return !failed
}

// GetOffered is Get of the message that Offer has announced, except for the parts that the peer has claimed; theirs:
// it has not copied all of these, and Help reports there that this process waits. After an error the peer claims no more.
func (c *Conn) GetOffered(local []byte, remote fabric.Region) (theirs bool, err error) {
	s, mine := &c.offered, uint32(0)
	for err == nil && s.claim(mine) {
		from, to := s.part(mine)
		mine++
		err = c.Get(local[from:to], remote, uint64(from))
	}
	return s.close(mine), err
}

// Writes reports whether the peer, whose end has been reported, may still be copying a part of the message that has been
// offered: a killed process ends a call of the kernel before it dies. It is called without the engine's lock.
func (c *Conn) Writes() bool { return c.offered.underway() && !c.processEnded() }

// Help copies some parts of a message into memory of the peer, which has offered it under that number. Mine is the
// number of parts that it has copied so far. More: there may be others. Waits: the peer is to be told that they are
// complete. It is called without the engine's lock.
//
//banyan:decodes
func (c *Conn) Help(local []byte, to fabric.Region, message, mine uint32) (copied uint32, more, waits bool) {
	if len(local) < leastSplit || to.Len != uint64(len(local)) {
		return mine, false, false
	}
	s := newSplit(c.theirs.claims, message, len(local), longPart)
	var b *theirBlock // nil: by calls of the kernel
	if len(to.Key) > 0 {
		var err error
		if b, err = c.theirs.writable(c, to); err != nil {
			return mine, false, false
		}
	} else if s = newSplit(s.claims, message, len(local), longKernelPart); !c.get {
		return mine, false, false
	}
	more = true
	for done := 0; done < helpAtOnce && more && !waits; done += s.length {
		if more, waits = c.helpOnce(&s, b, local, to.Addr, mine); more {
			mine++
		}
	}
	return mine, more && !waits, waits
}

// helpOnce copies the last part that this process has not copied yet, if it can claim one.
func (c *Conn) helpOnce(s *split, b *theirBlock, local []byte, at uint64, mine uint32) (claimed, waits bool) {
	t := &c.theirs
	t.mu.RLock() // nothing is unmapped
	defer t.mu.RUnlock()
	if t.closed || s.claims == nil || b != nil && t.mapped[b.name] != b || c.gone.Load() || !s.claim(mine) {
		return false, false
	}
	from, to := s.part(s.count - 1 - mine)
	var err error // the receiver sees that there was one
	if b != nil {
		copyNear(b.write.header[pageBytes+int(at):][from:to], local[from:to])
	} else {
		err = c.reader.write(local[from:to], at+uint64(from))
	}
	return true, s.finish(err)
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
