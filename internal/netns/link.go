package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Interface numbers of the bridge's namespace are chosen here, so that a pair of hosts is a pair of
// numbers. They lie above those of the tunnels that a kernel may put into each new namespace. The two
// ends of a link have different numbers: otherwise the kernel looks at the carrier of the link only
// after up to a second.
const (
	loIndex     = 1
	bridgeIndex = 1000 // br0
	firstPort   = 1001 // host0, host1, …
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

// numbered is an interface by its number, which is all that most requests need.
func numbered(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

// setUp brings an interface up or down.
func (s *space) setUp(index int, up bool) error {
	set := s.route.LinkSetDown
	if up {
		set = s.route.LinkSetUp
	}
	if err := set(numbered(index)); err != nil {
		return fmt.Errorf("netns: %s: set interface %d up=%t: %w", s.name, index, up, privileged(err))
	}
	return nil
}

func (n *Net) makeBridge() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index, attrs.Flags = "br0", bridgeIndex, net.FlagUp
	if err := n.bridge.route.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("netns: make the bridge: %w", needs(err, "CONFIG_BRIDGE", "bridge"))
	}
	return n.bridge.setUp(loIndex, true)
}

// connect makes the link of a host, and the entries of its network in the host.
func (n *Net) connect(host int) error {
	s := n.hosts[host]
	if err := n.makeLink(host); err != nil {
		return fmt.Errorf("netns: make the link of host %d: %w", host, needs(err, "CONFIG_VETH", "veth"))
	}
	if err := s.setUp(loIndex, true); err != nil {
		return err
	}
	if err := n.shape(host); err != nil {
		return err
	}
	// The kernel would look for duplicates of addresses that it makes up, so it must make up none.
	const addrGenNone = 1 // IN6_ADDR_GEN_MODE_NONE of linux/if_link.h
	if err := s.route.LinkSetIP6AddrGenMode(numbered(n.eth0[host]), addrGenNone); err != nil && n.cfg.IPv6 {
		return fmt.Errorf("netns: %s: choose the IPv6 addresses: %w", s.name, needs(err, "CONFIG_IPV6", "ipv6"))
	}
	return n.activate(host)
}

// makeLink makes the pair of interfaces; one is a port of the bridge and up.
func (n *Net) makeLink(host int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index, attrs.Flags = fmt.Sprintf("host%d", host), firstPort+host, net.FlagUp
	attrs.MTU, attrs.MasterIndex = n.cfg.MTU, bridgeIndex
	err := n.bridge.route.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: "eth0", PeerMTU: uint32(n.cfg.MTU),
		PeerHardwareAddr: n.ethernet(host), PeerNamespace: netlink.NsFd(n.hosts[host].handle),
	})
	if err != nil {
		return err
	}
	eth0, err := n.hosts[host].route.LinkByName("eth0")
	if err != nil {
		return err
	}
	n.eth0 = append(n.eth0, eth0.Attrs().Index)
	return nil
}

// activate brings eth0 up and enters the addresses that the kernel forgets when it goes down.
func (n *Net) activate(host int) error {
	s, index := n.hosts[host], n.eth0[host]
	if err := s.setUp(index, true); err != nil {
		return err
	}
	for _, p := range n.addresses(host) {
		if err := s.addAddress(index, p); err != nil {
			return fmt.Errorf("netns: %s: add the address %s: %w", s.name, p, needs(err, "CONFIG_IPV6", "ipv6"))
		}
	}
	for peer := range n.cfg.Hosts {
		if peer == host {
			continue
		}
		for _, p := range n.addresses(peer) {
			err := s.route.NeighSet(&netlink.Neigh{
				LinkIndex: index, State: netlink.NUD_PERMANENT, IP: p.Addr().AsSlice(), HardwareAddr: n.ethernet(peer),
			})
			if err != nil {
				return fmt.Errorf("netns: %s: add the neighbour %s: %w", s.name, p.Addr(), privileged(err))
			}
		}
	}
	return nil
}

func (s *space) addAddress(index int, p netip.Prefix) error {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // no other host has it
	}
	if p.Addr().IsLinkLocalUnicast() {
		a.Scope = unix.RT_SCOPE_LINK
	}
	return s.route.AddrReplace(numbered(index), a)
}

// settle waits until all links carry frames and the hosts have their addresses. The kernel notices
// a carrier in a work queue of its own; a frame sent before is lost, and a lost SYN costs a
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
	if err := n.hosts[host].awaitCarrier(n.eth0[host]); err != nil {
		return err
	}
	if err := n.hosts[host].awaitRoutes(n.addresses(host)); err != nil {
		return err
	}
	return n.bridge.awaitCarrier(firstPort + host)
}

// settleLimit bounds the wait for the kernel's work queues, where a millisecond is usual and ten
// seconds were seen at a load of 57.
const settleLimit = time.Minute

func (s *space) awaitCarrier(index int) error {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		link, err := s.route.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("netns: %s: look at interface %d: %w", s.name, index, err)
		}
		// The kernel sets the flag, and opens the queue and the port of the bridge, under the lock
		// that this request takes too.
		if link.Attrs().RawFlags&unix.IFF_RUNNING != 0 {
			return nil
		}
		if time.Since(begin) > settleLimit {
			return fmt.Errorf("netns: %s: interface %d has no carrier after %v", s.name, index, settleLimit)
		}
	}
}

// awaitRoutes waits until the host takes its addresses for its own. The kernel enters the local
// route of an IPv6 address in a work queue; until then the host looks for the address among its
// neighbours, and a connection to it fails after three seconds.
func (s *space) awaitRoutes(addrs []netip.Prefix) error {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		missing, err := s.missingRoute(addrs)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("netns: %s: look at the local routes: %w", s.name, err)
		}
		if err == nil && !missing.IsValid() {
			return nil
		}
		if time.Since(begin) > settleLimit {
			return fmt.Errorf("netns: %s: %s has no local route after %v", s.name, missing, settleLimit)
		}
	}
}

// missingRoute returns an address without a local route, or the zero Addr.
func (s *space) missingRoute(addrs []netip.Prefix) (netip.Addr, error) {
	family := netlink.FAMILY_V4
	if len(addrs) > 1 {
		family = netlink.FAMILY_ALL
	}
	routes, err := s.route.RouteListFiltered(family,
		&netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL},
		netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, p := range addrs {
		addr := net.IP(p.Addr().AsSlice())
		local := func(r netlink.Route) bool { return r.Dst != nil && r.Dst.IP.Equal(addr) }
		if !slices.ContainsFunc(routes, local) {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, nil
}

// RemoveAddr takes the IPv4 address of a host away, as if one of its networks had failed: its connections stay, and frames to that
// address get no answer. With [Config.IPv6] others remain.
func (n *Net) RemoveAddr(host int) error {
	s, err := n.host(host)
	if err != nil {
		return err
	}
	a := n.addresses(host)[0]
	return s.route.AddrDel(numbered(n.eth0[host]),
		&netlink.Addr{IPNet: &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}})
}

// LinkDown takes down eth0 of a host, as `ip link set eth0 down` there does: calls fail with
// ENETUNREACH, and other hosts get no notice. The host's lo stays.
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
	return s.setUp(n.eth0[host], false)
}

// LinkUp undoes [Net.LinkDown], and returns when frames flow again. A link that is up stays so.
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
	if err := n.activate(host); err != nil {
		return err
	}
	if err := n.settleLink(host); err != nil {
		return err
	}
	delete(n.down, host)
	return nil
}
