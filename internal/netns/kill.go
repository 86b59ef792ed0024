package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// KillConnections breaks every TCP connection with an end on a host, also those that open or close
// and those through lo, and returns the number of closed sockets of the host. Their owners get
// ECONNABORTED; the other ends get a reset, thus ECONNRESET, unless a cut prevents it. Listeners
// stay.
//
// It needs CONFIG_INET_DIAG_DESTROY; without it the error wraps [ErrKernel] and nothing is broken.
// There is no alternative: kill the process then, or use [Net.Cut].
func (n *Net) KillConnections(host int) (int, error) {
	return n.kill(host, func(netip.Addr) bool { return true })
}

// KillConnectionsTo is [Net.KillConnections] for the connections of a host with one other host.
func (n *Net) KillConnectionsTo(host, peer int) (int, error) {
	if _, err := n.host(peer); err != nil {
		return 0, err
	}
	theirs := n.addresses(peer)
	return n.kill(host, func(remote netip.Addr) bool {
		return slices.ContainsFunc(theirs, func(p netip.Prefix) bool { return p.Addr() == remote.Unmap() })
	})
}

func (n *Net) kill(host int, chosen func(remote netip.Addr) bool) (killed int, err error) {
	s, err := n.host(host)
	if err != nil {
		return 0, err
	}
	err = s.within(func() error { // the requests open their sockets on this thread
		for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
			n, err := killFamily(family, chosen)
			killed += n
			if err != nil {
				return fmt.Errorf("netns: %s: break connections: %w", s.name, needs(err, "CONFIG_INET_DIAG_DESTROY", "inet_diag"))
			}
		}
		return nil
	})
	return killed, err
}

// The states of a connection that has two ends, from the kernel's tcp_states.h:
// all but TIME_WAIT, CLOSE and LISTEN.
const connected = 1<<1 /* ESTABLISHED */ | 1<<2 /* SYN_SENT */ | 1<<3 /* SYN_RECV */ | 1<<4 /* FIN_WAIT1 */ |
	1<<5 /* FIN_WAIT2 */ | 1<<8 /* CLOSE_WAIT */ | 1<<9 /* LAST_ACK */ | 1<<11 /* CLOSING */

// Places in struct inet_diag_msg and inet_diag_sockid.
const (
	sockIDAt   = 4
	sockIDSize = 48
	remoteAt   = sockIDAt + 4 + 16
)

// diagRequest is struct inet_diag_req_v2 in a message. The library's own SocketDestroy takes IPv4 only.
func diagRequest(kind, flags int, family byte, sockID []byte) *nl.NetlinkRequest {
	body := binary.NativeEndian.AppendUint32([]byte{family, unix.IPPROTO_TCP, 0, 0}, connected)
	r := nl.NewNetlinkRequest(kind, flags)
	r.AddRawData(append(body, sockID...))
	return r
}

// killFamily breaks the chosen connections of the calling thread's namespace.
func killFamily(family byte, chosen func(remote netip.Addr) bool) (killed int, err error) {
	list := diagRequest(unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, family, make([]byte, sockIDSize))
	sockets, err := list.Execute(unix.NETLINK_SOCK_DIAG, unix.SOCK_DIAG_BY_FAMILY)
	if errors.Is(err, unix.ENOENT) && family == unix.AF_INET6 {
		return 0, nil // a kernel without IPv6 has no such sockets
	}
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // the interrupted dump may lack new connections
		return 0, err
	}
	for _, body := range sockets {
		remote, id, ok := diagnosed(body, family)
		if !ok || !chosen(remote) {
			continue
		}
		_, err := diagRequest(unix.SOCK_DESTROY, unix.NLM_F_ACK, family, id).Execute(unix.NETLINK_SOCK_DIAG, 0)
		switch {
		case err == nil:
			killed++
		case errors.Is(err, unix.ENOENT): // it ended by itself
		default:
			return killed, err
		}
	}
	return killed, nil
}

// diagnosed reads the other end of a connection, and the kernel's name for it, from an inet_diag_msg.
func diagnosed(body []byte, family byte) (remote netip.Addr, id []byte, ok bool) {
	if len(body) < sockIDAt+sockIDSize {
		return remote, nil, false
	}
	size := 4
	if family == unix.AF_INET6 {
		size = 16
	}
	remote, ok = netip.AddrFromSlice(body[remoteAt : remoteAt+size])
	return remote, body[sockIDAt : sockIDAt+sockIDSize], ok
}
