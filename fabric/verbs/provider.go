//go:build cgo

package verbs

import (
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/flusher"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Config says how to open the endpoint of one process.
type Config struct {
	// Sockets are those beside the adapter. Open sets Beside.
	Sockets tcp.Config
	// Ports are those of adapters, one at least: see ChooseAll. Lanes use one of them at a time, the first one first; long
	// messages are read over all. The port with the same number of each peer reaches it.
	Ports []Port
	// Timeout is the time after which a message or a read without an answer counts as lost; 0 means 500 ms. The lane is given
	// up then, and its messages go on over the sockets until there is one over the next port; or the rail, and its reads go over others.
	Timeout time.Duration
	// Wait: frames wait for the lane, so that none goes over the sockets while it lasts.
	Wait bool
}

const (
	defaultTimeout = 500 * time.Millisecond
	// retries is the number of times that a message is sent again before its pair fails.
	retries = 6
	// mostCredit and leastCredit bound the messages on their way to one peer; jobCredit those from all.
	mostCredit, leastCredit, jobCredit = 32, 4, 4096
	// spare are the buffers for a peer beyond its credit, for messages that bring credit only.
	spare = 4
)

// Provider is one process's endpoint: sockets, and beside them a lane over RDMA to each peer that has an adapter
// too. One goroutine at a time may call it.
type Provider struct {
	*tcp.Provider
	cfg    Config
	log    *slog.Logger
	ports  []*openPort
	conns  map[proc.ID]*Conn
	credit int // that each peer gets

	reading    reads
	registered registrations
	shared     shares

	arrived         []arrival
	owing           []*Conn // connections to which credit is due
	pending         []*Conn // connections with notes or frames to be sent over the sockets
	leaving         []*Conn // departed peers of which frames are to come
	renewing        []*Conn // connections whose lane comes back
	endings         []*ending
	freeing         sync.WaitGroup // the goroutines of those
	moved, reported []*Conn        // connections with moves that have ended, of which the sink has not been told; has been told last
	lanes           int            // connections with a queue pair
	over            int            // connections whose frames come over their lane
	onWay           int            // messages without acknowledgement

	batched     *Conn            // the connection to which the last call has sent a short message: see batch.go
	flush       *flusher.Flusher // nil: none wait
	unsignalled []*Conn          // connections whose last messages have no completion
	asking      int              // messages until this process does not count as asking for completions any more

	up       *fabric.Sink // of the caller's Poll
	down     fabric.Sink  // for the sockets
	polls    uint64       // since the sockets were polled
	ticked   int64        // the tick then
	tick     int64        // of the last round: a clock in nanoseconds
	looked   int64        // the tick of the last look at work without an answer
	bare     bool         // there is a connection to a peer without an adapter
	armed    bool
	told     int           // frames of lanes and ends that the sink has been told of
	returned bool          // a refused sender has credit
	short    bool          // a message has found no buffer, nor memory for others
	left     bool          // Depart has been called
	pause    time.Duration // until a lane that has failed is offered again
	closed   bool
}

// arrival is a message in a buffer that has not been delivered.
type arrival struct {
	port               *openPort
	slot, pair, length uint32
}

// lane is the connection of the message, or nil if its lane has ended.
func (a *arrival) lane() *Conn { return a.port.lanes[a.pair] }

// Open makes the endpoint of this process.
func Open(cfg Config) (*Provider, error) {
	p := &Provider{
		cfg: cfg, log: cfg.Sockets.Log, pause: time.Second, conns: make(map[proc.ID]*Conn),
		credit: min(mostCredit, max(leastCredit, jobCredit/max(1, cfg.Sockets.MaxProcs))),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.cfg.Timeout == 0 {
		p.cfg.Timeout = defaultTimeout
	}
	err := p.openPorts()
	if err != nil {
		return nil, err
	}
	cfg.Sockets.Beside = p.heed
	if p.Provider, err = tcp.Open(cfg.Sockets); err != nil {
		p.closePorts()
		return nil, err
	}
	if err = p.watchPorts(); err != nil {
		_ = p.Provider.Close()
		p.closePorts()
		return nil, err
	}
	p.fillSink()
	if runtime.GOMAXPROCS(0) >= 2 { // else it would take the time of the application
		p.flush = flusher.New(cfg.Sockets.Shared, p.flushBatch)
	}
	return p, nil
}

// ring is the number of messages of a connection on their way, credit and its own included.
func (p *Provider) ring() int { return 2*p.credit + 2*spare }

// Connect implements fabric.Provider. The first frames go over the sockets.
func (p *Provider) Connect(spec fabric.ConnectSpec) (fabric.Conn, error) {
	c, err := p.Provider.Connect(spec)
	if err != nil {
		return nil, err
	}
	return p.wrap(c.(*tcp.Conn), true), nil
}

// Lookup implements fabric.Provider.
func (p *Provider) Lookup(peer proc.ID) fabric.Conn {
	c := p.Provider.Lookup(peer)
	if c == nil {
		return nil
	}
	return p.wrap(c.(*tcp.Conn), false)
}

// wrap gives the connection with its lane, or the one of the sockets if the peer has no adapter.
func (p *Provider) wrap(c *tcp.Conn, begin bool) fabric.Conn {
	peer := c.Peer()
	if !p.Beside(peer) {
		p.bare = true
		return c
	}
	w := p.conns[peer]
	if w == nil {
		w = &Conn{Conn: c, p: p}
		p.conns[peer] = w
	}
	if begin && w.pair == (pair{}) && !w.off && !w.ended && !w.wanted && w.generation == 0 {
		w.wanted = true
		w.queue()
	}
	return w
}

// Depart implements fabric.Provider. Each peer learns how many frames of this process have come over its lane.
func (p *Provider) Depart() {
	p.endBatch()
	for _, c := range p.conns {
		c.Farewell(c.sent)
	}
	p.left = true
	p.Provider.Depart()
}

// Close implements fabric.Provider. After Depart it waits until the adapters of all peers have the messages to
// them.
func (p *Provider) Close() error {
	if p.closed {
		return nil
	}
	p.endBatch()
	if p.left {
		p.linger()
	}
	p.closed = true
	sent, received := uint64(0), uint64(0)
	for _, c := range p.conns {
		sent, received = sent+c.carried, received+c.received
		c.drop()
	}
	p.freeing.Wait()
	calls := p.calls()
	p.log.Info("frames over RDMA", "sent", sent, "received", received, "calls into C", calls.Busy, "looks for nothing", calls.Idle)
	if p.flush != nil {
		p.flush.Close()
	}
	err := p.Provider.Close()
	p.registered.close()
	p.shared.close()
	p.closePorts()
	return err
}

// linger waits for the acknowledgements of messages on their way. A message that has none in time fails its pair.
func (p *Provider) linger() {
	limit := p.cfg.Sockets.Linger
	if limit == 0 {
		limit = 10 * time.Second
	}
	for start := time.Now(); time.Since(start) < limit; {
		busy := false
		for _, c := range p.conns {
			busy = busy || c.sending && len(c.out) > 0
		}
		if !busy {
			return
		}
		p.settle()
		p.roundTrip(1)
		p.lookAfter()
		for _, a := range p.arrived { // not read any more
			a.port.repost = append(a.port.repost, a.slot)
		}
		p.arrived = p.arrived[:0]
	}
}

// Calls counts the calls into C. Preconditions: as Poll.
func (p *Provider) Calls() Calls {
	p.endBatch()
	return p.calls()
}

// EndBurst implements fabric.Burster: the adapters of the peers have every message.
func (p *Provider) EndBurst() (all bool) {
	p.endBatch()
	all = p.Provider.EndBurst()
	if p.asking = askingFor; p.onWay > 0 {
		p.settle()
		p.roundTrip(1)
	}
	return all && p.onWay == 0 && len(p.pending) == 0
}

var (
	_ fabric.Burster   = (*Provider)(nil)
	_ fabric.Registrar = (*Provider)(nil)
	_ fabric.Sharer    = (*Provider)(nil)
	_ fabric.Announcer = (*Conn)(nil)
	_ fabric.Fetcher   = (*Conn)(nil)
	_ fabric.Mover     = (*Conn)(nil)
	_ fabric.Awaiter   = (*Conn)(nil)
	_ fabric.Meter     = (*Conn)(nil)
)
