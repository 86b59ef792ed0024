package tcp

// outbox keeps the unacknowledged frames in the order of their numbers: headers and short payloads
// in a ring of bytes, long payloads in place. Positions count bytes of the ring since the
// connection began.
type outbox struct {
	buf              []byte // a power of two up to size; nil: no frame has needed it lately
	size             int
	head, sent, tail uint64 // oldest kept byte, next to be written, end
	first            uint32 // number of the frame at head
	next             uint32 // number of the next frame
	added            uint64 // frames
	lent             []loan
	// cursor is the first loan that has not been written whole, offset the number of its bytes that
	// have been.
	cursor, offset int
	// urgent is the rest of an acknowledgement that the socket did not take whole.
	urgent  []byte
	scratch [headerBytes]byte
}

// loan is a payload in its sender's memory.
type loan struct {
	at   uint64 // its header ends here
	data []byte
}

// byeRoom is reserved for the last frame.
const byeRoom = headerBytes

// room reports whether a frame with n bytes in the ring may be added.
func (o *outbox) room(n int) bool {
	return o.bytes()+headerBytes+n <= o.size-byeRoom
}

// firstRing is the least size of the ring, ringGrowth the factor by which it grows.
const (
	firstRing  = 1 << 8
	ringGrowth = 8
)

// grow makes the ring long enough for n bytes more.
func (o *outbox) grow(n int) {
	size := max(firstRing, ringGrowth*len(o.buf))
	for size < o.bytes()+n {
		size *= 2
	}
	o.resize(min(size, o.size))
}

// shrink frees the memory that the kept frames do not need.
func (o *outbox) shrink() {
	used := int(o.tail - o.head)
	if used == 0 {
		o.buf = nil
		return
	}
	size := min(firstRing, o.size)
	for size < used {
		size *= 2
	}
	if size < len(o.buf) {
		o.resize(size)
	}
}

func (o *outbox) resize(size int) {
	last := o.buf
	o.buf = make([]byte, size)
	for at := o.head; at < o.tail; {
		from := last[at&uint64(len(last)-1):]
		at += uint64(copy(o.buf[at&o.mask():], from[:min(len(from), int(o.tail-at))]))
	}
}

// add appends a frame's header. Its payload follows by append, which takes n bytes, or lend.
func (o *outbox) add(h *header, n int) {
	if o.bytes()+headerBytes+n > len(o.buf) {
		o.grow(headerBytes + n)
	}
	if o.head == o.tail && len(o.lent) == 0 { // start over, in cached memory
		o.head, o.sent, o.tail = 0, 0, 0
	}
	h.number = o.next
	o.next++
	o.added++
	h.put(o.scratch[:])
	o.append(o.scratch[:])
}

func (o *outbox) append(b []byte) {
	n := copy(o.buf[o.tail&o.mask():], b)
	copy(o.buf, b[n:])
	o.tail += uint64(len(b))
}

func (o *outbox) mask() uint64 { return uint64(len(o.buf) - 1) }

// lend appends a payload that stays in place.
func (o *outbox) lend(data []byte) { o.lent = append(o.lent, loan{o.tail, data}) }

// unsent reports whether data wait to be written.
func (o *outbox) unsent() bool {
	return o.sent != o.tail || o.cursor < len(o.lent) || len(o.urgent) > 0
}

// progress is the write position.
type progress struct {
	sent                   uint64
	cursor, offset, urgent int
}

// progress changes whenever something is written.
func (o *outbox) progress() progress {
	return progress{o.sent, o.cursor, o.offset, len(o.urgent)}
}

// kept reports whether a frame is unacknowledged.
func (o *outbox) kept() bool { return o.first != o.next }

// bytes is the number of unacknowledged bytes in the ring.
func (o *outbox) bytes() int { return int(o.tail - o.head) }

