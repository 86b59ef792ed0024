package join

import (
	"bufio"
	"context"
	"os"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// lines reads the connection to the launcher. The ends of barriers are apart from the replies to
// other requests: with Banyan's launcher a rank makes requests while it is in a barrier. A line
// that no call waits for stays until one does.
type lines struct {
	replies, barriers chan string
	closed            chan struct{} // by stop
	end               chan struct{} // closed when no more lines come; err is set before
	err               error
}

func newLines(conn pmi.Conn) *lines {
	l := &lines{
		replies: make(chan string, 1), barriers: make(chan string, 1),
		closed: make(chan struct{}), end: make(chan struct{}),
	}
	go l.read(bufio.NewReaderSize(conn, pmi.ReplyMax))
	return l
}

// read ends with the connection.
func (l *lines) read(r *bufio.Reader) {
	defer close(l.end)
	for {
		line, err := pmi.ReadLine(r)
		if err != nil {
			l.err = err
			return
		}
		to := l.replies
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "cmd=barrier_out" {
			to = l.barriers
		}
		select {
		case to <- line:
		case <-l.closed:
			l.err = os.ErrClosed
			return
		}
	}
}

// stop ends the reading of a connection that has been closed.
func (l *lines) stop() { close(l.closed) }

// take waits for a line of either channel, one of which may be nil. The error is
// os.ErrDeadlineExceeded if ctx ends first.
func (l *lines) take(ctx context.Context, a, b <-chan string) (string, error) {
	select {
	case line := <-a:
		return line, nil
	case line := <-b:
		return line, nil
	case <-ctx.Done():
		return "", os.ErrDeadlineExceeded
	case <-l.end:
	}
	select {
	case line := <-a:
		return line, nil
	case line := <-b:
		return line, nil
	default:
		return "", l.err
	}
}

// write writes a line. When ctx ends first, a deadline interrupts it.
func write(ctx context.Context, conn pmi.Conn, line string) error {
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = conn.SetWriteDeadline(time.Unix(1, 0)) // fails only when closed, and then the write ends
	})
	_, err := conn.Write([]byte(line))
	if !stop() {
		<-fired
		_ = conn.SetWriteDeadline(time.Time{})
	}
	return err
}
