package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// helloGrace is how long a connection may take to say who it is.
	helloGrace = 5 * time.Second
	// replyGrace is how long a guest may leave a reply unread before it counts
	// as lost. A reply is a line, for which the sockets have room.
	replyGrace = 10 * time.Second
	// greetMost bounds how many connections may be in their helloGrace: each
	// costs a goroutine and a descriptor. Others wait in the listener's queue.
	greetMost = 64
	// acceptPause keeps the host from spinning when it has run out of descriptors.
	acceptPause = 50 * time.Millisecond
)

// host is the side of rank 0 in a job without launcher: the launcher's server,
// with guests that come over TCP. It knows of the end of a guest only by the
// end of its connection.
//
// The port stays open until rank 0 finalizes, so that a process that comes too
// late or a second time is told so.
type host struct {
	place
	srv    *server
	l      net.Listener
	greets chan struct{} // a token for each connection that has not said hello

	mu      sync.Mutex
	claimed []bool // by rank: it has said hello
}

// newHost begins to listen and returns rank 0's own connection.
func newHost(ctx context.Context, p place) (*host, connection, error) {
	l, err := p.listen(ctx)
	if err != nil {
		return nil, nil, err
	}
	h := &host{
		place: p, l: l, srv: newServer(newID(), p.size, p.at.timeout),
		greets: make(chan struct{}, greetMost), claimed: make([]bool, p.size),
	}
	delete(h.srv.kv, mappingKey) // unknown here: the guests' environment says it, or nothing does
	h.claimed[0] = true
	ours, theirs := net.Pipe()
	go h.serve(0, theirs)
	go h.accept()
	return h, ours, nil
}

// listen takes the port, or says who has it.
func (p place) listen(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.at.addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("launch: %w: MASTER_ADDR is no address of the machine where RANK=0 runs: %w", ErrEnvironment, err)
	case !errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("launch: %w: rank 0 cannot listen at MASTER_ADDR and MASTER_PORT: %w", ErrEnvironment, err)
	case p.at.agent:
		return nil, fmt.Errorf("launch: %w: MASTER_PORT is taken by the agent of torchrun, as TORCHELASTIC_USE_AGENT_STORE=True says: give the program another one, as in torchrun --no-python sh -c 'MASTER_PORT=29511 exec ./app': %w", ErrEnvironment, err)
	}
	// Another rank 0 says so itself.
	ctx, cancel := context.WithTimeout(ctx, helloGrace)
	defer cancel()
	if _, kerr := knock(ctx, p); errors.Is(kerr, ErrRefused) {
		return nil, fmt.Errorf("launch: %w: MASTER_PORT is taken by another process with RANK=0, of this job or of another one: %w (%w)", ErrEnvironment, err, kerr)
	}
	return nil, fmt.Errorf("launch: %w: MASTER_PORT is taken by another program, choose a free port: %w", ErrEnvironment, err)
}

// close ends the listening. Guests that have joined are served on.
func (h *host) close() { h.l.Close() }

func (h *host) accept() {
	for {
		conn, err := h.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(acceptPause)
			continue
		}
		h.greets <- struct{}{}
		go func() {
			rank, ok := h.greet(conn)
			<-h.greets
			if !ok {
				conn.Close()
				return
			}
			h.serve(rank, impatient{conn})
		}()
	}
}

// greet finds out which rank a connection comes from. A rank that is not wanted
// is told why; a stranger hears nothing.
func (h *host) greet(conn net.Conn) (rank int, ok bool) {
	_ = conn.SetDeadline(time.Now().Add(helloGrace)) // fails only when closed
	r := bufio.NewReaderSize(conn, helloMax)
	line, err := readLine(r)
	if err != nil || r.Buffered() > 0 { // a guest waits for the answer
		return 0, false
	}
	guest, err := parseHello(line)
	if errors.Is(err, errStranger) {
		return 0, false
	}
	if err == nil {
		err = h.claim(guest)
	}
	if err != nil {
		h.srv.turnAway(err)
	}
	if _, werr := conn.Write([]byte(welcome(err))); err != nil {
		return 0, false
	} else if werr != nil {
		return guest.rank, true // it has died since: for its session to find out
	}
	_ = conn.SetDeadline(time.Time{})
	return guest.rank, true
}

// claim gives a rank to the first that asks for it.
func (h *host) claim(g hello) error {
	switch {
	case g.size != h.size:
		return fmt.Errorf("RANK=%d has WORLD_SIZE=%d, rank 0 has %d", g.rank, g.size, h.size)
	case g.rank < 0 || g.rank >= h.size:
		return fmt.Errorf("RANK=%d is not below WORLD_SIZE=%d", g.rank, h.size)
	case g.token != h.at.token:
		return fmt.Errorf("RANK=%d has another TORCHELASTIC_RUN_ID than rank 0", g.rank)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claimed[g.rank] {
		return fmt.Errorf("RANK=%d has come twice: two processes have it, or two jobs share MASTER_PORT", g.rank)
	}
	h.claimed[g.rank] = true
	return nil
}

// serve talks to one rank until it leaves. Rank 0 hears the end of a barrier
// last: its process may exit then, and the others are to know how it ended.
func (h *host) serve(rank int, conn connection) {
	s := &session{rank: rank, srv: h.srv, conn: conn, last: rank == 0, abort: func(int, string) {}}
	err := s.serve()
	conn.Close()
	switch {
	case err == nil:
	case errors.Is(err, errGarbage):
		h.srv.lose(rank, "was cut off for what it sent to rank 0")
	default:
		h.srv.lose(rank, "lost its connection to rank 0")
	}
}

// impatient is a connection whose writes end.
type impatient struct{ net.Conn }

// Write is io.Writer's.
func (c impatient) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(replyGrace)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
