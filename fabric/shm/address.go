package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	magic       = 0x314d48534e594e42 // "BNYNSHM1"
	wireVersion = 11
	tokenBytes  = 16
)

// address contains everything that a peer needs to map a segment and to read its owner's memory.
type address struct {
	geometry
	pid          uint32
	fd           uint32
	started      uint64 // start time of pid, clock ticks since boot: distinguishes a reused pid
	probe        uint64 // address of the token in the owner's memory
	token        [tokenBytes]byte
	holderList   uint64 // where the kernel has the list of the segment's robust words
	holderThread uint32 // the thread that holds them; 0: none
	// frontFD, frontAt and pagesAt are where the header and the pages are, if not in the file of the segment: 0.
	frontFD uint32
	frontAt uint64
	pagesAt uint64
	// at is where the header is in the file of fd. It is not encoded.
	at int64
}

// front names the file of the header and the pages.
func (a *address) front() address {
	f := *a
	if f.frontFD != 0 {
		f.fd, f.at = f.frontFD, int64(f.frontAt)
	}
	return f
}

const addressBytes = 8 + 4*6 + 8*2 + tokenBytes + 8 + 4 + 4 + 8*2

func (a *address) encode() []byte {
	b := make([]byte, 0, addressBytes)
	le := binary.LittleEndian
	b = le.AppendUint64(b, magic)
	for _, v := range [...]uint32{wireVersion, a.procs, a.lines, a.bulk, a.pid, a.fd} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint64(b, a.started)
	b = le.AppendUint64(b, a.probe)
	b = append(b, a.token[:]...)
	b = le.AppendUint64(b, a.holderList)
	b = le.AppendUint32(b, a.holderThread)
	b = le.AppendUint32(b, a.frontFD)
	b = le.AppendUint64(b, a.frontAt)
	return le.AppendUint64(b, a.pagesAt)
}

var errNotShm = errors.New("shm: not the address of a shared-memory endpoint")

func decodeAddress(b []byte) (address, error) {
	var a address
	le := binary.LittleEndian
	if len(b) != addressBytes || le.Uint64(b) != magic {
		return a, errNotShm
	}
	if v := le.Uint32(b[8:]); v != wireVersion {
		return a, fmt.Errorf("shm: the peer speaks version %d, this process %d: start all processes from one build",
			v, wireVersion)
	}
	a.procs, a.lines, a.bulk = le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint32(b[20:])
	a.pid, a.fd = le.Uint32(b[24:]), le.Uint32(b[28:])
	a.started, a.probe = le.Uint64(b[32:]), le.Uint64(b[40:])
	copy(a.token[:], b[48:])
	a.holderList = le.Uint64(b[48+tokenBytes:])
	a.holderThread = le.Uint32(b[56+tokenBytes:])
	a.frontFD, a.frontAt = le.Uint32(b[60+tokenBytes:]), le.Uint64(b[64+tokenBytes:])
	a.pagesAt = le.Uint64(b[72+tokenBytes:])
	if a.frontFD > math.MaxInt32 || max(a.frontAt, a.pagesAt) > mostBlock || a.frontAt%pageBytes != 0 || a.pagesAt%slotBytes != 0 ||
		a.frontFD != 0 && a.pagesAt <= a.frontAt {
		return a, errNotShm
	}
	if a.pid == 0 || a.pid > math.MaxInt32 || a.fd > math.MaxInt32 || a.holderThread > math.MaxInt32 {
		return a, errNotShm
	}
	return a, a.geometry.check()
}
