package tcp

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/flusher"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Provider is one process's endpoint on stream sockets. One goroutine at a time may call it.
type Provider struct {
	cfg   Config
	self  address
	blob  []byte
	conns map[proc.ID]*Conn
	gone  map[proc.ID]bool // peers that Connect found gone, or Inform reported before they connected

	// connSet has the connections, the dials, the alarm and the handshake set, which has the
	// listeners and the handshakes.
	connSet, handshakeSet *epollSet
	listeners             []*listener
	handshakes            []*handshake // oldest first
	postponed             []*handshake // of them, to be admitted by Poll
	acceptReady           bool         // the handshake set has events
	timer                 alarm
	watch                 *watcher

	recent         *Conn // the connection that delivered last
	idlePolls      int   // polls since then
	recentHits     int   // turns with data
	undelivered    *Conn // it, if Await has read data that it did not deliver
	unwatched      *Conn // it, while epoll does not watch it
	polls          uint64
	frames         int // received
	events         [64]unix.EpollEvent
	blocked        []*Conn // connections with data to write, and a full socket
	long           []*Conn // connections that had settleFrom bytes on their way
	reconnecting   []*Conn // connections to be made
	suspects       []*Conn // connections that could not be written to
	ends           []*Conn // connections whose end is to be reported
	informed       []*Conn // connections whose peers Inform has reported
	returnsDue     []*Conn // connections with returned loans to report
	creditReturned bool    // a refused sender has credit
	sink           *fabric.Sink
	in, out        vector           // for reading and writing
	inbox          []byte           // into which all connections read
	inboxes        [][]byte         // free ones, for incomplete frames
	spare          []byte           // a free one, for a frame without a place
	grown          []*Conn          // connections that have more memory than they need while idle
	shrinkDue      time.Time        // when it is looked at next
	doubted        []*Conn          // connections on which bytes may have no acknowledgement: see doubt.go
	doubtDue       time.Time        // when it is looked at next
	sent           *Conn            // the connection to which the last call has sent a short frame; see burst.go
	corked         *Conn            // the connection with frames that wait for the end of a burst
	waiting        int              // their bytes
	flush          *flusher.Flusher // nil: none wait
	burst          *Conn            // the connection whose frames flush writes, while some wait
	burstOut       vector           // flush's
	stats          counters
	logged         map[string]bool // kinds of messages that have been logged
	reserve        int             // a descriptor; -1: it is in use

	// departing: Depart has been called. From then on a goroutine answers newcomers, and mu guards
	// the handshake set and everything that Poll does.
	departing, closed bool
	mu                sync.Mutex
	acceptor          *acceptor
}

// Open makes the endpoint of this process.
func Open(cfg Config) (*Provider, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	p := &Provider{cfg: cfg, conns: make(map[proc.ID]*Conn), logged: make(map[string]bool),
		gone: make(map[proc.ID]bool), timer: alarm{fd: -1}, reserve: -1, inbox: make([]byte, inboxBytes)}
	if err := p.open(); err != nil {
		return nil, errors.Join(err, p.release())
	}
	return p, nil
}

func (p *Provider) open() (err error) {
	if err = probe(); err != nil {
		return err
	}
	if p.connSet, err = newEpollSet(); err != nil {
		return err
	}
	if p.handshakeSet, err = newEpollSet(); err != nil {
		return err
	}
	if _, err = p.connSet.add(p.handshakeSet.fd, p.handshakeSet, unix.EPOLLIN); err != nil {
		return err
	}
	if p.timer.fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return fmt.Errorf("tcp: timerfd_create: %w", err)
	}
	if _, err = p.connSet.add(p.timer.fd, &p.timer, unix.EPOLLIN); err != nil {
		return err
	}
	if err = p.fillReserve(); err != nil {
		return fmt.Errorf("tcp: eventfd: %w", err)
	}
	if err = p.listen(); err != nil {
		return err
	}
	if p.watch, err = newWatcher(p.connSet.fd, p.cfg.Ring, p.cfg.Warn); err == nil {
		p.startFlusher()
	}
	return err
}

// listen opens the listeners and composes the address.
func (p *Provider) listen() (err error) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	p.self.born = binary.LittleEndian.Uint64(b[:])
	if p.self.net, err = netToken(); err != nil {
		return err
	}
	if p.cfg.Unix {
		_, _ = rand.Read(p.self.unix[:])
		if err := p.take(listenUnix(p.self.unix)); err != nil {
			return err
		}
	}
	if p.cfg.Inet {
		if err := p.listenInet(); err != nil {
			return err
		}
	}
	p.self.beside = p.cfg.Beside != nil
	p.blob = p.self.encode()
	return nil
}

