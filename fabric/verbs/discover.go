package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Port is a port of an adapter, with the address that it uses.
type Port struct {
	Device   string
	Number   int
	GID      int // index of the address
	Address  netip.Addr
	Ethernet bool
	// Interface is the network interface of the address, if the kernel says so; Rate is as the kernel writes it.
	Interface, Rate string
}

// String names the port and its address.
func (p Port) String() string {
	kind := "InfiniBand"
	if p.Ethernet {
		kind = "RoCE v2"
	}
	return fmt.Sprintf("%s port %d (%s, %v)", p.Device, p.Number, kind, p.Address)
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
	p = Port{Device: device, Ethernet: read("link_layer") == "Ethernet", Rate: read("rate")}
	p.Number, _ = strconv.Atoi(filepath.Base(dir))
	if state := read("state"); !strings.HasSuffix(state, "ACTIVE") {
		return p, fmt.Sprintf("its state is %q: connect the cable, start the subnet manager, or bring its interface up", state)
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
		case !p.Ethernet: // the first is the port's own
			return p, ""
		case read("gid_attrs", "types", e.Name()) != "RoCE v2" || p.Address.IsLinkLocalUnicast():
		case usable == nil || usable(p.Interface, p.Address):
			return p, ""
		default:
			why = "its addresses are not of the networks that may be used"
		}
	}
	if why == "" {
		why = "it has no address for RoCE v2: give its interface an IP address"
	}
	return p, why
}

func number(e fs.DirEntry) int {
	n, _ := strconv.Atoi(e.Name())
	return n
}
