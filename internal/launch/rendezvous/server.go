package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
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

// Server is the side of rank 0 in a job without launcher: the launcher's server,
// with guests that come over TCP. It knows of the end of a guest only by the
// end of its connection.
//
// The port stays open until rank 0 finalizes, so that a process that comes too
// late or a second time is told so.
type Server struct {
	*Config
	srv             *pmi.Server
	ports           []net.Listener // one for each address that MASTER_ADDR stands for
	unauthenticated unauthenticated

	mu       sync.Mutex
	admitted []bool // by rank: it has said hello
}

// newServer begins to listen and returns rank 0's own connection.
func newServer(ctx context.Context, p *Config) (*Server, pmi.Conn, error) {
	ports, err := p.listen(ctx)
	if err != nil {
		return nil, nil, err
	}
	h := &Server{
		Config: p, ports: ports, srv: pmi.NewServer(pmi.NewID(), p.Size, p.timeout),
		unauthenticated: newUnauthenticated(p.Size), admitted: make([]bool, p.Size),
	}
	h.srv.SetNodes(nil, nil) // unknown here: the guests' environment says it, or nothing does
	h.admitted[0] = true
	h.srv.Explain(onlyHere(p.Addr, ports))
	ours, theirs := net.Pipe()
	go h.serve(0, theirs)
	for _, l := range ports {
		go h.accept(l)
	}
	return h, ours, nil
}

// Close ends the listening. Guests that have joined are served on.
func (h *Server) Close() {
	for _, l := range h.ports {
		l.Close()
	}
}

func (h *Server) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if !h.unauthenticated.relieve() {
				<-time.After(acceptPause)
			}
			continue
		}
		h.unauthenticated.add(conn)
		go func() {
			rank, ok := h.handshake(conn)
			if !ok {
				h.unauthenticated.remove(conn)
				conn.Close()
				return
			}
			h.serve(rank, timedConn{conn})
		}()
	}
}

// handshake finds out which rank a connection comes from. A rank that is not wanted
// is told why; a stranger hears nothing.
func (h *Server) handshake(conn net.Conn) (rank int, ok bool) {
	_ = conn.SetDeadline(time.Now().Add(helloGrace)) // fails only when closed
	r := bufio.NewReaderSize(conn, helloMax)
	line, err := readLine(r)
	if err != nil {
		return 0, false
	}
	guest, err := parseHello(line)
	w := verdict{refusal: err}
	if w.refusal == nil {
		w = h.authenticate(conn, r, guest)
	}
	if errors.Is(w.refusal, errNotRank) {
		return 0, false
	}
	if w.refusal == nil {
		if !h.unauthenticated.remove(conn) { // dropped: the rank comes again
			return 0, false
		}
		w.refusal = h.admit(guest)
	}
	if w.refusal != nil {
		text := w.refusal.Error()
		h.srv.Explain("refused: " + text[:min(len(text), answerMax)])
	}
	if _, err := conn.Write([]byte(w.line())); w.refusal != nil {
		return 0, false
	} else if err != nil {
		return guest.rank, true // it has died since: for its session to find out
	}
	_ = conn.SetDeadline(time.Time{})
	return guest.rank, true
}

var errOutOfTurn = errors.New("more than one line")

// readLine reads one line of a meeting, after which the other side waits.
func readLine(r *bufio.Reader) (string, error) {
	line, err := pmi.ReadLine(r)
	if err == nil && r.Buffered() > 0 {
		err = errOutOfTurn
	}
	return line, err
}

// authenticate finds out whether a guest knows the secret, if there is one, and
// proves the same to it. Nothing that the guest has said counts before that: a
// stranger learns only that a secret is needed.
func (h *Server) authenticate(conn net.Conn, r *bufio.Reader, guest hello) verdict {
	refuse := func(format string, args ...any) verdict { return verdict{refusal: fmt.Errorf(format, args...)} }
	switch {
	case h.key == nil && guest.nonce == "":
		return verdict{}
	case h.key == nil:
		return refuse("RANK=%d has %s, rank 0 has not: set it for all ranks or for none", guest.rank, SecretFileEnv)
	case guest.nonce == "":
		return refuse("RANK=%d has no %s, rank 0 has: set it for all ranks or for none", guest.rank, SecretFileEnv)
	}
	e := proof{key: *h.key, client: guest, clientNonce: guest.nonce, serverNonce: newNonce()}
	if _, err := conn.Write([]byte(challenge(e.serverNonce))); err != nil {
		return verdict{refusal: errNotRank}
	}
	line, err := readLine(r)
	proof, ok := parseResponse(line)
	switch {
	case err != nil || !ok:
		return verdict{refusal: errNotRank}
	case !e.verify("guest", "", proof):
		return refuse("RANK=%d has another secret than rank 0: give all ranks the same file (%s)", guest.rank, SecretFileEnv)
	}
	return verdict{id: h.srv.ID, mac: e.mac("host", h.srv.ID)}
}

// admit gives a rank to the first that asks for it.
func (h *Server) admit(g hello) error {
	switch {
	case g.size != h.Size:
		return fmt.Errorf("RANK=%d has WORLD_SIZE=%d, rank 0 has %d", g.rank, g.size, h.Size)
	case g.rank < 0 || g.rank >= h.Size:
		return fmt.Errorf("RANK=%d is not below WORLD_SIZE=%d", g.rank, h.Size)
	case g.token != h.token:
		return fmt.Errorf("RANK=%d has another TORCHELASTIC_RUN_ID than rank 0", g.rank)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.admitted[g.rank] {
		return fmt.Errorf("RANK=%d has come twice: two processes have it, or two jobs share MASTER_PORT", g.rank)
	}
	h.admitted[g.rank] = true
	return nil
}

// serve talks to one rank until it leaves. Rank 0 hears the end of a barrier
// last: its process may exit then, and the others are to know how it ended.
func (h *Server) serve(rank int, conn pmi.Conn) {
	s := &pmi.Session{Rank: rank, Server: h.srv, Conn: conn, Last: rank == 0, Abort: func(int, string) {}}
	err := s.Serve()
	conn.Close()
	switch {
	case err == nil:
	case errors.Is(err, pmi.ErrGarbage):
		h.srv.Lose(rank, "was cut off for what it sent to rank 0")
	default:
		h.srv.Lose(rank, "lost its connection to rank 0")
	}
}

// timedConn is a connection whose writes end.
type timedConn struct{ net.Conn }

// Write is io.Writer's.
func (c timedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(replyGrace)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
