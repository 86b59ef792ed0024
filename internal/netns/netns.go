package netns

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// DefaultPrefix begins the names of namespaces where [Config] gives no prefix.
const DefaultPrefix = "banyan"

// Limits of a [Config].
const (
	// MaxHosts is how many hosts one network may have.
	MaxHosts = 250
	// MaxRateMbit is the fastest link that can be asked for, 400 Gbit/s.
	MaxRateMbit = 400_000
	// MaxDelayUs is the longest delay, a minute.
	MaxDelayUs = 60_000_000
	// MinMTU is the minimum for IPv6.
	MinMTU = 1280
	// MaxMTU is the maximum of a veth.
	MaxMTU = 65535
)

// Config describes the network that [Open] makes. Zero values are the defaults.
type Config struct {
	Hosts    int    // how many, 1 to MaxHosts
	Prefix   string // of the namespaces' names, [a-z][a-z0-9]*, at most 32 bytes; default DefaultPrefix
	RateMbit int    // of each link in each direction, 10^6 bit/s with the Ethernet header; default: as fast as the machine
	DelayUs  int    // of each frame between two hosts, one way, in microseconds; default none
	MTU      int    // in bytes, MinMTU to MaxMTU; default 1500
	IPv6     bool   // the hosts have IPv6 addresses besides
}

// Net is a network. Its methods may be called concurrently.
type Net struct {
	cfg    Config
	number int
	bridge *space
	hosts  []*space
	eth0   []int // its interface number on each host

	mu     sync.Mutex
	cuts   map[pair]bool
	down   map[int]bool
	closed bool
}

// space is a network namespace with a name.
type space struct {
	name  string
	route *netlink.Handle // rtnetlink of the namespace; used with the Net's lock held

	mu     sync.Mutex      // held while a thread enters, so that the handle is not closed meanwhile
	handle vnetns.NsHandle // closed before the namespace exists and after its removal
}

// Open makes a network, after it has removed those of dead processes (see [Sweep]). When it
// returns, the links are up and every host reaches every other and itself. An error wraps
// [ErrPrivilege] or [ErrKernel] if these are the reason; then no network is left behind.
func Open(cfg Config) (*Net, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := Check(); err != nil {
		return nil, err
	}
	if err := prepareRunDir(); err != nil {
		return nil, err
	}
	if _, err := Sweep(cfg.Prefix); err != nil {
		return nil, err
	}
	n := &Net{cfg: cfg, cuts: make(map[pair]bool), down: make(map[int]bool)}
	if err := n.build(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// complete checks a configuration and sets the defaults.
func (c *Config) complete() error {
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.MTU = cmp.Or(c.MTU, 1500)
	if !prefixWord.MatchString(c.Prefix) {
		return fmt.Errorf("netns: prefix %q is not of the form %s", c.Prefix, prefixWord)
	}
	for _, v := range []struct {
		name            string
		value, min, max int
	}{
		{"Hosts", c.Hosts, 1, MaxHosts},
		{"RateMbit", c.RateMbit, 0, MaxRateMbit},
		{"DelayUs", c.DelayUs, 0, MaxDelayUs},
		{"MTU", c.MTU, MinMTU, MaxMTU},
	} {
		if v.value < v.min || v.value > v.max {
			return fmt.Errorf("netns: %s is %d, not within %d…%d", v.name, v.value, v.min, v.max)
		}
	}
	return nil
}

// prepareRunDir makes /run/netns where no iproute2 has.
func prepareRunDir() error {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return fmt.Errorf("netns: %w", privileged(err))
	}
	return nil
}

func (n *Net) build() error {
	if err := n.claim(); err != nil {
		return err
	}
	if err := n.makeBridge(); err != nil {
		return err
	}
	for h := range n.cfg.Hosts {
		s, err := newSpace(n.label(strconv.Itoa(h)))
		if s != nil {
			n.hosts = append(n.hosts, s)
		}
		if err == nil {
			err = n.connect(h)
		}
		if err != nil {
			return err
		}
	}
	return n.settle()
}

func (n *Net) label(part string) label {
	return label{prefix: n.cfg.Prefix, pid: os.Getpid(), number: n.number, part: part}
}

// claim takes the smallest number that no network on this machine has, with any prefix, by
// making the bridge's namespace under the lock that iproute2 too takes on the directory.
func (n *Net) claim() error {
	dir, err := os.Open(runDir)
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	defer dir.Close() // and with it the lock
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("netns: lock %s: %w", runDir, err)
	}
	found, err := labels()
	if err != nil {
		return err
	}
	taken := make(map[int]bool, len(found))
	for _, l := range found {
		taken[l.number] = true
	}
	for taken[n.number] {
		n.number++
	}
	if n.number >= maxNetworks {
		return fmt.Errorf("netns: %d networks exist, remove some: ls %s", maxNetworks, runDir)
	}
	n.bridge, err = newSpace(n.label(bridgePart))
	return err
}