// gather lists the next data to write, in at most len(pieces) pieces.
func (o *outbox) gather(pieces [][]byte) int {
	n, at, offset := 0, o.sent, o.offset
	if len(o.urgent) > 0 {
		pieces[0], n = o.urgent, 1
	}
	for i := o.cursor; n+3 <= len(pieces); i++ {
		end := o.tail
		if i < len(o.lent) {
			end = o.lent[i].at
		}
		if at < end {
			from, to := at&o.mask(), (end-1)&o.mask()+1
			if from < to {
				pieces[n] = o.buf[from:to]
				n++
			} else {
				pieces[n], pieces[n+1] = o.buf[from:], o.buf[:to]
				n += 2
			}
			at = end
		}
		if i >= len(o.lent) {
			break
		}
		pieces[n] = o.lent[i].data[offset:]
		n, offset = n+1, 0
	}
	return n
}

// wrote advances past n bytes of gather's list.
func (o *outbox) wrote(n int) {
	if len(o.urgent) > 0 {
		step := min(n, len(o.urgent))
		o.urgent = o.urgent[step:]
		n -= step
	}
	for n > 0 {
		end := o.tail
		if o.cursor < len(o.lent) {
			end = o.lent[o.cursor].at
		}
		if step := min(n, int(end-o.sent)); step > 0 {
			o.sent += uint64(step)
			n -= step
			continue
		}
		step := min(n, len(o.lent[o.cursor].data)-o.offset)
		o.offset += step
		n -= step
		if o.offset == len(o.lent[o.cursor].data) {
			o.cursor, o.offset = o.cursor+1, 0
		}
	}
}

// outdated reports whether an acknowledgement is older than the last one.
func (o *outbox) outdated(number uint32) bool { return int32(number-o.first) < 0 }

// taken releases the frames before number. It returns the number of loans among them, or -1 if the
// peer cannot have received these.
func (o *outbox) taken(number uint32) int {
	if number-o.first > o.next-o.first {
		return -1
	}
	returned := 0
	for o.first != number {
		h, _ := parseHeader(o.peek(o.head))
		o.head += headerBytes
		o.first++
		if h.flags == flagLent {
			returned++
		} else {
			o.head += uint64(h.length)
		}
	}
	if o.head > o.sent || returned > o.cursor { // more than has been written
		return -1
	}
	o.drop(returned)
	return returned
}

func (o *outbox) drop(n int) {
	if n == 0 {
		return
	}
	rest := copy(o.lent, o.lent[n:])
	clear(o.lent[rest:])
	o.lent = o.lent[:rest]
	o.cursor -= n
}

func (o *outbox) peek(at uint64) []byte {
	from := at & o.mask()
	if from+headerBytes <= uint64(len(o.buf)) {
		return o.buf[from : from+headerBytes]
	}
	n := copy(o.scratch[:], o.buf[from:])
	copy(o.scratch[n:], o.buf)
	return o.scratch[:]
}

// resume releases acknowledged frames, over any connection, and makes the rest be written
// again. It returns the same as taken. got is the number of frames that this side has received.
func (o *outbox) resume(number, got uint32) int {
	o.sent, o.cursor, o.offset, o.urgent = o.tail, len(o.lent), 0, nil
	returned := o.taken(number)
	o.sent, o.cursor = o.head, 0
	if returned >= 0 {
		o.restamp(got)
	}
	return returned
}

// restamp updates the acknowledgements in the kept frames: the peer would treat the old ones as
// outdated.
func (o *outbox) restamp(got uint32) {
	at := o.head
	for n := o.first; n != o.next; n++ {
		h, _ := parseHeader(o.peek(at))
		h.taken = got
		h.put(o.scratch[:])
		split := copy(o.buf[at&o.mask():], o.scratch[:])
		copy(o.buf, o.scratch[split:])
		at += headerBytes
		if h.flags != flagLent {
			at += uint64(h.length)
		}
	}
}

// clear releases everything.
func (o *outbox) clear() {
	o.head, o.sent = o.tail, o.tail
	o.first = o.next
	clear(o.lent)
	o.lent, o.cursor, o.offset, o.urgent = o.lent[:0], 0, 0, nil
}
