package tcp

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// listener is a socket that accepts peers.
type listener struct {
	fd, domain int
	key        int32
	addr       netip.AddrPort // for TCP
	paused     bool           // not watched for a while, for lack of descriptors
}

const backlog = 4096

func listenUnix(name [unixBytes]byte) (*listener, error) {
	l := &listener{domain: unix.AF_UNIX}
	return l, l.open(unixName(name))
}

// listenTCP listens at an address; at every address of the machine if ip is the zero Addr.
func listenTCP(ip netip.Addr) (*listener, error) {
	if !ip.IsValid() {
		l, err := listenTCP(netip.IPv6Unspecified())
		if err != nil { // a machine without IPv6
			l, err = listenTCP(netip.IPv4Unspecified())
		}
		return l, err
	}
	domain, sa := sockaddr(netip.AddrPortFrom(ip, 0))
	l := &listener{domain: domain}
	if err := l.open(sa); err != nil {
		return nil, err
	}
	sa, err := unix.Getsockname(l.fd)
	if err != nil {
		_ = unix.Close(l.fd)
		return nil, fmt.Errorf("tcp: getsockname: %w", err)
	}
	l.addr = addrPort(sa)
	return l, nil
}

func (l *listener) open(sa unix.Sockaddr) (err error) {
	if l.fd, err = unix.Socket(l.domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("tcp: socket: %w", err)
	}
	if l.domain == unix.AF_INET6 {
		_ = unix.SetsockoptInt(l.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err = unix.Bind(l.fd, sa); err != nil {
		err = fmt.Errorf("tcp: listening: bind: %w", err)
	} else if err = unix.Listen(l.fd, backlog); err != nil {
		err = fmt.Errorf("tcp: listening: listen: %w", err)
	}
	if err != nil {
		_ = unix.Close(l.fd)
	}
	return err
}

// The kernel's timeouts before the connection counts as broken: for unacknowledged data, and for
// probes without data.
const (
	userTimeoutMs = 10_000
	keepIdle      = 5 // seconds
	keepInterval  = 1
	keepCount     = 5
)

// unixBuffer is the length of the send buffer of a Unix socket, which the kernel doubles: it has no other buffer, and
// the default, 208 KiB, is less than a few long frames.
const unixBuffer = 512 << 10

// tune sets the socket options. Options that the kernel does not know are skipped.
func tune(fd, domain int) {
	if domain == unix.AF_UNIX {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, unixBuffer)
		return
	}
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeoutMs},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount},
	} {
		_ = unix.SetsockoptInt(fd, o.level, o.name, o.value)
	}
}

// tuneLocal sets up a socket whose other end is on this machine. The system's congestion control
// (BBR) is useless there and takes a tenth of a microsecond per message; Reno does least.
func tuneLocal(fd int) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
}

func sockaddr(ap netip.AddrPort) (domain int, sa unix.Sockaddr) {
	if ip := ap.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
}

// addrPort is the inverse of sockaddr; the zero AddrPort for Unix sockets.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// localName is this end's address of a socket.
func localName(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPort(sa)
}

// pathOf describes a connection that comes from sa.
func pathOf(sa unix.Sockaddr) path {
	if _, ok := sa.(*unix.SockaddrUnix); ok {
		return path{unix: true, local: true}
	}
	return path{there: addrPort(sa)}
}

// isPressure reports whether an error is a temporary shortage of this process or machine.
func isPressure(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) ||
		errors.Is(err, unix.ENOMEM)
}
