package shm

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/release"
)

// Why unsafe: the ring lies in memory that two processes map. Every pointer below comes from a
// mapping whose length was fixed by the geometry that both sides checked, plus an offset masked to
// that length.

const inlineBytes = 48

// line is one cache line of a ring, and one frame.
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
	// classMove too: the last line of this ring for now, the next is in the other. Its length names
	// the next; moveWide: it is in this one, and bulk bytes have all of its memory from now on.
	classMove = fabric.NumClasses + 1
	moveLong  = 0
	moveShort = 1
	moveWide  = 2
)

// heads are the lines and bulk bytes of a ring that have been consumed. Written by the consumer, read
// by the producer when it runs out of credit.
type heads struct{ head, bulkHead uint64 }

// cursors lie in a page, after the address: one line per writer.
type cursors struct {
	short, long heads
	// refused: an errno once the consumer has given up connecting back. Written by the consumer,
	// read by the producer until the consumer has connected.
	refused atomic.Uint32
	// gate: whether the producer may use the slot. It changes once, from 0 and by compare-and-swap:
	// to gateTaken by the producer when it connects, to gateBarred by the consumer when it finds
	// that it can never map the producer's segment.
	gate atomic.Uint32
	// cold: 1 while the consumer does not read the ring until the producer announces a frame.
	// Written by the consumer, read by the producer with each frame.
	cold atomic.Uint32
	// returned counts the long rings that the producer has left and whose memory the consumer has
	// given back. Written by the consumer, read by the producer before it uses the next.
	returned atomic.Uint32
	_        [80]byte // adjacent lines are prefetched in pairs
	// starving: 1 while the producer has been refused credit. Written by the producer, read by the
	// consumer whenever it returns credit.
	starving atomic.Uint32
	_        [124]byte
	// claims: see split. Both write it by read-modify-write operations, the consumer begins a message by a store.
	claims atomic.Uint64
	_      [120]byte
}

// The values of cursors.gate, beside 0: undecided.
const (
	gateTaken  = 1
	gateBarred = 2
)

func cursorsOf(page []byte) *cursors { return (*cursors)(unsafe.Pointer(&page[cursorsAt])) }

// setGate moves a gate to a state, and reports whether it is in that state now.
func setGate(gate *atomic.Uint32, to uint32) bool {
	return gate.CompareAndSwap(0, to) || gate.Load() == to
}

// A pair begins with a short ring in its page: enough for the occasional small frame, also from
// hundreds of peers. By traffic it earns the long ring of its geometry; see earn.go.
const (
	shortLines  = 16
	shortBulk   = 512
	shortBulkAt = 512
	shortAt     = 1 << 10
	// shortFrame is the longest frame of a short ring. With the gap at the ring's end, two lines at most, and the line
	// whose credit the consumer may hold back, it fits.
	shortFrame = shortBulk/2 - lineBytes
)

// ring is the common part of both ends of a ring.
type ring struct {
	lines    unsafe.Pointer // *[n]line
	bulk     unsafe.Pointer // *[bulkSize]byte
	cur      *cursors
	at       *heads
	mask     uint64 // lines-1
	reserved uint64 // lines that are kept back from frames
	lapBits  uint8  // log2 lines
	bulkSize uint64
	maxFrame int
	wideBulk uint64 // bulkSize of the ring when it is wide
}

// shortRing is the ring in a page. It keeps back a line for classBye and one for classMove.
func shortRing(page []byte) ring {
	cur := cursorsOf(page)
	return ring{
		cur: cur, at: &cur.short, reserved: 2,
		lines: unsafe.Pointer(&page[shortAt]), mask: shortLines - 1, lapBits: uint8(bits.TrailingZeros32(shortLines)),
		bulk: unsafe.Pointer(&page[shortBulkAt]), bulkSize: shortBulk, wideBulk: shortBulk, maxFrame: shortFrame,
	}
}