func (p *Provider) listenInet() error {
	choices, err := Choose(p.cfg.Networks)
	if err != nil {
		return err
	}
	var everywhere *listener
	if len(p.cfg.Networks) == 0 {
		if everywhere, err = listenTCP(netip.Addr{}); err != nil {
			return err
		}
		_ = p.take(everywhere, nil)
	}
	for _, c := range choices {
		if len(p.self.addrs) == maxAddrs-1 {
			p.logOnce("addresses", "only the first addresses of this machine are published: "+
				"choose the networks to use (BANYAN_NETWORKS)", "published", maxAddrs-1)
			break
		}
		switch {
		case everywhere != nil && (c.Used || c.Addr == loopback) && (c.Addr.Is4() || everywhere.domain == unix.AF_INET6):
			p.self.addrs = append(p.self.addrs, netip.AddrPortFrom(c.Addr, everywhere.addr.Port()))
		case everywhere == nil && c.Used:
			l, err := listenTCP(c.Addr)
			if err := p.take(l, err); err != nil {
				return err
			}
			p.self.addrs = append(p.self.addrs, l.addr)
		}
	}
	if len(p.self.addrs) == 0 && !p.cfg.Unix {
		return fmt.Errorf("tcp: of the addresses of this machine (%s) none may be used with the networks %q: name one "+
			"of them, or bring an interface up", list(choices), p.cfg.Networks)
	}
	return nil
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// take starts to watch a listener.
func (p *Provider) take(l *listener, err error) error {
	if err != nil {
		return err
	}
	p.listeners = append(p.listeners, l)
	l.key, err = p.handshakeSet.add(l.fd, l, unix.EPOLLIN)
	return err
}

// Name implements fabric.Provider.
func (p *Provider) Name() string { return "tcp" }

// Address implements fabric.Provider.
func (p *Provider) Address() []byte { return p.blob }

// Lookup implements fabric.Provider.
func (p *Provider) Lookup(peer proc.ID) fabric.Conn {
	if c := p.conns[peer]; c != nil {
		return c
	}
	return nil
}

// Connect implements fabric.Provider. It does not wait: it starts the call, and Poll continues. If
// the kernel refuses the call at once, as on this machine, the peer has ended.
func (p *Provider) Connect(spec fabric.ConnectSpec) (fabric.Conn, error) {
	if p.departing {
		return nil, fabric.ErrClosed
	}
	if c := p.conns[spec.Peer]; c != nil {
		return c, nil
	}
	if p.gone[spec.Peer] {
		return nil, fabric.ErrPeerGone
	}
	if int64(spec.Peer) >= int64(p.cfg.MaxProcs) || spec.Peer == p.cfg.Self {
		return nil, fmt.Errorf("tcp: %v is no peer of %v, this endpoint takes %d", spec.Peer, p.cfg.Self, p.cfg.MaxProcs)
	}
	a, err := decodeAddress(spec.Address)
	if err != nil {
		return nil, err
	}
	p.endBurst()
	p.acceptDuringConnect() // the peer may be calling
	if c := p.conns[spec.Peer]; c != nil {
		return c, nil
	}
	c := p.newConn(spec.Peer, &a)
	if len(c.paths) == 0 {
		delete(p.conns, spec.Peer)
		return nil, fmt.Errorf("tcp: %v has no address that this process may use: it is on another machine and TCP is "+
			"not allowed, or its networks are others", spec.Peer)
	}
	now := time.Now()
	c.downSince = now
	if p.isCalling(spec.Peer) {
		c.awaitCall(now)
		return c, nil
	}
	c.reconnect(now)
	if c.state == ended && c.endCause.Kind == proc.Unknown { // its port is closed
		delete(p.conns, spec.Peer)
		p.gone[spec.Peer] = true
		p.ends = slices.DeleteFunc(p.ends, func(o *Conn) bool { return o == c })
		return nil, fabric.ErrPeerGone
	}
	return c, nil
}

func (p *Provider) newConn(peer proc.ID, a *address) *Conn {
	c := &Conn{p: p, peer: peer, fd: -1, peerAddress: *a, paths: p.paths(a)}
	c.out.size = p.cfg.Outbox
	p.conns[peer] = c
	return c
}

// acceptDuringConnect answers newcomers inside Connect, which a function of the sink may have
// called: nothing is delivered then.
func (p *Provider) acceptDuringConnect() {
	s := p.sink
	p.sink = nil
	p.acceptRound()
	p.sink = s
	p.cfg.Ring() // see Await
}

var (
	_ fabric.Provider = (*Provider)(nil)
	_ fabric.Awaiter  = (*Conn)(nil)
)
