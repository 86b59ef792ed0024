package shm

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/release"
)

// Why unsafe: the ring lies in memory that two processes map. Every pointer below comes from a
// mapping whose length was fixed by the geometry that both sides checked, plus an offset masked to
// that length.

const inlineBytes = 48

// line is one cache line of a slot, and one frame.
type line struct {
	// word: lap<<40 | class<<32 | length. Written last by the producer, with release order; the lap
	// shows the consumer that the line is fresh.
	word uint64
	imm  uint64
	data [inlineBytes]byte
}

const (
	lapShift   = 40
	lapMask    = 1<<24 - 1
	classShift = 32
	// classBye is the provider's own: the last line. Its length is the reason.
	classBye    = fabric.NumClasses
	byeDeparted = 0 // an orderly departure
	byeClosed   = 1 // closed without departing, which is a failure
)

// cursors lie at the start of a slot's first page, after the address: one line per writer.
type cursors struct {
	// head, bulkHead: lines and bulk bytes consumed. Written by the consumer, read by the producer
	// when it runs out of credit.
	head     uint64
	bulkHead uint64
	// refused: an errno once the consumer has given up connecting back. Written by the consumer,
	// read by the producer until the consumer has connected.
	refused atomic.Uint32
	// gate: whether the producer may use the slot. It changes once, from 0 and by compare-and-swap:
	// to gateTaken by the producer when it connects, to gateBarred by the consumer when it finds
	// that it can never map the producer's segment.
	gate atomic.Uint32
	_    [232]byte // adjacent lines are prefetched in pairs
	// starving: 1 while the producer has been refused credit. Written by the producer, read by the
	// consumer whenever it returns credit.
	starving atomic.Uint32
	_        [252]byte
}

// The values of cursors.gate, beside 0: undecided.
const (
	gateTaken  = 1
	gateBarred = 2
)

func gateOf(slot []byte) *atomic.Uint32 {
	return &(*cursors)(unsafe.Pointer(&slot[cursorsAt])).gate
}

// setGate moves a gate to a state, and reports whether it is in that state now.
func setGate(gate *atomic.Uint32, to uint32) bool {
	return gate.CompareAndSwap(0, to) || gate.Load() == to
}

// ring is what both ends have of a slot.
type ring struct {
	lines    unsafe.Pointer // *[n]line
	bulk     unsafe.Pointer // *[bulkSize]byte
	cur      *cursors
	mask     uint64 // lines-1
	lapBits  uint8  // log2 lines
	bulkSize uint64
	maxFrame int
}

func newRing(slot []byte, g geometry) ring {
	base := unsafe.Pointer(unsafe.SliceData(slot))
	return ring{
		cur:      (*cursors)(unsafe.Add(base, cursorsAt)),
		lines:    unsafe.Add(base, slotHead),
		bulk:     unsafe.Add(base, slotHead+int(g.lines)*lineBytes),
		mask:     uint64(g.lines - 1),
		lapBits:  uint8(bits.TrailingZeros32(g.lines)),
		bulkSize: uint64(g.bulk),
		maxFrame: g.maxFrame(),
	}
}

func (r *ring) line(i uint64) *line {
	return (*line)(unsafe.Add(r.lines, (i&r.mask)*lineBytes))
}

// lap is the lap number of line i, never 0 on the first lap, so that fresh memory is stale.
func (r *ring) lap(i uint64) uint64 { return (i>>r.lapBits + 1) & lapMask }

// ownPage is the length from which a payload has its pages to itself. Measured at window 64: 512
// bytes gain a fifth, 1 KiB a quarter, 2 KiB a half, 256 bytes lose a twelfth.
const ownPage = 512

// place is where n bulk bytes go when the cursor stands at pos: contiguous, from a line's boundary
// on. A larger payload starts a page and leaves at least a line of its last page free: a prefetcher
// that runs ahead of the consumer would otherwise take away the lines that the producer writes
// next; it does not cross into the next page. Both ends compute the same place, so no offset
// travels.
func (r *ring) place(pos uint64, n int) (start, end uint64) {
	size, unit := uint64(n), uint64(lineBytes)
	if n >= ownPage {
		size, unit = size+lineBytes, pageBytes
	}
	pos = (pos + unit - 1) &^ (unit - 1)
	size = (size + unit - 1) &^ (unit - 1)
	if off := pos & (r.bulkSize - 1); off+size > r.bulkSize {
		pos += r.bulkSize - off
	}
	return pos, pos + size
}

func (r *ring) bulkAt(pos uint64, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(r.bulk, pos&(r.bulkSize-1))), n)
}

