package robust

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Word is a futex word that may lie on a robust list. Its holder writes its thread
// id, watchers the bit that asks for a wake-up, and the kernel the mark; 0 means that
// it is not held. It has the size of a list's node, so that both can be
// counted through with one offset.
type Word struct {
	v atomic.Uint32
	_ uint32
}

// Marked reports whether the kernel, or another process, has marked the word: for a process that polls, at the price of a load.
// Seen.Gone answers whether the mark is true.
func (w *Word) Marked() bool { return w.v.Load()&diedBit != 0 }

// Held reports whether the word says that a thread holds it. If that is true the thread lives, or has until now.
func (w *Word) Held(tid int) bool {
	v := w.v.Load()
	return v&diedBit == 0 && v&tidMask == uint32(tid)
}

// ask says whether the kernel is to wake a waiter when it marks the word, and gives the new value. A word that is marked or
// not held stays as it is.
func (w *Word) ask(on bool) uint32 {
	for {
		v := w.v.Load()
		to := v &^ waitersBit
		if on {
			to |= waitersBit
		}
		switch {
		case v == to || v&diedBit != 0 || v&tidMask == 0:
			return v
		case w.v.CompareAndSwap(v, to):
			return to
		}
	}
}

// The parts of a word, fixed by the kernel.
const (
	waitersBit = 1 << 31
	diedBit    = 1 << 30
	tidMask    = diedBit - 1
)

// head is the kernel's struct robust_list_head.
type head struct {
	next    uintptr // the first node; of the last node: the head
	offset  uintptr // from a node to its word
	pending uintptr // for locks in the making
}

// setList gives the calling thread a list, or none.
func setList(h *head) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, uintptr(unsafe.Pointer(h)), unsafe.Sizeof(*h), 0)
	if errno != 0 {
		return fmt.Errorf("robust: set_robust_list: %w", errno)
	}
	return nil
}

// listOf asks where the list of any thread is. 0: it has none, or no longer.
func listOf(tid int) (uintptr, error) {
	var at, size uintptr
	_, _, errno := unix.RawSyscall(unix.SYS_GET_ROBUST_LIST, uintptr(tid), uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, errno
	}
	return at, nil
}

// link makes the list of n nodes whose words begin at words. The nodes are
// private; the kernel counts from each to its word.
func link(words []Word) (*head, []uintptr) {
	nodes, h := make([]uintptr, len(words)), new(head)
	at := func(i int) uintptr { return uintptr(unsafe.Pointer(&nodes[i])) }
	for i := range nodes[1:] {
		nodes[i] = at(i + 1)
	}
	nodes[len(nodes)-1] = uintptr(unsafe.Pointer(h))
	h.next, h.offset = at(0), uintptr(unsafe.Pointer(&words[0]))-at(0)
	return h, nodes
}

// waiter is the kernel's struct futex_waitv.
type waiter struct {
	val   uint64
	addr  uint64
	flags uint32
	_     uint32
}

const (
	maxWaiters   = 128     // FUTEX_WAITV_MAX
	size32       = 2       // FUTEX2_SIZE_U32
	private      = 128     // FUTEX2_PRIVATE: no other process waits there
	opWake       = 1       // FUTEX_WAKE
	all          = 1 << 30 // waiters that a call wakes
	clockOfWaitv = unix.CLOCK_MONOTONIC
)

func waiterOn(word *atomic.Uint32, val uint32, flags uint32) waiter {
	return waiter{val: uint64(val), addr: uint64(addressOf(word)), flags: size32 | flags}
}

// addressOf is a number, since the memory may be unmapped while it is kept, and the program reads the target of a
// pointer when it makes another one from it.
func addressOf(word *atomic.Uint32) uintptr { return uintptr(unsafe.Pointer(word)) }

// waitAny sleeps while every word has its value, at most d; d < 0 waits without
// limit. It answers which one was woken.
//
// It is a Syscall, not a RawSyscall: the collector must be able to go on while
// this thread sleeps.
func waitAny(list []waiter, d time.Duration) (int, unix.Errno) {
	var until *unix.Timespec
	if d >= 0 {
		until = new(unix.Timespec)
		if err := unix.ClockGettime(clockOfWaitv, until); err != nil {
			return 0, unix.EINVAL
		}
		*until = unix.NsecToTimespec(until.Nano() + int64(d))
	}
	n, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(unsafe.SliceData(list))),
		uintptr(len(list)), 0, uintptr(unsafe.Pointer(until)), clockOfWaitv, 0)
	return int(n), errno
}

// wake wakes all threads that wait at the word with an address. One that is not mapped any longer does no harm.
func wake(word uintptr) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, word, opWake, all, 0, 0, 0)
}

// wakePrivate is wake for a word on which this process waits with the flag private.
func wakePrivate(word *atomic.Uint32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake|private, all, 0, 0, 0)
}

// Supported tells whether this kernel lets a thread wait on many words, and why
// not.
var Supported = sync.OnceValue(func() error {
	if _, errno := waitAny(nil, -1); errno != unix.EINVAL { // its answer to an empty list
		return fmt.Errorf("robust: futex_waitv: %w: it takes Linux 5.16, and a seccomp profile that allows it", errno)
	}
	return nil
})

// wordsIn lays words over memory. Precondition: it begins at a multiple of 8.
func wordsIn(b []byte) []Word {
	return unsafe.Slice((*Word)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(Word{})))
}
