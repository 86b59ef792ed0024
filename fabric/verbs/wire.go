package verbs

import (
	"encoding/binary"

	"github.com/banyan-hpc/banyan/fabric"
)

// end is the description of one end of a queue pair for the other.
type end struct {
	qp, psn uint32
	lid     uint16 // of iWARP, the TCP port
	mtu     uint8
	kind    Kind
	gid     [16]byte // of iWARP, the IP address
	token   [16]byte // of iWARP, what the peer shows when it connects
	// Of iWARP, where the probes of lanes read, and the key.
	probed    uint64
	probedKey uint32
}

// word is the kind of a message about a lane, which goes over the sockets.
type word uint8

const (
	// offer: here is this end of a queue pair, which gives the peer so much credit.
	offer word = 1 + iota
	// ready: this end receives.
	ready
	// over: the frames after this one come over the queue pair.
	over
	// broken: this end receives no more over the queue pair.
	broken
	// back: the frames after this one come over the sockets again, from that number on.
	back
	// again: here is this end of another pair for reads, in place of one that has failed; first names it.
	again
)

// note is a message about a lane. generation counts the lanes of a connection.
type note struct {
	word       word
	generation uint32
	first      uint64         // of back; of again, the number of the pair times mostRails and the rail
	credit     uint16         // of offer, as ports and reads
	ports      uint8          // that this process has
	end        end            // of offer and again
	reads      [mostRails]end // the pairs for reads, by rail. Number 0: there is none.
}

// mostRails is the number of ports over which a message is read.
const mostRails = 4

const (
	endBytes  = 4 + 4 + 2 + 1 + 1 + 16 + 16
	noteBytes = 1 + 4 + 8 + 2 + 1 + 8 + 4 + (1+mostRails)*endBytes
)

func (n *note) encode() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, noteBytes), byte(n.word))
	b = le.AppendUint32(b, n.generation)
	b = le.AppendUint64(b, n.first)
	b = append(le.AppendUint16(b, n.credit), n.ports)
	b = le.AppendUint64(b, n.end.probed)
	b = le.AppendUint32(b, n.end.probedKey)
	b = n.end.append(b)
	for i := range n.reads {
		b = n.reads[i].append(b)
	}
	return b
}

func (e *end) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, e.qp)
	b = le.AppendUint32(b, e.psn)
	b = le.AppendUint16(b, e.lid)
	b = append(b, e.mtu, byte(e.kind))
	return append(append(b, e.gid[:]...), e.token[:]...)
}

// decodeEnd reads an end; false: no process of this version wrote it.
//
//banyan:decodes
func decodeEnd(b []byte) (e end, ok bool) {
	le := binary.LittleEndian
	e.qp, e.psn, e.lid = le.Uint32(b), le.Uint32(b[4:]), le.Uint16(b[8:])
	e.mtu, e.kind = b[10], Kind(b[11])
	copy(e.gid[:], b[12:])
	copy(e.token[:], b[28:])
	return e, e.kind <= IWARP && (e.qp == 0 || e.mtu >= 1 && e.mtu <= 5)
}

// decodeNote reads a note; false: no process of this version wrote it.
//
//banyan:decodes
func decodeNote(b []byte) (n note, ok bool) {
	if len(b) != noteBytes {
		return n, false
	}
	le := binary.LittleEndian
	n.word, n.generation, n.first, n.credit = word(b[0]), le.Uint32(b[1:]), le.Uint64(b[5:]), le.Uint16(b[13:])
	n.ports = b[15]
	probed, key := le.Uint64(b[16:]), le.Uint32(b[24:])
	b = b[28:]
	n.end, ok = decodeEnd(b)
	n.end.probed, n.end.probedKey = probed, key
	for i := range n.reads {
		b = b[endBytes:]
		var fine bool
		n.reads[i], fine = decodeEnd(b)
		ok = ok && fine
	}
	switch n.word {
	case ready, over, broken, back:
		return n, ok
	case offer:
		return n, ok && n.credit > 0 && n.ports >= 1 && n.ports <= mostRails && n.end.qp > 0
	case again:
		return n, ok && n.end.qp > 0
	}
	return n, false
}

// header precedes the payload of a frame on a queue pair. class 0: it brings credit only. rides: the frame is a part of a move,
// and is not among those that each side counts.
type header struct {
	imm    uint64
	length uint32
	credit uint16
	class  fabric.Class
	rides  bool
}

const headerBytes = 16

func (h *header) put(b []byte) {
	_ = b[:headerBytes]
	le := binary.LittleEndian
	le.PutUint64(b, h.imm)
	le.PutUint32(b[8:], h.length)
	le.PutUint16(b[12:], h.credit)
	b[14], b[15] = byte(h.class), 0
	if h.rides {
		b[15] = 1
	}
}

// validMessage reports whether a process of this version wrote a message.
func validMessage(b []byte) bool {
	if len(b) < headerBytes || b[15] > 1 {
		return false
	}
	h := readHeader(b)
	return h.class < fabric.NumClasses && (h.class > 0 || !h.rides) && uint64(h.length)+headerBytes == uint64(len(b))
}

// readHeader reads the header of a message.
//
//banyan:decodes
func readHeader(b []byte) header {
	_ = b[:headerBytes]
	le := binary.LittleEndian
	return header{
		imm: le.Uint64(b), length: le.Uint32(b[8:]), credit: le.Uint16(b[12:]), class: fabric.Class(b[14]), rides: b[15] != 0,
	}
}

// frameOf reads a valid message, which may be followed by other bytes.
func frameOf(b []byte) (h header, payload []byte) {
	h = readHeader(b)
	return h, b[headerBytes:][:h.length:h.length]
}

// keyBytes is the length of an adapter's key of a region.
const keyBytes = 4

// readKeys reads the keys of a peer's region, by port; 0: it is not registered with that one. false: no process of this version wrote them.
//
//banyan:decodes
func readKeys(b []byte) (keys [mostRails]uint32, ok bool) {
	if len(b) == 0 || len(b)%keyBytes != 0 || len(b) > mostRails*keyBytes {
		return keys, false
	}
	for i := range len(b) / keyBytes {
		keys[i] = binary.LittleEndian.Uint32(b[i*keyBytes:])
	}
	return keys, true
}