// producer is the sending end. Only its process's engine uses it.
type producer struct {
	ring
	tail, bulkTail uint64
	// limit: frames with an inline payload may be sent while tail is below it, without further
	// checks. 0 if each needs the slow path.
	limit uint64
	// headSeen, bulkSeen: the consumer's cursors as last read.
	headSeen, bulkSeen uint64
	starving           bool
	pace               pace
	corrupt            bool // the consumer's cursors were invalid
}

// reservedLines are kept back from frames: one for classBye.
const reservedLines = 1

// send publishes a frame of any size, or reports that there is no credit.
func (p *producer) send(class fabric.Class, imm uint64, payload []byte) bool {
	if p.tail-p.headSeen >= p.mask+1-reservedLines && !p.refresh(p.mask-reservedLines, p.bulkSize) {
		return false
	}
	l := p.line(p.tail)
	n := len(payload)
	if n <= inlineBytes {
		l.fill(payload)
	} else if !p.putBulk(payload) {
		return false
	}
	p.publish(l, class, imm, n)
	return true
}

// fill copies a payload of at most inlineBytes into the line. Up to 8 bytes are one store: see
// publish.
func (l *line) fill(payload []byte) {
	n := len(payload)
	if n > 8 {
		copy(l.data[:], payload)
		return
	}
	var v uint64
	switch {
	case n == 8:
		v = binary.LittleEndian.Uint64(payload)
	default:
		for i := n - 1; i >= 0; i-- {
			v = v<<8 | uint64(payload[i])
		}
	}
	binary.LittleEndian.PutUint64(l.data[:], v)
}

// publish hands the line over. The stores to it come without others between them: the consumer
// polls the line, and would fetch it away in the gap.
func (p *producer) publish(l *line, class fabric.Class, imm uint64, n int) {
	word := p.lap(p.tail)<<lapShift | uint64(class)<<classShift | uint64(n)
	p.tail++
	l.imm = imm
	release.Store64(&l.word, word)
}

// bye sends the last line, in the line that send keeps back for it.
func (p *producer) bye(why int) {
	if p.tail-p.headSeen > p.mask && !p.refresh(p.mask, p.bulkSize) {
		return
	}
	p.publish(p.line(p.tail), classBye, 0, why)
}

func (p *producer) putBulk(payload []byte) bool {
	start, end := p.place(p.bulkTail, len(payload))
	if end-p.bulkSeen > p.bulkSize && !p.refresh(p.mask, p.bulkSize-(end-p.bulkTail)) {
		return false
	}
	p.pace.copy(p.bulkAt(start, len(payload)), payload)
	p.bulkTail = end
	return true
}

// refresh reads the consumer's cursors and reports whether at most maxLines and maxBulk are in use
// now. If not, it marks the producer as starving for the consumer.
//
//banyan:decodes
func (p *producer) refresh(maxLines, maxBulk uint64) bool {
	if p.readCredit(maxLines, maxBulk) {
		if p.starving {
			p.starving = false
			p.cur.starving.Store(0)
		}
		return true
	}
	if !p.starving {
		p.starving = true
		p.cur.starving.Store(1)
		return p.readCredit(maxLines, maxBulk)
	}
	return false
}

func (p *producer) readCredit(maxLines, maxBulk uint64) bool {
	head, bulk := atomic.LoadUint64(&p.cur.head), atomic.LoadUint64(&p.cur.bulkHead)
	if p.tail-head > p.tail-p.headSeen || p.bulkTail-bulk > p.bulkTail-p.bulkSeen {
		p.corrupt = true
		return false
	}
	p.headSeen, p.bulkSeen = head, bulk
	if p.limit != 0 {
		p.limit = head + p.mask + 1 - reservedLines
	}
	return p.tail-head <= maxLines && p.bulkTail-bulk <= maxBulk
}

// creditMoved reports whether the consumer has returned credit since the cursors were last read.
func (p *producer) creditMoved() bool {
	return atomic.LoadUint64(&p.cur.head) != p.headSeen || atomic.LoadUint64(&p.cur.bulkHead) != p.bulkSeen
}

type consumer struct {
	ring
	head, bulkHead               uint64
	headPublished, bulkPublished uint64 // cursors as last published
	// cut: nothing more is taken; one of the others gives the reason, or Invalidate.
	cut, departed, hungUp, corrupt bool
}

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

// What await returns when it has not taken a frame.
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
		atomic.StoreUint64(&c.cur.bulkHead, c.bulkHead)
		atomic.StoreUint64(&c.cur.head, c.head)
	}
}

// waiting reports whether the producer was refused credit and may sleep.
func (c *consumer) waiting() bool { return c.cur.starving.Load() != 0 }
