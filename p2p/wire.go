package p2p

import (
	"encoding/binary"

	"github.com/banyan-hpc/banyan/fabric"
)

// rts announces a message whose data stay with the sender.
type rts struct {
	sender uint64 // the sender's request, returned in CTS and Fin
	total  uint64
	lent   bool // the receiver may look at the memory, and answers when it has returned it
	region fabric.Region
}

// lentBit marks the length of a message that is lent.
const lentBit = 1 << 63

const rtsFixed = 4 * 8

// maxMessage bounds the length that a peer may announce: more than any memory holds.
const maxMessage = 1 << 46

// maxKey bounds the provider's key in an RTS.
const maxKey = controlBytes - rtsFixed

func appendRTS(b []byte, m rts) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, m.sender)
	total := m.total
	if m.lent {
		total |= lentBit
	}
	b = le.AppendUint64(b, total)
	b = le.AppendUint64(b, m.region.Addr)
	b = le.AppendUint64(b, m.region.Len)
	return append(b, m.region.Key...)
}

// decodeRTS decodes an announcement. The payload is borrowed, so the region's key is copied into
// key.
func decodeRTS(b, key []byte) (m rts, ok bool) {
	if len(b) < rtsFixed || len(b) > rtsFixed+maxKey {
		return m, false
	}
	le := binary.LittleEndian
	m.sender, m.total = le.Uint64(b), le.Uint64(b[8:])
	m.total, m.lent = m.total&^lentBit, m.total&lentBit != 0
	m.region.Addr, m.region.Len = le.Uint64(b[16:]), le.Uint64(b[24:])
	m.region.Key = append(key[:0], b[rtsFixed:]...)
	return m, m.total <= maxMessage && (m.region.Len == 0 || m.region.Len == m.total)
}

func appendUint64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// decodeLength decodes the length of a message in fragments.
func decodeLength(b []byte) (int, bool) {
	v, ok := decodeHandle(b)
	return int(v), ok && v <= maxMessage
}

func decodeHandle(b []byte) (uint64, bool) {
	if len(b) != 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}