// newSpace makes a namespace. The caller must remove the result, also after an error.
func newSpace(l label) (*space, error) {
	start, _, err := birth(l.pid)
	if err != nil {
		return nil, fmt.Errorf("netns: read this process's start time: %w", err)
	}
	l.start = start
	s := &space{name: l.String(), handle: vnetns.None()}
	err = away(func() (err error) {
		if s.handle, err = vnetns.New(); err == nil {
			return nil
		}
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%w: raise /proc/sys/user/max_net_namespaces", err)
		}
		return fmt.Errorf("netns: make a network namespace: %w", needs(err, "CONFIG_NET_NS", "none: build it in"))
	}, func() error { return nil })
	if err != nil {
		return s, err
	}
	if s.route, err = netlink.NewHandleAt(s.handle, unix.NETLINK_ROUTE); err != nil {
		return s, fmt.Errorf("netns: open rtnetlink in %s: %w", s.name, privileged(err))
	}
	// The name is a link to the descriptor. Unlike a mount it does not keep the namespace, which
	// ends with this process, however the process ends.
	path := filepath.Join(runDir, s.name)
	if err := os.Symlink(fmt.Sprintf("/proc/%d/fd/%d", l.pid, int(s.handle)), path); err != nil {
		return s, fmt.Errorf("netns: name a network namespace: %w", privileged(err))
	}
	return s, nil
}

// remove releases the namespace. It ends with its last socket, process and name.
func (s *space) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.route != nil {
		s.route.Close()
		s.route = nil
	}
	var err error
	if s.handle.IsOpen() {
		err = s.handle.Close()
	}
	return errors.Join(err, removeName(s.name))
}

// Close removes the network. It ends no process: one that still runs on a host continues without a
// link. A second Close does nothing.
func (n *Net) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	var errs []error
	// The bridge first: its end takes the links away.
	for _, s := range append([]*space{n.bridge}, n.hosts...) {
		if s != nil {
			errs = append(errs, s.remove())
		}
	}
	return errors.Join(errs...)
}

// Hosts is how many hosts there are, counted from 0.
func (n *Net) Hosts() int { return n.cfg.Hosts }

// Name is the name of a host's namespace, for `ip netns exec`. It panics if
// there is no such host.
func (n *Net) Name(host int) string { return n.hosts[host].name }

// Addr is the IPv4 address of a host, the same as long as the network exists.
// It panics if there is no such host.
func (n *Net) Addr(host int) netip.Addr {
	_ = n.hosts[host]
	return n.addresses(host)[0].Addr()
}

// Addr6 is the IPv6 address of a host, the zero Addr if [Config] asked for none.
// It panics if there is no such host.
func (n *Net) Addr6(host int) netip.Addr {
	_ = n.hosts[host]
	if !n.cfg.IPv6 {
		return netip.Addr{}
	}
	return n.addresses(host)[1].Addr()
}

// host finds a host for calls that return errors.
func (n *Net) host(host int) (*space, error) {
	if host < 0 || host >= n.cfg.Hosts {
		return nil, fmt.Errorf("netns: host %d is not within 0…%d", host, n.cfg.Hosts-1)
	}
	return n.hosts[host], nil
}

// lock takes the lock of a network that is open.
func (n *Net) lock() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return errClosed
	}
	return nil
}

var errClosed = fmt.Errorf("netns: the network is closed: %w", os.ErrClosed)
