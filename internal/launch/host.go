package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// helloGrace is how long a connection may take to say who it is.
	helloGrace = 5 * time.Second
	// replyGrace is how long a guest may leave a reply unread before it counts
	// as lost. A reply is a line, for which the sockets have room.
	replyGrace = 10 * time.Second
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
	*meeting
	srv      *server
	ports    []net.Listener // one for each address that MASTER_ADDR stands for
	unproved unproved

	mu      sync.Mutex
	claimed []bool // by rank: it has said hello
}

// newHost begins to listen and returns rank 0's own connection.
func newHost(ctx context.Context, p *meeting) (*host, connection, error) {
	ports, err := p.listen(ctx)
	if err != nil {
		return nil, nil, err
	}
	h := &host{
		meeting: p, ports: ports, srv: newServer(newID(), p.size, p.timeout),
		unproved: newUnproved(p.size), claimed: make([]bool, p.size),
	}
	h.srv.setNodes(nil, nil) // unknown here: the guests' environment says it, or nothing does
	h.claimed[0] = true
	h.srv.explain(onlyHere(p.addr, ports))
	ours, theirs := net.Pipe()
	go h.serve(0, theirs)
	for _, l := range ports {
		go h.accept(l)
	}
	return h, ours, nil
}

// close ends the listening. Guests that have joined are served on.
func (h *host) close() {
	for _, l := range h.ports {
		l.Close()
	}
}

func (h *host) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if !h.unproved.relieve() {
				<-time.After(acceptPause)
			}
			continue
		}
		h.unproved.add(conn)
		go func() {
			rank, ok := h.greet(conn)
			if !ok {
				h.unproved.remove(conn)
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
	line, err := hear(r)
	if err != nil {
		return 0, false
	}
	guest, err := parseHello(line)
	w := welcome{why: err}
	if w.why == nil {
		w = h.examine(conn, r, guest)
	}
	if errors.Is(w.why, errStranger) {
		return 0, false
	}
	if w.why == nil {
		if !h.unproved.remove(conn) { // dropped: the rank comes again
			return 0, false
		}
		w.why = h.claim(guest)
	}
	if w.why != nil {
		text := w.why.Error()
		h.srv.explain("refused: " + text[:min(len(text), answerMax)])
	}
	if _, err := conn.Write([]byte(w.line())); w.why != nil {
		return 0, false
	} else if err != nil {
		return guest.rank, true // it has died since: for its session to find out
	}
	_ = conn.SetDeadline(time.Time{})
	return guest.rank, true
}

var errOutOfTurn = errors.New("more than one line")

// hear reads one line of a meeting, after which the other side waits.
func hear(r *bufio.Reader) (string, error) {
	line, err := readLine(r)
	if err == nil && r.Buffered() > 0 {
		err = errOutOfTurn
	}
	return line, err
}

// examine finds out whether a guest knows the secret, if there is one, and
// proves the same to it. Nothing that the guest has said counts before that: a
// stranger learns only that a secret is needed.
func (h *host) examine(conn net.Conn, r *bufio.Reader, guest hello) welcome {
	refuse := func(format string, args ...any) welcome { return welcome{why: fmt.Errorf(format, args...)} }
	switch {
	case h.key == nil && guest.nonce == "":
		return welcome{}
	case h.key == nil:
		return refuse("RANK=%d has %s, rank 0 has not: set it for all ranks or for none", guest.rank, SecretFileEnv)
	case guest.nonce == "":
		return refuse("RANK=%d has no %s, rank 0 has: set it for all ranks or for none", guest.rank, SecretFileEnv)
	}
	e := exam{key: *h.key, guest: guest, guests: guest.nonce, hosts: newNonce()}
	if _, err := conn.Write([]byte(challenge(e.hosts))); err != nil {
		return welcome{why: errStranger}
	}
	line, err := hear(r)
	proof, ok := parseResponse(line)
	switch {
	case err != nil || !ok:
		return welcome{why: errStranger}
	case !e.passes("guest", "", proof):
		return refuse("RANK=%d has another secret than rank 0: give all ranks the same file (%s)", guest.rank, SecretFileEnv)
	}
	return welcome{id: h.srv.id, mac: e.mac("host", h.srv.id)}
}

// claim gives a rank to the first that asks for it.
func (h *host) claim(g hello) error {
	switch {
	case g.size != h.size:
		return fmt.Errorf("RANK=%d has WORLD_SIZE=%d, rank 0 has %d", g.rank, g.size, h.size)
	case g.rank < 0 || g.rank >= h.size:
		return fmt.Errorf("RANK=%d is not below WORLD_SIZE=%d", g.rank, h.size)
	case g.token != h.token:
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
