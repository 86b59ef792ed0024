package shm

import (
	"sync/atomic"
	"unsafe"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/release"
)

// Why unsafe: as in ring_unsafe.go.

// consumer is the receiving end. Only its process's engine uses it.
type consumer struct {
	ring
	head, bulkHead               uint64
	headPublished, bulkPublished uint64 // cursors as last published
	// cut: nothing more is taken; one of the others gives the reason, or Invalidate.
	cut, departed, hungUp, corrupt bool
	// long: the ring is the long one. other is the one that is not in use, home the heads of the
	// short one.
	long  bool
	other ring
	home  heads
	past  uint64 // as producer.past
	left  bool   // the producer has left the long ring; its memory is still to be freed
}

// received is the number of frames so far.
func (c *consumer) received() uint64 { return c.head + c.past }

// fresh reports whether a frame waits.
func (c *consumer) fresh() bool {
	return atomic.LoadUint64(&c.line(c.head).word)>>lapShift == c.lap(c.head)
}

// staleLap is the lap number of a line whose frame has been consumed.
func (c *consumer) staleLap() uint64 { return (c.lap(c.head) - 1) & lapMask }

// poll delivers up to limit frames and returns their number.
//
//banyan:decodes
func (c *consumer) poll(s *fabric.Sink, from proc.ID, limit int) int {
	n := 0
	for n < limit && !c.cut {
		l := c.line(c.head)
		word := atomic.LoadUint64(&l.word)
		if lap := word >> lapShift; lap != c.lap(c.head) {
			if lap != c.staleLap() {
				c.corrupt, c.cut = true, true
			}
			break
		}
		n++
		c.head++
		if !c.deliver(s, from, l, fabric.Class(word>>classShift), int(uint32(word))) {
			break
		}
		c.returnCredit()
	}
	return n
}

// Results of await without a frame.
const (
	takeNone  = -1 // no frame waits
	takeOther = -2 // a frame waits that is for Poll
)

// await polls up to spins times for the next frame, and takes it into buf if it has that class and
// immediate and fits; it returns the length.
//
//banyan:decodes
func (c *consumer) await(class fabric.Class, imm uint64, buf []byte, spins int) int {
	l := c.line(c.head)
	stale := c.staleLap()
	word := atomic.LoadUint64(&l.word)
	for word>>lapShift == stale {
		if spins--; spins < 0 {
			return takeNone
		}
		release.Pause()
		word = atomic.LoadUint64(&l.word)
	}
	if word>>classShift != c.lap(c.head)<<(lapShift-classShift)|uint64(class) || l.imm != imm {
		return takeOther
	}
	return c.take(l, buf, int(uint32(word)))
}

// next gives the payload of the next frame in its line, if the frame has that class and immediate and needs no other
// line; else nil.
//
//banyan:decodes
func (c *consumer) next(class fabric.Class, imm uint64) []byte {
	l, n := c.nextLine(class)
	if n > inlineBytes || l.imm != imm {
		return nil
	}
	return l.data[:n]
}

// nextIs gives the immediate of such a frame.
//
//banyan:decodes
func (c *consumer) nextIs(class fabric.Class) (imm uint64, ok bool) {
	l, n := c.nextLine(class)
	return l.imm, n <= inlineBytes
}

// nextLine is the next line and the length of its frame, or of more than a line if there is no frame of that class.
//
//banyan:decodes
func (c *consumer) nextLine(class fabric.Class) (*line, uint32) {
	l := c.line(c.head)
	word := atomic.LoadUint64(&l.word)
	if word>>classShift != c.lap(c.head)<<(lapShift-classShift)|uint64(class) {
		return l, inlineBytes + 1
	}
	return l, uint32(word)
}

// take copies the frame of n bytes that l holds into buf, if it fits.
func (c *consumer) take(l *line, buf []byte, n int) int {
	switch {
	case n == 8 && len(buf) >= 8:
		*(*uint64)(unsafe.Pointer(unsafe.SliceData(buf))) = *(*uint64)(unsafe.Pointer(&l.data))
	case n > len(buf) || n > c.maxFrame:
		return takeOther
	case n <= inlineBytes:
		copy(buf, l.data[:n])
	default:
		var start uint64
		start, c.bulkHead = c.place(c.bulkHead, n)
		copy(buf, c.bulkAt(start, n))
	}
	c.head++
	return n
}

// deliver checks the word's fields and delivers the frame; false ends the use of the slot.
func (c *consumer) deliver(s *fabric.Sink, from proc.ID, l *line, class fabric.Class, n int) bool {
	if class >= fabric.NumClasses || class == 0 || n > c.maxFrame {
		if class == classMove && c.move(n) {
			return !c.left // its memory first
		}
		c.departed = class == classBye && n == byeDeparted
		c.hungUp = class == classBye && n == byeClosed
		c.corrupt = !c.departed && !c.hungUp
		c.cut = true
		return false
	}
	payload := l.data[:min(n, inlineBytes)]
	if n > inlineBytes {
		var start uint64
		start, c.bulkHead = c.place(c.bulkHead, n)
		payload = c.bulkAt(start, n)
	}
	if fn := s.Deliver[class]; fn != nil {
		fn(from, l.imm, payload)
	}
	return true
}

// returnCredit publishes the cursors, a quarter of the ring at a time: their line then rarely moves
// between the cores. A producer never waits for the rest, because a frame and the gap at the ring's
// end take at most half of the bulk ring.
func (c *consumer) returnCredit() {
	if c.head-c.headPublished >= (c.mask+1)/4 || c.bulkHead-c.bulkPublished >= c.bulkSize/4 {
		c.headPublished, c.bulkPublished = c.head, c.bulkHead
		c.publishHeads(c.at)
	}
}

func (c *consumer) publishHeads(at *heads) {
	atomic.StoreUint64(&at.bulkHead, c.bulkHead)
	atomic.StoreUint64(&at.head, c.head)
}

// waiting reports whether the producer was refused credit and may sleep.
func (c *consumer) waiting() bool { return c.cur.starving.Load() != 0 }
