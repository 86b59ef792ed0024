package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// linesMax bounds one request of several lines.
const linesMax = 1024

// closeGrace is how long a process may live on after its connection has closed before that alone
// counts as its loss. Usually its end follows at once, and explains more.
const closeGrace = 2 * time.Second

// Session serves one rank: a request, its reply, the next. It answers other requests while the rank
// is in a barrier. Its goroutines alone read and write Conn; a rank that does not read its replies
// holds up no other rank.
type Session struct {
	Rank   int
	Server *Server
	Conn   io.ReadWriteCloser
	Exited <-chan struct{}            // closed when the rank's process has ended; nil: unknown
	Last   bool                       // this rank gets the end of a barrier after all others
	Abort  func(code int, msg string) // the rank asks for the end of the job
	Cut    func(why string)           // the rank was cut off for an invalid request

	writing sync.Mutex    // guards the writing to conn
	over    chan struct{} // closed when nothing more is read
}

// Run serves until the rank finalizes, closes, or breaks the protocol. It closes drained when all
// requests have been handled.
func (s *Session) Run(drained chan<- struct{}) {
	err := s.Serve()
	s.Conn.Close()
	if errors.Is(err, ErrGarbage) {
		s.Server.Lose(s.Rank, "was cut off for a wrong message to the launcher")
		s.Cut(err.Error())
	}
	close(drained)
	if err == nil {
		return
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-s.Exited:
	case <-grace.C:
		s.Server.Lose(s.Rank, "closed its connection to the launcher")
	}
}

// ErrGarbage: the rank has sent something else than a request of PMI-1.
var ErrGarbage = errors.New("not PMI-1")

// Serve returns nil after finalize.
func (s *Session) Serve() error {
	s.over = make(chan struct{})
	var rounds sync.WaitGroup
	defer rounds.Wait()
	defer close(s.over)
	r := bufio.NewReaderSize(s.Conn, serverLineMax)
	for {
		m, err := s.read(r)
		if err != nil {
			return err
		}
		out, err := s.Server.handle(s.Rank, m)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrGarbage, err)
		}
		if out.abort {
			s.Abort(out.code, out.text)
		}
		if out.wait != nil {
			rounds.Go(func() { s.leave(out.wait) })
			continue
		}
		if err := s.write(out.reply); err != nil {
			return err
		}
		if out.finish {
			return nil
		}
	}
}

// leave writes the reply to barrier_in when there is one.
func (s *Session) leave(b *barrier) {
	text := s.await(b)
	if text == "" {
		b.pending.Done()
		return
	}
	if s.Last {
		b.pending.Done()
		b.pending.Wait()
	}
	err := s.write(text)
	if !s.Last {
		b.pending.Done()
	}
	if err != nil {
		s.Conn.Close() // which ends the reading
	}
}

func (s *Session) write(text string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := io.WriteString(s.Conn, text)
	return err
}

// read returns the next request. Of one with several lines it keeps the fields by which the server
// recognizes the last of a series.
func (s *Session) read(r *bufio.Reader) (Message, error) {
	line, err := ReadLine(r)
	if errors.Is(err, bufio.ErrBufferFull) {
		return Message{}, fmt.Errorf("%w: %w", ErrGarbage, err)
	}
	if err != nil {
		return Message{}, err
	}
	m, err := Parse(line)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrGarbage, err)
	}
	for range linesMax {
		if !m.multi {
			return m, nil
		}
		if line, err = ReadLine(r); err != nil {
			return m, err
		}
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "endcmd":
			m.multi = false
		case "totspawns", "spawnssofar":
			m.fields = append(m.fields, field{key, value})
		}
	}
	return m, fmt.Errorf("%w: a request of more than %d lines", ErrGarbage, linesMax)
}

// await returns the reply to barrier_in, "" if the rank has ended.
func (s *Session) await(b *barrier) string {
	select {
	case <-b.done:
		if len(b.lost) == 0 {
			return Encode("barrier_out", "rc", "0")
		}
		return Encode("barrier_out", encodeLost(b.lost)...)
	case <-s.Exited: // its earlier requests are still read
	case <-s.over: // the same, or it has finalized
	}
	return ""
}
