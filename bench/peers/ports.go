package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reservePort returns a free TCP port that the kernel gives to no other process until release is
// called. It stays bound by a socket that does not listen; a program that sets SO_REUSEADDR, as
// ucx_perftest and NPtcp do, can bind it too.
func reservePort() (port int, release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("peers: socket: %w", err)
	}
	release = func() { unix.Close(fd) }
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		release()
		return 0, nil, fmt.Errorf("peers: reserve a port of 127.0.0.1: %w", err)
	}
	return name.(*unix.SockaddrInet4).Port, release, nil
}

// awaitListener returns when some process listens on the port. To connect would take the one
// connection that ucx_perftest accepts, so the kernel's table is read instead.
func awaitListener(ctx context.Context, port int, exited <-chan struct{}) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if listening(port) {
			return nil
		}
		select {
		case <-tick.C:
		case <-exited:
			return errors.New("it ended before it listened")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listening looks for a socket that listens on a port in the kernel's tables.
func listening(port int) bool {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if b, err := os.ReadFile(name); err == nil && listens(string(b), port) {
			return true
		}
	}
	return false
}

// listens looks for a port in state LISTEN (0A) in a table of proc(5): its second column is the
// local address and the port in hexadecimal, the fourth the state.
func listens(table string, port int) bool {
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], suffix) {
			return true
		}
	}
	return false
}

// SegmentsSent returns how many TCP segments this network namespace has sent since it was made. A
// ping-pong over TCP adds at least one for each message, so the difference shows whether messages
// went over TCP at all.
func SegmentsSent() (int64, error) {
	b, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	return parseSegments(string(b))
}

// parseSegments reads OutSegs: a line of names is followed by one of values.
func parseSegments(snmp string) (int64, error) {
	var names []string
	for line := range strings.Lines(snmp) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] != "Tcp:":
		case names == nil:
			names = f
		case len(f) == len(names):
			for i, name := range names {
				if name == "OutSegs" {
					return strconv.ParseInt(f[i], 10, 64)
				}
			}
		}
	}
	return 0, errors.New("peers: /proc/net/snmp does not say how many TCP segments were sent")
}
