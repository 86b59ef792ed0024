package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// Where MASTER_ADDR is a name, it is asked for with every attempt: the names of
// pods resolve late, and to another address when a pod has been replaced.

const (
	// reachGrace bounds the connecting of one attempt, so that an address that
	// swallows everything does not outlast the name's next answer.
	reachGrace = 4 * time.Second
	// reachStagger is the time after which the next address is tried beside those
	// that have not answered.
	reachStagger = 200 * time.Millisecond
	// addressesMost bounds the addresses of one name.
	addressesMost = 16
	// warnAfter is when a start-up says what it waits for, unless a quarter of
	// the time that it may take is less.
	warnAfter = 5 * time.Second
)

// named reports whether MASTER_ADDR is a name.
func (p *Config) named() bool {
	host, _, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// addresses returns what MASTER_ADDR stands for now. The two families take
// turns, the resolver's first choice first.
func (p *Config) addresses(ctx context.Context) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, err
	}
	ips, err := p.resolver.LookupNetIP(ctx, "ip", host) // an address stands for itself
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
	var turns []netip.AddrPort
	for i := range ips {
		for _, f := range families {
			if i < len(f) {
				turns = append(turns, f[i])
			}
		}
	}
	return turns[:min(len(turns), addressesMost)], nil
}

// reach connects to whichever of the addresses answers first.
func (p *Config) reach(ctx context.Context) (net.Conn, error) {
	addrs, err := p.addresses(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachGrace)
	defer cancel()
	type end struct {
		conn net.Conn
		err  error
	}
	ends := make(chan end, len(addrs))
	var won net.Conn
	var lost error
	next := time.NewTimer(0)
	defer next.Stop()
	for begun, open := 0, 0; open > 0 || won == nil && begun < len(addrs); {
		select {
		case <-next.C:
			if won != nil || begun == len(addrs) {
				continue
			}
			to := addrs[begun].String()
			begun, open = begun+1, open+1
			next.Reset(reachStagger)
			go func() {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
				ends <- end{conn, err}
			}()
		case e := <-ends:
			open--
			switch {
			case e.err == nil && won == nil:
				won = e.conn
				cancel() // the others end at once
			case e.err == nil:
				e.conn.Close()
			default:
				if lost == nil {
					lost = e.err // of the address that the resolver prefers, mostly
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

// warnLater says on standard error what a start-up waits for, when it has waited for
// some seconds.
func (p *Config) warnLater(what string, last *atomic.Pointer[error]) *time.Timer {
	return time.AfterFunc(min(warnAfter, p.timeout/4), func() {
		why := ""
		if err := last.Load(); err != nil {
			why = ": " + (*err).Error()
		}
		fmt.Fprintf(os.Stderr, "banyan: rank %d waits for %s, at most %v (%s)%s\n", p.Rank, what, p.timeout, pmi.InitTimeoutEnv, why)
	})
}

// listen takes the port at all addresses of this machine that MASTER_ADDR
// stands for, or says who has it. A name may resolve late, or still to the
// address of a pod that was here before.
func (p *Config) listen(ctx context.Context) (ports []net.Listener, err error) {
	final := func(err error) bool {
		var dns *net.DNSError
		return !p.named() || !errors.As(err, &dns) && !errors.Is(err, syscall.EADDRNOTAVAIL)
	}
	err = p.retry(ctx, "MASTER_ADDR to be an address of the machine where it runs", func(ctx context.Context) error {
		addrs, err := p.addresses(ctx)
		if err == nil {
			ports, err = listenAt(ctx, addrs)
		}
		return err
	}, final)
	var dns *net.DNSError
	switch {
	case err == nil:
		return ports, nil
	case ctx.Err() != nil:
		return nil, err
	case errors.As(err, &dns):
		return nil, fmt.Errorf("launch: %w: MASTER_ADDR does not resolve where RANK=0 runs: %w", pmi.ErrEnvironment, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("launch: %w: MASTER_ADDR is no address of the machine where RANK=0 runs: %w", pmi.ErrEnvironment, err)
	case !errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("launch: %w: rank 0 cannot listen at MASTER_ADDR and MASTER_PORT: %w", pmi.ErrEnvironment, err)
	case p.agent:
		return nil, fmt.Errorf("launch: %w: MASTER_PORT is taken by the agent of torchrun, as TORCHELASTIC_USE_AGENT_STORE=True says: give the program another one, as in torchrun --no-python sh -c 'MASTER_PORT=29511 exec ./app': %w", pmi.ErrEnvironment, err)
	}
	// Another rank 0 says so itself.
	ctx, cancel := context.WithTimeout(ctx, helloGrace)
	defer cancel()
	conn, _, kerr := attempt(ctx, p)
	if kerr == nil { // only a host that does not know its own rank takes in rank 0
		conn.Close()
	}
	if errors.Is(kerr, pmi.ErrRefused) {
		return nil, fmt.Errorf("launch: %w: MASTER_PORT is taken by another process with RANK=0, of this job or of another one: %w (%w)", pmi.ErrEnvironment, err, kerr)
	}
	return nil, fmt.Errorf("launch: %w: MASTER_PORT is taken by another program, choose a free port: %w", pmi.ErrEnvironment, err)
}

// listenAt listens at those of the addresses that are this machine's. If none
// is, the error is of class EADDRNOTAVAIL.
func listenAt(ctx context.Context, addrs []netip.AddrPort) (ports []net.Listener, err error) {
	var absent error
	for _, a := range addrs {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.String())
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

// onlyHere explains why nobody may come: in many systems the machine's own name
// stands for a loopback address in /etc/hosts.
func onlyHere(addr string, ports []net.Listener) string {
	host, _, _ := net.SplitHostPort(addr)
	elsewhere := slices.ContainsFunc(ports, func(l net.Listener) bool {
		return !l.Addr().(*net.TCPAddr).IP.IsLoopback()
	})
	if _, err := netip.ParseAddr(host); err == nil || elsewhere || strings.EqualFold(host, "localhost") {
		return ""
	}
	return fmt.Sprintf("MASTER_ADDR=%s is %s where rank 0 runs, which other machines do not reach", host, ports[0].Addr())
}
