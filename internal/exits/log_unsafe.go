package exits

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is the log, mapped read-only. All offsets are this package's own constants, so no
// contents of the log lead outside of it.
type mapping struct{ bytes []byte }

// mapLog maps the log behind a descriptor.
func mapLog(fd int) (mapping, error) {
	b, err := unix.Mmap(fd, 0, LogSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return mapping{}, fmt.Errorf("exits: map the log: %w", err)
	}
	return mapping{b}, nil
}

func (m mapping) unmap() error { return unix.Munmap(m.bytes) }

// word is written by the kernel's programs, read here.
func (m mapping) word(at int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m.bytes[at])))
}

func (m mapping) half(at int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&m.bytes[at])))
}

// head is the number of entries that have been started.
func (m mapping) head() uint64 { return m.word(HeadAt) }

// entry is one entry of the log.
type entry struct {
	pid, inner, space uint32
	status            int32
	time              uint64
}

// entry copies entry i. It reports false if it is not complete yet, or no longer.
//
//banyan:decodes
func (m mapping) entry(i uint64) (entry, bool) {
	at := EntriesAt + int(i%Entries)*EntrySize
	if m.word(at+SeqAt) != i+1 {
		return entry{}, false
	}
	e := entry{
		m.half(at + PIDAt), m.half(at + InnerAt), m.half(at + EntrySpace),
		int32(m.half(at + StatusAt)), m.word(at + TimeAt),
	}
	return e, m.word(at+SeqAt) == i+1
}
