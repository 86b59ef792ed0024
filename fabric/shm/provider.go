package shm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/robust"
)

// Provider is one process's endpoint in shared memory. One goroutine at a time may call it, except
// Bell.
type Provider struct {
	cfg Config
	own *segment
	// mapped: held by Card, which reads the memory of the node, and to unmap that.
	mapped sync.RWMutex
	bell   *futex.Pull
	self   address
	// encoded is self for peers. unmapped stands for the segment of a peer that none is mapped of.
	encoded  []byte
	unmapped *segment
	watch    *watcher
	// deaths is for a process that polls, beside watch.
	deaths deathPoll
	// wordHolder holds the words by which peers see this process die; nil: the kernel does not
	// allow it, and this process watches no words either.
	wordHolder *robust.Holder
	// reads: the kernel has process_vm_readv. readsNode: it has let this process read a peer whose front lies
	// in the memory of the node.
	reads, readsNode bool
	conns            map[proc.ID]*Conn
	polling          bool // see SetPolling
	// barred: peers that may never connect, and why; see bar.go.
	barred map[proc.ID]error
	// inbound: the connections whose ring Poll reads; see quiet.go.
	inbound []*Conn
	looks   int // at rings since the last call of cool
	// long: the connections that send through long rings; spent: the memory of these; share: this
	// process's limit for it. next is the position from which the search for an idle one continues.
	long         []*Conn
	next         int
	spent, share int64
	// starved: a frame was refused since Ready last found no sender without credit.
	starved    bool
	retry      retryState
	boards     Boards
	blocks     blocks
	knocksSeen uint32 // at the last check of the bitmap
	deathsSeen uint32 // header.deaths, as last read
	// ended: see releaseEnded.
	ended []endedPeer
	// departed: Depart or Close has been called; closed: Close.
	departed, closed bool
}

// batch bounds the frames that Poll takes from one peer before it turns to the next.
const batch = 64

// Open makes the endpoint of this process. Errors name the missing limit or permission and its
// remedy; they are ErrNoSpace if memory is missing.
func Open(cfg Config) (*Provider, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	own, err := createSegment(&cfg)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		cfg: cfg, own: own, bell: futex.NewPull(&own.head().bell),
		conns: make(map[proc.ID]*Conn), barred: make(map[proc.ID]error), retry: defaultRetry,
		deaths: deathPoll{exits: cfg.Exits}, unmapped: &segment{fd: -1},
	}
	p.Share(cfg.MaxProcs)
	p.boards = Boards{p: p, theirs: make(map[proc.ID][]board.Cell), members: make(map[uint32]int)}
	if p.self, err = selfAddress(own); err == nil {
		err = probe(&p.self, cfg.Dir != "")
	}
	if err == nil {
		p.watch, err = newWatcher(&p.cfg, p.bell.Call)
	}
	if err != nil {
		return nil, errors.Join(err, own.close())
	}
	p.holdWords()
	p.encoded = p.self.encode()
	if !cfg.NoGet {
		allowReading()
		p.reads = p.readsItself()
	}
	return p, nil
}

// Bell is the process's own end of its bell, which peers ring: the host sleeps on it. It may be
// used after Close.
func (p *Provider) Bell() *futex.Pull { return p.bell }

// Name implements fabric.Provider.
func (p *Provider) Name() string { return "shm" }

// Address implements fabric.Provider.
func (p *Provider) Address() []byte { return p.self.encode() }

