package join

import (
	"bufio"
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// replies reads the connection to the launcher and gives each line to the call that waits for
// it. At most two wait: a barrier, and beside it another request where the launcher is Banyan's
// own. A line for which nobody waits stays until somebody does.
type replies struct {
	r *bufio.Reader

	mu      sync.Mutex
	changed sync.Cond
	request chan heard // of the request that is under way; nil: there is none
	round   chan heard // of the barrier that is
	late    int        // replies to requests that were given up
	end     error      // why nothing more comes
	closed  bool
}

// heard is one line, or why none comes.
type heard struct {
	line string
	err  error
}

func newReplies(conn pmi.Conn) *replies {
	r := &replies{r: bufio.NewReaderSize(conn, pmi.ReplyMax)}
	r.changed.L = &r.mu
	go r.read()
	return r
}

// read ends with the connection, and where it is closed.
func (r *replies) read() {
	for {
		line, err := pmi.ReadLine(r.r)
		r.mu.Lock()
		for err == nil && !r.closed && !r.give(line) {
			r.changed.Wait()
		}
		if err == nil && !r.closed {
			r.mu.Unlock()
			continue
		}
		if r.end = err; err == nil {
			r.end = os.ErrClosed
		}
		for _, c := range []*chan heard{&r.request, &r.round} {
			if *c != nil {
				*c <- heard{err: r.end}
				*c = nil
			}
		}
		r.mu.Unlock()
		return
	}
}

// give hands a line over, if somebody waits for it. What is no end of a barrier is the reply to
// the request, or, where only the barrier waits, nonsense.
func (r *replies) give(line string) bool {
	if r.late > 0 && !isBarrierOut(line) {
		r.late--
		return true
	}
	c := &r.request
	if r.round != nil && (r.request == nil || isBarrierOut(line)) {
		c = &r.round
	}
	if *c == nil {
		return false
	}
	*c <- heard{line: line}
	*c = nil
	return true
}

func isBarrierOut(line string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	return word == "cmd=barrier_out"
}

// expect makes a call wait, in request or in round.
func (r *replies) expect(place *chan heard) chan heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan heard, 1) // the reader never waits for who takes it
	if r.end != nil {
		c <- heard{err: r.end}
		return c
	}
	*place = c
	r.changed.Broadcast()
	return c
}

// take waits for the reply, but no longer than the context: then the error is
// os.ErrDeadlineExceeded. The end of a barrier that was given up is left to the next call.
func (r *replies) take(ctx context.Context, place *chan heard, c chan heard) (string, error) {
	select {
	case got := <-c:
		return got.line, got.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if *place == c {
		*place = nil
		if place == &r.request {
			r.late++
		}
	}
	return "", os.ErrDeadlineExceeded
}

// stop ends the reading of a connection that has been closed.
func (r *replies) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.changed.Broadcast()
}

// write sends a line, if there is one. When ctx ends first the deadline of the descriptor interrupts it.
func write(ctx context.Context, conn pmi.Conn, line string) error {
	if line == "" {
		return nil
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = conn.SetWriteDeadline(time.Unix(1, 0)) // fails only when closed, and then the calls end by themselves
	})
	_, err := conn.Write([]byte(line))
	if !stop() {
		<-fired
		_ = conn.SetWriteDeadline(time.Time{})
	}
	return err
}
