package netns

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Interface numbers are chosen here, so nothing has to be asked for. They lie
// above those of the tunnels that a kernel may put into each new namespace. The
// two ends of a link must differ: the kernel tells by that that they are two, and
// looks at their carrier at once instead of within a second.
const (
	loIndex     = 1
	bridgeIndex = 1000 // br0, in the bridge's namespace
	eth0Index   = 1001 // in each host
	firstPort   = 1002 // host0, host1, … in the bridge's namespace
)

// Attributes that x/sys does not name, from the kernel's uapi headers.
const (
	vethInfoPeer = 1 // linux/veth.h
	addrGenNone  = 1 // linux/if_link.h, IN6_ADDR_GEN_MODE_NONE
)

// maxNetworks is how many /24 there are in 10.224.0.0/11.
const maxNetworks = 32 << 8

// addresses of a host: IPv4, then with IPv6 a unique local and a link-local one.
func (n *Net) addresses(host int) []netip.Prefix {
	hi, lo, last := byte(n.number>>8), byte(n.number), byte(host+1)
	all := []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 224 + hi, lo, last}), 24)}
	if n.cfg.IPv6 {
		// fd62:616e:7961::/48 spells "banya".
		ula := [16]byte{0: 0xfd, 0x62, 0x61, 0x6e, 0x79, 0x61, hi, lo, 15: last}
		local := [16]byte{0: 0xfe, 0x80, 12: hi, lo, 15: last}
		all = append(all, netip.PrefixFrom(netip.AddrFrom16(ula), 64), netip.PrefixFrom(netip.AddrFrom16(local), 64))
	}
	return all
}

// ethernet is the address of a host's eth0, a locally administered one.
func (n *Net) ethernet(host int) []byte {
	return []byte{0x02, 0xba, byte(n.number >> 8), byte(n.number), 0, byte(host + 1)}
}

// linkHeader is struct ifinfomsg. up and change are IFF_UP or 0.
func linkHeader(index int, flags, change uint32) []byte {
	b := make([]byte, 4, unix.SizeofIfInfomsg)
	b = native.AppendUint32(b, uint32(index))
	b = native.AppendUint32(b, flags)
	return native.AppendUint32(b, change)
}

// setUp brings an interface up or down.
func (s *space) setUp(index int, up bool) error {
	var flags uint32
	if up {
		flags = unix.IFF_UP
	}
	if err := s.route.ask(request(unix.RTM_NEWLINK, 0, linkHeader(index, flags, unix.IFF_UP))); err != nil {
		return fmt.Errorf("netns: %s: set interface %d up=%t: %w", s.name, index, up, privileged(err))
	}
	return nil
}

func (n *Net) makeBridge() error {
	m := request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, linkHeader(bridgeIndex, unix.IFF_UP, unix.IFF_UP))
	m.putString(unix.IFLA_IFNAME, "br0")
	m.nest(unix.IFLA_LINKINFO, func() { m.putString(unix.IFLA_INFO_KIND, "bridge") })
	if err := n.bridge.route.ask(m); err != nil {
		return fmt.Errorf("netns: make the bridge: %w", needs(err, "CONFIG_BRIDGE", "bridge"))
	}
	return n.bridge.setUp(loIndex, true)
}

// connect makes the link of a host and what the host knows of its network.
func (n *Net) connect(host int) error {
	if err := n.makeLink(host); err != nil {
		return fmt.Errorf("netns: make the link of host %d: %w", host, needs(err, "CONFIG_VETH", "veth"))
	}
	s := n.hosts[host]
	if err := s.setUp(loIndex, true); err != nil {
		return err
	}
	if err := n.shape(host); err != nil {
		return err
	}
	// Without addresses that the kernel makes up, whose duplicates it would look for.
	m := request(unix.RTM_NEWLINK, 0, linkHeader(eth0Index, 0, 0))
	m.nest(unix.IFLA_AF_SPEC, func() {
		m.nest(unix.AF_INET6, func() { m.put(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{addrGenNone}) })
	})
	if err := s.route.ask(m); err != nil && n.cfg.IPv6 {
		return fmt.Errorf("netns: %s: choose the IPv6 addresses: %w", s.name, needs(err, "CONFIG_IPV6", "ipv6"))
	}
	return n.raise(host)
}

// makeLink makes the pair of interfaces, one a port of the bridge and up.
func (n *Net) makeLink(host int) error {
	mtu := uint32(n.cfg.MTU)
	m := request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, linkHeader(firstPort+host, unix.IFF_UP, unix.IFF_UP))
	m.putString(unix.IFLA_IFNAME, fmt.Sprintf("host%d", host))
	m.putU32(unix.IFLA_MTU, mtu)
	m.putU32(unix.IFLA_MASTER, bridgeIndex)
	m.nest(unix.IFLA_LINKINFO, func() {
		m.putString(unix.IFLA_INFO_KIND, "veth")
		m.nest(unix.IFLA_INFO_DATA, func() {
			m.nest(vethInfoPeer, func() {
				m.b = append(m.b, linkHeader(eth0Index, 0, 0)...)
				m.putString(unix.IFLA_IFNAME, "eth0")
				m.putU32(unix.IFLA_MTU, mtu)
				m.put(unix.IFLA_ADDRESS, n.ethernet(host))
				m.putU32(unix.IFLA_NET_NS_FD, uint32(n.hosts[host].file.Fd()))
			})
		})
	})
	return n.bridge.route.ask(m)
}

