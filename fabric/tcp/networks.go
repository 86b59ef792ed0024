package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Choice is an address of this machine, and whether it is used and why.
type Choice struct {
	Addr      netip.Addr
	Interface string
	Used      bool
	Why       string
}

// Choose decides which addresses of this machine the networks name, in the order in which peers
// should try them. An element is the name of an interface or a CIDR; one with "!" before it
// excludes addresses. Without any other element all interfaces that are up are used; loopback
// serves processes of one network namespace then, and is not among the published addresses. An
// element that matches nothing is an error that lists the addresses.
func Choose(networks []string) ([]Choice, error) {
	have, err := interfaces()
	if err != nil {
		return nil, err
	}
	rules, err := parseRules(networks)
	if err != nil {
		return nil, err
	}
	for i := range have {
		rules.judge(&have[i])
	}
	for i := range rules {
		if r := &rules[i]; !r.hit && !r.not {
			return nil, fmt.Errorf("tcp: no interface that is up is, or has an address in, %q; there are %s", r.text, list(have))
		}
	}
	slices.SortStableFunc(have, func(a, b Choice) int { return rank(a) - rank(b) })
	return have, nil
}

// rank sorts addresses that are more likely to reach a peer first.
func rank(c Choice) int {
	switch {
	case c.Addr.IsLoopback():
		return 4
	case c.Addr.Is4():
		return 0
	case c.Addr.IsPrivate():
		return 2
	}
	return 1
}

func list(have []Choice) string {
	var names []string
	for _, c := range have {
		names = append(names, c.Interface+" "+c.Addr.String())
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// interfaces lists the addresses that others can connect to: of interfaces that are up, without
// those that need a zone.
func interfaces() ([]Choice, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("tcp: listing the interfaces (by netlink: socket, bind, getsockname, sendto, recvfrom): %w",
			err)
	}
	var have []Choice
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("tcp: the addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if ip := p.Addr().Unmap(); err == nil && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() {
				have = append(have, Choice{Addr: ip, Interface: i.Name})
			}
		}
	}
	return have, nil
}

type rule struct {
	text   string
	not    bool
	prefix netip.Prefix // invalid: text is a name
	hit    bool
}

type rules []rule

func parseRules(networks []string) (rules, error) {
	var rs rules
	for _, text := range networks {
		var r rule
		r.text, r.not = strings.CutPrefix(strings.TrimSpace(text), "!")
		switch {
		case r.text == "":
			return nil, fmt.Errorf("tcp: an empty name among the networks %q", networks)
		case strings.Contains(r.text, "/"):
			p, err := netip.ParsePrefix(r.text)
			if err != nil {
				return nil, fmt.Errorf("tcp: %q is no network: want 10.0.0.0/8, fd00::/8 or the name of an interface", r.text)
			}
			r.prefix = p.Masked()
		default:
			if ip, err := netip.ParseAddr(r.text); err == nil {
				r.prefix = netip.PrefixFrom(ip, ip.BitLen())
			}
		}
		rs = append(rs, r)
	}
	return rs, nil
}

func (r *rule) fits(c *Choice) bool {
	if r.prefix.IsValid() {
		return r.prefix.Contains(c.Addr)
	}
	return r.text == c.Interface
}

// judge decides on one address.
func (rs rules) judge(c *Choice) {
	named, positive := false, false
	for i := range rs {
		r := &rs[i]
		positive = positive || !r.not
		if !r.fits(c) {
			continue
		}
		r.hit = true
		if r.not {
			c.Used, c.Why = false, "excluded by !"+r.text
			return
		}
		named = true
		c.Why = "named by " + r.text
	}
	switch {
	case named:
		c.Used = true
	case positive:
		c.Why = "not among the networks named"
	case c.Addr.IsLoopback():
		c.Why = "reaches this network namespace only"
	default:
		c.Used, c.Why = true, "the interface is up"
	}
}
