package exits

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is the log, mapped read-only. All offsets are this package's own constants, so no
// contents of the log lead outside of it.
//
// A part of the log is mapped when it is read first: the kernel maps all pages of a BPF map at once, half a megabyte,
// and the processes of a job are mostly within a page or two.
type mapping struct {
	bytes  []byte
	fd     int
	mapped [logParts]bool
}

// The parts begin at multiples of partBytes, of pages, and so hold whole entries.
const (
	partBytes = 1 << 15
	logParts  = (LogSize + partBytes - 1) / partBytes
)

// mapLog maps the beginning of the log behind a descriptor, which stays open as long as the mapping.
func mapLog(fd int) (m mapping, err error) {
	m.fd = fd
	if m.bytes, err = unix.Mmap(-1, 0, LogSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return mapping{}, fmt.Errorf("exits: room for the log: %w", err)
	}
	if err := m.mapPart(0); err != nil {
		return mapping{}, errors.Join(fmt.Errorf("exits: map the log: %w", err), m.unmap())
	}
	return m, nil
}

// mapPart maps part i if it is not.
func (m *mapping) mapPart(i int) error {
	if m.mapped[i] {
		return nil
	}
	part := m.bytes[i*partBytes : min((i+1)*partBytes, LogSize)]
	_, err := unix.MmapPtr(m.fd, int64(i*partBytes), unsafe.Pointer(&part[0]), uintptr(len(part)),
		unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	m.mapped[i] = err == nil
	return err
}

func (m *mapping) unmap() error { return unix.Munmap(m.bytes) }

// word is written by the kernel's programs, read here.
func (m *mapping) word(at int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m.bytes[at])))
}

func (m *mapping) half(at int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&m.bytes[at])))
}

// head is the number of entries that have been started.
func (m *mapping) head() uint64 { return m.word(HeadAt) }

// entry is one entry of the log.
type entry struct {
	pid, inner, space uint32
	status            int32
}

// entry copies entry i. It reports false if it is not complete yet, or no longer, or cannot be mapped. It is
// called by one goroutine at a time, unlike head.
//
//banyan:decodes
func (m *mapping) entry(i uint64) (entry, bool) {
	at := EntriesAt + int(i%Entries)*EntrySize
	if m.mapPart(at/partBytes) != nil || m.word(at+SeqAt) != i+1 {
		return entry{}, false
	}
	e := entry{m.half(at + PIDAt), m.half(at + InnerAt), m.half(at + EntrySpace), int32(m.half(at + StatusAt))}
	return e, m.word(at+SeqAt) == i+1
}
