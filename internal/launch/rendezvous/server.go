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
	// helloGrace is how long a connection may take to authenticate.
	helloGrace = 5 * time.Second
	// replyGrace is how long a client may leave a reply unread before it counts as lost. A reply is
	// a line, for which the sockets have room.
	replyGrace = 10 * time.Second
	// acceptPause keeps the server from spinning when it has run out of descriptors.
	acceptPause = 50 * time.Millisecond
)

// Server is the side of rank 0: a PMI server whose clients connect over TCP. The end of a client is
// the end of its connection.
//
// The port stays open until rank 0 finalizes, so that a process that comes too late or a second
// time gets the reason.
type Server struct {
	*Config
	srv             *pmi.Server
	ports           []net.Listener // one for each address of MASTER_ADDR
	unauthenticated unauthenticated

	mu       sync.Mutex
	admitted []bool // by rank
}

// newServer starts to listen and returns rank 0's own connection.
func newServer(ctx context.Context, c *Config) (*Server, pmi.Conn, error) {
	ports, err := c.listen(ctx)
	if err != nil {
		return nil, nil, err
	}
	s := &Server{
		Config: c, ports: ports, srv: pmi.NewServer(pmi.NewID(), c.Size, c.timeout),
		unauthenticated: newUnauthenticated(c.Size), admitted: make([]bool, c.Size),
	}
	s.srv.SetNodes(nil, nil) // each rank gets its own from the environment, if at all
	s.admitted[0] = true
	s.srv.Explain(onlyHere(c.Addr, ports))
	ours, theirs := net.Pipe()
	go s.serve(0, theirs)
	for _, l := range ports {
		go s.accept(l)
	}
	return s, ours, nil
}

// Close ends the listening. Admitted clients keep their connections.
func (s *Server) Close() {
	for _, l := range s.ports {
		l.Close()
	}
}

func (s *Server) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if !s.unauthenticated.relieve() {
				<-time.After(acceptPause)
			}
			continue
		}
		s.unauthenticated.add(conn)
		go func() {
			rank, ok := s.handshake(conn)
			if !ok {
				s.unauthenticated.remove(conn)
				conn.Close()
				return
			}
			s.serve(rank, timedConn{conn})
		}()
	}
}

// handshake admits a client or refuses it. Anything that is no rank gets no answer.
func (s *Server) handshake(conn net.Conn) (rank int, ok bool) {
	_ = conn.SetDeadline(time.Now().Add(helloGrace)) // fails only when closed
	r := bufio.NewReaderSize(conn, helloMax)
	line, err := readLine(r)
	if err != nil {
		return 0, false
	}
	client, err := parseHello(line)
	v := verdict{refusal: err}
	if v.refusal == nil {
		v = s.authenticate(conn, r, client)
	}
	if errors.Is(v.refusal, errNotRank) {
		return 0, false
	}
	if v.refusal == nil {
		if !s.unauthenticated.remove(conn) { // dropped: the rank connects again
			return 0, false
		}
		v.refusal = s.admit(client)
	}
	if v.refusal != nil {
		s.srv.Explain("refused: " + v.text())
	}
	if _, err := conn.Write([]byte(v.line())); v.refusal != nil {
		return 0, false
	} else if err != nil {
		return client.rank, true // the client has died since: its session will notice
	}
	_ = conn.SetDeadline(time.Time{})
	return client.rank, true
}

// authenticate checks that a client has the secret, if there is one, and proves the same to it. The
// client's data do not count before that: an impostor learns only that a secret is needed.
func (s *Server) authenticate(conn net.Conn, r *bufio.Reader, client hello) verdict {
	refuse := func(format string) verdict { return verdict{refusal: fmt.Errorf(format, client.rank, SecretFileEnv)} }
	switch {
	case s.key == nil && client.nonce == "":
		return verdict{}
	case s.key == nil:
		return refuse("RANK=%d has %s, rank 0 has not: set it for all ranks or for none")
	case client.nonce == "":
		return refuse("RANK=%d has no %s, rank 0 has: set it for all ranks or for none")
	}
	p := proof{key: *s.key, client: client, clientNonce: client.nonce, serverNonce: newNonce()}
	if _, err := conn.Write([]byte(challenge(p.serverNonce))); err != nil {
		return verdict{refusal: errNotRank}
	}
	line, err := readLine(r)
	mac, ok := parseResponse(line)
	switch {
	case err != nil || !ok:
		return verdict{refusal: errNotRank}
	case !p.verify(clientSide, "", mac):
		return refuse("RANK=%d has another secret than rank 0: give all ranks the same file (%s)")
	}
	return verdict{id: s.srv.ID, mac: p.mac(serverSide, s.srv.ID)}
}

// admit gives a rank to the first client that asks for it.
func (s *Server) admit(h hello) error {
	switch {
	case h.size != s.Size:
		return fmt.Errorf("RANK=%d has WORLD_SIZE=%d, rank 0 has %d", h.rank, h.size, s.Size)
	case h.rank < 0 || h.rank >= s.Size:
		return fmt.Errorf("RANK=%d is not below WORLD_SIZE=%d", h.rank, s.Size)
	case h.token != s.token:
		return fmt.Errorf("RANK=%d has another TORCHELASTIC_RUN_ID than rank 0", h.rank)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted[h.rank] {
		return fmt.Errorf("RANK=%d has come twice: two processes have it, or two jobs share MASTER_PORT", h.rank)
	}
	s.admitted[h.rank] = true
	return nil
}

// serve serves one rank until it leaves. Rank 0 gets the end of a barrier last: its process may
// exit then, and the others need the result.
func (s *Server) serve(rank int, conn pmi.Conn) {
	session := &pmi.Session{Rank: rank, Server: s.srv, Conn: conn, Last: rank == 0, Abort: func(int, string) {}}
	err := session.Serve()
	conn.Close()
	switch {
	case err == nil:
	case errors.Is(err, pmi.ErrGarbage):
		s.srv.Lose(rank, "was cut off for a wrong message to rank 0")
	default:
		s.srv.Lose(rank, "lost its connection to rank 0")
	}
}

// timedConn is a connection whose writes end within replyGrace.
type timedConn struct{ net.Conn }

// Write is io.Writer's.
func (c timedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(replyGrace)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
