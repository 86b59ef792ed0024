package tcp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// probe makes the calls on which every connection depends, on sockets of its own. Where a seccomp
// profile refuses one of them, no connection would be made, or each would break at once, without an
// explanation.
func probe() (err error) {
	var fds [3]int // a listener, and the ends of a connection
	for i := range fds[:2] {
		if fds[i], err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return nil // listening reports it, if sockets of another kind are refused too
		}
		defer unix.Close(fds[i])
	}
	if err = probeConnect(&fds); err != nil {
		return fmt.Errorf("tcp: %w", err)
	}
	defer unix.Close(fds[2])
	if err = probeMoves(fds[1], fds[2]); err != nil {
		return fmt.Errorf("tcp: %w", err)
	}
	return nil
}

// probeConnect connects the second socket to the first, and returns the other end.
func probeConnect(fds *[3]int) error {
	if err := unix.Bind(fds[0], &unix.SockaddrUnix{}); err != nil { // the kernel chooses a name
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fds[0], 1); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	at, err := unix.Getsockname(fds[0])
	if err != nil {
		return fmt.Errorf("getsockname: %w", err)
	}
	if err := unix.Connect(fds[1], at); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fds[1]), Events: unix.POLLOUT}}, 0); err != nil &&
		!errors.Is(err, unix.EINTR) {
		return fmt.Errorf("ppoll: %w", err)
	}
	if fds[2], _, err = unix.Accept4(fds[0], unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK); err != nil {
		return fmt.Errorf("accept4: %w", err)
	}
	return nil
}

// probeMoves moves bytes from one end of a connection to the other, by each call of this package.
func probeMoves(from, to int) error {
	b, v := []byte{0}, new(vector)
	for _, call := range []struct {
		name string
		make func() (int, unix.Errno)
	}{
		{"sendto", func() (int, unix.Errno) { return sendBytes(from, b) }},
		{"recvfrom", func() (int, unix.Errno) { return recvBytes(to, b) }},
		{"sendmsg", func() (int, unix.Errno) { v.pieces[0] = b; return v.send(from, 1) }},
		{"recvmsg", func() (int, unix.Errno) { v.pieces[0] = b; return v.recv(to, 1) }},
	} {
		if _, errno := call.make(); errno != 0 {
			return fmt.Errorf("%s: %w", call.name, errno)
		}
	}
	if _, err := unix.GetsockoptInt(from, unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
		return fmt.Errorf("getsockopt: %w", err)
	}
	return nil
}
