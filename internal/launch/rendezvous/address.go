package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

const (
	// dialGrace bounds one attempt, so that an address that drops all packets does not outlast the
	// name's next answer.
	dialGrace = 4 * time.Second
	// dialStagger is the time after which the next address is tried beside those that have not
	// answered.
	dialStagger = 200 * time.Millisecond
	// addressesMax bounds the addresses of one name.
	addressesMax = 16
)

// probes find a machine that has lost its power or its network: its connection ends after ten seconds. No fence,
// and so no Finalize, waits longer for its ranks.
var probes = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}

// userTimeoutMs is the same for unacknowledged data, beside which the kernel sends no probes.
const userTimeoutMs = 10_000

// limitUnacknowledged is a Control function. A kernel that does not know the option does without.
func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeoutMs)
	})
}

// named reports whether MASTER_ADDR is a name. A name is resolved with every attempt: the names of
// pods resolve late, and to another address when a pod has been replaced.
func (c *Config) named() bool {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// addresses resolves MASTER_ADDR. The two families alternate, the resolver's first choice first.
func (c *Config) addresses(ctx context.Context) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, err
	}
	ips, err := c.resolver.LookupNetIP(ctx, "ip", host) // an address stands for itself
	if err != nil {
		return nil, err
	}
	var families [2][]netip.AddrPort
	for _, ip := range ips {
		a, i := netip.AddrPortFrom(ip.Unmap(), uint16(port)), 0
		if a.Addr().Is4() != ips[0].Unmap().Is4() {
			i = 1
		}
		if !slices.Contains(families[i], a) {
			families[i] = append(families[i], a)
		}
	}
	var all []netip.AddrPort
	for i := range ips {
		for _, f := range families {
			if i < len(f) {
				all = append(all, f[i])
			}
		}
	}
	return all[:min(len(all), addressesMax)], nil
}

// dialAny connects to the first address of MASTER_ADDR that answers.
func (c *Config) dialAny(ctx context.Context) (net.Conn, error) {
	addrs, err := c.addresses(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialGrace)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, len(addrs))
	var won net.Conn
	var lost error
	next := time.NewTimer(0)
	defer next.Stop()
	for started, pending := 0, 0; pending > 0 || won == nil && started < len(addrs); {
		select {
		case <-next.C:
			if won != nil || started == len(addrs) {
				continue
			}
			to := addrs[started].String()
			started, pending = started+1, pending+1
			next.Reset(dialStagger)
			go func() {
				conn, err := (&net.Dialer{KeepAliveConfig: probes, Control: limitUnacknowledged}).DialContext(ctx, "tcp", to)
				results <- result{conn, err}
			}()
		case r := <-results:
			pending--
			switch {
			case r.err == nil && won == nil:
				won = r.conn
				cancel() // the others end at once
			case r.err == nil:
				r.conn.Close()
			default:
				if lost == nil {
					lost = r.err // mostly of the address that the resolver prefers
				}
				next.Reset(0)
			}
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, lost
}

// listen takes the port at all addresses of MASTER_ADDR that are this machine's. A name may resolve
// late, or still to the address of an earlier pod.
func (c *Config) listen(ctx context.Context) (ports []net.Listener, err error) {
	var dns *net.DNSError
	what := "MASTER_ADDR to be an address of the machine where it runs"
	err = c.retry(ctx, what, func(ctx context.Context) (final bool, err error) {
		addrs, err := c.addresses(ctx)
		if err == nil {
			ports, err = listenAt(ctx, addrs)
		}
		return !c.named() || !errors.As(err, &dns) && !errors.Is(err, syscall.EADDRNOTAVAIL), err
	})
	switch {
	case err == nil:
		return ports, nil
	case ctx.Err() != nil:
		return nil, err
	case errors.As(err, &dns):
		return nil, pmi.EnvironmentError("MASTER_ADDR does not resolve where RANK=0 runs: %w", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, pmi.EnvironmentError("MASTER_ADDR is no address of the machine where RANK=0 runs: %w", err)
	case !errors.Is(err, syscall.EADDRINUSE):
		return nil, pmi.EnvironmentError("rank 0 cannot listen at MASTER_ADDR and MASTER_PORT: %w", err)
	case c.agent:
		return nil, pmi.EnvironmentError("MASTER_PORT is taken by the agent of torchrun, "+
			"as TORCHELASTIC_USE_AGENT_STORE=True says: give the program another one, "+
			"as in torchrun --no-python sh -c 'MASTER_PORT=29511 exec ./app': %w", err)
	}
	return nil, c.portTaken(ctx, err)
}

// portTaken explains why the port is in use: another rank 0 refuses this one.
func (c *Config) portTaken(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, helloGrace)
	defer cancel()
	conn, _, refusal := c.attempt(ctx)
	if refusal == nil { // only a server without a rank of its own admits rank 0
		conn.Close()
	}
	if errors.Is(refusal, pmi.ErrRefused) {
		return pmi.EnvironmentError("MASTER_PORT is taken by another process with RANK=0, "+
			"of this job or of another one: %w (%w)", err, refusal)
	}
	return pmi.EnvironmentError("MASTER_PORT is taken by another program, choose a free port: %w", err)
}

// listenAt listens at those of the addresses that are this machine's. If none is, the error is of
// class EADDRNOTAVAIL.
func listenAt(ctx context.Context, addrs []netip.AddrPort) (ports []net.Listener, err error) {
	var absent error
	for _, a := range addrs {
		c := net.ListenConfig{KeepAliveConfig: probes, Control: limitUnacknowledged} // connections inherit both
		c.SetMultipathTCP(false)                                                     // Go's default: the kernel refuses the option there
		l, err := c.Listen(ctx, "tcp", a.String())
		switch {
		case err == nil:
			ports = append(ports, l)
		case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
			absent = err
		default:
			for _, l := range ports {
				l.Close()
			}
			return nil, err
		}
	}
	if len(ports) == 0 {
		return nil, absent
	}
	return ports, nil
}

// onlyHere explains why no other rank may come: on many systems the machine's own name stands for a
// loopback address in /etc/hosts. It returns "" if other machines can reach a port.
func onlyHere(addr string, ports []net.Listener) string {
	host, _, _ := net.SplitHostPort(addr)
	elsewhere := slices.ContainsFunc(ports, func(l net.Listener) bool {
		return !l.Addr().(*net.TCPAddr).IP.IsLoopback()
	})
	if _, err := netip.ParseAddr(host); err == nil || elsewhere || strings.EqualFold(host, "localhost") {
		return ""
	}
	return fmt.Sprintf("MASTER_ADDR=%s is %s where rank 0 runs, which other machines do not reach",
		host, ports[0].Addr())
}