// longRing is the ring in mem, which is narrow at first. It keeps back a line for classBye.
func longRing(page, mem []byte, g geometry) ring {
	cur := cursorsOf(page)
	r := ring{
		cur: cur, at: &cur.long, reserved: 1,
		lines: unsafe.Pointer(&mem[0]), mask: uint64(g.lines - 1), lapBits: uint8(bits.TrailingZeros32(g.lines)),
		bulk: unsafe.Pointer(&mem[int(g.lines)*lineBytes]), wideBulk: uint64(g.bulk),
	}
	r.setBulk(narrowBulk)
	return r
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
	// checks. 0 unless fast: each needs the slow path.
	limit uint64
	fast  bool
	// headSeen, bulkSeen: the consumer's cursors as last read.
	headSeen, bulkSeen uint64
	starving           bool
	pace               pace
	corrupt            bool // the consumer's cursors were invalid
	// long: the ring is the long one, and home the position in the short one.
	long bool
	home position
	// stop is the line at which sending takes the slow path: in the short ring, because the pair may
	// earn the long one; in the long ring, because there is no memory behind that line, at which the consumer
	// looks when it has taken those before; beyond all once all lines have memory.
	stop uint64
	// backed and bulkBacked are the lines and bulk bytes of the long ring that have memory; ripe: it is wide, and
	// all have.
	backed, bulkBacked uint64
	ripe               bool
	past               uint64 // frames sent through other rings, less the lines in this one that were none
	// widenedAt and widenedBy are the results of widen until the consumer has passed it; else 0.
	widenedAt, widenedBy uint64
}

// position is that of a producer in a ring that it does not use at present.
type position struct{ at, bulkAt, seen, bulkSeen uint64 }

// sent is the number of frames so far.
func (p *producer) sent() uint64 { return p.tail + p.past }

// setLimit adapts limit to the credit and to stop.
func (p *producer) setLimit() {
	if p.fast {
		p.limit = min(p.headSeen+p.mask+1-p.reserved, p.stop)
	}
}

// setStop adapts stop to backed.
func (p *producer) setStop() {
	p.stop = math.MaxUint64
	if p.backed <= p.mask {
		p.stop = p.backed - 1
	}
	p.setLimit()
}

// hasLine reports whether there is credit for a line.
func (p *producer) hasLine() bool {
	return p.tail-p.headSeen < p.mask+1-p.reserved || p.refresh(p.mask-p.reserved, p.bulkSize)
}

// fits reports whether there is room for n bulk bytes, without asking the consumer for it.
func (p *producer) fits(n int) bool {
	if n > p.maxFrame {
		return false
	}
	_, end := p.place(p.bulkTail, n)
	return end-p.bulkSeen <= p.bulkSize || p.readCredit(p.mask, p.bulkSize-(end-p.bulkTail))
}

// send publishes a frame of any size, or reports that there is no credit.
func (p *producer) send(class fabric.Class, imm uint64, payload []byte) bool {
	if !p.hasLine() {
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
	head, bulk := atomic.LoadUint64(&p.at.head), atomic.LoadUint64(&p.at.bulkHead)
	if p.widenedBy != 0 && bulk <= p.widenedAt {
		bulk += p.widenedBy
	} else {
		p.widenedBy = 0
	}
	if p.tail-head > p.tail-p.headSeen || p.bulkTail-bulk > p.bulkTail-p.bulkSeen {
		p.corrupt = true
		return false
	}
	p.headSeen, p.bulkSeen = head, bulk
	p.setLimit()
	return p.tail-head <= maxLines && p.bulkTail-bulk <= maxBulk
}

// creditMoved reports whether the consumer has returned credit since the cursors were last read.
func (p *producer) creditMoved() bool {
	return atomic.LoadUint64(&p.at.head) != p.headSeen || atomic.LoadUint64(&p.at.bulkHead) != p.bulkSeen
}