// Connect implements fabric.Provider. Errors: fabric.ErrPeerGone if the peer's process has ended,
// fabric.ErrNoPath if the two cannot share memory, with the reason, or a shortage that may pass,
// such as ErrNoSpace.
func (p *Provider) Connect(spec fabric.ConnectSpec) (fabric.Conn, error) {
	c, err := p.Dial(spec)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Lookup implements fabric.Provider.
func (p *Provider) Lookup(peer proc.ID) fabric.Conn {
	if c := p.conns[peer]; c != nil {
		return c
	}
	return nil
}

// Dial is Connect with the concrete type.
func (p *Provider) Dial(spec fabric.ConnectSpec) (*Conn, error) {
	if p.departed {
		return nil, fabric.ErrClosed
	}
	if c := p.conns[spec.Peer]; c != nil {
		return p.existing(c)
	}
	if int64(spec.Peer) >= int64(p.cfg.MaxProcs) {
		return nil, fmt.Errorf("shm: %v is out of range, this endpoint takes %d", spec.Peer, p.cfg.MaxProcs)
	}
	if err := p.barred[spec.Peer]; err != nil {
		return nil, err
	}
	a, err := decodeAddress(spec.Address)
	if err != nil {
		return nil, err
	}
	return p.dial(spec.Peer, &a)
}

// dial connects to a peer unless it has knocked. A peer that knocked and ended has a connection
// too, on which Poll delivers its frames and then its end: after ErrPeerGone nothing may arrive.
func (p *Provider) dial(peer proc.ID, a *address) (*Conn, error) {
	p.acceptKnocks()
	if c := p.conns[peer]; c != nil {
		return p.existing(c)
	}
	c := newConn(p, peer, a)
	err := p.attach(c, a)
	if errors.Is(err, fabric.ErrPeerGone) {
		p.acceptKnocks() // its knock may be its last act
		if c := p.conns[peer]; c != nil {
			return c, nil
		}
		if c.exitCause.Kind != proc.Unknown {
			err = &fabric.GoneError{Cause: c.exitCause}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %v: %w", peer, err)
	}
	return c, nil
}

// existing returns a connection, unless it is half open and cannot be completed now: then the error
// contains the reason.
func (p *Provider) existing(c *Conn) (*Conn, error) {
	if c.halfOpen != nil && !c.ending && !c.invalidated {
		p.retryConnect(c)
	}
	if c.lastError != nil {
		return nil, fmt.Errorf("connecting to %v: %w", c.peer, c.lastError)
	}
	return c, nil
}

// Poll implements fabric.Provider.
func (p *Provider) Poll(s *fabric.Sink) int {
	n := 0
	h := p.own.head()
	if k := h.knocks.Load(); k != p.knocksSeen {
		p.knocksSeen = k
		p.acceptKnocks()
	}
	if k := h.deaths.Load(); k != p.deathsSeen {
		p.deathsSeen = k
		p.deaths.pollAll(p.watch)
	}
	if len(p.inbound) > keptHot {
		if p.looks += len(p.inbound); p.looks >= coolReads {
			p.cool()
		}
	}
	// Delivering may connect and so lengthen inbound.
	for i := 0; i < len(p.inbound); i++ {
		c := p.inbound[i]
		settled := c.in.headPublished
		got := c.in.poll(s, c.peer, batch)
		n += got
		if c.in.headPublished != settled {
			c.returnCredit()
		}
		if c.in.left {
			p.takeRingBack(c)
		}
		if c.in.cut && !c.invalidated {
			p.requestReap()
		}
	}
	if p.watch.reapPending.Load() {
		n += p.reapPeers(s)
	}
	return n
}

// requestReap makes the next Poll check for ended connections.
func (p *Provider) requestReap() { p.watch.reapPending.Store(true) }

// Ready implements fabric.Provider.
func (p *Provider) Ready() bool {
	h := p.own.head()
	if h.knocks.Load() != p.knocksSeen || h.deaths.Load() != p.deathsSeen || p.watch.reapPending.Load() {
		return true
	}
	for _, c := range p.inbound {
		if !c.in.cut && c.in.fresh() {
			return true
		}
	}
	return p.starved && p.creditReturned()
}

// creditReturned reports whether a starved connection has credit again.
func (p *Provider) creditReturned() bool {
	p.starved = false
	for _, c := range p.conns {
		if c.creditReturned() {
			p.starved = true
			return true
		}
		p.starved = p.starved || c.live && (c.out.starving || c.ring.awaits)
	}
	return false
}

// holdWords makes the kernel report this process's end to peers. Without it they use only their
// pidfds. If the kernel does not report the holder of words, a mark proves nothing, and there are
// none.
func (p *Provider) holdWords() {
	holder, err := robust.Hold(p.own.words())
	if err == nil {
		var self robust.Seen
		if self, err = robust.See(holder.Tid()); err == nil {
			p.wordHolder = holder
			p.self.holderThread, p.self.holderList = uint32(holder.Tid()), self.At()
			return
		}
		holder.Release()
	}
	p.cfg.Log.Info("ends are seen late, by pidfd", "reason", err)
}

// releaseWords releases the robust words, so that peers ignore this process's end.
func (p *Provider) releaseWords() {
	if p.wordHolder != nil {
		p.wordHolder.Release()
	}
}

// Depart implements fabric.Provider.
func (p *Provider) Depart() {
	if p.departed {
		return
	}
	p.own.head().state.Store(stateDeparted)
	p.acceptKnocks() // processes that knocked before they could read that
	p.departed = true
	for _, c := range p.conns {
		c.hangUp(byeDeparted)
	}
	p.releaseWords()
}

// Close implements fabric.Provider.
func (p *Provider) Close() error {
	if p.closed {
		return nil
	}
	if !p.departed {
		p.own.head().state.Store(stateClosed)
	}
	p.departed, p.closed = true, true
	p.deaths = deathPoll{}
	var errs []error
	p.releaseEnded()
	for _, c := range p.conns {
		c.hangUp(byeClosed)
		if !c.reported {
			errs = append(errs, c.release())
		}
	}
	if p.retry.timer != nil {
		p.retry.timer.Stop()
	}
	p.watch.close()
	p.releaseWords()
	p.bell.Cut()
	clear(p.conns)
	p.inbound = nil
	p.mapped.Lock()
	errs = append(errs, p.boards.close(), p.blocks.close(), p.own.close())
	p.mapped.Unlock()
	// Poll keeps reading the header after Close, and finds no knocks in this one: so it needs no
	// check of its own.
	p.own.header, p.knocksSeen, p.deathsSeen = make([]byte, headerBytes), 0, 0
	return errors.Join(errs...)
}

var (
	_ fabric.Provider = (*Provider)(nil)
	_ fabric.Conn     = (*Conn)(nil)
)
