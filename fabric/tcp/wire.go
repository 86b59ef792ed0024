package tcp

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

const (
	// maxFrame is the longest payload of TrySend with an outbox of four times that or more, maxLent
	// of TryLend.
	maxFrame = 768 << 10
	maxLent  = 1 << 20

	headerBytes = 24
)

// kind is a frame's class, or one of these.
type kind uint8

const (
	kindTaken  kind = 64 + iota // an acknowledgement alone; it has no number
	kindBye                     // the sender departs in order; its last frame. imm is that of Farewell
	kindBeside                  // for Config.Beside
)

// flagLent marks a frame whose sender waits for the acknowledgement.
const flagLent = 1

// header precedes each frame.
type header struct {
	length uint32
	kind   kind
	flags  uint8
	number uint32
	taken  uint32
	imm    uint64
}

func (h *header) put(b []byte) {
	_ = b[:headerBytes]
	le := binary.LittleEndian
	le.PutUint32(b, h.length)
	le.PutUint32(b[4:], uint32(h.kind)|uint32(h.flags)<<8)
	le.PutUint32(b[8:], h.number)
	le.PutUint32(b[12:], h.taken)
	le.PutUint64(b[16:], h.imm)
}

// parseHeader reads a header; false: no process of this version wrote it.
func parseHeader(b []byte) (h header, ok bool) {
	_ = b[:headerBytes]
	le := binary.LittleEndian
	h.length = le.Uint32(b)
	word := le.Uint32(b[4:])
	h.kind, h.flags = kind(word), uint8(word>>8)
	h.number, h.taken, h.imm = le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[16:])
	return h, word>>16 == 0 && h.flags&^flagLent == 0 && h.fits()
}

func (h *header) fits() bool {
	switch {
	case h.kind == kindTaken || h.kind == kindBye:
		return h.length == 0 && h.flags == 0
	case h.kind == kindBeside:
		return h.length <= maxBeside && h.flags == 0
	case h.kind == 0 || h.kind >= fabric.NumClasses:
		return false
	case h.flags == flagLent:
		return h.length <= maxLent
	}
	return h.length <= maxFrame
}

// The handshake: the dialler sends a hello, the other side a challenge, the dialler the proof that
// it knows the secret, and the other side its verdict, which proves the same. Every message has a
// fixed length.
const (
	handshakeMagic   = 0x31504354_594e4e42 // "BNNYTCP1"
	handshakeVersion = 3
	nonceBytes       = 32
	macBytes         = sha256.Size

	helloBytes     = 8 + 4*4 + 8 + nonceBytes + addressBytes
	challengeBytes = 8 + 4 + 4 + nonceBytes
	proofBytes     = 8 + 8 + macBytes
	verdictBytes   = 8 + 8 + macBytes
)

// hello is a dialler's first message. toBorn distinguishes the intended process from others that
// had, or will have, its id in another job; address is where the dialler can be dialled itself,
// should the connection break.
type hello struct {
	version  uint32
	from, to proc.ID
	toBorn   uint64
	nonce    [nonceBytes]byte
	address  []byte
}

func (h *hello) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(make([]byte, 0, helloBytes), handshakeMagic)
	b = le.AppendUint32(b, h.version)
	b = le.AppendUint32(b, uint32(h.from))
	b = le.AppendUint32(b, uint32(h.to))
	b = le.AppendUint32(b, uint32(len(h.address)))
	b = le.AppendUint64(b, h.toBorn)
	b = append(b, h.nonce[:]...)
	return append(b, h.address...)[:helloBytes]
}

// decodeHello reads a hello of any version; false: it is none. The address aliases b.
func decodeHello(b []byte) (h hello, ok bool) {
	le := binary.LittleEndian
	if len(b) != helloBytes || le.Uint64(b) != handshakeMagic {
		return h, false
	}
	h.version = le.Uint32(b[8:])
	h.from, h.to = proc.ID(le.Uint32(b[12:])), proc.ID(le.Uint32(b[16:]))
	n := le.Uint32(b[20:])
	h.toBorn = le.Uint64(b[24:])
	copy(h.nonce[:], b[32:])
	if n > addressBytes {
		return h, h.version != handshakeVersion
	}
	h.address = b[32+nonceBytes:][:n]
	return h, true
}

// helloBegins reports whether b may be the beginning of a hello.
func helloBegins(b []byte) bool {
	var magic [8]byte
	binary.LittleEndian.PutUint64(magic[:], handshakeMagic)
	n := min(len(b), len(magic))
	return bytes.Equal(b[:n], magic[:n])
}

// challenge answers a hello. To another version it is the last message.
type challenge struct {
	version uint32
	nonce   [nonceBytes]byte
}

func (c *challenge) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(make([]byte, 0, challengeBytes), handshakeMagic)
	b = le.AppendUint32(b, c.version)
	b = le.AppendUint32(b, 0)
	return append(b, c.nonce[:]...)
}

func decodeChallenge(b []byte) (c challenge, ok bool) {
	le := binary.LittleEndian
	if len(b) != challengeBytes || le.Uint64(b) != handshakeMagic {
		return c, false
	}
	c.version = le.Uint32(b[8:])
	copy(c.nonce[:], b[16:])
	return c, true
}

// outcome is the result of a handshake for an authentic peer.
type outcome uint32

const (
	accepted    outcome = iota
	duplicate           // the other dial, by the lower id, stays
	rejected            // the dialler has been invalidated, or counts as dead
	departed            // the other side has departed
	noResources         // the other side lacks the resources for a connection
)

// statement is a side's part of its proof or verdict: the number of frames that it has received,
// the size of its outbox, and, in a verdict, the outcome and the shortage.
type statement struct {
	taken    uint32
	outbox   uint32
	outcome  outcome
	shortage unix.Errno
}

const statementBytes = 16

// seal encodes the statement and the proof that the writer of that role knows the secret.
// transcript is all previous messages.
func (s *statement) seal(secret []byte, role string, transcript []byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, verdictBytes), s.taken)
	b = le.AppendUint32(b, s.outbox)
	b = le.AppendUint32(b, uint32(s.outcome))
	b = le.AppendUint32(b, uint32(s.shortage))
	return append(b, mac(secret, role, transcript, b)...)
}

// open checks and decodes the result of seal.
func (s *statement) open(secret []byte, role string, transcript, b []byte) bool {
	if len(b) != statementBytes+macBytes {
		return false
	}
	if !hmac.Equal(b[statementBytes:], mac(secret, role, transcript, b[:statementBytes])) {
		return false
	}
	le := binary.LittleEndian
	s.taken, s.outbox, s.outcome = le.Uint32(b), le.Uint32(b[4:]), outcome(le.Uint32(b[8:]))
	s.shortage = unix.Errno(le.Uint32(b[12:]))
	return s.outcome <= noResources && s.outbox >= minOutbox && s.outbox <= maxOutbox
}

// The roles prevent one side's proof from being replayed by the other.
const (
	roleDialler  = "banyan tcp 1: the dialler"
	roleAcceptor = "banyan tcp 1: the acceptor"
)

func mac(secret []byte, role string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(role))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
