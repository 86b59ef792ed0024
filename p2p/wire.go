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

// Marks in the length of an announced message: it is lent; it has a region, which is as long. The length of the
// region would make an announcement from a block too long for one line of shared memory.
const (
	lentBit   = 1 << 63
	regionBit = 1 << 62
)

const rtsFixed = 3 * 8

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
	if m.region.Len != 0 {
		total |= regionBit
	}
	b = le.AppendUint64(b, total)
	b = le.AppendUint64(b, m.region.Addr)
	return append(b, m.region.Key...)
}

// decodeRTS decodes an announcement. The region's key is a part of b.
func decodeRTS(b []byte) (m rts, ok bool) {
	if len(b) < rtsFixed || len(b) > rtsFixed+maxKey {
		return m, false
	}
	le := binary.LittleEndian
	m.sender, m.total = le.Uint64(b), le.Uint64(b[8:])
	m.lent = m.total&lentBit != 0
	located := m.total&regionBit != 0
	m.total &^= lentBit | regionBit
	m.region.Addr, m.region.Key = le.Uint64(b[16:]), b[rtsFixed:]
	if located {
		m.region.Len = m.total
	}
	return m, m.total <= maxMessage && (m.total != 0 || !located)
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