// raise brings eth0 up and enters what the kernel forgets when it goes down.
func (n *Net) raise(host int) error {
	s := n.hosts[host]
	if err := s.setUp(eth0Index, true); err != nil {
		return err
	}
	for _, p := range n.addresses(host) {
		if err := s.addAddress(p); err != nil {
			return fmt.Errorf("netns: %s: add the address %s: %w", s.name, p, needs(err, "CONFIG_IPV6", "ipv6"))
		}
	}
	for peer := range n.cfg.Hosts {
		if peer == host {
			continue
		}
		for _, p := range n.addresses(peer) {
			if err := s.addNeighbour(p.Addr(), n.ethernet(peer)); err != nil {
				return fmt.Errorf("netns: %s: add the neighbour %s: %w", s.name, p.Addr(), privileged(err))
			}
		}
	}
	return nil
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func (s *space) addAddress(p netip.Prefix) error {
	var flags, scope byte
	if p.Addr().Is6() {
		flags = unix.IFA_F_NODAD // nobody else has it
	}
	if p.Addr().IsLinkLocalUnicast() {
		scope = unix.RT_SCOPE_LINK
	}
	header := native.AppendUint32([]byte{family(p.Addr()), byte(p.Bits()), flags, scope}, eth0Index) // struct ifaddrmsg
	m := request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, header)
	m.put(unix.IFA_LOCAL, p.Addr().AsSlice())
	m.put(unix.IFA_ADDRESS, p.Addr().AsSlice())
	return s.route.ask(m)
}

func (s *space) addNeighbour(a netip.Addr, ethernet []byte) error {
	header := native.AppendUint32([]byte{family(a), 0, 0, 0}, eth0Index) // struct ndmsg
	header = append(native.AppendUint16(header, unix.NUD_PERMANENT), 0, 0)
	m := request(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, header)
	m.put(unix.NDA_DST, a.AsSlice())
	m.put(unix.NDA_LLADDR, ethernet)
	return s.route.ask(m)
}

// settle waits until all links carry frames. The kernel notices a carrier in
// a work queue of its own; a frame sent before is lost, and a lost SYN costs a
// connection its first second.
func (n *Net) settle() error {
	for h := range n.cfg.Hosts {
		if err := n.settleLink(h); err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) settleLink(host int) error {
	if err := n.hosts[host].awaitCarrier(eth0Index); err != nil {
		return err
	}
	return n.bridge.awaitCarrier(firstPort + host)
}

func (s *space) awaitCarrier(index int) error {
	const limit = 10 * time.Second
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		running := false
		err := s.route.dump(request(unix.RTM_GETLINK, unix.NLM_F_ACK, linkHeader(index, 0, 0)), func(body []byte) {
			running = runs(body)
		})
		if err != nil {
			return fmt.Errorf("netns: %s: look at interface %d: %w", s.name, index, err)
		}
		if running {
			// The flag is set, and the queue and the port of the bridge are opened, under
			// the lock that this request takes too: who sees one sees all.
			return nil
		}
		if time.Since(begin) > limit {
			return fmt.Errorf("netns: %s: interface %d has no carrier after %v", s.name, index, limit)
		}
	}
}

// runs reports whether an ifinfomsg is that of an interface with a carrier.
func runs(body []byte) bool {
	return len(body) >= unix.SizeofIfInfomsg && native.Uint32(body[8:])&unix.IFF_RUNNING != 0
}

// LinkDown takes down eth0 of a host, as `ip link set eth0 down` there does:
// calls fail with ENETUNREACH, and others hear nothing of it. The host's lo stays.
func (n *Net) LinkDown(host int) error {
	s, err := n.host(host)
	if err != nil {
		return err
	}
	if err := n.lock(); err != nil {
		return err
	}
	defer n.mu.Unlock()
	n.down[host] = true
	return s.setUp(eth0Index, false)
}

// LinkUp brings up again what [Net.LinkDown] took down, and returns when frames
// flow again. A link that is up stays so.
func (n *Net) LinkUp(host int) error {
	if _, err := n.host(host); err != nil {
		return err
	}
	if err := n.lock(); err != nil {
		return err
	}
	defer n.mu.Unlock()
	return n.linkUp(host)
}

// linkUp is LinkUp with the lock held.
func (n *Net) linkUp(host int) error {
	if err := n.raise(host); err != nil {
		return err
	}
	if err := n.settleLink(host); err != nil {
		return err
	}
	delete(n.down, host)
	return nil
}
