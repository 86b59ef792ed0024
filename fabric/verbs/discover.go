package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Port is a port of an adapter, with the address that it uses.
type Port struct {
	Device  string
	Number  int
	GID     int // index of the address; iWARP needs none
	Address netip.Addr
	Kind    Kind
	// Interface is the network interface of the address, if the kernel says so; Rate is as the kernel writes it.
	Interface, Rate string
}

// Kind is the transport of an adapter.
type Kind uint8

// The kinds, as device.h numbers them.
const (
	InfiniBand Kind = iota
	RoCE
	IWARP
)

// String names the transport.
func (k Kind) String() string { return [...]string{"InfiniBand", "RoCE v2", "iWARP"}[k] }

// String names the port and its address.
func (p Port) String() string {
	return fmt.Sprintf("%s port %d (%v, %v)", p.Device, p.Number, p.Kind, p.Address)
}

// adapters is where the kernel describes them.
const adapters = "/sys/class/infiniband"

// ErrNone is the error of Choose where the machine has no adapter.
var ErrNone = errors.New("verbs: this machine has no RDMA adapter, or the kernel has no driver for it")

// Choose chooses the port of this process: an active one, of the named device unless that is empty, whose address
// belongs to an interface or address that usable accepts. A usable of nil accepts all. The error says of each port
// why it is not used.
func Choose(device string, usable func(ifname string, a netip.Addr) bool) (Port, error) {
	all, err := ChooseAll(device, usable)
	if err != nil {
		return Port{}, err
	}
	return all[0], nil
}

// ChooseAll is Choose with all such ports, by device and number.
func ChooseAll(device string, usable func(ifname string, a netip.Addr) bool) ([]Port, error) {
	return choose(adapters, device, usable)
}

func choose(root, device string, usable func(string, netip.Addr) bool) (found []Port, err error) {
	names, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(names) == 0 {
		return nil, ErrNone
	}
	var against []string
	for _, dir := range names {
		name := filepath.Base(dir)
		if device != "" && device != name {
			continue
		}
		ports, _ := filepath.Glob(filepath.Join(dir, "ports", "*"))
		slices.Sort(ports)
		for _, at := range ports {
			p, why := readPort(at, name, usable)
			if why == "" {
				found = append(found, p)
				continue
			}
			against = append(against, fmt.Sprintf("%s port %s: %s", name, filepath.Base(at), why))
		}
	}
	switch {
	case found != nil:
		return found, nil
	case against == nil:
		return nil, fmt.Errorf("verbs: there is no adapter %q: there are %s", device, strings.Join(bases(names), ", "))
	}
	return nil, fmt.Errorf("verbs: no port may be used: %s", strings.Join(against, "; "))
}

func bases(paths []string) (names []string) {
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

// readPort reads a port; why says why it cannot be used.
func readPort(dir, device string, usable func(string, netip.Addr) bool) (p Port, why string) {
	read := func(name ...string) string {
		b, _ := os.ReadFile(filepath.Join(append([]string{dir}, name...)...))
		return strings.TrimSpace(string(b))
	}
	p = Port{Device: device, Rate: read("rate")}
	switch {
	case strings.HasSuffix(read("..", "..", "node_type"), "RNIC"):
		p.Kind = IWARP
	case read("link_layer") == "Ethernet":
		p.Kind = RoCE
	}
	p.Number, _ = strconv.Atoi(filepath.Base(dir))
	if state := read("state"); !strings.HasSuffix(state, "ACTIVE") {
		return p, fmt.Sprintf("its state is %q: connect the cable, start the subnet manager, or bring its interface up", state)
	}
	if p.Kind == IWARP {
		return p, p.takeAddress(read("gids", "0"), usable)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "gids"))
	if err != nil {
		return p, err.Error()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return number(a) - number(b) })
	for _, e := range entries {
		a, err := netip.ParseAddr(read("gids", e.Name()))
		if err != nil || a.IsUnspecified() {
			continue
		}
		p.GID, p.Address, p.Interface = number(e), a.Unmap(), read("gid_attrs", "ndevs", e.Name())
		switch {
		case p.Kind == InfiniBand: // the first is the port's own
			return p, ""
		case read("gid_attrs", "types", e.Name()) != "RoCE v2" || p.Address.IsLinkLocalUnicast():
		case usable == nil || usable(p.Interface, p.Address):
			return p, ""
		default:
			why = notOfNetworks
		}
	}
	if why == "" {
		why = "it has no address for RoCE v2: give its interface an IP address"
	}
	return p, why
}

// takeAddress finds the first address that may be used of the interface of a port of iWARP, whose GID is that one's hardware
// address. why says that there is none.
func (p *Port) takeAddress(gid string, usable func(string, netip.Addr) bool) (why string) {
	a, err := netip.ParseAddr(gid)
	if err != nil {
		return err.Error()
	}
	b := a.As16()
	name, addresses := interfaceOf(b[:6])
	why = "its network interface has no IP address"
	for _, a := range addresses {
		p.Interface, p.Address = name, a
		if usable == nil || usable(name, a) {
			return ""
		}
		why = notOfNetworks
	}
	return why
}

// interfaceOf is the network interface with a hardware address, and its IP addresses.
var interfaceOf = func(hardware []byte) (name string, all []netip.Addr) {
	list, _ := net.Interfaces()
	for _, i := range list {
		if !bytes.Equal(i.HardwareAddr, hardware) {
			continue
		}
		found, _ := i.Addrs()
		for _, f := range found {
			if p, err := netip.ParsePrefix(f.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
				all = append(all, p.Addr().Unmap())
			}
		}
		name = i.Name
	}
	return name, all
}

const notOfNetworks = "its addresses are not of the networks that may be used"

func number(e fs.DirEntry) int {
	n, _ := strconv.Atoi(e.Name())
	return n
}
