package launch

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

// closeGrace is how long a process may live on after its connection has closed
// before that alone counts as its loss. Usually its end follows at once, and
// says more.
const closeGrace = 2 * time.Second

// session is the connection to one rank: a request, its reply, the next. In a barrier other
// requests are answered too. Its goroutines alone read and write conn; a rank that does not read its
// replies holds up nobody else.
type session struct {
	rank   int
	srv    *server
	conn   io.ReadWriteCloser
	exited <-chan struct{}            // the rank's process has ended; nil: nobody can tell
	last   bool                       // this rank hears the end of a barrier after all others
	abort  func(code int, msg string) // the rank asks for the end of the job
	cut    func(why string)           // the rank was cut off for what it sent

	writing sync.Mutex    // guards the writing to conn
	over    chan struct{} // closed when nothing more is read
}

// run serves until the rank finalizes, closes, or sends nonsense. drained is
// closed when everything that the rank said has been handled.
func (s *session) run(drained chan<- struct{}) {
	err := s.serve()
	s.conn.Close()
	if errors.Is(err, errGarbage) {
		s.srv.lose(s.rank, "was cut off for what it sent to the launcher")
		s.cut(err.Error())
	}
	close(drained)
	if err == nil {
		return
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-s.exited:
	case <-grace.C:
		s.srv.lose(s.rank, "closed its connection to the launcher")
	}
}

var errGarbage = errors.New("not PMI-1")

// serve returns nil after finalize.
func (s *session) serve() error {
	s.over = make(chan struct{})
	var rounds sync.WaitGroup
	defer rounds.Wait()
	defer close(s.over)
	r := bufio.NewReaderSize(s.conn, serverLineMax)
	for {
		m, err := s.read(r)
		if err != nil {
			return err
		}
		out, err := s.srv.handle(s.rank, m)
		if err != nil {
			return fmt.Errorf("%w: %w", errGarbage, err)
		}
		if out.abort {
			s.abort(out.code, out.text)
		}
		if out.wait != nil {
			rounds.Go(func() { s.conclude(out.wait) })
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

// conclude writes the reply to barrier_in when there is one.
func (s *session) conclude(b *barrier) {
	text := s.await(b)
	if text == "" {
		b.unheard.Done()
		return
	}
	if s.last {
		b.unheard.Done()
		b.unheard.Wait()
	}
	err := s.write(text)
	if !s.last {
		b.unheard.Done()
	}
	if err != nil {
		s.conn.Close() // which ends the reading
	}
}

func (s *session) write(text string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := io.WriteString(s.conn, text)
	return err
}

// read returns the next request. Of one with several lines it takes the fields
// that say whether it is the last.
func (s *session) read(r *bufio.Reader) (message, error) {
	line, err := readLine(r)
	if errors.Is(err, bufio.ErrBufferFull) {
		return message{}, fmt.Errorf("%w: %w", errGarbage, err)
	}
	if err != nil {
		return message{}, err
	}
	m, err := parse(line)
	if err != nil {
		return m, fmt.Errorf("%w: %w", errGarbage, err)
	}
	for range linesMax {
		if !m.multi {
			return m, nil
		}
		if line, err = readLine(r); err != nil {
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
	return m, fmt.Errorf("%w: a request of more than %d lines", errGarbage, linesMax)
}

// await returns the reply to barrier_in, "" if nobody is left to read it.
func (s *session) await(b *barrier) string {
	select {
	case <-b.done:
		if len(b.lost) == 0 {
			return encode("barrier_out", "rc", "0")
		}
		return encode("barrier_out", encodeLost(b.lost)...)
	case <-s.exited: // nobody to reply to; what it had sent is still read
	case <-s.over: // the same, or it has finalized
	}
	return ""
}
