package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls that move bytes do not wait, so they bypass the Go scheduler (RawSyscall): notifying it
// costs a tenth of a short one. callMax bounds the bytes that they copy, so that a
// garbage collection is not delayed for longer than that takes.
const callMax = 1 << 20

// sendBytes writes to a socket.
func sendBytes(fd int, b []byte) (int, unix.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	n := min(len(b), callMax)
	r, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(n),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(r), 0
}

// recvBytes reads from a socket; 0 bytes and no error is the end of the stream.
func recvBytes(fd int, b []byte) (int, unix.Errno) {
	n := min(len(b), callMax)
	r, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(n),
		unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(r), 0
}

// vector is a reusable scatter/gather list: on a stack it would escape. One goroutine at a time
// uses it.
type vector struct {
	msg    unix.Msghdr
	iov    [maxPieces]unix.Iovec
	pieces [maxPieces][]byte
}

// maxPieces bounds the pieces of one call.
const maxPieces = 8

// send writes the first n pieces.
func (v *vector) send(fd, n int) (int, unix.Errno) {
	return v.call(unix.SYS_SENDMSG, fd, n, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// recv reads into the first n pieces.
func (v *vector) recv(fd, n int) (int, unix.Errno) {
	return v.call(unix.SYS_RECVMSG, fd, n, unix.MSG_DONTWAIT)
}

func (v *vector) call(number uintptr, fd, n int, flags uintptr) (int, unix.Errno) {
	used := 0
	for left := callMax; used < n && left > 0; used++ {
		size := min(len(v.pieces[used]), left)
		left -= size
		v.iov[used].Base = unsafe.SliceData(v.pieces[used])
		v.iov[used].SetLen(size)
	}
	v.msg.Iov = &v.iov[0]
	v.msg.SetIovlen(used)
	r, _, e := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(&v.msg)), flags)
	clear(v.iov[:used]) // the buffers belong to their owners
	clear(v.pieces[:n])
	if e != 0 {
		return 0, e
	}
	return int(r), 0
}

// epollNow polls without waiting.
func epollNow(epfd int, events []unix.EpollEvent) int {
	r, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), 0, 0, 0)
	if e != 0 {
		return 0
	}
	return int(r)
}
