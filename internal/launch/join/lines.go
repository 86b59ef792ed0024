package join

import (
	"bufio"
	"context"
	"fmt"
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
	end               chan struct{} // closed when no more lines come; err is set before
	err               error
}

func newLines(conn pmi.Conn) *lines {
	l := &lines{
		replies: make(chan string, mostUnread), barriers: make(chan string, mostUnread),
		end: make(chan struct{}),
	}
	go l.read(bufio.NewReaderSize(conn, pmi.ReplyMax))
	return l
}

// mostUnread bounds the lines of either kind that no call waits for. A launcher that keeps to the
// protocol has one. With more the reader would have to wait for a call, and would not notice the end
// of the connection, for which that call may wait.
const mostUnread = 16

var errUnasked = fmt.Errorf("the launcher has sent more than %d lines that answer no request", mostUnread)

// read ends with the connection, or with too many lines.
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
		default:
			l.err = errUnasked
			return
		}
	}
}

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
