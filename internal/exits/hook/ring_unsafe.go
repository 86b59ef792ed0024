package hook

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is the bell's buffer as far as a reader maps it: a page with the reader's
// position, which it writes, and one with the writer's.
//
//	page 0   consumer position   written here, read by the kernel
//	page 1   producer position   written by the kernel
type ring struct{ consumer, producer []byte }

func mapRing(fd int) (*ring, error) {
	page := os.Getpagesize()
	r := &ring{}
	var err error
	if r.consumer, err = unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map the bell: %w", err)
	}
	if r.producer, err = unix.Mmap(fd, int64(page), page, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map the bell: %w", err), unix.Munmap(r.consumer))
	}
	return r, nil
}

func position(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(&page[0])) }

// makeRoom drops words that were rung, so that more than half of the buffer is free when
// the next one has been rung. It leaves some: an empty bell would not be readable, and epoll asks again before
// it reports. All entries are words of one size, so any multiple is a boundary.
func (r *ring) makeRoom() {
	rung := atomic.LoadUint64(position(r.producer))
	if taken := atomic.LoadUint64(position(r.consumer)); rung-taken > bellSize/4 {
		atomic.StoreUint64(position(r.consumer), rung-bellSize/4)
	}
}

func (r *ring) unmap() error {
	return errors.Join(unix.Munmap(r.consumer), unix.Munmap(r.producer))
}
